"""The model of 2017 and nothing else: no name in this folder is of a later idea.

Paper: 3
"""
