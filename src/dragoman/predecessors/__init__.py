"""What the paper came from, for comparison: recurrent models that attend.

Earlier: Bahdanau et al. 2015, arXiv:1409.0473
"""
