"""dragoman: the system of "Attention Is All You Need", whole and in real use."""

__version__ = "0.1.0"
