"""Stacks in processes: the same networks, and what ends a process ends one network at most."""

from __future__ import annotations

import contextlib
import dataclasses
import textwrap

import psutil
import pytest

from tarmac import data
from tarmac.machine import find_devices
from tarmac.studies import Candidate
from tarmac.studies.evaluation.slots import Slot
from tarmac.studies.evaluation.stacked.evaluator import StackedEvaluator
from tarmac.studies.evaluation.stacked.pool import PooledEvaluator
from tarmac.workloads import find_workload

OPTIMIZERS = ("rmsprop", "adam", "sgd", "adagrad", "adadelta")
SIZES = {"train_size": 300, "validation_size": 100}

# Ends its process where it is trained, not where it is planned.
FATAL = """
    import os, signal, sys
    from torch import nn
    from tarmac.workloads import Adam, Recipe, Workload

    def model(fatal: bool = False):
        if fatal and sys.argv[0].endswith("worker.py"):
            print("no more of this", file=sys.stderr, flush=True)
            os.kill(os.getpid(), signal.SIGSEGV)
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 9), nn.ReLU(), nn.Linear(9, 10))

    own = Workload(
        name="own", summary="x", dataset="digits", model=model,
        recipe=Recipe(
            optimizer=Adam(learning_rate=1e-3, beta1=0.9, beta2=0.999, eps=1e-8),
            batch_size=64, epochs=1,
        ),
    )
"""


def candidate(number, epochs=2, **settings):
    return Candidate(number=number, settings=settings, seed=number, epochs=epochs)


def of_mlp(number, **settings):
    own = {"dataset": "digits", "neurons": 16, "optimizer": OPTIMIZERS[number % 5]}
    return candidate(number, **own, **settings)


@pytest.fixture
def pool(tmp_path):
    """Return a function that makes an evaluator of two processes, which end with the test."""
    pools = []

    def make(workload="mlp", halted=lambda: False, devices=("cpu", "cpu"), **facts):
        (cpu,) = find_devices("cpu")
        planner = StackedEvaluator(
            find_workload(workload),
            data.load("digits"),
            device=dataclasses.replace(cpu, **facts),
            precision="fp32",
            **SIZES,
        )
        settings = {"dataset": "digits"}
        setup = {"workload": workload, "settings": settings, "precision": "fp32", **SIZES}
        slots = [Slot(device, 1) for device in devices]
        pools.append(PooledEvaluator(planner, setup, slots, tmp_path / "logs", halted))
        return pools[-1]

    yield make
    for one in pools:
        one.close()
    assert workers() == set()


def workers() -> set[int]:
    """Return this process's children that train stacks, or have ended without being waited for.

    Python keeps others, such as the resource tracker of multiprocessing, for other tests.
    """
    name = "tarmac.studies.evaluation.stacked.worker"
    found = set()
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess):
            if child.status() == psutil.STATUS_ZOMBIE or name in child.cmdline():
                found.add(child.pid)
    return found


def test_each_process_has_a_stack_and_networks_are_those_of_one_process(pool):
    given = [of_mlp(number, epochs=1 + number % 3) for number in range(5)]
    own = StackedEvaluator(
        find_workload("mlp"), data.load("digits"), device="cpu", precision="fp32", **SIZES
    )
    alone = {one.number: one for one in own.evaluate(given, lambda progress: False)}
    mine = pool()
    stacks, _ = mine.plan(given)
    assert [len(stack.networks) for stack in stacks] == [3, 2]
    assert "one of 2 stacks, so that 2 processes have work" in str(stacks[0])
    seen = []

    def report(progress):
        seen.append((progress.number, progress.epoch))
        return False

    for result in mine.evaluate(given, report):
        expected = alone[result.number].metrics
        assert result.error is None
        assert result.metrics["val_loss"] == pytest.approx(expected["val_loss"], rel=1e-3)
        assert result.metrics["epochs"] == expected["epochs"]
    assert sorted(seen) == [(n, e) for n in range(5) for e in range(1, 2 + n % 3)]
    # The same processes train the next ones.
    pids = workers()
    assert len(pids) == 2
    assert len([*mine.evaluate(given, report)]) == 5
    assert workers() == pids


def test_a_network_that_ends_its_process_is_found_and_fails_alone(pool, tmp_path):
    (tmp_path / "own.py").write_text(textwrap.dedent(FATAL))
    mine = pool(f"{tmp_path}/own.py:own")
    given = [candidate(number, fatal=number == 3) for number in range(6)]
    results = {one.number: one for one in mine.evaluate(given, lambda progress: False)}
    assert results[3].error == "its process was ended by SIGSEGV: no more of this"
    assert [results[n].error for n in (0, 1, 2, 4, 5)] == [None] * 5


def test_networks_whose_process_a_scheduler_asked_to_end_are_not_to_blame(pool, tmp_path):
    asked = "signal.signal(15, signal.SIG_DFL); os.kill(os.getpid(), 15)"
    text = textwrap.dedent(FATAL).replace("os.kill(os.getpid(), signal.SIGSEGV)", asked)
    (tmp_path / "own.py").write_text(text)
    mine = pool(f"{tmp_path}/own.py:own", devices=["cpu"])
    given = [candidate(number, fatal=True) for number in range(2)]
    results = [*mine.evaluate(given, lambda progress: False)]
    assert [(one.number, one.stopped, one.error) for one in results] == [
        (0, True, None),
        (1, True, None),
    ]


def test_a_network_that_its_watch_stops_is_a_loser(pool):
    given = [of_mlp(number, epochs=9) for number in range(2)]
    watched = pool().evaluate(given, lambda progress: progress.number == 1 and progress.epoch == 2)
    results = {one.number: one for one in watched}
    assert (results[0].stopped, results[0].metrics["epochs"]) == (False, 9)
    assert (results[1].stopped, results[1].metrics["epochs"]) == (True, 2)


def test_halted_it_ends_without_the_rest(pool):
    epochs = []
    mine = pool(halted=lambda: len(epochs) > 3)

    def report(progress):
        epochs.append(progress.epoch)
        return False

    assert [*mine.evaluate([of_mlp(n, epochs=10_000) for n in range(4)], report)] == []


def test_an_error_of_the_watch_reaches_the_caller_and_ends_the_processes(pool):
    def report(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        [*pool().evaluate([of_mlp(0), of_mlp(1, layers=1)], report)]
    assert workers() == set()


def test_a_candidate_that_cannot_be_fails_with_its_message_and_others_go_on(pool):
    given = [of_mlp(0), of_mlp(1, activation="rleu")]
    results = {one.number: one for one in pool().evaluate(given, lambda progress: False)}
    assert results[0].error is None
    assert "unknown activation 'rleu'" in results[1].error


def test_a_process_trains_on_the_device_of_its_slot(pool, tmp_path):
    # No machine has as many GPUs as that, so each process says which one it was to train on.
    mine = pool(devices=("cuda:1000", "cuda:1001"))
    results = [*mine.evaluate([of_mlp(0), of_mlp(1)], lambda progress: False)]
    assert [result.metrics for result in results] == [{}, {}]
    logs = sorted((tmp_path / "logs").iterdir(), key=lambda path: path.stem[-1])
    for index, log in enumerate(logs):
        assert f"devices is 'cuda:{1000 + index}'" in log.read_text()


def test_stacks_of_several_gpus_do_not_share_their_memory(pool):
    tight = {"available_bytes": 1_500_000}
    given = [of_mlp(number) for number in range(6)]
    apart, together = (
        pool(devices=devices, **tight) for devices in (("cuda:0", "cuda:1"), ("cpu", "cpu"))
    )
    sizes = [[len(stack.networks) for stack in each.plan(given)[0]] for each in (apart, together)]
    assert [sum(each) for each in sizes] == [6, 6]
    assert len(sizes[0]) < len(sizes[1])
