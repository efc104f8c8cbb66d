"""What is later or other than the model of 2017: departures, one source a file.

Paper: none (departures)
"""
