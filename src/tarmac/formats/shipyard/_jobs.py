"""Jobs of Batch Shipyard's as jobs of ours.

Sources, all of Azure/batch-shipyard at bf190ec (3.9.1): the properties from schemas/, their rules
from docs/12 to docs/14 and docs/35, convoy/settings.py and convoy/batch.py; the form of before 3.0
from recipes/Chainer-GPU at 3329150.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from tarmac.errors import TarmacError
from tarmac.formats.shipyard._command import as_command, with_entrypoint
from tarmac.formats.shipyard._configuration import merge
from tarmac.formats.shipyard._data import read_resource_files, split_remote
from tarmac.formats.shipyard._factory import MOST_TASKS, kind_of, values_of
from tarmac.formats.shipyard._formatting import Template as Format
from tarmac.formats.shipyard._instances import command_of
from tarmac.formats.shipyard._listing import files_of
from tarmac.formats.shipyard._names import Names, job_name
from tarmac.formats.shipyard._pool import Pool
from tarmac.formats.shipyard._properties import check, without_secrets
from tarmac.formats.shipyard._registries import Registries
from tarmac.formats.shipyard._report import Report
from tarmac.formats.shipyard._tasks import Reader
from tarmac.formats.shipyard._volumes import Volumes
from tarmac.jobs import Job
from tarmac.jobs.documents import escape

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tarmac.formats.shipyard._report import Path
    from tarmac.formats.shipyard._tasks import Template
    from tarmac.jobs.documents import Document

    Lister = Callable[[str], Sequence[str]]

__all__ = ["ShipyardReading", "read_shipyard"]

_PREPARATION, _RELEASE = "job-preparation", "job-release"


@dataclasses.dataclass(frozen=True)
class ShipyardReading:
    """What a configuration holds.

    Attributes:
        jobs: In the order of the file.
        notes: What is read otherwise than Batch Shipyard would, or has no effect here.
        refusals: What keeps the jobs from being run here; they can be shown and converted.
    """

    jobs: Sequence[Job]
    notes: Sequence[str]
    refusals: Sequence[str]


def read_shipyard(
    documents: Sequence[Document], *, list_objects: Lister | None = None
) -> ShipyardReading:
    """Read a configuration of Batch Shipyard's. Nothing that it names is run or imported.

    Args:
        documents: Its files, later ones over earlier ones: config, credentials, pool, jobs.
        list_objects: Returns the URIs of what is below one, for factories over files; without it
            their tasks are not known, which is a refusal.

    Returns:
        A job for each, with the configuration kept in it, but for credentials and what else is
        secret.

    Raises:
        RequestError: Batch Shipyard would refuse it too, or does wrong by it; every problem is
            said, with its file, line, column, and path.
    """
    configuration = merge(documents)
    report = Report(configuration)
    value = check(configuration.value, report)
    specifications = value.get("job_specifications")
    if not specifications:
        report.wrong(
            ("job_specifications",) if "job_specifications" in value else (),
            "job_specifications is missing or empty",
            "give the jobs file too: tarmac run config.yaml pool.yaml jobs.yaml",
            rests_on=("job_specifications",),
        )
    kept = without_secrets(configuration.value)
    common = {key: part for key, part in kept.items() if key != "job_specifications"}
    jobs: list[Job] = []
    for number, specification in enumerate(specifications or ()):
        if specification is None:
            continue
        path: Path = ("job_specifications", number)
        own = kept["job_specifications"][number]
        maker = _Maker(value, specification, path, report, list_objects)
        job = maker.make({**common, "job_specifications": [own]})
        jobs += [job] if job is not None else []
    return ShipyardReading(jobs, *report.finish())


@dataclasses.dataclass
class _Made:
    """A task that is made, but for what depends on others."""

    id: str
    fields: dict[str, Any]
    template: Template
    is_merge: bool = False


class _Maker:
    """Makes one job."""

    def __init__(
        self,
        value: Mapping[str, Any],
        job: Mapping[str, Any],
        path: Path,
        report: Report,
        list_objects: Lister | None,
    ) -> None:
        self._job = job
        self._path = path
        self._report = report
        self._list_objects = list_objects
        self._accounts: dict[str, None] = {}
        self._pool = Pool(value.get("pool_specification"), report)
        self._reader = Reader(
            job,
            path,
            report,
            self._pool,
            Volumes(value, report),
            Registries(value, report),
            self._accounts,
        )
        defaults = (value.get("batch_shipyard") or {}).get("autogenerated_task_id") or {}
        given = [task for task in job.get("tasks") or () if task is not None]
        taken = [task["id"] for task in given if task.get("id")]
        self._names = Names(defaults, job.get("autogenerated_task_id") or {}, taken, report)

    def make(self, kept: dict[str, Any]) -> Job | None:
        """Return the job; None where something is wrong, which is reported."""
        tasks = self._job.get("tasks")
        if not tasks:
            self._report.wrong(self._path, "tasks is missing or empty", rests_on=("tasks",))
        made: list[_Made] = []
        groups = []
        for number, task in enumerate(tasks or ()):
            if task is not None:
                path = (*self._path, "tasks", number)
                group = self._tasks(task, path, len(made))
                groups.append((task, path, group))
                made += group
        known = {one.id: one for one in made}
        numbers = {int(one.id): one for one in made if re.fullmatch(r"0|[1-9]\d{0,18}", one.id)}
        for task, path, group in groups:
            needs = [*self._named_needs(task, path, known), *self._range_needs(task, path, numbers)]
            if needs:
                for one in group:
                    one.fields["needs"] = [*dict.fromkeys(needs)]
        merge_task = self._job.get("merge_task")
        if merge_task is not None:
            made += self._merge(merge_task, made)
        self._transfer(made)
        fields: dict[str, Any] = {"tasks": [task.fields for task in made]}
        self._prepare(fields)
        self._check_priority(fields)
        self._note_accounts()
        name = job_name(self._job.get("id"), (*self._path, "id"), self._report)
        if name is None or not made:
            return None
        try:
            return Job.model_validate({"name": name, **fields, "kept": {"shipyard": kept}})
        except ValidationError as error:
            said = error.errors()[0]
            where = ".".join(map(str, said["loc"]))
            message = said["msg"].removeprefix("Value error, ")
            self._report.wrong(self._path, f"{where}: {message}")
            return None

    def _tasks(self, task: Mapping[str, Any], path: Path, before: int) -> list[_Made]:
        """Return the tasks that one stands for."""
        template = self._reader.read(task, path)
        needs_bash = False
        if task.get("multi_instance") is not None:
            template.command, needs_bash = command_of(task, path, self._pool, self._report)
            files = task["multi_instance"].get("resource_files")
            if files:
                where = (*path, "multi_instance", "resource_files")
                more = read_resource_files(files, where, self._report)
                template.fields.setdefault("inputs", []).extend(more)
        factory = task.get("task_factory")
        if factory is None:
            task_id = self._names.take(task.get("id"), path)
            made = self._made(task_id, template, template.command, path, needs_bash=needs_bash)
            return [made] if made is not None else []
        if task.get("id"):
            self._report.wrong((*path, "id"), "a task factory makes the ids of its tasks itself")
        return self._from_factory(factory, template, path, before)

    def _from_factory(
        self, factory: Mapping[str, Any], template: Template, path: Path, before: int
    ) -> list[_Made]:
        where = (*path, "task_factory")
        kind = kind_of(factory, where, self._report)
        ids = factory.get("autogenerated_task_id") or {}
        if kind is None:
            return []
        if kind in ("custom", "file"):
            rows = self._rows_from_elsewhere(kind, factory[kind], (*where, kind))
        else:
            values = values_of(kind, factory, where, self._report)
            rows = None if values is None else [(row, {}, None) for row in values]
            if rows is None:
                return []
        if rows is None:
            # It is known that there are tasks, not which: one stands for them.
            task_id = self._names.take(None, path, ids)
            made = self._made(task_id, template, template.command, path)
            return [made] if made is not None else []
        if before + len(rows) > MOST_TASKS:
            self._report.wrong(where, f"the job has more than {MOST_TASKS:,} tasks")
            return []
        return self._filled(rows, template, path, ids, is_plain=kind == "repeat")

    def _rows_from_elsewhere(
        self, kind: str, value: Mapping[str, Any], path: Path
    ) -> list[tuple[Sequence[Any], Mapping[str, Any], dict[str, str] | None]] | None:
        if kind == "custom":
            self._report.refuse(
                path,
                f"its values come from the module {value.get('module')!r}, and a job file runs no "
                "code: write them out under parametric_sweep, product_iterables or zip",
            )
            return None
        storage = value.get("azure_storage")
        remote = None
        if storage is not None:
            remote = split_remote(storage, (*path, "azure_storage"), self._report)
        if storage is None or remote is None:
            self._report.wrong(path, "azure_storage is missing, or names no container")
            return None
        alias, container, prefix = remote
        self._accounts[alias] = None
        uri = f"az://{container}/{prefix}".rstrip("/")
        if self._list_objects is None:
            self._report.refuse(
                path,
                f"a task for each file of {uri}, which is not listed: set "
                "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
            )
            return None
        try:
            found = self._list_objects(uri)
        except TarmacError as error:
            self._report.refuse(path, error.message)
            return None
        rows = files_of(found, storage, value.get("task_filepath"))
        if not rows:
            self._report.refuse(path, f"{uri} has no files that match")
            return None
        return [((), named, given) for named, given in rows]

    def _filled(
        self,
        rows: Sequence[tuple[Sequence[Any], Mapping[str, Any], dict[str, str] | None]],
        template: Template,
        path: Path,
        ids: Mapping[str, Any],
        *,
        is_plain: bool,
    ) -> list[_Made]:
        made: list[_Made] = []
        try:
            command = None if is_plain or not template.command else Format(template.command)
            for values, named, given in rows:
                text = template.command if command is None else command.fill(values, named)
                task_id = self._names.take(None, path, ids)
                one = self._made(task_id, template, text, path)
                if one is None:
                    break
                if given is not None:
                    one.fields["inputs"] = [*one.fields.get("inputs", ()), given]
                made.append(one)
        except ValueError as error:
            self._report.wrong((*path, "command"), f"{template.command!r}: {error}")
        return made

    def _made(
        self,
        task_id: str | None,
        template: Template,
        text: str | None,
        path: Path,
        *,
        needs_bash: bool = False,
    ) -> _Made | None:
        if task_id is None:
            return None
        try:
            words = as_command(text) if text else None
            if needs_bash and text:
                words = ["/bin/bash", "-c", text]
            command, entrypoint = with_entrypoint(words, template.entrypoint)
        except ValueError as error:
            self._report.wrong((*path, "command"), f"{text!r}: {error}")
            return None
        if isinstance(command, str):
            self._report.note(
                (*path, "command"),
                "a shell of the node acts on it in Batch Shipyard; here it is sh in the container",
            )
        fields = dict(template.fields)
        fields["name"] = self._names.name_of(task_id)
        if isinstance(command, str):
            fields["command"] = escape(command)
        elif command:
            fields["command"] = [escape(word) for word in command]
        if entrypoint is not None:
            fields["environment"] = {**fields["environment"], "entrypoint": entrypoint}
        own = {"AZ_BATCH_JOB_ID": str(self._job.get("id")), "AZ_BATCH_TASK_ID": task_id}
        pool_id = self._pool.specification.get("id")
        if pool_id:
            own["AZ_BATCH_POOL_ID"] = str(pool_id)
        fields["env"] = own | fields["env"]
        return _Made(task_id, fields, template)

    def _named_needs(
        self, task: Mapping[str, Any], path: Path, known: Mapping[str, _Made]
    ) -> list[str]:
        needs = []
        for number, name in enumerate(task.get("depends_on") or ()):
            if name in known:
                needs.append(known[name].fields["name"])
            elif name is not None:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean {near[0]!r}?" if near else ""
                where = (*path, "depends_on", number)
                self._report.wrong(where, f"{name!r} is no task of this job", hint)
        return needs

    def _range_needs(
        self, task: Mapping[str, Any], path: Path, numbers: Mapping[int, _Made]
    ) -> list[str]:
        bounds = task.get("depends_on_range")
        where = (*path, "depends_on_range")
        if bounds is None:
            return []
        if len(bounds) != 2 or None in bounds or not bounds[0] <= bounds[1]:
            self._report.wrong(where, f"{bounds}: expected two numbers, the first and the last")
            return []
        needs = []
        # No longer than there are tasks, for the first that is missing ends it.
        for number in range(bounds[0], bounds[1] + 1):
            if number not in numbers:
                self._report.wrong(where, f"{bounds}: there is no task '{number}'")
                return []
            needs.append(numbers[number].fields["name"])
        return needs

    def _merge(self, task: Mapping[str, Any], made: Sequence[_Made]) -> list[_Made]:
        """Return the task that needs all others."""
        path = (*self._path, "merge_task")
        template = self._reader.read(task, path)
        task_id = self._names.take_merge(task.get("id"), path)
        one = self._made(task_id, template, template.command, path)
        if one is None:
            return []
        one.is_merge = True
        one.fields["needs"] = [other.fields["name"] for other in made]
        return [one]

    def _transfer(self, made: Sequence[_Made]) -> None:
        """Give tasks the files that they take from others, which they then need."""
        known = {one.id: one for one in made}
        job_id = self._job.get("id")
        for one in made:
            for transfer in one.template.transfers:
                if transfer.job != job_id:
                    self._report.refuse(
                        transfer.path,
                        f"files of the job {transfer.job!r} are not taken: let its task keep them "
                        "by output_data, and take them by azure_storage",
                    )
                    continue
                other = known.get(transfer.task)
                if other is None or other is one:
                    near = difflib.get_close_matches(transfer.task, known, n=1)
                    hint = f"did you mean {near[0]!r}?" if near else ""
                    where = (*transfer.path, "task_id")
                    said = "is the task itself" if other is one else "is no task of this job"
                    self._report.wrong(where, f"{transfer.task!r} {said}", hint)
                    continue
                place = f"shipyard-files/{job_id}/{other.id}"
                _keep_all(other, place)
                given: dict[str, Any] = {"from": place, "to": transfer.to}
                for name, patterns in (
                    ("include", transfer.include),
                    ("exclude", transfer.exclude),
                ):
                    if patterns:
                        given[name] = [*patterns]
                one.fields["inputs"] = [*one.fields.get("inputs", ()), given]
                needs = [*one.fields.get("needs", ()), other.fields["name"]]
                one.fields["needs"] = [*dict.fromkeys(needs)]
                self._report.note(
                    transfer.path, f"{transfer.task} is needed for it, and its files are in {place}"
                )

    def _prepare(self, fields: dict[str, Any]) -> None:
        """Add what comes before and after all tasks."""
        preparation = (self._job.get("job_preparation") or {}).get("command")
        if preparation:
            where = (*self._path, "job_preparation", "command")
            name = self._names.free(_PREPARATION)
            for task in fields["tasks"]:
                task["needs"] = [name, *task.get("needs", ())]
            fields["tasks"] = [_on_host(name, preparation), *fields["tasks"]]
            self._report.note(where, "is run on this machine itself, not in a container")
        release = (self._job.get("job_release") or {}).get("command")
        if release:
            where = (*self._path, "job_release", "command")
            fields["after_all"] = _on_host(self._names.free(_RELEASE), release)
            self._report.note(where, "is run on this machine itself, not in a container")

    def _check_priority(self, fields: dict[str, Any]) -> None:
        priority = self._job.get("priority")
        if priority is None:
            return
        if not -1000 <= priority <= 1000:
            self._report.wrong((*self._path, "priority"), f"{priority}: expected -1000..1000")
        fields["priority"] = priority

    def _note_accounts(self) -> None:
        if not self._accounts:
            return
        shown = ", ".join(self._accounts)
        if len(self._accounts) > 1:
            self._report.refuse(
                self._path, f"it uses the storage accounts {shown}, and a run can use one"
            )
        else:
            self._report.note(
                self._path,
                f"the storage account {shown} is taken from AZURE_STORAGE_ACCOUNT_NAME and "
                "AZURE_STORAGE_ACCOUNT_KEY",
            )


def _keep_all(one: _Made, place: str) -> None:
    kept = {"path": "*", "to": place, "when": "always"}
    outputs = one.fields.get("outputs", ())
    if kept not in outputs:
        one.fields["outputs"] = [*outputs, kept]


def _on_host(name: str, command: str) -> dict[str, Any]:
    # As the node runs it.
    line = f"set -e; set -o pipefail; {command}"
    return {
        "name": name,
        "environment": {"kind": "system"},
        "command": ["/bin/bash", "-c", escape(line)],
    }
