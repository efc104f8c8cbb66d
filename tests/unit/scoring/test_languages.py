"""Language codes."""

from __future__ import annotations

import pytest

from dragoman.scoring.languages import primary_language


@pytest.mark.parametrize(
    ("code", "language"),
    [
        ("de", "de"),
        ("DE", "de"),
        ("zh-Hans", "zh"),
        ("zh_CN", "zh"),
        ("cmn_Hant", "zh"),
        ("jpn_Jpan", "ja"),
        ("kor", "ko"),
        ("pt-BR", "pt"),
        (" fra ", "fr"),
        ("tlh", "tlh"),
        ("", ""),
    ],
)
def test_primary_language(code: str, language: str) -> None:
    assert primary_language(code) == language
