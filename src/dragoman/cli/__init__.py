"""The command line: parse, call the library, print. No logic of its own.

Paper: none (infrastructure)
"""
