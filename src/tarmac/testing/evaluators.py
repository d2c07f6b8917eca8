"""A conformance suite for evaluators: `tarmac.studies.Evaluator`.

Example::

    import pytest
    from tarmac.testing.evaluators import EVALUATOR_CHECKS, EvaluatorCase

    @pytest.mark.parametrize("check", EVALUATOR_CHECKS)
    def test_mine_is_an_evaluator(check):
        good = [
            Candidate(number=n, settings={"neurons": 8 << n}, seed=n, epochs=3) for n in range(4)
        ]
        check(EvaluatorCase(open=my_evaluator, good=good))

Each check raises an `AssertionError` that describes the failure.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tarmac.studies import Candidate, Evaluator, Progress, Result

_AT_THE_END = ("epochs", "num_parameters", "seconds")


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluatorCase:
    """An evaluator under test, and candidates for it.

    Attributes:
        open: Function that returns a context manager with the evaluator. It ends all processes of
            the evaluator on exit.
        good: At least three candidates that train without an error, all for the same number of
            epochs, at least 2.
        failing: Candidates that fail, each in another way: an invalid setting, an exception, or a
            loss of NaN.
        fatal: Candidates that kill the process in which they train. Empty for an evaluator that
            trains in its caller's process.
        tolerance: Maximum relative difference of a metric between groupings of candidates. Batched
            products may sum in another order than single ones.
        metrics: Metrics of the candidates' workload, beside the loss.
    """

    open: Callable[[], AbstractContextManager[Evaluator]]
    good: Sequence[Candidate]
    failing: Sequence[Candidate] = ()
    fatal: Sequence[Candidate] = ()
    tolerance: float = 1e-3
    metrics: Sequence[str] = ("accuracy",)

    @property
    def after_each_epoch(self) -> tuple[str, ...]:
        """The metrics that each epoch of a candidate reports."""
        names = ("loss", *self.metrics)
        return (*names, *(f"val_{name}" for name in names))


def _never(progress: Progress) -> bool:  # noqa: ARG001 - the interface's signature
    return False


def _by_number(results: Sequence[Result]) -> dict[int, Result]:
    numbers = [result.number for result in results]
    assert len(set(numbers)) == len(numbers), f"candidates with two results: {sorted(numbers)}"
    return {result.number: result for result in results}


def _check_whole(case: EvaluatorCase, result: Result, candidate: Candidate) -> None:
    assert result.error is None, f"candidate {candidate.number} failed: {result.error}"
    assert not result.stopped, f"candidate {candidate.number} stopped without a stop request"
    names = (*case.after_each_epoch, *_AT_THE_END)
    missing = [name for name in names if name not in result.metrics]
    assert not missing, f"the result of candidate {candidate.number} lacks {missing}"
    assert result.metrics["epochs"] == candidate.epochs, (
        f"candidate {candidate.number} trained {result.metrics['epochs']} epochs, "
        f"not {candidate.epochs}"
    )


def check_every_candidate_has_one_result(case: EvaluatorCase) -> None:
    """Check that each candidate has one result, and reports each epoch once and in order."""
    epochs: dict[int, list[int]] = {candidate.number: [] for candidate in case.good}

    def report(progress: Progress) -> bool:
        missing = [name for name in case.after_each_epoch if name not in progress.metrics]
        assert not missing, f"an epoch of candidate {progress.number} lacks {missing}"
        epochs[progress.number].append(progress.epoch)
        return False

    with case.open() as evaluator:
        results = _by_number([*evaluator.evaluate(case.good, report)])
        nothing = [*evaluator.evaluate([], report)]
    assert not nothing, f"results without candidates: {nothing}"
    assert results.keys() == epochs.keys(), f"results of {sorted(results)}, not {[*epochs]}"
    for candidate in case.good:
        _check_whole(case, results[candidate.number], candidate)
        expected = [*range(1, candidate.epochs + 1)]
        assert epochs[candidate.number] == expected, (
            f"candidate {candidate.number} reported epochs {epochs[candidate.number]}"
        )


def check_stop_requests_stop_one_candidate(case: EvaluatorCase) -> None:
    """Check that a stop request after the first epoch stops only its candidate."""
    loser = case.good[1].number
    epochs: list[int] = []

    def report(progress: Progress) -> bool:
        if progress.number == loser:
            epochs.append(progress.epoch)
        return progress.number == loser

    with case.open() as evaluator:
        results = _by_number([*evaluator.evaluate(case.good, report)])
    assert epochs == [1], f"after a stop request, epochs {epochs} were reported"
    assert results[loser].stopped, "a stopped candidate has stopped=False"
    assert results[loser].error is None, f"a stopped candidate has an error: {results[loser].error}"
    for candidate in case.good:
        if candidate.number != loser:
            _check_whole(case, results[candidate.number], candidate)


def check_failures_affect_no_other_candidate(case: EvaluatorCase) -> None:
    """Check that a candidate's failure, or the death of its process, fails no other candidate."""
    bad = (*case.failing, *case.fatal)
    if not bad:
        return
    middle = len(case.good) // 2
    mixed = [*case.good[:middle], *bad, *case.good[middle:]]
    with case.open() as evaluator:
        results = _by_number([*evaluator.evaluate(mixed, _never)])
        again = _by_number([*evaluator.evaluate(case.good[:1], _never)])
    for candidate in bad:
        assert candidate.number in results, f"candidate {candidate.number} has no result"
        error = results[candidate.number].error
        assert error, f"candidate {candidate.number} has no error"
    for candidate in case.good:
        assert candidate.number in results, f"candidate {candidate.number} has no result"
        _check_whole(case, results[candidate.number], candidate)
    _check_whole(case, again[case.good[0].number], case.good[0])


def check_results_do_not_depend_on_grouping(case: EvaluatorCase) -> None:
    """Check that a result depends neither on the order nor on the grouping of candidates."""
    with case.open() as evaluator:
        first = _by_number([*evaluator.evaluate(case.good, _never)])
        reverse = _by_number([*evaluator.evaluate([*case.good][::-1], _never)])
        alone = _by_number(
            [result for member in case.good for result in evaluator.evaluate([member], _never)]
        )
    for candidate in case.good:
        for name in case.after_each_epoch:
            values = [group[candidate.number].metrics[name] for group in (first, reverse, alone)]
            near = [math.isclose(v, values[0], rel_tol=case.tolerance) for v in values]
            assert all(near), (
                f"{name} of candidate {candidate.number} is {values[0]} with all others, "
                f"{values[1]} in reverse order and {values[2]} alone"
            )


def check_closing_stops_training(case: EvaluatorCase) -> None:
    """Check that closing the results stops all training, and that the next call works."""
    numbers: list[int] = []

    def report(progress: Progress) -> bool:
        numbers.append(progress.number)
        return False

    with case.open() as evaluator:
        results = evaluator.evaluate(case.good, report)
        next(results)
        results.close()  # type: ignore[attr-defined]  # evaluators are generators
        so_far = len(numbers)
        again = _by_number([*evaluator.evaluate(case.good[:1], _never)])
    _check_whole(case, again[case.good[0].number], case.good[0])
    assert len(numbers) == so_far, "candidates reported epochs after the results were closed"


EVALUATOR_CHECKS: tuple[Callable[[EvaluatorCase], None], ...] = (
    check_every_candidate_has_one_result,
    check_stop_requests_stop_one_candidate,
    check_failures_affect_no_other_candidate,
    check_results_do_not_depend_on_grouping,
    check_closing_stops_training,
)
