"""Models of one text at work: what comes next in it, what is hidden in it, and how probable it is.

Later: Radford et al. 2018; Devlin et al. 2018, arXiv:1810.04805
"""
