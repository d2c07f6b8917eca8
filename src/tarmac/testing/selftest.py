"""Check that a workload trains, repeats, resumes and can be shared between devices.

Example:
    >>> from tarmac.testing.selftest import selftest
    >>> report = selftest("digits-mlp")
    >>> report.passed
    True

The checks are those of `tarmac.testing.workloads`, on the first samples of the workload's own data
and on the CPU.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

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
from tarmac.training import (
    apply_settings,
    bind_dataset,
    check_sharding,
    denormals_flushed,
    find_strategy,
)
from tarmac.workloads import Workload, find_workload, reference_of

# The checks train on three batches of eight.
_NUM_SAMPLES = 24

# Description and function of each check. None: a strategy with several processes, which need a
# reference to the workload.
_CHECKS: Mapping[str, tuple[str, Callable[[Workload, Dataset, Path], None] | None]] = {
    "trains": ("training changes every parameter; loss and weights are finite", check_trains),
    "repeats": ("one seed gives the same bits twice", check_repeats),
    "resumes": ("a training that stops in epoch 2 resumes to the same bits", check_resumes),
    "towers": ("two devices of one process train like one device", check_equal_on_two_devices),
    "ddp": ("two processes train like one device", None),
    "fsdp": ("two processes that share every parameter train like one device", None),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finding:
    """The result of one check.

    Attributes:
        name: Name of the check: ``trains``, ``repeats``, ``resumes``, ``towers``, ``ddp`` or
            ``fsdp``.
        tried: Description of the check, in words.
        held: Whether the check passed. None: it did not run.
        detail: The first difference, or the reason why the check did not run. Empty if it passed.
        refused: Whether the check did not run because the strategy does not support the recipe.
            This is no fault of the workload.
    """

    name: str
    tried: str
    held: bool | None
    detail: str = ""
    refused: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Report:
    """The results of all checks.

    Attributes:
        workload: Name of the workload that was checked.
        num_samples: Number of samples that the checks trained on.
        findings: Results of the checks, in the order in which they ran.
    """

    workload: str
    num_samples: int
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        """Whether every check passed, except strategies that do not support the recipe."""
        return all(finding.held or finding.refused for finding in self.findings)


@denormals_flushed()
def selftest(
    workload: str | Workload,
    *,
    settings: Mapping[str, str | int | float | bool] | None = None,
    on_finding: Callable[[Finding], None] | None = None,
) -> Report:
    """Check a workload on the first 24 samples of its data, in batches of 8, on the CPU.

    Args:
        workload: Workload, as for `tarmac.train`. Checks with two processes need a name,
            ``FILE.py:ATTRIBUTE``, or a value at the top level of a module.
        settings: Settings, as for `tarmac.train`, for example to make a large model small.
        on_finding: Callback that gets each finding as soon as its check ends. Default None.

    Raises:
        RequestError: The workload or a setting is unknown, or the dataset has fewer than 24
            samples.
        TarmacError: The data cannot be loaded.
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
                finding = dataclasses.replace(finding, detail="one seed gives different results")
            elif check is not None:
                finding = _judged(finding, partial(check, small, dataset, place))
            elif name == "fsdp" and (refusal := _refusal_of_shards(small)):
                finding = dataclasses.replace(finding, detail=refusal, refused=True)
            elif reference is None:
                finding = dataclasses.replace(
                    finding,
                    detail="other processes cannot import this value: name FILE.py:ATTRIBUTE",
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
            if on_finding is not None:
                on_finding(finding)
    return Report(workload=own.name, num_samples=_NUM_SAMPLES, findings=tuple(findings))


def of_the_small(
    workload: Workload, settings: Mapping[str, str | int | float | bool]
) -> tuple[Workload, Dataset]:
    """Return a workload with settings applied, and the first samples of its data.

    Raises:
        RequestError: A setting is unknown, or the dataset has fewer than 24 samples.
    """
    choice = {"dataset": settings["dataset"]} if "dataset" in settings else {}
    chosen, _ = apply_settings(workload, choice)
    whole = data.load(chosen.dataset) if isinstance(chosen.dataset, str) else chosen.dataset()
    if len(whole.train) < _NUM_SAMPLES:
        raise RequestError(
            f"{whole.name} has {len(whole.train)} training samples, a self-test needs "
            f"{_NUM_SAMPLES}"
        )
    small = dataclasses.replace(
        whole, train=_first(whole.train), test=_first(whole.test), validation=None
    )
    bound, arguments = apply_settings(bind_dataset(workload, small), settings)
    return dataclasses.replace(bound, model=partial(bound.model, **arguments)), small


def _first(split: Split) -> Split:
    if type(split) is not Split:
        # Samples that are read on demand cannot be sliced; `train_size` limits them instead.
        return split
    count = _NUM_SAMPLES
    return Split(
        slice_columns(split.inputs, 0, count),
        None if split.targets is None else slice_columns(split.targets, 0, count),
        None if split.weights is None else split.weights[:count],
    )


def _judged(finding: Finding, check: Callable[[], None]) -> Finding:
    """Return the finding of a check; any exception is a difference or an error in user code."""
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
        check_sharding(find_strategy("fsdp"), workload.recipe, compiled=False)
    except RequestError as refusal:
        return refusal.message
    return None


def _reference_of(workload: str | Workload) -> str | None:
    """Return a reference by which other processes find a workload, or None."""
    if isinstance(workload, str):
        path, colon, attribute = workload.rpartition(":")
        return f"{Path(path).resolve()}:{attribute}" if colon else workload
    try:
        return reference_of(workload)
    except RequestError:
        return None


def _script(place: Path, reference: str, settings: Mapping[str, object]) -> str:
    """Write a file with the small workload for other processes, and return its reference."""
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
