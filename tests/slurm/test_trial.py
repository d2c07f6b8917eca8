"""`try_slurm` without a Slurm: what runs in a cluster's sight, its exit code and its signals."""

from __future__ import annotations

import contextlib
import os
import signal

import pytest

from tarmac.errors import RequestError
from tarmac.testing.slurm import trial


@pytest.fixture
def trials(monkeypatch):
    """Stand for the cluster; returns how it was asked for, and whether it has ended."""
    made = []

    class Cluster(contextlib.AbstractContextManager):
        def __init__(self, place, *, accounting):
            self.variables = {"SLURM_CONF": "/trial/slurm.conf"}
            made.append({"place": place, "accounting": accounting, "has_ended": False})

        def __exit__(self, *_):
            made[-1]["has_ended"] = made[-1]["place"].exists()

    monkeypatch.setattr(trial, "OneMachineSlurm", Cluster)
    return made


def test_a_command_sees_the_cluster_and_gives_its_exit_code(trials):
    said = []
    code = trial.try_slurm(
        ["sh", "-c", "[ $SLURM_CONF = /trial/slurm.conf ] && exit 3"], say=said.append
    )
    assert code == 3
    assert trials[0]["has_ended"]
    assert not trials[0]["place"].exists()
    assert not trials[0]["accounting"]
    assert said[0] == (
        f"A Slurm with the nodes n1 and n2, each with two fake GPUs, runs in {trials[0]['place']}."
    )
    assert said[1:] == ["Stopping the Slurm and all its jobs."]


def test_without_a_command_it_is_the_users_shell(trials, monkeypatch):
    monkeypatch.setenv("SHELL", "/bin/false")
    said = []
    assert trial.try_slurm(accounting=True, say=said.append) == 1
    assert trials[0]["accounting"]
    assert said[1].startswith("Try: sinfo; tarmac run --on slurm")


def test_a_signals_end_is_128_and_its_number_and_sigterm_is_passed_on(trials):
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    quiet = {"say": lambda _: None}
    assert trial.try_slurm(["sh", "-c", "kill -9 $$"], **quiet) == 128 + signal.SIGKILL
    # Again and again: a signal may come just before the wait begins.
    told = f"kill -INT {os.getpid()}; while :; do kill -TERM {os.getpid()}; done"
    assert trial.try_slurm(["sh", "-c", told], **quiet) == 128 + signal.SIGTERM
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_a_command_that_is_not_there_is_a_wrong_request_and_ends_the_cluster(trials):
    with pytest.raises(RequestError, match="cannot start no-such-program: No such file"):
        trial.try_slurm(["no-such-program"], say=lambda _: None)
    assert trials[0]["has_ended"]
