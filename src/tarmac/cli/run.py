"""``tarmac run`` and ``tarmac env``: parse, call, render."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tarmac.errors import RequestError, TarmacError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tarmac.formats import Reading
    from tarmac.jobs import Ended, Grant, Job, JobRun, Secret, Task

__all__ = ["command", "convert", "env"]

_COLOURS = {"succeeded": "green", "failed": "red", "skipped": "yellow", "interrupted": "yellow"}


@click.command("run", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("files", nargs=-1, metavar="[FILE]...", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Print the tasks, and start nothing.")
@click.option("--jobs", type=int, show_default="as many as fit", help="At most N tasks at once.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change a value of the file, e.g. resources.cpus=2 or name=other; may be repeated.",
)
@click.option(
    "--secret",
    "secrets",
    multiple=True,
    metavar="NAME/KEY=env:VAR",
    help="Where a named secret is to be found: env:VARIABLE or file:PATH; may be repeated.",
)
@click.option("--resume", metavar="RUN", help="Go on with a run: do what has not succeeded yet.")
@click.option("--follow", is_flag=True, help="Print what tasks print when they end.")
@click.option("--fake-gpus", type=int, default=0, help="Pretend GPUs, to try a file without any.")
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    show_default="TARMAC_RUNS or ./runs",
    help="Where runs are made.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON, and only that.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    files: Sequence[Path],
    dry_run: bool,
    jobs: int | None,
    settings: Sequence[str],
    secrets: Sequence[str],
    resume: str | None,
    follow: bool,
    fake_gpus: int,
    output: Path | None,
    as_json: bool,
) -> None:
    """Run job FILEs on this machine: each task when what it needs is done and there is room.

    A folder stands for the Batch Shipyard files in it.
    """
    from tarmac.jobs import create_run, find_run, plan_tasks, prepare

    mapping = _mapping(secrets)
    if bool(files) == (resume is not None):
        raise RequestError("expected job files, or --resume RUN", hint="tarmac run job.yaml")
    if jobs is not None and jobs < 1:
        raise RequestError(f"jobs is {jobs}, expected at least 1")
    if fake_gpus and not as_json:
        click.secho(
            f"{fake_gpus} GPUs are PRETENDED (--fake-gpus): programs will find none",
            fg="yellow",
            err=True,
        )
    if resume is not None:
        runs = [find_run(resume, output)]
        prepare(runs[0].job, runs[0].base, mapping, fake_gpus=fake_gpus)
    else:
        read = _read(files, settings, quiet=as_json, is_run=not dry_run)
        if dry_run:
            plans = [(job.name, tuple(plan_tasks(job, base))) for job, base in read]
            _print_plans(plans, as_json=as_json)
            return
        planned = [
            (job, base, prepare(job, base, mapping, fake_gpus=fake_gpus)) for job, base in read
        ]
        runs = [create_run(job, base, tasks, output) for job, base, tasks in planned]
    results = [
        _work(
            run,
            jobs=jobs,
            fake_gpus=fake_gpus,
            follow=follow,
            as_json=as_json,
            mapping=mapping,
        )
        for run in runs
    ]
    if as_json:
        click.echo(json.dumps(results, indent=2))
    ctx.exit(0 if all(result["ok"] for result in results) else 1)


def _read(
    files: Sequence[Path], settings: Sequence[str], *, quiet: bool, is_run: bool
) -> list[tuple[Job, Path]]:
    from tarmac.formats import read_paths

    def change(value: Any) -> None:
        for text in settings:
            key, separator, new = text.partition("=")
            if not separator or not key:
                raise RequestError(f"--set {text!r} is not of the form KEY=VALUE")
            _set(value, key.split("."), new)

    readings = read_paths(files, change=change, environment=os.environ)
    for reading, _ in readings:
        _say(reading, quiet=quiet, is_used=is_run)
    return [(job, base) for reading, base in readings for job in reading.jobs]


def _say(reading: Reading, *, quiet: bool, is_used: bool) -> None:
    """Print the notes on what was read; refuse to use what cannot be run."""
    if not quiet:
        for note in reading.notes:
            click.echo(f"note: {note}", err=True)
    if reading.refusals and is_used:
        first, *rest = reading.refusals
        more = "It can be shown all the same: --dry-run"
        raise RequestError(f"cannot be run here: {first}", hint="\n".join([*rest, more]))
    if not quiet:
        for refusal in reading.refusals:
            click.secho(f"cannot be run here: {refusal}", fg="yellow", err=True)


def _mapping(texts: Sequence[str]) -> dict[str, Secret]:
    from tarmac.jobs import Secret

    found = {}
    for text in texts:
        name, separator, place = text.partition("=")
        kind, _, value = place.partition(":")
        if not separator or kind not in ("env", "file") or not value:
            # What was given may be the secret itself.
            raise RequestError(
                f"--secret {name}=... is not of the form NAME/KEY=env:VARIABLE or =file:PATH"
            )
        found[name] = Secret(env=value) if kind == "env" else Secret(file=value)
    return found


def _set(value: Any, keys: Sequence[str], text: str) -> None:
    from tarmac.jobs.documents import parse_document

    *outer, last = keys
    for key in outer:
        if not isinstance(value, dict):
            raise RequestError(f"--set {'.'.join(keys)}: {key} is in no mapping")
        value = value.setdefault(key, {})
    if not isinstance(value, dict):
        raise RequestError(f"--set {'.'.join(keys)}: {last} is in no mapping")
    value[last] = parse_document(text, "--set").value if text else ""


def _work(
    run: JobRun,
    *,
    jobs: int | None,
    fake_gpus: int,
    follow: bool,
    as_json: bool,
    mapping: Mapping[str, Secret],
) -> dict[str, Any]:
    from tarmac.jobs import work_on

    watcher = _Watcher(run, follow=follow, quiet=as_json)
    if not as_json:
        click.echo(f"{run.job.name}: {len(run.tasks)} tasks  {run.path}")
    with _Signals() as stop:
        counts = work_on(
            run,
            watcher,
            concurrency=jobs,
            fake_gpus=fake_gpus,
            stop=lambda: stop.came,
            mapping=mapping,
        )
    summary = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
    ok = counts["succeeded"] == len(run.tasks)
    if not as_json:
        click.echo(f"{summary or 'nothing to do'}  {run.path}")
    if stop.came:
        raise TarmacError(
            "interrupted", hint=f"Go on with what is left: tarmac run --resume {run.path}"
        )
    if not ok and not as_json:
        click.echo(f"Again what has not succeeded: tarmac run --resume {run.path}", err=True)
    return {"path": str(run.path), "ok": ok, "counts": dict(counts), "tasks": watcher.rows}


class _Signals:
    """Notes the first SIGINT or SIGTERM; a second one acts as it did before."""

    def __init__(self) -> None:
        self.came = False
        self._before: Mapping[signal.Signals, Any] = {}

    def __enter__(self) -> _Signals:
        names = (signal.SIGINT, signal.SIGTERM)
        self._before = {name: signal.signal(name, self._note) for name in names}
        return self

    def __exit__(self, *_: object) -> None:
        for name, handler in self._before.items():
            signal.signal(name, handler)

    def _note(self, *_: object) -> None:
        self.came = True
        self.__exit__()


class _Watcher:
    """A line when a task begins, and one when it ends."""

    def __init__(self, run: JobRun, *, follow: bool, quiet: bool) -> None:
        self._run = run
        self._follow = follow
        self._quiet = quiet
        self.rows: list[dict[str, Any]] = []

    def started(self, task: Task, attempt: int, grant: Grant) -> None:
        if not self._quiet:
            again = f", attempt {attempt}" if attempt > 1 else ""
            gpus = f", {', '.join(grant.gpus)}" if grant.gpus else ""
            click.echo(f"  started    {task.name} ({grant.cpus:g} CPUs{gpus}{again})")

    def retrying(self, task: Task, reason: str, delay_s: float) -> None:
        if not self._quiet:
            click.secho(f"  retrying   {task.name} in {delay_s:g} s: {reason}", fg="yellow")

    def ended(self, ended: Ended) -> None:
        from tarmac.jobs import task_directory

        directory = task_directory(self._run.path, ended.task)
        self.rows.append(
            {
                "name": ended.task.name,
                "outcome": ended.outcome,
                "reason": ended.reason,
                "exit_code": ended.exit_code,
                "seconds": ended.seconds,
                "attempts": ended.attempts,
                "problems": [*ended.problems],
                "directory": str(directory),
            }
        )
        if self._quiet:
            return
        word = click.style(f"{ended.outcome:<10}", fg=_COLOURS[ended.outcome])
        reason = f": {ended.reason}" if ended.reason else ""
        click.echo(f"  {word} {ended.task.name} ({ended.seconds:.1f} s){reason}")
        for problem in ended.problems:
            click.echo(f"             {problem}")
        if self._follow:
            self._print(directory / "stdout")
        if self._follow or ended.outcome == "failed":
            self._print(directory / "stderr")
        if ended.outcome == "failed" and (directory / "stderr").exists():
            click.echo(f"             logs: {directory}")

    def _print(self, path: Path) -> None:
        if path.exists():
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
            for line in lines[-10:]:
                click.echo(f"             | {line}")


def _print_plans(plans: Sequence[tuple[str, Sequence[Task]]], *, as_json: bool) -> None:
    if as_json:
        rows = [
            {
                "job": name,
                "task": task.name,
                "command": [*task.command],
                "needs": [*task.needs],
                "resources": task.resources.model_dump(),
                "environment": task.environment.model_dump(),
                "env": dict(task.env) | {k: str(v) for k, v in task.secrets.items()},
                "inputs": [part.model_dump(by_alias=True) for part in task.inputs],
                "outputs": [part.model_dump() for part in task.outputs],
            }
            for name, tasks in plans
            for task in tasks
        ]
        click.echo(json.dumps(rows, indent=2))
        return
    for name, tasks in plans:
        click.secho(f"{name}: {len(tasks)} tasks", bold=True)
        for task in tasks:
            _print_task(task)


def _print_task(task: Task) -> None:
    needs = f" after {', '.join(task.needs)}" if task.needs else ""
    needs = " after all others" if task.is_last else needs
    click.echo(f"  {task.name}{needs}")
    click.echo(f"    $ {task.command_line()}")
    resources = task.resources
    memory = f", {resources.memory / 2**30:.2g} GiB" if resources.memory else ""
    gpus = f", {resources.gpus:g} GPUs" if resources.gpus else ""
    image = getattr(task.environment, "image", "")
    kind = f"{task.environment.kind} {image}".rstrip()
    limit = f", at most {task.timeout_s:g} s" if task.timeout_s is not None else ""
    again = f", retried {task.retries.count} times" if task.retries.count else ""
    click.echo(f"    {kind}, {resources.cpus:g} CPUs{memory}{gpus}{limit}{again}")
    for mount in getattr(task.environment, "mounts", ()):
        click.echo(f"    {mount.source} -> {mount.target}{' (read only)' * mount.read_only}")
    for key, text in task.env.items():
        click.echo(f"    {key}={text}")
    for key, secret in task.secrets.items():
        click.echo(f"    {key}={secret}")
    for given in task.inputs:
        click.echo(f"    {given.source} -> {given.to or '.'}")
    for output in task.outputs:
        click.echo(f"    {output.path} -> {output.to} ({output.when})")


@click.command("convert", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--to",
    "wanted",
    type=click.Choice(["tarmac", "shipyard", "hkube"]),
    default="tarmac",
    show_default=True,
)
def convert(files: Sequence[Path], wanted: str) -> None:
    """Print FILES in another format; what has no meaning there is kept in the job.

    A folder stands for the Batch Shipyard files in it.
    """
    import yaml

    from tarmac.formats import left_out_for_hkube, read_paths, write_hkube, write_shipyard

    readings = read_paths(files, environment=os.environ)
    for reading, _ in readings:
        _say(reading, quiet=False, is_used=wanted != "shipyard")
    jobs = [job for reading, _ in readings for job in reading.jobs]
    if wanted == "hkube":
        definitions = [write_hkube(job) for job in jobs]
        for job in jobs:
            lost = left_out_for_hkube(job)
            if lost:
                click.echo(f"note: {job.name}: left out for HKube: {', '.join(lost)}", err=True)
        click.echo(json.dumps(definitions if len(definitions) > 1 else definitions[0], indent=2))
        return
    if wanted == "shipyard":
        value, notes = write_shipyard(jobs, readings[0][1])
        for note in notes:
            click.echo(f"note: {note}", err=True)
        click.echo(yaml.safe_dump(value, sort_keys=False, width=100), nl=False)
        return
    dumped = [job.model_dump(mode="json", by_alias=True, exclude_unset=True) for job in jobs]
    if len(dumped) > 1:
        shown = " ".join(map(str, files))
        raise RequestError(
            f"{shown} holds {len(dumped)} jobs, and a file of Tarmac's holds one",
            hint=f"tarmac run {shown} runs them as they are",
        )
    click.echo(yaml.safe_dump(dumped[0], sort_keys=False), nl=False)


@click.group("env", context_settings={"help_option_names": ["-h", "--help"]})
def env() -> None:
    """List and remove the environments that were built for jobs."""


@env.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def _list(as_json: bool) -> None:
    """List built environments."""
    from tarmac.jobs import list_venvs

    found = list_venvs()
    if as_json:
        rows = [{"path": str(path), "requirements": text.splitlines()} for path, text in found]
        click.echo(json.dumps(rows, indent=2))
        return
    for path, text in found:
        click.echo(f"{path.name}  {', '.join(text.splitlines())}  {path}")


@env.command("rm")
@click.argument("name")
def _remove(name: str) -> None:
    """Remove the environment whose name begins with NAME."""
    from tarmac.jobs import remove_venv

    click.echo(f"removed {remove_venv(name)}")
