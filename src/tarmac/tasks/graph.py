"""Checks of a job as a whole: names and dependencies of tasks, placeholders, sweeps."""

from __future__ import annotations

import dataclasses
import difflib
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from tarmac.tasks.placeholders import escape, placeholders_in

if TYPE_CHECKING:
    from tarmac.tasks.model import Job, TaskSpec
    from tarmac.tasks.sweep import Sweep

# The plan of a million tasks takes 1.4 GB and 20 s of a core; more tasks usually come from a
# mistake in a sweep.
MAX_TASKS = 1_000_000

# Placeholders that have a value in every task.
_BUILT_IN = ("job.name", "task.name", "task.index", "tarmac.python")

# Fields with placeholders: those of a task alone, and those that a job sets for all tasks.
_OWN = ("command", "workload", "settings")
_SHARED = ("env", "inputs", "outputs")

_MAX_EXIT_CODE = 255
_MAX_SIGNAL = 64
# No program runs in less; a number without a unit is in bytes, and was meant as more.
_MIN_MEMORY_BYTES = 2**20

# The search for the nearest name is slow, and nobody reads more hints.
_MAX_HINTS = 20

_Path = tuple[str | int, ...]


@dataclasses.dataclass(frozen=True)
class Fault:
    """A fault in a job.

    Attributes:
        path: Keys and indexes that lead from the job to the value, named as in job files.
        message: Description of the fault.
        hint: Suggested remedy; empty where none is known.
        part: Part of the value's text that is at fault; empty for the whole value.
    """

    path: _Path
    message: str
    hint: str = ""
    part: str = ""


def faults_of(job: Job) -> list[Fault]:
    """Return the faults of a job as a whole: its graph, its placeholders and its numbers.

    Impossible exit codes and a memory of a few bytes are faults here and not errors of the model,
    because a run's record from an earlier version may hold them.
    """
    return [
        *graph_faults(job),
        *dict.fromkeys(_wrong_placeholders(job)),
        *_wrong_exit_codes(job),
        *_wrong_amounts(job),
    ]


def graph_faults(job: Job) -> list[Fault]:
    """Return the faults of a job's tasks: their names, dependencies and number.

    The number of tasks of a sweep over files is known only where the files are; see `too_many`.
    """
    return [*_wrong_names(job), *_wrong_needs(job), *_too_large(job)]


def too_many(number: int) -> str:
    """Return the message that refuses a number of tasks."""
    return f"makes {number:,} tasks, expected at most {MAX_TASKS:,} in a job"


def find_cycle(needs: Mapping[str, Sequence[str]]) -> list[str]:
    """Return a cycle of tasks, with the first task again at the end; empty without a cycle.

    Args:
        needs: Names of the tasks that each task needs, by task name; unknown names are ignored.
    """
    done: set[str] = set()
    for start in needs:
        path = [start]
        stack: list[tuple[str, Iterator[str]]] = [(start, iter(needs[start]))]
        on_path = {start}
        while stack and start not in done:
            name, rest = stack[-1]
            following = next(
                (other for other in rest if other in needs and other not in done), None
            )
            if following is None:
                stack.pop()
                path.pop()
                on_path.discard(name)
                done.add(name)
            elif following in on_path:
                return [*path[path.index(following) :], following]
            else:
                stack.append((following, iter(needs[following])))
                path.append(following)
                on_path.add(following)
    return []


def _specs(job: Job) -> list[tuple[_Path, TaskSpec]]:
    """Return a job's tasks with their paths, the task after all others last."""
    specs: list[tuple[_Path, TaskSpec]] = [
        (("tasks", number), task) for number, task in enumerate(job.tasks)
    ]
    return specs + ([(("after_all",), job.after_all)] if job.after_all is not None else [])


def _sweep_of(job: Job, spec: TaskSpec) -> Sweep | None:
    """Return the sweep of a task: its own or the job's, which the task after all others ignores."""
    return spec.sweep if spec.sweep is not None or spec is job.after_all else job.sweep


def _names_of(sweep: Sweep | None) -> tuple[str, ...]:
    return () if sweep is None else sweep.names


def _wrong_names(job: Job) -> Iterator[Fault]:
    # A job without tasks is a single task with the job's name.
    seen = set() if job.tasks else {job.name}
    for path, spec in _specs(job):
        if spec.name in seen:
            yield Fault((*path, "name"), f"two tasks have the name {spec.name!r}")
        seen.add(spec.name)


def _wrong_needs(job: Job) -> Iterator[Fault]:
    names = {task.name for task in job.tasks} or {job.name}
    num_hints = 0
    for path, spec in _specs(job):
        for number, needed in enumerate(spec.needs):
            if needed not in names:
                num_hints += 1
                others = tuple(sorted(names - {spec.name}))
                hint = _hint(needed, others) if num_hints <= _MAX_HINTS and others else ""
                message = f"unknown task that {spec.name!r} needs: {needed!r}"
                yield Fault((*path, "needs", number), message, hint)
    circle = find_cycle({task.name: task.needs for task in job.tasks})
    if circle:
        number, first = next((n, t) for n, t in enumerate(job.tasks) if t.name == circle[0])
        message = f"tasks need each other: {' -> '.join(circle)}"
        at = first.needs.index(circle[1]) if circle[1] in first.needs else 0
        yield Fault(("tasks", number, "needs", at), message)


def _too_large(job: Job) -> Iterator[Fault]:
    sweeps: list[tuple[_Path, Sweep | None]] = [] if job.tasks else [(("sweep",), job.sweep)]
    for path, spec in _specs(job):
        # The job's sweep applies to each task, and its path is the job's.
        sweeps.append(((*path, "sweep") if spec.sweep else ("sweep",), _sweep_of(job, spec)))
    total = 0
    for path, sweep in sweeps:
        total += 1 if sweep is None else sweep.size()
        if total > MAX_TASKS:
            yield Fault(path, too_many(total))
            return


def _settings(job: Job) -> list[tuple[_Path, Job | TaskSpec]]:
    """Return the job and its tasks with their paths."""
    return [((), job), *_specs(job)]


def _wrong_exit_codes(job: Job) -> Iterator[Fault]:
    for path, part in _settings(job):
        for number, code in enumerate(part.retries.exit_codes):
            at = (*path, "retries", "exit_codes", number)
            if code == 0:
                yield Fault(at, "0 is success, which is never retried")
            elif not (1 <= code <= _MAX_EXIT_CODE or 1 <= -code <= _MAX_SIGNAL):
                yield Fault(
                    at,
                    f"{code}: expected an exit code from 1 to {_MAX_EXIT_CODE}, or a signal's "
                    f"number as 128 + N or -N: 137 or -9 for SIGKILL",
                )


def _wrong_amounts(job: Job) -> Iterator[Fault]:
    for path, part in _settings(job):
        for name in ("memory", "gpu_memory", "shm"):
            value = getattr(part.resources, name)
            if value is not None and value < _MIN_MEMORY_BYTES:
                message = f"{value:,} bytes: expected at least 1 MiB"
                hint = f"For mebibytes: {value:.0f}MiB" if value == int(value) else ""
                yield Fault((*path, "resources", name), message, hint)


def _wrong_placeholders(job: Job) -> Iterator[Fault]:
    inherits: list[tuple[tuple[str, ...], Mapping[str, str]]] = []
    if not job.tasks:
        inherits.append((_names_of(job.sweep), {}))
        yield from _unknown_in(job, _OWN, (), _names_of(job.sweep))
    for path, spec in _specs(job):
        names = _names_of(_sweep_of(job, spec))
        inherits.append((names, spec.env))
        yield from _unknown_in(spec, (*_OWN, *_SHARED), path, names)
    for path, text in (pair for name in _SHARED for pair in _texts(getattr(job, name), (name,))):
        for used, written in placeholders_in(text):
            for names, env in inherits:
                hidden = path[0] == "env" and path[1] in env
                if not hidden and used not in (*names, *_BUILT_IN):
                    yield _no_value(path, used, written, names)
                    break


def _unknown_in(
    part: Job | TaskSpec, fields: Sequence[str], path: _Path, names: tuple[str, ...]
) -> Iterator[Fault]:
    for name in fields:
        for inner, text in _texts(getattr(part, name), (*path, name)):
            for used, written in placeholders_in(text):
                if used not in (*names, *_BUILT_IN):
                    yield _no_value(inner, used, written, names)


def _no_value(path: _Path, used: str, written: str, names: tuple[str, ...]) -> Fault:
    hint = f"{_hint(used, (*names, *_BUILT_IN))}\nFor literal braces: {escape(written)}"
    return Fault(path, f"{{{{ {used} }}}} has no value", hint, written)


@functools.lru_cache(maxsize=256)
def _hint(name: str, known: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(known[:20])}"


def _texts(value: Any, path: _Path) -> Iterator[tuple[_Path, str]]:
    """Yield the texts with placeholders in a value, with their paths."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, BaseModel):
        for name, field in type(value).model_fields.items():
            text = getattr(value, name)
            if isinstance(text, str):
                yield (*path, field.alias or name), text
    elif isinstance(value, tuple):
        for number, part in enumerate(value):
            yield from _texts(part, (*path, number))
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _texts(part, (*path, key))
