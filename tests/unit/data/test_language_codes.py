"""Languages by the ends of file names."""

from __future__ import annotations

import pytest

from dragoman.data.language_codes import language_of, languages_of_table


@pytest.mark.parametrize(
    ("name", "language"),
    [
        ("train.en", "en"),
        ("/some/where/train.de.gz", "de"),
        ("newstest2014.en-de.de.zst", "de"),
        ("text.pt-BR", "pt-BR"),
        ("text.zh_Hans.xz", "zh_Hans"),
        ("text.es-419", "es-419"),
        ("train.txt", None),
        ("train.tok", None),
        ("train.src", None),
        ("train.gz", None),
        ("train", None),
        ("en", None),
        ("standard input", None),
        ("train.EN", None),
    ],
)
def test_the_language_is_the_last_ending(name: str, language: str | None) -> None:
    assert language_of(name) == language


@pytest.mark.parametrize(
    ("name", "languages"),
    [
        ("train.en-de.tsv", ("en", "de")),
        ("train.fr_en.txt.gz", ("fr", "en")),
        ("train.en-de", ("en", "de")),
        ("train.tsv", (None, None)),
        ("train.en.tsv", (None, None)),
        ("en-de.tsv", (None, None)),
    ],
)
def test_a_table_names_two(name: str, languages: tuple[str | None, str | None]) -> None:
    assert languages_of_table(name) == languages
