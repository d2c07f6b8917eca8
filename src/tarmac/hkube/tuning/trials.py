"""Sequential trials, each stored in the run's directory before the next starts."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import math
import reprlib
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tarmac.distribution import explained_imports
from tarmac.errors import TarmacError

if TYPE_CHECKING:
    from tarmac.formats import TunerSpec
    from tarmac.hkube.tuning.store import Trials


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class TrialEnd:
    """The end of a trial.

    Attributes:
        number: Number of the trial, from 1.
        of: Number of trials in all.
        params: Values of the trial's parameters, by name.
        value: Value of the objective pipeline. None: its result is not a number.
        best: Least value so far. None: no trial has a value.
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
    """Find the parameters with the least value of the objective pipeline.

    Trials run one after another, as in HKube, and are stored in ``tuning.db`` in the directory. A
    second call with the same directory resumes: it keeps ended trials, and runs the interrupted
    trial again with the same parameters.

    Args:
        spec: Sampler, parameters and number of trials of the node.
        objective: Function that runs the objective pipeline. It gets the trial's number, from 0,
            and its parameters; a repeated trial keeps its number. It returns the results in HKube's
            form: ``[{"nodeName": ..., "result": ...}]``. The trial's value is the first result, or
            the first element of a list.
        directory: Directory of the node's task, which holds ``tuning.db``.
        watch: Receives the end of each trial. Default: none.

    Returns:
        The best trial's parameters, by name.

    Raises:
        TarmacError: ``objective`` raised it, which ends the tuning as in HKube; or the pipeline has
            no result; or no trial has a number as its value; or the trials cannot be stored.
        MissingExtraError: Optuna is not installed.
    """
    # SQLite and the samplers would block the loop for too long. A single thread, because an SQLite
    # connection belongs to one thread.
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
        # The import takes a second, so only tuning pays for it.
        from tarmac.hkube.tuning.store import Trials  # noqa: PLC0415
    return Trials(path, spec)


def _value(results: Any) -> tuple[float | None, str]:
    """Return a trial's value, or None and the reason."""
    if not results:
        raise TarmacError("objective pipeline has no result")
    result = results[0].get("result")
    if isinstance(result, list) and result:
        result = result[0]
    try:
        value = float(result)
    except (TypeError, ValueError, OverflowError):
        return None, f"{reprlib.repr(result)} is not a number"
    return (None, "nan is not a number") if math.isnan(value) else (value, "")
