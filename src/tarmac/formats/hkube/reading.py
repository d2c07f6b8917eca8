"""Algorithm definitions read into jobs.

Source of the fields' meaning: kube-HPC/hkube at 261d3d06, core/task-executor/lib/reconcile. Source
of hkubectl's form: kube-HPC/hkubectl at 34c2c9a, commands/store/algorithms/applyImpl.js.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from tarmac.documents import Document, Problem, refuse, show_path
from tarmac.formats.hkube.coercion import text_of_scalar
from tarmac.formats.hkube.definition import Definition
from tarmac.formats.hkube.fields import (
    KNOWN,
    MEANT,
    NAME,
    Field,
    Path,
    definition_as_written,
    flatten,
    is_pipeline,
    message,
)
from tarmac.formats.original import with_original
from tarmac.jobs import Job, Secret, escape

# HKube's defaults, from api-server and task-executor.
_DEFAULT_CPU, _DEFAULT_MEMORY = 0.1, 256 * 2**20
_MAX_NOTES = 20

_REQUESTS = (
    "cpu and mem are what HKube sets aside for an algorithm, which may take twice as much there; "
    f"here they are limits, by default {_DEFAULT_CPU} CPUs and {_DEFAULT_MEMORY // 2**20} MiB: "
    "write more where an algorithm needs it"
)


_BUILT = (
    "HKube builds this algorithm's image from its code, which is not done here: give the image as "
    "algorithmImage"
)
# Image in the job until HKube builds the real one. No run starts with it.
_TO_BE_BUILT = "built-by-hkube"
# Fields from which HKube builds an image if a definition has none. Any of the first is enough.
_CAN_BE_BUILT = ("gitRepository", "code.path", "fileInfo")
_BUILT_FROM = (*_CAN_BE_BUILT, "entryPoint", "baseImage")

# Fields that the host of an algorithm uses in addition to a job's.
_HOSTED = (
    "env", "entryPoint", "kind", "maxWorkers", "minHotWorkers", "options", "reservedMemory", "type",
    "workerEnv",
)  # fmt: skip

# Keys of a definition by their paths in a job.
_KEY_OF: dict[Path, str] = {
    ("name",): "name",
    ("environment",): "algorithmImage",
    ("resources", "cpus"): "cpu",
    ("resources", "memory"): "mem",
    ("resources", "gpus"): "gpu",
    ("env",): "algorithmEnv",
    ("secrets",): "algorithmEnv",
}


def read_hkube(document: Document) -> tuple[list[Job], list[str]]:
    """Read one algorithm definition, or a list of them.

    Args:
        document: JSON or YAML, in the form of HKube's API or of hkubectl.

    Returns:
        A job for each definition, which stores the definition, and notes on values that today's
        HKube reads differently or that have no effect here.

    Raises:
        RequestError: HKube would refuse a definition too, or it cannot run here. The error lists
            the problems.
    """
    value = document.value
    parts: list[tuple[Path, Any]] = (
        [((n,), v) for n, v in enumerate(value)] if isinstance(value, list) else [((), value)]
    )
    problems: list[Problem] = []
    notes: list[str] = []
    jobs = []
    for path, definition in parts:
        result = read_definition(document, path, definition, problems, notes)
        if result is not None:
            jobs.append(result[0])
    if problems:
        raise refuse(document, problems)
    return jobs, [*notes, f"{document.name}: {_REQUESTS}"]


def read_definition(
    document: Document,
    path: Path,
    value: Any,
    problems: list[Problem],
    notes: list[str],
    *,
    is_hosted: bool = False,
) -> tuple[Job, Definition] | None:
    """Read one definition of a document.

    Args:
        document: Document that holds the definition, for lines and columns in messages.
        path: Keys that lead to the definition in the document.
        value: Definition as plain values, before validation.
        problems: List to which every problem is appended.
        notes: List to which sentences for the user are appended.
        is_hosted: Whether Tarmac will host the algorithm, as HKube does. Default False.

    Returns:
        The job of an instance, and the definition's fields; None if there is a problem.
    """
    return _Reader(document, path, problems, notes, is_hosted=is_hosted).read(value)


class _Reader:
    """The reader of one definition."""

    def __init__(
        self,
        document: Document,
        path: Path,
        problems: list[Problem],
        notes: list[str],
        *,
        is_hosted: bool,
    ) -> None:
        self._used = (*MEANT, *(_HOSTED if is_hosted else ()))
        self._is_hosted = is_hosted
        self._document = document
        self._path = path
        self._problems = problems
        self._notes = notes

    def read(self, value: Any) -> tuple[Job, Definition] | None:
        if not isinstance(value, dict):
            self._refuse(self._path, f"{value!r} is not an algorithm definition")
            return None
        if is_pipeline(value):
            key = "nodes" if "nodes" in value else "flowInput"
            self._refuse((*self._path, key), "this is a pipeline, and no algorithm definition")
            return None
        written = definition_as_written(self._document, self._path)
        fields = dict(flatten(written, self._path))
        definition = self._validate(fields)
        program = _program(definition) if definition is not None else None
        refusals: list[str] = []
        if program is None and (definition is not None or _own(fields) is None):
            built = self._built_from(fields)
            if built not in _CAN_BE_BUILT or self._is_hosted:
                self._refuse_without_image(fields, built)
            elif definition is not None:
                # A cluster can build the image, so the job can be shown and written.
                place = self._document.place_of(fields[built].path)
                where = f"{self._document.name}:{place.line}:{place.column}"
                refusals.append(f"{where}: {show_path(fields[built].path)}: {_BUILT}")
                image = f"{_TO_BE_BUILT}/{definition.name}"
                program = {"environment": {"kind": "container", "image": image}}
        if definition is None or program is None:
            return None
        env, secrets = self._variables(fields.get("algorithmEnv"))
        self._note_what_is_read_otherwise(fields, definition)
        self._note_the_rest(fields, definition.name)
        content = {
            "name": definition.name.replace("\\", "-"),
            **program,
            "resources": {
                "cpus": definition.cpu or _DEFAULT_CPU,
                "memory": _DEFAULT_MEMORY if definition.mem is None else int(definition.mem),
                "gpus": definition.gpu or 0,
            },
            "env": env,
            "secrets": secrets,
        }
        try:
            job = Job.model_validate(content)
            return with_original(job, NAME, value, refusals), definition
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                path = self._path_of(detail, fields)
                reason = message(detail)
                if not detail["loc"] and "command" not in content:
                    reason = "command is missing, which only an image has of its own"
                self._refuse(path, f"cannot be run here: {reason}")
            return None

    def _validate(self, fields: Mapping[str, Field]) -> Definition | None:
        try:
            return Definition.model_validate({name: field.value for name, field in fields.items()})
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                key, *rest = detail["loc"]
                start = fields[str(key)].path if key in fields else (*self._path, key)
                self._refuse((*start, *rest), message(detail))
            return None

    def _path_of(self, error: Any, fields: Mapping[str, Field]) -> Path:
        """Return the path in the definition of a value that is invalid in a job."""
        location = tuple(error["loc"])
        own = _own(fields)
        if own is not None and (not location or location[0] in own):
            return (*fields["options"].path, "tarmac", *location)
        keys = (_KEY_OF.get(location[:length]) for length in (2, 1))
        field = fields.get(next((key for key in keys if key is not None), ""))
        if field is None:
            return self._path
        variable = next((name for name in _names(field.value) if repr(name) in error["msg"]), None)
        return field.path if variable is None else (*field.path, variable)

    def _built_from(self, fields: Mapping[str, Field]) -> str | None:
        """Return the first field from which HKube would build the image, or None."""
        return next((name for name in _BUILT_FROM if name in fields and fields[name].value), None)

    def _refuse_without_image(self, fields: Mapping[str, Field], built: str | None) -> None:
        image = fields.get("algorithmImage")
        if image is not None and image.value not in (None, ""):
            return
        if built is None:
            self._refuse(self._path, "algorithmImage is missing: the image that is to be run")
        else:
            self._refuse(fields[built].path, _BUILT)

    def _variables(self, field: Field | None) -> tuple[dict[str, str], dict[str, Secret]]:
        env: dict[str, str] = {}
        secrets: dict[str, Secret] = {}
        if field is None or not isinstance(field.value, dict):
            return env, secrets
        for name, value in field.value.items():
            path = (*field.path, name)
            if isinstance(value, dict):
                secret = self._reference(value, path)
                if secret is not None:
                    secrets[name] = secret
            elif value is not None:
                env[name] = escape(self._text(value, path))
        return env, secrets

    def _text(self, value: Any, path: Path) -> str:
        written = self._document.texts.get(path, "")
        if isinstance(value, bool) and written.lower() not in ("", "true", "false"):
            # HKube's YAML reader reads yes and no as text.
            return written
        return text_of_scalar(value)

    def _reference(self, value: Mapping[str, Any], path: Path) -> Secret | None:
        kind, inner = next(iter(value.items()))
        if kind == "secretKeyRef" and isinstance(inner, dict):
            name, key = inner.get("name"), inner.get("key")
            if isinstance(name, str) and name and isinstance(key, str):
                return Secret(name=name, key=key)
        self._note(path, f"a {kind} is known in a cluster only; the variable is not set here")
        return None

    def _note_what_is_read_otherwise(
        self, fields: Mapping[str, Field], definition: Definition
    ) -> None:
        memory = fields.get("mem")
        if memory is not None and not isinstance(memory.value, str):
            shown = f"{memory.value:g}"
            self._note(
                memory.path,
                f"{shown} is read as {shown}Mi, as HKube stored it in 2019; today's HKube refuses "
                "a number without a unit",
            )
        if definition.own.command is not None and definition.algorithm_image:
            path = (*fields["options"].path, "tarmac", "command")
            where = "in its environment" if definition.own.environment else "on this machine"
            self._note(path, f"runs {where}, and not the image {definition.algorithm_image}")
        if definition.cpu == 0:
            path = fields["cpu"].path
            self._note(path, f"0 reserves nothing in HKube; here {_DEFAULT_CPU} is used")

    def _note_the_rest(self, fields: Mapping[str, Field], name: str) -> None:
        idle = [
            key
            for key, field in fields.items()
            if key in KNOWN
            and key not in self._used
            and field.value not in (None, {})
            and not (key == "options" and field.value.keys() == {"tarmac"})
        ]
        if idle:
            place = self._document.place_of(self._path)
            self._notes.append(
                f"{self._document.name}:{place.line}:{place.column}: {name}: without effect off "
                f"HKube, and kept: {', '.join(idle)}"
            )
        unknown = [(key, field) for key, field in fields.items() if key not in KNOWN]
        # The search for the nearest name is slow, and nobody reads more notes.
        for key, field in unknown[:_MAX_NOTES]:
            near = difflib.get_close_matches(key, KNOWN, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            self._note(field.path, f"is not a field of HKube's, and is kept{hint}", separator="")
        if len(unknown) > _MAX_NOTES:
            more = f"{len(unknown) - _MAX_NOTES:,} more of its keys are not fields of HKube's"
            self._note(unknown[_MAX_NOTES][1].path, f"and {more}, and are kept", separator="")

    def _note(self, path: Path, message: str, *, separator: str = ":") -> None:
        place = self._document.place_of(path)
        where = f"{self._document.name}:{place.line}:{place.column}"
        self._notes.append(f"{where}: {show_path(path)}{separator} {message}")

    def _refuse(self, path: Sequence[str | int], message: str) -> None:
        place = self._document.place_of(path)
        self._problems.append(Problem(place, show_path(path), message))


def _own(fields: Mapping[str, Field]) -> dict[str, Any] | None:
    """Return the value of ``options.tarmac``, or None if it is no mapping."""
    options = fields.get("options")
    own = options.value.get("tarmac") if options and isinstance(options.value, dict) else None
    return own if isinstance(own, dict) else None


def _program(definition: Definition) -> dict[str, Any] | None:
    """Return the command, environment and inputs for a job, or None without any program."""
    own = definition.own
    program: dict[str, Any] = {}
    if own.environment is not None:
        program = {"environment": own.environment}
    elif definition.algorithm_image and own.command is None:
        program = {"environment": {"kind": "container", "image": definition.algorithm_image}}
    elif own.command is None:
        return None
    parts = {"command": own.command, "inputs": own.inputs}
    return program | {key: value for key, value in parts.items() if value is not None}


def _names(value: Any) -> list[str]:
    return list(value) if isinstance(value, dict) else []
