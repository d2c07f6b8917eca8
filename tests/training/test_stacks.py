"""What a training's threads do, asked for by a signal."""

import os
import signal
import subprocess
import sys

import pytest

from tarmac.training.session.stacks import telling_stacks

ASKED = """
import os, signal
from tarmac.training.session.stacks import telling_stacks

def where_it_hangs():
    os.kill(os.getpid(), signal.SIGUSR2)

with telling_stacks():
    where_it_hangs()
print("it goes on")
"""


def test_a_training_that_is_asked_prints_its_stacks_and_goes_on():
    done = subprocess.run([sys.executable, "-c", ASKED], capture_output=True, text=True, check=True)
    assert "in where_it_hangs" in done.stderr
    assert done.stdout == "it goes on\n"


def test_a_programs_own_handler_stays(monkeypatch):
    asked = []
    before = signal.signal(signal.SIGUSR2, lambda *_: asked.append(True))
    try:
        with telling_stacks():
            os.kill(os.getpid(), signal.SIGUSR2)
        os.kill(os.getpid(), signal.SIGUSR2)
    finally:
        signal.signal(signal.SIGUSR2, before)
    assert asked == [True, True]


@pytest.mark.parametrize("stream", [None, "closed"])
def test_without_a_place_to_print_to_nothing_is_answered(monkeypatch, tmp_path, stream):
    if stream is not None:
        stream = (tmp_path / "x").open("w")
        stream.close()
    monkeypatch.setattr(sys, "__stderr__", stream)
    with telling_stacks():
        assert signal.getsignal(signal.SIGUSR2) is signal.SIG_DFL
