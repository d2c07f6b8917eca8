"""Task factories: the values of each task.

Source of the kinds and their rules: convoy/task_factory.py and docs/35 of Azure/batch-shipyard at
bf190ec (3.9.1).
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tarmac.formats.shipyard.report import Path, Report

# More tasks than any pool ran. A mistake in a range can make more tasks than memory holds.
MAX_TASKS = 100_000

_LONGEST = 1000

# In Batch Shipyard's order of precedence.
_KINDS = ("custom", "file", "repeat", "random", "parametric_sweep")
_SWEEPS = ("product", "product_iterables", "combinations", "permutations", "zip")

_DRAWS: dict[str, tuple[tuple[str, ...], Callable[..., float]]] = {
    "uniform": (("a", "b"), random.Random.uniform),
    "triangular": (("low", "high", "mode"), random.Random.triangular),
    "beta": (("alpha", "beta"), random.Random.betavariate),
    "exponential": (("lambda",), random.Random.expovariate),
    "gamma": (("alpha", "beta"), random.Random.gammavariate),
    "gauss": (("mu", "sigma"), random.Random.gauss),
    "lognormal": (("mu", "sigma"), random.Random.lognormvariate),
    "pareto": (("alpha",), random.Random.paretovariate),
    "weibull": (("alpha", "beta"), random.Random.weibullvariate),
}


def kind_of(factory: Mapping[str, Any], path: Path, report: Report) -> str | None:
    """Return a factory's kind; report a problem and return None if it has none."""
    kinds = [kind for kind in _KINDS if factory.get(kind) is not None]
    if not kinds:
        report.wrong(path, f"expected one of {', '.join(_KINDS)}")
        return None
    if len(kinds) > 1:
        rest = ", ".join(kinds[1:])
        report.note(path, f"{kinds[0]} is taken, as Batch Shipyard does, and not {rest}")
    return kinds[0]


def values_of(
    kind: str, factory: Mapping[str, Any], path: Path, report: Report
) -> list[tuple[Any, ...]] | None:
    """Return the values of each task, for a kind with its values in the file.

    Args:
        kind: ``repeat``, ``random`` or ``parametric_sweep``.
        factory: Settings of the task factory, as in the file.
        path: Keys that lead to the task factory in the configuration.
        report: Receives the problems found.

    Returns:
        A tuple of values for each task, or None if there is a problem.
    """
    where = (*path, kind)
    if kind == "repeat":
        rows: Iterable[tuple[Any, ...]] = itertools.repeat(
            (), min(max(factory[kind], 0), MAX_TASKS)
        )
        return _taken(rows, factory[kind], where, report)
    if kind == "random":
        return _drawn(factory[kind], where, report)
    return _swept(factory[kind], where, report)


def _taken(
    rows: Iterable[tuple[Any, ...]], count: int, path: Path, report: Report
) -> list[tuple[Any, ...]] | None:
    if count < 1:
        report.wrong(path, "makes no task")
        return None
    if count > MAX_TASKS:
        shown = f"{count:,}" if count < 10**15 else "far"
        more = "tasks, more" if count < 10**15 else "more tasks"
        report.wrong(path, f"makes {shown} {more} than {MAX_TASKS:,}")
        return None
    return [*rows]


def _swept(sweep: Mapping[str, Any], path: Path, report: Report) -> list[tuple[Any, ...]] | None:
    kinds = [kind for kind in _SWEEPS if sweep.get(kind) is not None]
    if not kinds:
        report.wrong(path, f"expected one of {', '.join(_SWEEPS)}")
        return None
    kind, value = kinds[0], sweep[kinds[0]]
    if len(kinds) > 1:
        rest = ", ".join(kinds[1:])
        report.note(path, f"{kind} is taken, as Batch Shipyard does, and not {rest}")
    where = (*path, kind)
    if kind in ("combinations", "permutations"):
        return _chosen(kind, value, where, report)
    if not value or any(part is None for part in value):
        # itertools.product without ranges would make one task without values.
        report.wrong(where, "makes no task: it is empty")
        return None
    if kind == "product":
        return _ranges(value, where, report)
    if kind == "zip":
        return _taken(zip(*value, strict=False), min(map(len, value)), where, report)
    count = math.prod(map(len, value))
    return _taken(itertools.product(*value), count, where, report)


def _ranges(
    parts: Sequence[Mapping[str, Any]], path: Path, report: Report
) -> list[tuple[Any, ...]] | None:
    ranges = []
    for number, part in enumerate(parts):
        start, stop, step = (part.get(name) for name in ("start", "stop", "step"))
        if start is None or stop is None or step is None:
            return None
        if step == 0:
            report.wrong((*path, number, "step"), "0: expected another number than 0")
            return None
        ranges.append(range(start, stop, step))
    count = math.prod(_length(part) for part in ranges)
    return _taken(itertools.product(*ranges) if 0 < count <= MAX_TASKS else (), count, path, report)


def _length(part: range) -> int:
    # len() raises OverflowError for a length above a machine word.
    return max(0, -(-(part.stop - part.start) // part.step))


def _chosen(
    kind: str, value: Mapping[str, Any], path: Path, report: Report
) -> list[tuple[Any, ...]] | None:
    items, length = value.get("iterable"), value.get("length")
    if not items:
        report.wrong(path, "iterable is missing or empty")
        return None
    if length is None and kind == "permutations":
        length = len(items)
    if length is None or not 1 <= length <= _LONGEST:
        report.wrong(path, f"length is {length}, expected 1 to {_LONGEST}")
        return None
    if kind == "permutations":
        count = math.perm(len(items), length)
        return _taken(itertools.permutations(items, length), count, path, report)
    if value.get("replacement"):
        count = math.comb(len(items) + length - 1, length)
        rows = itertools.combinations_with_replacement(items, length)
        return _taken(rows, count, path, report)
    count = math.comb(len(items), length)
    return _taken(itertools.combinations(items, length), count, path, report)


def _drawn(value: Mapping[str, Any], path: Path, report: Report) -> list[tuple[Any, ...]] | None:
    count, seed = value.get("generate"), value.get("seed")
    if count is None:
        return None
    if seed is None:
        report.note(path, "no seed: 0 is used, so that the run equals the preview")
    # Batch Shipyard draws the same numbers from the same seed.
    rng = random.Random(seed or 0)  # noqa: S311 - a sweep, no secret
    integer, distribution = value.get("integer"), value.get("distribution")
    if integer is not None:
        return _draw_whole(integer, count, rng, (*path, "integer"), report)
    kinds = [name for name in _DRAWS if (distribution or {}).get(name) is not None]
    if len(kinds) != 1:
        report.wrong(path, f"expected integer, or a distribution: one of {', '.join(_DRAWS)}")
        return None
    names, draw = _DRAWS[kinds[0]]
    parameters = distribution[kinds[0]] if distribution is not None else {}
    where = (*path, "distribution", kinds[0])
    arguments = [parameters.get(name) for name in names]
    if any(a is None for name, a in zip(names, arguments, strict=True) if name != "mode"):
        report.wrong(where, f"expected {', '.join(names)}")
        return None
    return _draw(lambda: draw(rng, *arguments), count, where, report)


def _draw_whole(
    integer: Mapping[str, Any], count: int, rng: random.Random, path: Path, report: Report
) -> list[tuple[Any, ...]] | None:
    start, stop, step = (integer.get(name) for name in ("start", "stop", "step"))
    if start is None or stop is None or step is None:
        return None
    return _draw(lambda: rng.randrange(start, stop, step), count, path, report)


def _draw(
    draw: Callable[[], Any], count: int, path: Path, report: Report
) -> list[tuple[Any, ...]] | None:
    def rows() -> Iterator[tuple[Any, ...]]:
        for _ in range(count):
            yield (draw(),)

    try:
        return _taken(rows(), count, path, report)
    except (ValueError, ZeroDivisionError, OverflowError, TypeError) as error:
        report.wrong(path, f"nothing can be drawn: {error}")
        return None
