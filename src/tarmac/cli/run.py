"""``tarmac run`` and ``tarmac env``: parse, call, render."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tarmac.errors import RequestError, TarmacError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tarmac.jobs import Job, JobRun, Machine, Secret, Task

__all__ = ["command", "convert", "env", "submit"]


def _job_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say which job, and within what."""
    options = (
        click.option(
            "--jobs", type=int, show_default="as many as fit", help="At most N tasks at once."
        ),
        click.option(
            "--set",
            "settings",
            multiple=True,
            metavar="KEY=VALUE",
            help="Change a value of the file, e.g. resources.cpus=2; may be repeated.",
        ),
        click.option(
            "--secret",
            "secrets",
            multiple=True,
            metavar="NAME/KEY=env:VAR",
            help="Where a named secret is to be found: env:VARIABLE or file:PATH; may be repeated.",
        ),
        click.option(
            "--on",
            type=click.Choice(["local"]),
            default="local",
            show_default=True,
            help="Where tasks run: on this machine.",
        ),
        click.option(
            "--fake-gpus",
            type=click.IntRange(min=0),
            default=0,
            help="Pretend GPUs, to try a file without any.",
        ),
        click.option(
            "--output",
            type=click.Path(path_type=Path),
            show_default="TARMAC_RUNS or ./runs",
            help="Where runs are made.",
        ),
        click.option(
            "--json", "as_json", is_flag=True, help="Print the result as JSON, and only that."
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


@click.command("run", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("files", nargs=-1, metavar="[FILE]...", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Print the tasks, and start nothing.")
@click.option("--resume", metavar="RUN", help="Go on with a run: do what has not succeeded yet.")
@click.option("--follow", is_flag=True, help="Print what tasks print, as they print it.")
@_job_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    files: Sequence[Path],
    dry_run: bool,
    resume: str | None,
    follow: bool,
    jobs: int | None,
    settings: Sequence[str],
    secrets: Sequence[str],
    on: str,  # noqa: ARG001 - there is one place so far, which click has checked
    fake_gpus: int,
    output: Path | None,
    as_json: bool,
) -> None:
    """Run job FILEs on this machine: each task when what it needs is done and there is room."""
    from tarmac.jobs import create_run, find_run, prepare

    if bool(files) == (resume is not None):
        raise RequestError("expected job files, or --resume RUN", hint="tarmac run job.yaml")
    mapping = _asked(jobs, secrets, fake_gpus, quiet=as_json)
    if resume is not None:
        runs = [find_run(resume, output)]
        prepare(runs[0].job, runs[0].base, mapping, fake_gpus=fake_gpus)
    else:
        read = [pair for path in files for pair in _read(path, settings, quiet=as_json)]
        if dry_run:
            _print_plans(read, fake_gpus=fake_gpus, as_json=as_json)
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


@click.command("submit", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@_job_options
def submit(
    files: Sequence[Path],
    jobs: int | None,
    settings: Sequence[str],
    secrets: Sequence[str],
    on: str,  # noqa: ARG001 - there is one place so far, which click has checked
    fake_gpus: int,
    output: Path | None,
    as_json: bool,
) -> None:
    """Run job FILEs in the background; see tarmac ps, logs and cancel."""
    from tarmac.jobs import create_run, prepare, start_runner

    mapping = _asked(jobs, secrets, fake_gpus, quiet=as_json)
    planned = [
        (job, base, prepare(job, base, mapping, fake_gpus=fake_gpus))
        for path in files
        for job, base in _read(path, settings, quiet=as_json)
    ]
    paths = []
    for job, base, tasks in planned:
        run = create_run(job, base, tasks, output)
        start_runner(run, concurrency=jobs, fake_gpus=fake_gpus, secrets=_mapping(secrets))
        paths.append(str(run.path))
        if not as_json:
            click.echo(f"{job.name}: {len(tasks)} tasks  {run.path}")
    if as_json:
        click.echo(json.dumps([{"path": path} for path in paths], indent=2))
    else:
        click.echo("Watch: tarmac ps, tarmac logs latest --follow. End: tarmac cancel latest")


def _asked(
    jobs: int | None, secrets: Sequence[str], fake_gpus: int, *, quiet: bool
) -> dict[str, Secret]:
    """Check what `_job_options` give, and return what names of secrets stand for."""
    from tarmac.jobs import read_secret_mapping

    if jobs is not None and jobs < 1:
        raise RequestError(f"jobs is {jobs}, expected at least 1")
    if fake_gpus and not quiet:
        click.secho(
            f"{fake_gpus} GPUs are PRETENDED (--fake-gpus): programs will find none",
            fg="yellow",
            err=True,
        )
    return read_secret_mapping() | _mapping(secrets)


def _read(path: Path, settings: Sequence[str], *, quiet: bool) -> list[tuple[Job, Path]]:
    from tarmac.formats import read_any
    from tarmac.jobs.documents import read_document

    document = read_document(path)
    for text in settings:
        key, separator, value = text.partition("=")
        if not separator or not key:
            raise RequestError(f"--set {text!r} is not of the form KEY=VALUE")
        _set(document.value, key.split("."), value)
    reading = read_any(document)
    if not quiet:
        for note in reading.notes:
            click.echo(f"note: {note}", err=True)
    return [(job, path.resolve().parent) for job in reading.jobs]


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
    from tarmac.cli._job_progress import progress_of
    from tarmac.jobs import work_on

    if not as_json:
        click.echo(f"{run.job.name}: {len(run.tasks)} tasks  {run.path}")
    # A job that wants no GPU need not wait for a look at them.
    if not fake_gpus and any(task.resources.gpus for task in run.tasks):
        from tarmac.cli._checked import check_into

        check_into(run.path, quiet=as_json)
    with _Signals() as stop, progress_of(run, follow=follow, quiet=as_json) as watcher:
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


def _print_plans(read: Sequence[tuple[Job, Path]], *, fake_gpus: int, as_json: bool) -> None:
    from tarmac.jobs import plan_tasks, read_machine

    machine = read_machine(fake_gpus=fake_gpus)
    plans = [(job.name, tuple(plan_tasks(job, base))) for job, base in read]
    if as_json:
        rows = [
            {
                "job": name,
                "task": task.name,
                "command": [*task.command],
                "needs": [*task.needs],
                "resources": task.resources.model_dump(),
                "gpus_from": [gpu.uuid for gpu in machine.candidates(task.resources)],
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
            _print_task(task, machine)


def _print_task(task: Task, machine: Machine) -> None:
    needs = f" after {', '.join(task.needs)}" if task.needs else ""
    needs = " after all others" if task.is_last else needs
    click.echo(f"  {task.name}{needs}")
    click.echo(f"    $ {task.command_line()}")
    resources = task.resources
    memory = f", {resources.memory / 2**30:.2g} GiB" if resources.memory else ""
    click.echo(f"    {task.environment.kind}, {resources.cpus:g} CPUs{memory}")
    if resources.gpus:
        found = [f"{gpu.name} {gpu.uuid}" for gpu in machine.candidates(resources)]
        of = f"of {', '.join(found)}" if found else "which this machine does not have"
        click.echo(f"    {resources.gpus:g} GPUs, {of}")
    for key, text in task.env.items():
        click.echo(f"    {key}={text}")
    for key, secret in task.secrets.items():
        click.echo(f"    {key}={secret}")
    for given in task.inputs:
        click.echo(f"    {given.source} -> {given.to or '.'}")
    for output in task.outputs:
        click.echo(f"    {output.path} -> {output.to} ({output.when})")


@click.command("convert", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--to", "wanted", type=click.Choice(["tarmac", "hkube"]), default="tarmac", show_default=True
)
def convert(file: Path, wanted: str) -> None:
    """Print FILE in another format; what has no meaning there is kept in the job."""
    import yaml

    from tarmac.formats import read_any, write_hkube
    from tarmac.jobs.documents import read_document

    reading = read_any(read_document(file))
    for note in reading.notes:
        click.echo(f"note: {note}", err=True)
    if wanted == "hkube":
        definitions = [write_hkube(job) for job in reading.jobs]
        click.echo(json.dumps(definitions if len(definitions) > 1 else definitions[0], indent=2))
        return
    dumped = [
        job.model_dump(mode="json", by_alias=True, exclude_unset=True) for job in reading.jobs
    ]
    if len(dumped) > 1:
        raise RequestError(
            f"{file} holds {len(dumped)} jobs, and a file of Tarmac's holds one",
            hint=f"tarmac run {file} runs them as they are",
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
