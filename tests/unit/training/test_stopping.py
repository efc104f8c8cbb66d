"""Signals become a request; a second one acts as always."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from dragoman.training import stopping
from dragoman.training.stopping import StopRequest, stop_on_signals

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.fixture
def received():
    """Handlers of a program that uses the library; what they were called with."""
    got: list[int] = []
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number in SIGNALS:
        signal.signal(number, lambda n, _frame: got.append(n))
    yield got
    for number, handler in before.items():
        signal.signal(number, handler)


def ask_and_fail(request: StopRequest) -> None:
    os.kill(os.getpid(), signal.SIGINT)
    assert request
    raise RuntimeError


def test_a_new_request_asks_for_nothing():
    request = StopRequest()
    assert not request
    request.signal_name = "SIGTERM"
    assert request


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("again", SIGNALS)
def test_the_first_signal_asks_and_a_later_one_acts(number, again, received, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(stopping.time, "monotonic", lambda: now[0])
    with stop_on_signals() as request:
        assert not request
        os.kill(os.getpid(), number)
        assert request
        assert request.signal_name == number.name
        assert received == []
        now[0] += stopping.REPEAT_SECONDS / 2
        os.kill(os.getpid(), again)  # the same request
        assert received == []
        assert request.signal_name == number.name
        now[0] += stopping.REPEAT_SECONDS / 2
        os.kill(os.getpid(), again)
        assert received == [again]


def test_handlers_come_back(received):
    handlers = [signal.getsignal(number) for number in SIGNALS]
    with stop_on_signals():
        assert [signal.getsignal(number) for number in SIGNALS] != handlers
    assert [signal.getsignal(number) for number in SIGNALS] == handlers
    with pytest.raises(RuntimeError), stop_on_signals() as request:
        ask_and_fail(request)
    assert [signal.getsignal(number) for number in SIGNALS] == handlers
    assert received == []


def test_a_handler_that_python_did_not_set_is_no_error(monkeypatch):
    before = {number: signal.getsignal(number) for number in SIGNALS}
    monkeypatch.setattr(signal, "getsignal", lambda _number: None)
    try:
        with stop_on_signals() as request:
            assert not request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_in_another_thread_signals_keep_their_meaning(received):
    outcome: list[object] = []

    def work() -> None:
        with stop_on_signals() as request:
            outcome.append([bool(request), signal.getsignal(signal.SIGINT)])

    handler = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert outcome == [[False, handler]]


def test_a_hangup_that_is_ignored_stays_ignored(received):
    """nohup."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with stop_on_signals() as request:
        os.kill(os.getpid(), signal.SIGHUP)
        assert not request
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
