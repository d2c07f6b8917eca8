"""The plugin of pytest by which `mutation.py` maps tests to mutants and runs chosen tests.

``MUTATION_MAP`` names a folder: each test's number, seconds and fixtures go to its ``tests.jsonl``.
``MUTATION_TESTS`` names a file of test names: only these run, in its order; the names of those that
fail go to a file beside it.
"""

from __future__ import annotations

import builtins
import json
import os
import struct
import time
from pathlib import Path

import pytest


def pytest_configure(config):
    # The controller of xdist runs no test.
    if place := os.environ.get("MUTATION_MAP"):
        if not getattr(config.option, "numprocesses", None) or hasattr(config, "workerinput"):
            config.pluginmanager.register(Mapping(Path(place)))
    elif chosen := os.environ.get("MUTATION_TESTS"):
        config.pluginmanager.register(Choice(Path(chosen)))


class Mapping:
    """Tells probes the current test, and writes what each test took."""

    def __init__(self, place):
        self.place = place
        self.done = set((place / "done.txt").read_text().splitlines())
        self.path = place / "current" / str(os.getpid())
        self.current, self.fixtures, self.seconds = 0, {}, 0.0
        self.path.write_bytes(struct.pack("Q", 0))
        os.environ["MUTATION_CURRENT"] = str(self.path)
        # Probes that conftest has reached did not know the file.
        builtins.__dict__.pop("mutation_hit", None)

    def switch(self, number):
        self.current = number
        with self.path.open("r+b") as file:
            file.write(struct.pack("Q", number))

    def write(self, **record):
        with (self.place / "tests.jsonl").open("a") as file:
            file.write(json.dumps(record) + "\n")

    def pytest_collection_modifyitems(self, items):
        items[:] = [item for item in items if item.nodeid not in self.done]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        self.reports, self.used, self.seconds = [], [], 0.0
        number = time.time_ns()
        self.switch(number)
        result = yield
        outcomes = {report.outcome for report in self.reports}
        outcome = next((o for o in ("failed", "skipped") if o in outcomes), "passed")
        seconds = sum(report.duration for report in self.reports) - self.seconds
        self.write(
            number=number,
            test=item.nodeid,
            outcome=outcome,
            seconds=round(seconds, 4),
            fixtures=self.used,
        )
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef):
        if fixturedef.scope == "function":
            return (yield)
        before, number, start = self.current, time.time_ns(), time.perf_counter()
        inner, self.seconds = self.seconds, 0.0
        self.fixtures[fixturedef] = number
        self.switch(number)
        try:
            return (yield)
        finally:
            self.switch(before)
            seconds = time.perf_counter() - start
            self.write(number=number, seconds=round(seconds - self.seconds, 4))
            self.seconds = inner + seconds

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item):
        result = yield
        request = getattr(item, "_request", None)
        used = getattr(request, "_fixture_defs", {}).values()
        self.used = [self.fixtures[fixture] for fixture in used if fixture in self.fixtures]
        return result

    def pytest_runtest_logreport(self, report):
        self.reports.append(report)


class Choice:
    """Runs the tests of a file, in its order."""

    def __init__(self, path):
        self.names = json.loads(path.read_text())
        self.failed = path.with_suffix(".failed")
        self.failed.unlink(missing_ok=True)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        by_name = {item.nodeid: item for item in items}
        items[:] = [by_name[name] for name in self.names if name in by_name]

    def pytest_runtest_logreport(self, report):
        if report.failed:
            with self.failed.open("a") as file:
                file.write(f"{report.nodeid}\n")
