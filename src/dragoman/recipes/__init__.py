"""Named recipes: functions that return a complete Recipe.

Paper: 5, 6.1
"""
