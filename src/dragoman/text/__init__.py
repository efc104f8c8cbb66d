"""Reading and writing text: the line rule, parallel corpora, normalization, subwords, the embedded grammar.

Paper: 5.1
"""
