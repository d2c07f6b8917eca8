"""One trial after another, each kept in the run's directory before the next begins."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import math
import reprlib
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from tarmac.distribution import explained_imports
from tarmac.errors import TarmacError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from tarmac.formats import TunerSpec
    from tarmac.hkube.tuning.store import Trials


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class TrialEnd:
    """How a trial ended.

    Attributes:
        number: Number of the trial, from 1.
        of: Number of trials in all.
        params: Values of the trial's parameters, by name.
        value: What the objective pipeline gave; None where that is no number.
        best: The least value so far; None where there is none.
    """

    number: int
    of: int
    params: Mapping[str, Any]
    value: float | None
    best: float | None


async def tune(
    spec: TunerSpec,
    objective: Callable[[int, dict[str, Any]], Awaitable[Any]],
    directory: Path,
    watch: Callable[[TrialEnd], None] | None = None,
) -> dict[str, Any]:
    """Find the parameters for which the objective pipeline gives the least value.

    Trials are made one after another, as HKube does. They are kept in ``tuning.db`` in the
    directory; called again there, tuning goes on: trials that have ended are not made again, and
    the one that was under way is made again with the parameters that it had.

    Args:
        spec: Sampler, parameters and number of trials of the node.
        objective: Runs the objective pipeline. It is given the trial's number, from 0, which is the
            same again for a trial that is made again, and its parameters; it returns the results as
            HKube lists them: ``[{"nodeName": ..., "result": ...}]``. The first one's result, or the
            first element of that where it is a list, is the trial's value.
        directory: Directory of the node's task, which holds ``tuning.db``.
        watch: Receives the end of each trial. Default: none.

    Returns:
        The best trial's parameters, by name.

    Raises:
        TarmacError: What ``objective`` raised, which ends the tuning as it does in HKube; or the
            pipeline has no result; or no trial gave a number; or the trials cannot be kept.
        MissingExtraError: Optuna is not installed.
    """
    # What SQLite and the samplers do takes long enough to be felt by others in the loop. One
    # thread, since a connection of SQLite's belongs to one.
    with ThreadPoolExecutor(1, thread_name_prefix="tuning") as thread:
        call = functools.partial(asyncio.get_running_loop().run_in_executor, thread)
        trials = await call(_open, directory / "tuning.db", spec)
        try:
            while (trial := await call(trials.ask)) is not None:
                number, params = trial
                value, reason = _value(await objective(number, dict(params)))
                best = await call(trials.tell, value, reason)
                if watch is not None:
                    end = TrialEnd(
                        number=number + 1, of=spec.total, params=params, value=value, best=best
                    )
                    watch(end)
            return await call(trials.best)
        finally:
            thread.submit(trials.close)


def _open(path: Path, spec: TunerSpec) -> Trials:
    with explained_imports("search"):
        # Takes a second, which only those who tune shall wait for.
        from tarmac.hkube.tuning.store import Trials  # noqa: PLC0415
    return Trials(path, spec)


def _value(results: Any) -> tuple[float | None, str]:
    """Return a trial's value, or why it has none."""
    if not results:
        raise TarmacError("objective pipeline has no result")
    result = results[0].get("result")
    if isinstance(result, list) and result:
        result = result[0]
    try:
        value = float(result)
    except (TypeError, ValueError, OverflowError):
        return None, f"{reprlib.repr(result)} is no number"
    return (None, "nan is no number") if math.isnan(value) else (value, "")
