"""Tests of the limits of what tests wait for."""

from __future__ import annotations

import ast
import asyncio
import itertools
from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace

import pytest

import waiting
from waiting import limit_s, wait_until, wait_until_async

CONFTEST = str(Path(__file__).with_name("conftest.py"))
Settings = namedtuple("Settings", ["timeout", "method"])


@pytest.fixture
def load(monkeypatch, tmp_path):
    """Return a function that says how many threads want to run, on two cores."""
    monkeypatch.setattr(waiting.os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.delenv("TARMAC_TEST_PATIENCE", raising=False)

    def pretend(last_minute: float, now: int) -> None:
        text = f"{last_minute:.2f} 0.50 0.25 {now + 1}/300 4711\n"
        path = tmp_path / "loadavg"
        path.write_text(text)
        monkeypatch.setattr(waiting, "LOAD", path)

    pretend(0, 0)
    return pretend


@pytest.mark.parametrize(
    ("last_minute", "now", "expected"), [(0.1, 0, 30), (2, 1, 30), (8, 0, 120), (1, 6, 90)]
)
def test_a_limit_grows_with_the_threads_that_want_each_core(load, last_minute, now, expected):
    load(last_minute, now)
    assert limit_s(30) == expected


def test_a_limit_stays_finite_on_a_machine_that_is_stuck(load):
    load(10_000, 10_000)
    assert limit_s(30) == 30 * waiting.MAX_PATIENCE


def test_the_environment_makes_every_limit_longer(load, monkeypatch):
    monkeypatch.setenv("TARMAC_TEST_PATIENCE", "2.5")
    assert limit_s(10) == 25


def test_waiting_returns_the_first_value_that_is_true(load):
    looks = itertools.count()
    assert wait_until(lambda: next(looks) > 2 and "here", "the third look") == "here"
    assert asyncio.run(wait_until_async(lambda: next(looks), "another look")) == 4


def test_waiting_fails_at_the_limit_and_names_what_never_came(load):
    with pytest.raises(AssertionError, match="in vain: the moon"):
        wait_until(lambda: False, "the moon", seconds=0.01)
    with pytest.raises(AssertionError, match="in vain: the moon"):
        asyncio.run(wait_until_async(lambda: False, "the moon", seconds=0.01))


def test_waiting_ends_at_once_where_nothing_can_come_any_more(load):
    with pytest.raises(AssertionError, match="no longer waiting: the moon: 7"):
        wait_until(lambda: False, "the moon", seconds=600, unless=lambda: 7)


def test_a_machine_that_becomes_busy_meanwhile_gets_the_longer_limit(load, monkeypatch):
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    def look() -> bool:
        load(40, 0)
        return now > 100

    monkeypatch.setattr(waiting, "time", SimpleNamespace(monotonic=lambda: now, sleep=sleep))
    assert wait_until(look, "the last look", seconds=10)
    with pytest.raises(AssertionError, match="waited 200 s in vain"):
        wait_until(lambda: False, "the moon", seconds=10)


def test_a_test_on_a_busy_machine_gets_a_longer_limit_of_its_own(load, monkeypatch, request):
    conftest = request.config.pluginmanager.get_plugin(CONFTEST)
    limits = []
    monkeypatch.setattr(
        conftest.pytest_timeout,
        "pytest_timeout_set_timer",
        lambda item, settings: limits.append(settings.timeout),
    )
    load(8, 0)
    conftest.pytest_timeout_set_timer(None, Settings(timeout=300, method="signal"))
    assert limits == [1200]


# Programs of their own, which pace themselves as those do that they stand for.
PACED = {"hkube/clients/original_client.py", "kubernetes/emulator/node/logs.py"}


def sleeps(path):
    calls = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    return [
        f"{path}:{call.lineno}"
        for call in calls
        if ast.unparse(call.func) in {"time.sleep", "asyncio.sleep", "sleep"}
        # A coroutine gives way to others by asyncio.sleep(0).
        and (not call.args or ast.unparse(call.args[0]) != "0")
    ]


def test_no_test_sleeps_but_by_the_one_module_that_waits():
    tests = Path(__file__).parent
    paced = {tests / name for name in PACED} | {tests / "waiting.py"}
    assert all(sleeps(path) for path in paced)
    others = (path for path in tests.rglob("*.py") if path not in paced)
    assert [place for path in others for place in sleeps(path)] == []


# Calls that wait themselves, for bytes or a message.
READS = {"hear", "read", "recv"}


def spins(path):
    loops = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.While))
    return [
        f"{path}:{loop.lineno}"
        for loop in loops
        if all(isinstance(part, ast.Pass) for part in loop.body)
        and not READS & {n.attr for n in ast.walk(loop.test) if isinstance(n, ast.Attribute)}
    ]


def test_no_test_spins_until_something_is_so(tmp_path):
    example = tmp_path / "example.py"
    example.write_text("while not done():\n    pass\nwhile socket.recv(9):\n    pass\n")
    assert spins(example) == [f"{example}:1"]
    tests = Path(__file__).parent.rglob("*.py")
    assert [place for path in tests for place in spins(path)] == []


# What differs from process to process.
CHANGING = {
    *("limit_s", "patience", "waiting.limit_s", "waiting.patience"),
    *("os.getpid", "time.time", "uuid.uuid4", "secrets.token_hex", "random.random"),
}


def changing_at_import(path):
    """Calls in decorators, and limits of modules, which are taken while tests are collected."""
    tree = ast.parse(path.read_text())
    functions = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    ]
    bodies = [f.body if isinstance(f.body, list) else [f.body] for f in functions]
    later = {call for body in bodies for part in body for call in ast.walk(part)}
    decorated = {
        call
        for function in functions
        for decorator in getattr(function, "decorator_list", ())
        for call in ast.walk(decorator)
    }
    return [
        f"{path}:{call.lineno}"
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and call not in later
        if (name := ast.unparse(call.func)) in CHANGING
        and (call in decorated or name.endswith(("limit_s", "patience")))
    ]


def test_no_test_is_named_by_what_differs_between_workers(tmp_path):
    # They would collect different tests, and none would run.
    example = tmp_path / "example.py"
    example.write_text(
        "LATE = limit_s(4)\n@mark(os.getpid())\ndef test(a=patience()):\n    limit_s(6)\n"
    )
    assert {*changing_at_import(example)} == {f"{example}:{line}" for line in (1, 2, 3)}
    tests = Path(__file__).parent.rglob("*.py")
    assert [place for path in tests for place in changing_at_import(path)] == []
