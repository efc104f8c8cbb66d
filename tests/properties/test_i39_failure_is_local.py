"""I39: what goes wrong in one call leaves the next one as it was."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from tiny_runs import tiny_facts, write_random_bundle

from dragoman.errors import DragomanError
from dragoman.model.incremental import IncrementalDecoder
from dragoman.native import kernels
from dragoman.translator import Translator

UNITS = ["one two three", "twelve", "", "six seven " * 9]


class Broken(Exception):
    """Stands for whatever may happen: no memory, Ctrl-C, a device that is gone."""


@pytest.fixture(scope="module")
def translator(corpus, tmp_path_factory) -> Translator:
    return Translator.load(write_random_bundle(tmp_path_factory.mktemp("model") / "m", tiny_facts(corpus)))


@pytest.mark.parametrize("error", [Broken, MemoryError, KeyboardInterrupt])
@pytest.mark.parametrize("at", [1, 2, 4])
def test_a_step_that_fails(translator, monkeypatch, error, at):
    translator = replace(translator, engine="exact")
    before = translator.translate(UNITS, n_best=2)
    step, calls = IncrementalDecoder.__call__, [0]

    def failing(self, tokens):
        calls[0] += 1
        if calls[0] == at:
            raise error
        return step(self, tokens)

    with monkeypatch.context() as patch:
        patch.setattr(IncrementalDecoder, "__call__", failing)
        with pytest.raises(error):
            translator.translate(UNITS, n_best=2)
    assert translator.translate(UNITS, n_best=2) == before


@pytest.mark.skipif(kernels() is None, reason="no C++ compiler here: searched step by step")
@pytest.mark.parametrize("error", [Broken, MemoryError, KeyboardInterrupt])
def test_a_whole_search_that_fails(translator, monkeypatch, error):
    """What a signal's handler raises while the kernels work."""
    before = translator.translate(UNITS, n_best=2)

    class Interrupted(threading.Event):
        waits = 0

        def wait(self, timeout=None):
            Interrupted.waits += 1
            if Interrupted.waits <= 2:  # and again while it is waited for the end
                raise error
            return super().wait(timeout)

    with monkeypatch.context() as patch:
        patch.setattr(threading, "Event", Interrupted)
        with pytest.raises(error):
            translator.translate(UNITS, n_best=2)
    assert Interrupted.waits >= 1
    assert translator.translate(UNITS, n_best=2) == before


def test_options_and_units_that_are_refused(translator):
    before = translator.translate(UNITS)
    for call in (
        lambda: translator.translate(UNITS, beam_size=0),
        lambda: translator.translate([*UNITS, None]),
        lambda: translator.translate("one"),
        lambda: translator.score(UNITS, UNITS[:1]),
    ):
        with pytest.raises(DragomanError):
            call()
    assert translator.translate(UNITS) == before
