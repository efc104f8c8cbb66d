"""A synchronous grammar of English and German: an embedded corpus for tests, documentation and the demo.

Paper: none (infrastructure)
"""

from dragoman.text.grammar.capacity import capacity
from dragoman.text.grammar.dictionary import translate_word_for_word, word_for_word_dictionary
from dragoman.text.grammar.generate import GrammarPair, generate, stream, words_of, write_corpus
from dragoman.text.grammar.held_out import Split

__all__ = [
    "GrammarPair",
    "Split",
    "capacity",
    "generate",
    "stream",
    "translate_word_for_word",
    "word_for_word_dictionary",
    "words_of",
    "write_corpus",
]
