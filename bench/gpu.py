"""Shows on a machine with a GPU what Tarmac does there: tests, evidence and figures, in stages.

    python bench/gpu.py [--budget 540] [--out DIR] [--wheels wheels] [--stages NAMES] [--again]
    python bench/gpu.py --list
    python bench/gpu.py --adopt DIR

`make gpu` runs it. It needs a PyTorch that computes on the GPU, and no network, root or virtual
environment: what else is missing is installed from the wheels of `make wheels` into ``.gpu/site``.
MNIST is read from TARMAC_DATA; stages whose data are not there are skipped and say so.

Stages run most valuable first, each in a process of its own with a limit on its time, until the
budget ends; run again, it goes on. A stage is done when it has passed with these sources, on this
GPU, with this PyTorch. Results are written to bench/results under the GPU's name. ``--out`` also
gets all that has to leave the machine, in six files at most; on another machine ``--adopt`` takes
them into a checkout, and with them what is done.

Exit codes: 0 all stages passed or were skipped for a reason that is said, 1 some failed, 2 there is
no GPU here or the request was wrong, 75 some are left for another run.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import fcntl
import json
import os
import shutil
import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from _harness import GPU_NAME
from gpu_driver import CannotRunError
from gpu_driver.look import Machine, look
from gpu_driver.outbox import NotAdoptableError, adopt, fill, results_below
from gpu_driver.process import Ended, run_limited
from gpu_driver.records import (
    FAILED,
    OUT_OF_TIME,
    PASSED,
    SKIPPED,
    UNFINISHED,
    Record,
    Records,
    commit_of,
    fingerprint,
    write_whole,
)
from gpu_driver.site import prepare
from gpu_driver.table import STAGES, Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

ROOT = Path(__file__).parents[1]
LEFT = 75
# What ending a stage and writing the results takes at the end.
_RESERVE_S = 15.0
_MAX_OUTPUT = 8000


class _Stopped(BaseException):
    """A signal asked to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@dataclasses.dataclass
class Run:
    """One call of the program.

    Attributes:
        root: The repository.
        stages: Those that were asked for.
        records: What is known of stages.
        out: The directory for what leaves the machine.
        again: Whether to run also what has passed.
        lines: What was printed.
        out_error: Why ``out`` could not be written; empty where it could.
    """

    root: Path
    stages: Sequence[Stage]
    records: Records
    out: Path | None
    again: bool
    lines: list[str] = dataclasses.field(default_factory=list)
    out_error: str = ""

    @property
    def work(self) -> Path:
        """The directory of all that this program leaves beside results."""
        return self.root / ".gpu"

    def say(self, text: str) -> None:
        """Print a line, and keep it for the log."""
        self.lines.append(text)
        print(text, flush=True)

    def save(self) -> None:
        """Write what leaves the machine; a disk that is full ends nothing."""
        if self.out is None:
            return
        try:
            fill(self.out, self.records, self.work, "\n".join(self.lines) + "\n")
            self.out_error = ""
        except OSError as error:
            self.out_error = f"{self.out} could not be written: {error}"
            self.say(f"  {self.out_error}")


def main(
    words: Sequence[str] | None = None,
    *,
    root: Path = ROOT,
    stages: Sequence[Stage] = STAGES,
    ask: Callable[[Mapping[str, str]], Machine] = look,
) -> int:
    """Run the stages that are left; return the exit code.

    Args:
        words: The command line.
        root: The repository.
        stages: All there are, most valuable first.
        ask: Says which GPU is here.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--budget", type=float, default=540.0, metavar="SECONDS")
    parser.add_argument("--out", type=Path, metavar="DIR", help="gets all that leaves the machine")
    parser.add_argument("--wheels", type=Path, default=root / "wheels", metavar="DIR")
    parser.add_argument("--stages", default="", help="names, separated by commas; default: all")
    parser.add_argument("--again", action="store_true", help="run what has passed, too")
    parser.add_argument("--list", action="store_true", help="show the stages, and run none")
    parser.add_argument("--adopt", type=Path, metavar="DIR", help="take in what --out wrote")
    given = parser.parse_args(words)
    names = [name for name in given.stages.split(",") if name]
    known = {stage.name: stage for stage in stages}
    if unknown := [name for name in names if name not in known]:
        print(f"There is no stage {', '.join(unknown)}; there are: {', '.join(known)}")
        return 2
    run = Run(
        root=root,
        stages=[stage for stage in stages if not names or stage.name in names],
        records=Records(root / ".gpu" / "stages"),
        out=given.out,
        again=given.again,
    )
    if given.adopt is not None:
        return _adopt(run, given.adopt)
    if given.list:
        _list(run)
        return 0
    try:
        with _signals_end(), _alone(run.work):
            return _run(run, given.budget, given.wheels, ask)
    except CannotRunError as error:
        run.say(f"{error}\nNothing was run.")
        return 2
    except _Stopped as stopped:
        run.say(f"Stopped by {signal.Signals(stopped.number).name}; run it again to go on.")
        run.save()
        return 128 + stopped.number


def _run(
    run: Run, budget_s: float, wheels: Path, ask: Callable[[Mapping[str, str]], Machine]
) -> int:
    end = time.monotonic() + budget_s - _RESERVE_S
    site = run.work / "site"
    environment = _environment(run.root, site)
    machine = ask(environment)
    run.say(f"{machine.device}, PyTorch {machine.torch} for CUDA {machine.cuda}")
    run.say(f"import torch {machine.import_s:.1f} s, first sum {machine.context_s:.1f} s")
    closure = prepare(run.root, wheels, site)
    if closure.brought:
        run.say(f"from wheels: {', '.join(sorted(closure.brought))}")
    _take_state(run)
    waiting = _order(run, machine)
    has_run = False
    for stage in waiting:
        left = end - time.monotonic()
        estimate = _estimate(stage, run.records.read().get(stage.name), machine)
        if estimate > left:
            run.say(
                f"{stage.name}: left, takes some {estimate:.0f} s and {max(left, 0):.0f} are left"
            )
            continue
        has_run = True
        if not _run_stage(run, stage, machine, environment, left):
            run.say("What was killed does not end: nothing more can be run on this GPU.")
            break
    if not has_run and waiting:
        # Its time is an estimate: it gets all of a budget that no stage would fit in.
        _run_stage(run, waiting[0], machine, environment, max(end - time.monotonic(), 1.0))
    run.save()
    return _conclude(run, machine)


def _run_stage(
    run: Run, stage: Stage, machine: Machine, environment: Mapping[str, str], left_s: float
) -> bool:
    """Run a stage and keep how it ended; return whether all of it has ended."""
    directory = run.work / "running" / stage.name
    shutil.rmtree(directory.parent, ignore_errors=True)
    directory.mkdir(parents=True)
    limit = min(stage.limit_s, left_s)
    run.say(f"{stage.name}: {stage.purpose}")
    started, stopped = time.monotonic(), None
    try:
        ended = run_limited(
            [*stage.argv, str(directory), f"{limit:.1f}"],
            limit_s=limit,
            directory=run.root,
            environment={
                **environment,
                "TARMAC_RUNS": str(directory / "scratch" / "runs"),
                GPU_NAME: machine.device,
            },
            output=directory / "output.txt",
        )
    except _Stopped as error:
        # What it had measured so far is kept like that of any other.
        ended, stopped = Ended(code=None, is_gone=True), error
    seconds = time.monotonic() - started
    output = (directory / "output.txt").read_text(encoding="utf-8", errors="replace")
    answer = _answer(directory / "answer.json")
    status, why = _judge(ended.code, answer, limit, is_budget=limit < stage.limit_s)
    if stopped is not None:
        status, why = UNFINISHED, "it was stopped"
    for name, data in results_below(directory / "results").items():
        # Of a stage that did not pass, the record has what it measured.
        if status == PASSED:
            write_whole(run.work / "results" / name, data)
            write_whole(run.root / name, data)
    for path in (directory / "artifacts").glob("*"):
        write_whole(run.work / "artifacts" / path.name, path.read_bytes())
    commit, dirty = commit_of(run.root)
    run.records.write(
        Record(
            stage=stage.name,
            status=status,
            why=why,
            seconds=round(seconds, 2),
            device=machine.device,
            driver=answer.get("machine", {}).get("driver") or "",
            torch=machine.torch,
            source=fingerprint(run.root, stage.files),
            commit=commit,
            dirty=dirty,
            date=datetime.now(UTC).isoformat(),
            result=answer.get("result", {}),
            errors=answer.get("errors", {}),
            machine=answer.get("machine", {}),
            output="" if status == PASSED else output[-_MAX_OUTPUT:],
        )
    )
    run.lines += [f"  | {line}" for line in output.splitlines()]
    run.say(f"  {status} in {seconds:.1f} s{': ' if why else ''}{why}")
    shutil.rmtree(directory.parent, ignore_errors=True)
    run.save()
    if stopped is not None:
        raise stopped
    return ended.is_gone


def _answer(path: Path) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError):
        return dict(json.loads(path.read_text(encoding="utf-8")))
    return {}


def _judge(
    code: int | None, answer: Mapping[str, Any], limit_s: float, *, is_budget: bool
) -> tuple[str, str]:
    """Return a stage's status, and why it did not pass."""
    errors: Mapping[str, str] = answer.get("errors", {})
    if code is None:
        if is_budget:
            return UNFINISHED, "the budget ended"
        return OUT_OF_TIME, f"its limit is {limit_s:g} s"
    if code == 0 and answer.get("skipped"):
        return SKIPPED, answer["skipped"].splitlines()[0]
    if errors:
        name, text = next(iter(errors.items()))
        others = f", and {len(errors) - 1} more" if len(errors) > 1 else ""
        return FAILED, f"{name}: {text.splitlines()[0][:300]}{others}"
    if code != 0:
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return FAILED, f"it crashed: {how}"
    return (PASSED, "") if answer else (FAILED, "it left no answer")


def _order(run: Run, machine: Machine) -> list[Stage]:
    """Return the stages that are not done, those first that say something new.

    What failed with the same sources will likely fail again, and what passed with others will
    likely pass: both come after what has not been seen.
    """
    known = run.records.read()

    def rank(stage: Stage) -> int | None:
        record = known.get(stage.name)
        if record is None or record.status == SKIPPED:
            return 0
        is_same = record.holds_for(
            fingerprint(run.root, stage.files), machine.device, machine.torch
        )
        if record.status == PASSED:
            return 2 if run.again or not is_same else None
        return 1 if is_same and record.status != UNFINISHED else 0

    ranked = [(rank(stage), stage) for stage in run.stages]
    return [
        stage
        for _, stage in sorted(
            ((place, stage) for place, stage in ranked if place is not None),
            key=lambda pair: pair[0],
        )
    ]


def _estimate(stage: Stage, record: Record | None, machine: Machine) -> float:
    if record is None or record.device != machine.device:
        return stage.seconds
    if record.status == PASSED:
        return record.seconds
    return max(stage.seconds, record.seconds) if record.status == UNFINISHED else stage.seconds


def _conclude(run: Run, machine: Machine) -> int:
    known = run.records.read()
    done, failed, left = [], [], []
    for stage in run.stages:
        record = known.get(stage.name)
        if (
            record is None
            or record.status == UNFINISHED
            or not record.holds_for(
                fingerprint(run.root, stage.files), machine.device, machine.torch
            )
        ):
            left.append(stage.name)
        elif record.status in {PASSED, SKIPPED}:
            done.append(stage.name)
        else:
            failed.append(stage.name)
    for title, names in (("done", done), ("failed", failed), ("left", left)):
        if names:
            run.say(f"{title}: {', '.join(names)}")
    if left:
        run.say("Run it again to go on.")
    run.save()
    if run.out_error:
        return 1
    return LEFT if left else int(bool(failed))


def _adopt(run: Run, directory: Path) -> int:
    try:
        with _alone(run.work):
            written = adopt(directory, run.root, run.records, run.work)
    except NotAdoptableError as error:
        print(error)
        return 2
    commit, dirty = commit_of(run.root)
    for stage in run.stages:
        record = run.records.read().get(stage.name)
        if record is None or record.commit is not None:
            continue
        # There was no git where it was made; equal sources are of this commit.
        if record.source == fingerprint(run.root, stage.files):
            run.records.write(dataclasses.replace(record, commit=commit, dirty=dirty))
    for name in written:
        print(name)
    _list(run)
    return 0


def _list(run: Run) -> None:
    known = run.records.read()
    for stage in run.stages:
        record = known.get(stage.name)
        state = f"~{stage.seconds:.0f} s, not run"
        if record is not None:
            is_same = record.source == fingerprint(run.root, stage.files)
            age = "" if is_same else ", with other sources"
            why = f": {record.why}" if record.why else ""
            state = f"{record.status} in {record.seconds:.0f} s, {record.device}{age}{why}"
        print(f"{stage.name:<12}{stage.purpose:<60} {state}")


def _take_state(run: Run) -> None:
    """Go on from what ``out`` holds, such as the files of an earlier machine."""
    state = None if run.out is None else run.out / "state.json"
    if state is not None and state.exists():
        with contextlib.suppress(OSError, ValueError):
            taken = run.records.take(state.read_text(encoding="utf-8"), run.records.read())
            if taken:
                run.say(f"{taken} stages are known from {state}")


def _environment(root: Path, site: Path) -> dict[str, str]:
    paths = [str(root / "src"), str(site), os.environ.get("PYTHONPATH", "")]
    path = os.pathsep.join(part for part in paths if part)
    # What a stage has printed before it crashed tells why.
    return {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}


@contextlib.contextmanager
def _alone(work: Path) -> Iterator[None]:
    """Hold the directory, so that no two runs measure at the same time."""
    work.mkdir(exist_ok=True)
    with (work / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise CannotRunError(f"Another run is at work, which holds {lock.name}.") from None
        yield


@contextlib.contextmanager
def _signals_end() -> Iterator[None]:
    def end(number: int, _frame: object) -> None:
        raise _Stopped(number)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, end) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


if __name__ == "__main__":
    sys.exit(main())
