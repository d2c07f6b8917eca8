"""Questions whose answers may never come."""

from __future__ import annotations

import threading

import pytest

from tarmac.machine.asking import Asker, NoAnswerError

_LONG_S = 60.0


def test_an_answer_is_returned_and_an_error_raised():
    def divide(number: int) -> float:
        return 1 / number

    asker = Asker(divide)
    asker.ask(2)
    assert asker.answer(_LONG_S) == 0.5
    asker.ask(0)
    with pytest.raises(ZeroDivisionError):
        asker.answer(_LONG_S)
    asker.ask(4)
    assert asker.answer(_LONG_S) == 0.25
    asker.close()


def test_an_open_question_is_not_asked_again_and_its_late_answer_is_heard():
    now, asked, may_answer = [0.0], [], threading.Event()

    def question(name: str) -> str:
        asked.append(name)
        may_answer.wait(_LONG_S)
        return name

    asker = Asker(question, lambda: now[0])
    asker.ask("first")
    now[0] = 5.0
    with pytest.raises(NoAnswerError) as silence:
        asker.answer(2.0)
    assert (silence.value.silent_s, asker.is_open) == (5.0, True)
    asker.ask("second")
    may_answer.set()
    assert asker.answer(_LONG_S) == "first"
    asker.ask("third")
    assert asker.answer(_LONG_S) == "third"
    assert asked == ["first", "third"]
    asker.close()


def test_nothing_asked_is_no_answer():
    asker = Asker(lambda: 1)
    with pytest.raises(NoAnswerError):
        asker.answer(_LONG_S)
    asker.close()
