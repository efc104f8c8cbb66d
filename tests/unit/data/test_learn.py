"""How many subwords a corpus gets where no number was asked for."""

import pytest

from dragoman.data.learn import default_vocab_size


@pytest.mark.parametrize(
    ("pairs", "size"),
    [(5, 4_000), (29_000, 8_000), (200_000, 16_000), (999_999, 16_000), (4_500_000, 37_000)],
)
def test_a_vocabulary_grows_with_the_corpus_where_no_size_is_asked_for(pairs: int, size: int) -> None:
    assert default_vocab_size(pairs) == size
