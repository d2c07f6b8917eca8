"""An algorithm that breaks the protocol, floods or lies costs its own task, and nothing else."""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path

import psutil
import pytest

from tarmac.errors import TarmacError
from tarmac.formats import read_algorithm
from tarmac.hkube.hosting import Pool, Work

PROGRAM = Path(__file__).with_name("hostile_algorithm.py")

# What each act ends with: a result where it breaks nothing, else why its task has failed.
RESULTS = {
    "a key twice": "ok",
    "1e999": float("inf"),
    "half a surrogate": "\ufffd",
    "NUL": {"a\0b": "\0"},
    "unknown command": "after all",
    "the worker's command": "after all",
    "initialized again": "after all",
    "stopping unasked": "after all",
    "done twice": "first",
    "progress of nothing": "after all",
    "progress of texts": "after all",
    "progress of 1e308": "after all",
    "child of nothing": "after all",
    "child of no name": "after all",
    "child that is not there": "after all",
    "pipeline of nothing": "after all",
    "pipeline of no name": "after all",
    "end of a child that is none": "after all",
    "logs": "after all",
    "spans": "after all",
    "flood": "flooded",
    "pings": "pinged",
    "fragments": "whole",
    "second connection": "the first one",
    "10 connections": "the first one",
    "sockets that say nothing": "the first one",
    "sockets that say anything": "the first one",
    "sockets that begin a request": "the first one",
    "prints 20 MB": "printed",
}
FAILURES = {
    "frame of 1 TiB": "error",
    "frame of 2**63 bytes": "error",
    "unknown opcode": "error",
    "no UTF-8": "error",
    "no JSON": "error",
    "half of a JSON": "error",
    "a list": "error",
    "a number": "error",
    "no command": "error",
    "a command that is a list": "error",
    "deep": "error",
    "a long number": "error",
    "binary on a link of texts": "error",
    "stopped unasked": "error",
    "error of nothing": "error",
    "error that is a number": "error",
    "error in error": "error",
    "error of 5 MB": "error",
    "leaves politely": "crash",
    "leaves at once": "crash",
    "exits with 0": "crash",
    "kills itself": "crash",
    "leaves a child": "crash",
}

# By storage v3: a path that leads out of the instance's storage is none.
STORED = {
    "stores outside": "error",
    "stores at a root": "error",
    "stores what is not there": "error",
    "stores nothing": "",
    "stores a number": "",
}
# By MessagePack.
PACKED = {
    "a list of 4 G elements": "error",
    "an extension type": "error",
    "keys that are lists": "error",
    "half of a MessagePack": "error",
    "deep MessagePack": "error",
}


class Silent:
    def started(self, *_):
        pass

    progress = retrying = waiting = started


class NoCalls:
    # Whether a call gets as far as this hangs on whether its caller is done before it.
    async def run_algorithm(self, caller, algorithm, inputs):
        raise TarmacError(f"algorithm {algorithm} has not been registered")

    async def run_pipeline(self, caller, body):
        raise TarmacError(f"unable to find pipeline {body}")


def work(index, act, name):
    return Work(
        index=index,
        name=f"act-{index}",
        task_id=f"task-{index}",
        algorithm=name,
        input=[act],
        job_id="job",
        pipeline="hostile",
        node="act",
        retry="Never",
    )


def host(directory, acts, *link):
    """Have acts done one after another, each between two tasks that do nothing wrong.

    Returns:
        The endings of the acts by name, and those of the others.
    """
    # A program of its own: other workers of pytest may host at the same time.
    program = Path(shutil.copy(PROGRAM, directory))
    definition = {
        "name": "hostile",
        "cpu": 0.1,
        "mem": "512Mi",
        "maxWorkers": 2,
        "workerEnv": {"ALGORITHM_DISCONNECTED_TIMEOUT_MS": 20000},
        "options": {"tarmac": {"command": [sys.executable, str(program), *link]}},
    }
    algorithms = {"hostile": read_algorithm(definition)}
    order = [name for act in acts for name in ("ok", act)] + ["ok"]

    async def submit_all():
        pool = Pool(algorithms, directory, base=directory, watcher=Silent(), calls=NoCalls())
        async with pool:
            works = [work(index, act, "hostile") for index, act in enumerate(order)]
            return await asyncio.gather(*map(pool.submit, works))

    endings = asyncio.run(submit_all())
    return dict(zip(acts, endings[1::2], strict=True)), endings[::2]


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("run")


@pytest.fixture(scope="module")
def hosted(directory):
    return host(directory, [*RESULTS, *FAILURES])


@pytest.mark.parametrize(("act", "value"), RESULTS.items(), ids=RESULTS.keys())
def test_what_breaks_nothing_does_not_cost_a_result(hosted, act, value):
    ending = hosted[0][act]
    assert (ending.why, ending.value) == ("", value)


@pytest.mark.parametrize(("act", "why"), FAILURES.items(), ids=FAILURES.keys())
def test_what_breaks_the_protocol_fails_its_own_task_with_a_reason(hosted, act, why):
    ending = hosted[0][act]
    assert ending.why == why
    assert ending.message.strip()
    assert len(ending.message) < 20_000


@pytest.mark.parametrize(
    ("acts", "link"), [(STORED, ("v3", "json")), (PACKED, ("v1", "msgpack"))], ids=["v3", "msgpack"]
)
def test_what_other_storages_and_encodings_allow_costs_its_own_task_too(tmp_path, acts, link):
    ended, others = host(tmp_path, [*acts], *link)
    assert {act: ending.why for act, ending in ended.items()} == acts
    assert not [ending.message for ending in ended.values() if "root:" in f"{ending}"]
    assert {(ending.why, ending.value) for ending in others} == {("", "ok")}


def test_the_tasks_beside_it_succeed(hosted):
    assert {(ending.why, ending.value) for ending in hosted[1]} == {("", "ok")}


def test_nothing_of_it_is_left(hosted, directory):
    program = str(directory / PROGRAM.name)
    left = [p for p in psutil.process_iter(["cmdline"]) if program in (p.info["cmdline"] or [])]
    assert not left
