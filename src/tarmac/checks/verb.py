"""Checks this machine: reads its state, runs the frameworks' probes, and reports failures."""

from __future__ import annotations

import dataclasses
import importlib.util
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

from tarmac.checks.evidence import Evidence, Probe
from tarmac.checks.frameworks import ALL_REDUCE, find_framework, framework_names
from tarmac.checks.inventory import read_inventory
from tarmac.checks.kernel_reading import DEFAULT_HOURS
from tarmac.checks.report.gate import read_gate
from tarmac.checks.report.model import Report
from tarmac.checks.rules.catalogue import Level
from tarmac.checks.rules.patterns import find_in
from tarmac.checks.run_probe import is_measuring, measuring_turns, run_probe
from tarmac.checks.sampling import sampling
from tarmac.checks.soak import SoakProgress, soak
from tarmac.checks.soaked import Soak
from tarmac.checks.targets import (
    THIS_PYTHON,
    Target,
    conda_target,
    container_target,
    provisioned_target,
    python_target,
    refuse_unknown_devices,
)
from tarmac.errors import RequestError
from tarmac.machine import LoadReader, Nvml, NvmlProblem, has_exclusive_gpu, open_nvml

Depth = Literal["quick", "normal", "deep"]


@dataclasses.dataclass(frozen=True)
class _Task:
    framework: str
    target: Target
    is_asked: bool
    variables: Mapping[str, str] = dataclasses.field(default_factory=dict)


def check(
    frameworks: Sequence[str] = (),
    *,
    pythons: Sequence[str | Path] = (),
    images: Sequence[str] = (),
    condas: Sequence[str] = (),
    provision: Sequence[str] = (),
    depth: Depth = "normal",
    devices: Sequence[str] = (),
    ranks: int | None = None,
    require: Sequence[str] = (),
    expect: str | Path | None = None,
    against: str | Path | None = None,
    fail_on: Level | None = None,
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
    timeout_s: float = 120.0,
    xid_hours: float = DEFAULT_HOURS,
    soak_s: float | None = None,
    stop: threading.Event | None = None,
    tell: Callable[[SoakProgress], None] | None = None,
) -> Report:
    """Check this machine, and compute with frameworks on its devices.

    Args:
        frameworks: Names from `tarmac.checks.framework_names`. Default: the installed frameworks,
            or only PyTorch in a quick check.
        pythons: Interpreters to probe instead of this one.
        images: Container images to probe instead of this interpreter.
        condas: Conda environments to probe instead of this interpreter: names, directories, or
            files such as ``environment.yml``, from which environments are built.
        provision: Frameworks to build an environment of pinned versions for, and probe there.
        depth: ``quick`` reads the machine's state and computes with PyTorch only. ``normal`` probes
            all frameworks and measures rates. ``deep`` measures longer, fills memory, and probes
            Keras on all its backends.
        devices: Devices to probe: ``cuda:0``, ``cuda``, ``cpu``. Default: all.
        ranks: Number of processes of an all-reduce, at least 2. PyTorch uses NCCL where there is a
            GPU for each process, else Gloo; Horovod is probed too. Default: as many as the GPUs
            that PyTorch sees, if several; 2 for Horovod.
        require: Conditions that must hold, such as ``gpus>=1`` or ``pytorch``; frameworks that are
            named here are probed too.
        expect: TOML file of conditions on the machine; see `tarmac.checks.Expectation`.
        against: File with an earlier report. Hardware and driver must be unchanged, and no rate
            more than 5 % worse; only rates of the named frameworks count, if any are named.
        fail_on: Lowest level of findings that fail the check. Default: ``failure``, and none where
            only ``require`` sets conditions.
        only: Codes of the only failures to look for; empty for all. A failed framework then does
            not fail the check by itself.
        skip: Codes of failures that are reported and do not count.
        timeout_s: Time limit of each probe in seconds, above 0. In a soak, the seconds that a
            device may make no progress. Default 120.
        xid_hours: Age up to which errors in the kernel's log count, in hours, above 0; at most
            since the machine's start. Default 24.
        soak_s: Seconds to keep every GPU busy, or the CPU without one, while all products, copies
            and memory contents are compared. Only named frameworks are probed then. Default: no
            soak.
        stop: When set, the probes are ended.
        tell: Called regularly with the progress of a soak.

    Returns:
        The report; its ``ok`` is True where all requirements hold and nothing that counts failed.

    Raises:
        RequestError: A name, an interpreter, an image, a code or a requirement is not valid, or the
            baseline is of another model of machine.
        TarmacError: An environment could not be built.
    """
    started = time.perf_counter()
    if not timeout_s > 0:
        raise RequestError(f"timeout is {timeout_s:g}, expected above 0 seconds")
    if not xid_hours > 0:
        raise RequestError(f"xid_hours is {xid_hours:g}, expected above 0")
    if ranks is not None and ranks < 2:
        raise RequestError(f"ranks is {ranks}, expected at least 2")
    refuse_unknown_devices(devices)
    if soak_s is not None:
        _refuse_soak(soak_s, ranks, [*pythons, *images, *condas], provision)
    if depth not in ("quick", "normal", "deep"):
        raise RequestError(f"depth is {depth!r}, expected quick, normal or deep")
    names = [find_framework(name).name for name in frameworks]
    gate = read_gate(
        require=require,
        expect=expect,
        against=against,
        fail_on=fail_on,
        only=only,
        skip=skip,
        frameworks=names,
        has_rates=depth != "quick",
    )
    needed = [] if names else gate.frameworks
    targets = [python_target(python) for python in pythons]
    targets += [container_target(image) for image in images]
    targets += [conda_target(name) for name in condas]
    tasks = [
        _Task(framework.name, provisioned_target(framework), is_asked=True)
        for framework in map(find_framework, provision)
    ]
    tasks += [
        _Task(name, target, is_asked=bool(names))
        for target in targets
        for name in names or (framework_names() if soak_s is None else ())
    ]
    if not targets:
        provided = {task.framework for task in tasks}
        is_alone = (tasks or soak_s is not None) and not names
        here = [] if is_alone else names or _installed(depth)
        tasks += [
            _Task(name, THIS_PYTHON, is_asked=bool(names) or name in needed)
            for name in dict.fromkeys((*here, *needed))
            if name not in provided
        ]
    stop = stop or threading.Event()
    evidence = _collect(
        [*_expanded(tasks, depth)],
        depth,
        devices,
        timeout_s,
        ranks,
        xid_hours=xid_hours,
        stop=stop,
    )
    gate.refuse_other(evidence.inventory)
    if soak_s is not None:
        target = targets[0] if targets else THIS_PYTHON
        probe, soaked = soak(
            target, limit_s=soak_s, silence_s=timeout_s, devices=devices, stop=stop, tell=tell
        )
        evidence = _soaked(evidence, probe, soaked)
    elif ranks is not None or depth != "quick":
        all_reduces = [
            run_probe(
                ALL_REDUCE,
                target,
                depth=depth,
                devices=devices,
                timeout_s=timeout_s,
                num_ranks=number,
            )
            for target, number in _teams(tasks, evidence, ranks)
        ]
        evidence = evidence.model_copy(update={"probes": (*evidence.probes, *all_reduces)})
    return gate.judge(evidence, seconds=time.perf_counter() - started)


def _refuse_soak(
    soak_s: float,
    ranks: int | None,
    places: Sequence[str | Path],
    provision: Sequence[str],
) -> None:
    if not soak_s > 0:
        raise RequestError(f"soak is {soak_s:g}, expected above 0 seconds")
    if ranks is not None:
        raise RequestError("a soak and ranks exclude each other")
    if provision or len(places) > 1:
        raise RequestError(
            "a soak uses all devices, with one PyTorch",
            hint="Name one --python, --image or --conda at most, and no --provision.",
        )


def _soaked(evidence: Evidence, probe: Probe, soaked: Soak) -> Evidence:
    """Return evidence with a soak's results, and with the machine's state after the soak."""
    before = set(evidence.inventory.kernel_log)
    after = read_inventory()
    lines = tuple(line for line in after.kernel_log if line not in before)
    return evidence.model_copy(
        update={
            "inventory": after,
            "probes": (*evidence.probes, probe),
            "soak": soaked.model_copy(update={"kernel_log": lines}),
        }
    )


def _installed(depth: Depth) -> list[str]:
    """Return the frameworks to probe in this interpreter when none are named."""
    names = ["torch"] if depth == "quick" else framework_names()
    return [name for name in names if importlib.util.find_spec(name) is not None]


def _expanded(tasks: Sequence[_Task], depth: Depth) -> Iterator[_Task]:
    """Yield a task for each backend of a framework, if it was named or the check is deep."""
    for task in tasks:
        framework = find_framework(task.framework)
        if framework.backends and (depth == "deep" or task.is_asked):
            for backend in framework.backends:
                variables = {framework.backend_variable: backend}
                yield dataclasses.replace(task, variables=variables)
        else:
            yield task


def _teams(
    tasks: Sequence[_Task], evidence: Evidence, ranks: int | None
) -> Iterator[tuple[Target, int]]:
    """Yield each target with PyTorch, and the number of processes for an all-reduce there."""
    for target in dict.fromkeys(task.target for task in tasks if task.framework == "torch"):
        # The GPUs that PyTorch sees, as environment variables may hide some of the driver's.
        seen = [
            device
            for probe in evidence.probes
            if (probe.framework, probe.where) == ("torch", target.name)
            for device in probe.result.get("devices", ())
            if device["kind"] == "gpu"
        ]
        number = len(seen) if ranks is None else ranks
        if number > 1:
            yield target, number


def _load_readers(nvml: Nvml | NvmlProblem) -> Mapping[int, LoadReader]:
    return {} if isinstance(nvml, NvmlProblem) else nvml.load_readers()


def _collect(
    tasks: Sequence[_Task],
    depth: Depth,
    devices: Sequence[str],
    timeout_s: float,
    ranks: int | None,
    *,
    xid_hours: float,
    stop: threading.Event,
) -> Evidence:
    def run(task: _Task, turns: Mapping[str, str], gpus_of: Callable[[int], set[int]]) -> Probe:
        return run_probe(
            find_framework(task.framework),
            task.target,
            depth=depth,
            devices=devices,
            timeout_s=timeout_s,
            environment={**turns, **task.variables},
            gpus_of=gpus_of,
            stop=stop,
            num_ranks=ranks,
        )

    with (
        open_nvml() as nvml,
        measuring_turns() as turns,
        sampling(_load_readers(nvml), lambda: is_measuring(turns)) as finish_sampling,
        ThreadPoolExecutor(1) as beside,
        ThreadPoolExecutor(1 if has_exclusive_gpu(nvml) else max(1, len(tasks))) as threads,
    ):
        inventory = beside.submit(read_inventory, xid_hours=xid_hours)
        # Reads the catalogue and its patterns while the probes run, and not after them.
        beside.submit(find_in, "")

        def gpus_of(pid: int) -> set[int]:
            return set() if isinstance(nvml, NvmlProblem) else nvml.gpus_of_process(pid)

        running = [threads.submit(run, task, turns, gpus_of) for task in tasks]
        try:
            probes = [future.result() for future in running]
        except BaseException:
            stop.set()
            raise
        under_load = finish_sampling()
    return Evidence(
        inventory=inventory.result(),
        under_load=under_load,
        probes=tuple(
            probe
            for task, probe in zip(tasks, probes, strict=True)
            if probe.outcome != "not installed" or task.is_asked
        ),
    )
