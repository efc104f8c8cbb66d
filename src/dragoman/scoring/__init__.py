"""Scores of translations: sacreBLEU, chrF, the paper's own BLEU, and whether a difference is more than luck.

Paper: 6.1
"""
