"""Says of a workload whether it trains, repeats, resumes and is shared between devices.

Example:
    >>> from tarmac.files import scratch_directory
from tarmac.testing.selftest import selftest
    >>> report = selftest("digits-mlp")
    >>> report.passed
    True

The checks are those of `tarmac.testing.workloads`, on the first samples of the workload's own data
and on the CPU.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tarmac import data
from tarmac.data import Dataset, Split, slice_columns
from tarmac.errors import RequestError, TarmacError
from tarmac.files import scratch_directory
from tarmac.testing.workloads import (
    check_equal_on_two_devices,
    check_equal_on_two_processes,
    check_repeats,
    check_resumes,
    check_trains,
)
from tarmac.training import apply_settings, bind_dataset, check_sharding, denormals_flushed
from tarmac.workloads import Workload, find_workload, reference_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# What the checks train on: three batches of eight.
_NUM_SAMPLES = 24

# What each check does, in words; None for a strategy of processes, which need to find the workload.
_CHECKS: Mapping[str, tuple[str, Callable[[Workload, Dataset, Path], None] | None]] = {
    "trains": ("every parameter is trained, loss and weights are finite", check_trains),
    "repeats": ("one seed makes the same bits twice", check_repeats),
    "resumes": ("stopped in its second epoch, it goes on to the same bits", check_resumes),
    "towers": ("two devices of one process train as one does", check_equal_on_two_devices),
    "ddp": ("two processes train as one does", None),
    "fsdp": ("two processes with a part of every parameter each train as one does", None),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finding:
    """What one check came to.

    Attributes:
        name: In a word: ``trains``, ``repeats``, ``resumes``, ``towers``, ``ddp``, ``fsdp``.
        tried: What was done, in words.
        held: Whether it is as it should be; None where it was not tried.
        detail: The first difference, or why it was not tried; empty where it held.
        refused: Whether it was not tried as the strategy has no way to do what the recipe asks,
            which is no fault of a workload.
    """

    name: str
    tried: str
    held: bool | None
    detail: str = ""
    refused: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Report:
    """What all checks came to.

    Attributes:
        workload: Name of the workload that was checked.
        num_samples: Number of samples that the checks trained on.
        findings: In the order in which they were tried.
    """

    workload: str
    num_samples: int
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        """Whether every check held, but for those of strategies that refuse its recipe."""
        return all(finding.held or finding.refused for finding in self.findings)


@denormals_flushed()
def selftest(
    workload: str | Workload,
    *,
    settings: Mapping[str, str | int | float | bool] | None = None,
    found: Callable[[Finding], None] | None = None,
) -> Report:
    """Check a workload on the first 24 samples of its data, in batches of 8, on the CPU.

    Args:
        workload: As for `tarmac.train`. Two processes can share only one that they can find: a
            name, ``FILE.py:ATTRIBUTE``, or a value at the top level of a module.
        settings: As for `tarmac.train`: what makes a large model small, for one.
        found: Is told each finding when it is known.

    Raises:
        RequestError: There is no such workload or setting, or it has fewer samples.
        TarmacError: The data cannot be had.
    """
    settings = dict(settings or {})
    own = find_workload(workload) if isinstance(workload, str) else workload
    reference = _reference_of(workload)
    small, dataset = of_the_small(own, settings)
    findings: list[Finding] = []
    with scratch_directory() as root:
        for name, (tried, check) in _CHECKS.items():
            place = root / name
            place.mkdir()
            finding = Finding(name=name, tried=tried, held=None)
            if any(made.name == "repeats" and not made.held for made in findings):
                finding = dataclasses.replace(finding, detail="one seed does not repeat itself")
            elif check is not None:
                finding = _judged(finding, partial(check, small, dataset, place))
            elif name == "fsdp" and (refusal := _refusal_of_shards(small)):
                finding = dataclasses.replace(finding, detail=refusal, refused=True)
            elif reference is None:
                finding = dataclasses.replace(
                    finding, detail="other processes cannot find this value: name FILE.py:ATTRIBUTE"
                )
            else:
                script = _script(place, reference, settings)
                finding = _judged(
                    finding,
                    partial(
                        check_equal_on_two_processes,
                        *(small, dataset, place),
                        reference=script,
                        strategy=name,
                    ),
                )
            findings.append(finding)
            if found is not None:
                found(finding)
    return Report(workload=own.name, num_samples=_NUM_SAMPLES, findings=tuple(findings))


def of_the_small(
    workload: Workload, settings: Mapping[str, str | int | float | bool]
) -> tuple[Workload, Dataset]:
    """Return a workload with settings applied, and the first samples of its data.

    Raises:
        RequestError: There is no such setting, or it has fewer samples.
    """
    choice = {"dataset": settings["dataset"]} if "dataset" in settings else {}
    chosen, _ = apply_settings(workload, choice)
    whole = data.load(chosen.dataset) if isinstance(chosen.dataset, str) else chosen.dataset()
    if len(whole.train) < _NUM_SAMPLES:
        raise RequestError(
            f"{whole.name} has {len(whole.train)} training samples, a self-test takes the first "
            f"{_NUM_SAMPLES}"
        )
    small = dataclasses.replace(
        whole, train=_first(whole.train), test=_first(whole.test), validation=None
    )
    bound, arguments = apply_settings(bind_dataset(workload, small), settings)
    return dataclasses.replace(bound, model=partial(bound.model, **arguments)), small


def _first(split: Split) -> Split:
    if type(split) is not Split:
        # One that reads its samples as they come has no arrays; trainings take its first ones.
        return split
    count = _NUM_SAMPLES
    return Split(
        slice_columns(split.inputs, 0, count),
        None if split.targets is None else slice_columns(split.targets, 0, count),
        None if split.weights is None else split.weights[:count],
    )


def _judged(finding: Finding, check: Callable[[], None]) -> Finding:
    """Return what a check came to; whatever it raises is the user's own code or a difference."""
    try:
        check()
    except AssertionError as error:
        return dataclasses.replace(finding, held=False, detail=str(error))
    except TarmacError as error:
        return dataclasses.replace(finding, held=False, detail=error.message)
    except Exception as error:
        return dataclasses.replace(finding, held=False, detail=f"{type(error).__name__}: {error}")
    return dataclasses.replace(finding, held=True)


def _refusal_of_shards(workload: Workload) -> str | None:
    try:
        check_sharding("fsdp", workload.recipe, compiled=False)
    except RequestError as refusal:
        return refusal.message
    return None


def _reference_of(workload: str | Workload) -> str | None:
    """Return what another process finds a workload by; None where it cannot."""
    if isinstance(workload, str):
        path, colon, attribute = workload.rpartition(":")
        return f"{Path(path).resolve()}:{attribute}" if colon else workload
    try:
        return reference_of(workload)
    except RequestError:
        return None


def _script(place: Path, reference: str, settings: Mapping[str, object]) -> str:
    """Write a file by which other processes find the small workload, and return its reference."""
    path = place / "small_workload.py"
    path.write_text(
        "from tarmac.testing.selftest import of_the_small\n"
        "from tarmac.testing.workloads import alike_on_devices\n"
        "from tarmac.workloads import find_workload\n\n"
        f"small, data = of_the_small(find_workload({reference!r}), {dict(settings)!r})\n"
        "workload = alike_on_devices(small, data)\n",
        encoding="utf-8",
    )
    return f"{path}:workload"
