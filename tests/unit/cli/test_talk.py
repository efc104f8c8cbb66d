"""What is said on standard error."""

from __future__ import annotations

import io
import sys

import pytest
from rich.console import Console

from dragoman.cli import talk


class Terminal(io.StringIO):
    """Text that goes to somebody who watches."""

    def isatty(self):
        return True


def test_a_line_is_said_as_it_is(capsys):
    talk.say("[bold]no markup[/bold], no :car:, https://x.y 123 'quoted', für später")
    talk.say("a" * 500)
    talk.say("two\nlines")
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        "[bold]no markup[/bold], no :car:, https://x.y 123 'quoted', für später\n"
        + "a" * 500
        + "\ntwo\nlines\n"
    )


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("plain, für 翻訳 😀", "plain, für 翻訳 😀"),
        ("tab\there", "tab\there"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\x00b\rc\x07", "a\\x00b\\rc\\x07"),
        ("a\u2028b\x85\ufeff", "a\\u2028b\\x85\\ufeff"),
        ("\udc80", "\\udc80"),
        ('it\'s \\ "here"', 'it\'s \\ "here"'),
    ],
)
def test_what_a_terminal_might_obey_is_written_out(text, seen, capsys):
    assert talk.visible(text) == seen
    talk.say(text)
    assert capsys.readouterr().err.rstrip() == seen.expandtabs(8)


def test_nobody_watches_a_file(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert not talk.is_watched()
    with talk.counting("work", 3) as tick:
        tick(2)
    assert sys.stderr.getvalue() == ""


def test_a_bar_for_who_watches(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(talk, "stderr", Console(stderr=True, force_terminal=True, force_interactive=True))
    with talk.counting("work", 3) as tick:
        for done in (1, 2, 3):
            tick(done)
    assert "work" in sys.stderr.getvalue()
    assert "3/3" in sys.stderr.getvalue()


def test_no_bar_in_the_output_itself(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(sys, "stdout", Terminal())
    with talk.counting("work", 3, beside="-") as tick:
        tick(1)
    assert sys.stderr.getvalue() == ""
    assert sys.stdout.getvalue() == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0:00"),
        (0.4, "0:00"),
        (9.6, "0:10"),
        (90, "1:30"),
        (3599.7, "1:00:00"),
        (4000, "1:06:40"),
        (-5, "0:00"),
    ],
)
def test_minutes_and_seconds(seconds, text):
    assert talk.minutes_and_seconds(seconds) == text
