"""Signals that ask a training to stop."""

from __future__ import annotations

import signal

import pytest

from tarmac.training.session import stop_request
from tarmac.training.session.stop_request import StopRequest


@pytest.fixture
def received():
    """Yield the signals that reach the handler of whoever trains."""
    numbers = []
    before = signal.signal(signal.SIGTERM, lambda number, _: numbers.append(number))
    yield numbers
    signal.signal(signal.SIGTERM, before)


def test_a_wish_that_two_senders_have_is_one_also_when_all_is_saved_between(received):
    with StopRequest() as asked:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
    signal.raise_signal(signal.SIGTERM)
    assert asked.signal == signal.SIGTERM
    assert received == []


@pytest.mark.parametrize("is_over", [False, True])
def test_a_second_wish_acts_as_it_did_before(received, monkeypatch, is_over):
    monkeypatch.setattr(stop_request, "_ONE_WISH_S", -1.0)
    with StopRequest():
        signal.raise_signal(signal.SIGTERM)
        if not is_over:
            signal.raise_signal(signal.SIGTERM)
    signal.raise_signal(signal.SIGTERM)
    assert received == [signal.SIGTERM] * (1 if is_over else 2)


def test_handlers_are_as_before_where_nothing_asked(received):
    before = signal.getsignal(signal.SIGTERM)
    with StopRequest():
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize("before", [signal.SIG_DFL, signal.SIG_IGN])
def test_a_terminal_that_was_closed_asks_to_stop_except_under_nohup(before):
    own = signal.signal(signal.SIGHUP, before)
    try:
        with StopRequest() as asked:
            signal.raise_signal(signal.SIGHUP)
            assert bool(asked) is (before == signal.SIG_DFL)
        if asked.signal is not None:
            # Within a second it is the same wish, also afterwards.
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, own)
