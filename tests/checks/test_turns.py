"""Parallel probes take turns to measure, and none of them can keep the others from theirs."""

from __future__ import annotations

import importlib.util
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tarmac.checks import run_probe as module
from tarmac.checks.frameworks import PROBES, Framework
from tarmac.checks.run_probe import is_measuring, measuring_turns, run_probe
from tarmac.checks.targets import THIS_PYTHON
from waiting import limit_s, wait_until

CPU, GPU = {"kind": "cpu"}, {"kind": "gpu"}


@pytest.fixture(scope="module")
def harness():
    spec = importlib.util.spec_from_file_location("harness", PROBES / "harness.py")
    harness = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(harness)
    return harness


@pytest.fixture
def turns(monkeypatch):
    with measuring_turns() as variables:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        yield variables


@pytest.fixture
def make(harness, turns, tmp_path):
    """Return a function that makes a probe that computes."""

    def make(name: str):
        probe = harness.Probe(name, str(tmp_path / f"{name}.json"), "normal", [])
        probe.compute()
        return probe

    return make


class Measuring:
    """A probe that measures a device in a thread, until it is released."""

    def __init__(self, probe, entry):
        self.has_begun, self.release = threading.Event(), threading.Event()
        self._probe, self._entry = probe, entry
        self._thread = threading.Thread(target=self._measure, daemon=True)
        self._thread.start()

    def _measure(self):
        with self._probe.turn(self._entry):
            self.has_begun.set()
            self.release.wait(limit_s(60))

    def end(self):
        self.release.set()
        self._thread.join(limit_s(60))
        assert not self._thread.is_alive()


def is_waiting(probe) -> bool:
    return "is_waiting" in probe.result


def test_a_cpu_is_measured_while_no_other_probe_computes(make, turns):
    first, second = make("first"), make("second")
    measuring = Measuring(first, CPU)
    wait_until(lambda: is_measuring(turns), "the first probe's turn")
    assert not measuring.has_begun.is_set()
    # The second one has computed, and waits for its own turn.
    later = Measuring(second, GPU)
    assert measuring.has_begun.wait(limit_s(60))
    assert not later.has_begun.is_set()
    measuring.end()
    assert later.has_begun.wait(limit_s(60))
    later.end()


def test_a_probe_that_starts_while_a_cpu_is_measured_waits(make, tmp_path):
    measuring = Measuring(make("first"), CPU)
    assert measuring.has_begun.wait(limit_s(60))
    with ThreadPoolExecutor(1) as threads:
        starting = threads.submit(make, "second")
        result = tmp_path / "second.json"
        wait_until(lambda: result.exists() and "is_waiting" in result.read_text(), "its wait")
        measuring.end()
        assert not is_waiting(starting.result(limit_s(60)))


def test_other_probes_compute_while_a_gpu_is_measured(make):
    make("first")
    measuring = Measuring(make("second"), GPU)
    assert measuring.has_begun.wait(limit_s(60))
    make("third")
    measuring.end()


def test_the_seconds_in_which_a_probe_waits_do_not_count(monkeypatch):
    """100 s of waiting and then 30 s of work, of which 20 are allowed."""
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])

    class Endless:
        class popen:  # noqa: N801 - an attribute of a child
            pid = 1

        def wait(self, timeout_s):
            now[0] += timeout_s
            return now[0] > 130

    problem = module._wait(Endless(), 20.0, lambda _: now[0] < 100, None)
    assert problem == "its limit of 20 s"
    assert now[0] == pytest.approx(120, abs=1)


def test_a_probe_that_hangs_in_its_turn_does_not_keep_another_from_its_own(tmp_path, turns):
    start = """
    import os, pathlib, time
    from harness import run
    def main(probe):
        here = pathlib.Path({here!r})
        {body}
        probe.stage("done")
    run("odd", main)
    """
    hangs = "with probe.turn(): here.touch(); time.sleep(600)"
    takes = "with probe.turn(): pass"
    here = tmp_path / "here"

    def probed(name: str, body: str, timeout_s: float):
        program = tmp_path / f"{name}_probe.py"
        program.write_text(textwrap.dedent(start).format(here=str(here), body=body))
        framework = Framework(name, name, probe=program)
        return run_probe(
            framework, THIS_PYTHON, depth="normal", timeout_s=timeout_s, environment=turns
        )

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(probed, "first", hangs, limit_s(5))
        wait_until(here.exists, "the first probe's turn")
        second = threads.submit(probed, "second", takes, limit_s(60)).result()
    assert first.result().outcome == "hung"
    assert second.outcome == "done", second.detail
