"""Jobs made from run requests: pipelines, joined with the definitions that they name."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from typing import Any

from tarmac.documents import Document, Problem, refuse, show_path
from tarmac.formats.format import Reading
from tarmac.formats.hkube.fields import NAME, Path, is_algorithm_run, is_definition, is_pipeline
from tarmac.formats.hkube.library import Library, Stored, library_of
from tarmac.formats.hkube.node_specs import tuning_faults
from tarmac.formats.hkube.pipeline import Pipeline
from tarmac.formats.hkube.pipeline_notes import pipeline_notes
from tarmac.formats.hkube.pipeline_reading import check_pipeline
from tarmac.formats.hkube.pipeline_rules import cluster_faults, flow_input_faults
from tarmac.formats.hkube.reading import read_definition
from tarmac.formats.hkube.requests import merged_over, run_of_algorithm, task_id_fault
from tarmac.formats.hkube.stream_flows import stream_faults
from tarmac.formats.original import with_original
from tarmac.jobs import Job

_WHERE = "no file here defines it; --algorithms DIR names a folder of definitions"


def has_runs(value: Any) -> bool:
    """Return whether a document requests runs, rather than only defining algorithms."""
    parts = value if isinstance(value, list) else [value]
    return any(is_pipeline(part) or is_algorithm_run(part) for part in parts)


def read_runs(documents: Sequence[Document]) -> Reading:
    """Read the runs that a document requests: pipelines, and algorithms with their input.

    Args:
        documents: Documents that define algorithms and pipelines. The last one has the requests.

    Raises:
        RequestError: HKube would refuse a request. The error lists the problems with line and
            column.
    """
    document = documents[-1]
    library = library_of(documents)
    value = document.value
    parts: list[tuple[Path, Any]] = (
        [((n,), v) for n, v in enumerate(value)] if isinstance(value, list) else [((), value)]
    )
    joiner = _Joiner(document, library)
    jobs = [
        joiner.job_of(path, part)
        for path, part in parts
        if not is_definition(part) or is_pipeline(part)
    ]
    if joiner.problems:
        raise refuse(document, joiner.problems)
    read = [job for job in jobs if job is not None]
    return Reading(NAME, read, tuple(dict.fromkeys(joiner.notes)), tuple(joiner.refusals))


def complete_job(job: Job, documents: Sequence[Document]) -> Reading:
    """Check the pipeline of a job in Tarmac's own form, and join it with the definitions it names.

    Args:
        job: Job in Tarmac's own form, with ``pipeline`` set.
        documents: Documents that define algorithms and pipelines. The last one holds the job.

    Raises:
        RequestError: HKube would refuse the pipeline.
    """
    document = documents[-1]
    joiner = _Joiner(document, library_of(documents))
    path: Path = ("pipeline",)
    pipeline = check_pipeline(document, path, job.pipeline, joiner.problems)
    if pipeline is None:
        raise refuse(document, joiner.problems)
    algorithms = joiner.join(document, path, pipeline)
    if algorithms:
        job = job.model_copy(update={"algorithms": algorithms})
    return Reading("tarmac", [job], tuple(joiner.notes), (*job.refusals, *joiner.refusals))


class _Joiner:
    """The joiner of one document's pipelines with the definitions that they name."""

    def __init__(self, document: Document, library: Library) -> None:
        self._document = document
        self._library = library
        self.problems: list[Problem] = []
        self.notes: list[str] = []
        self.refusals: list[str] = []
        self._known: dict[tuple[int, bool], bool] = {}

    def job_of(self, path: Path, value: Any) -> Job | None:
        """Return the job of the request at a path, or None if it is invalid."""
        document = self._document
        if is_algorithm_run(value):
            fault = task_id_fault(value.get("taskId", "none"))
            if fault is not None:
                place = document.place_of((*path, "taskId"))
                self.problems.append(Problem(place, show_path((*path, "taskId")), fault))
                return None
            within, body = run_of_algorithm(document, path, value)
            return self._job(within, (), body, value)
        if not is_pipeline(value):
            message = "this is no pipeline and no algorithm definition of HKube's"
            self.problems.append(Problem(document.place_of(path), show_path(path), message))
            return None
        if "nodes" in value:
            return self._job(document, path, value, None)
        return self._stored_job(path, value)

    def _stored_job(self, path: Path, value: dict[str, Any]) -> Job | None:
        """Return the job of a stored pipeline with its request's changes."""
        name = value.get("name")
        stored = self._library.pipelines.get(name) if isinstance(name, str) else None
        if stored is None and isinstance(name, str):
            self._refuse(self._document, (*path, "name"), f"pipeline {name} Not Found: {_WHERE}")
            return self._only_kept(path, value)
        if stored is None:
            check_pipeline(self._document, path, value, self.problems)
            return None
        if not self._is_right(stored):
            return self._only_kept(path, value)
        body = merged_over(stored.value, value)
        size = len(path)
        places = {
            old[size:]: place for old, place in self._document.places.items() if old[:size] == path
        }
        return self._job(Document(self._document.name, body, places), (), body, value)

    def _only_kept(self, path: Path, value: dict[str, Any]) -> Job | None:
        """Return a job to show and write only, for a request without a usable pipeline."""
        before = len(self.problems)
        probe = value | {"nodes": [{"nodeName": "a", "algorithmName": "aa"}]}
        check_pipeline(self._document, path, probe, self.problems)
        if len(self.problems) > before:
            return None
        return Job.model_validate({"name": _job_name(value["name"]), "pipeline": value})

    def _job(
        self, document: Document, path: Path, body: dict[str, Any], original: dict[str, Any] | None
    ) -> Job | None:
        pipeline = check_pipeline(document, path, body, self.problems)
        if pipeline is None:
            return None
        algorithms = self.join(document, path, pipeline)
        content: dict[str, Any] = {"name": _job_name(pipeline.name), "pipeline": body}
        if algorithms:
            content["algorithms"] = algorithms
        job = Job.model_validate(content)
        return job if original is None else with_original(job, NAME, original)

    def join(
        self, document: Document, path: Path, pipeline: Pipeline
    ) -> tuple[dict[str, Any], ...]:
        """Return the definitions that a pipeline needs, then all others; add notes and refusals."""
        for inner, message in (
            *cluster_faults(pipeline),
            *stream_faults(pipeline),
            *tuning_faults(pipeline),
        ):
            self._refuse(document, (*path, *inner), message)
        self.notes += pipeline_notes(document, path, pipeline)
        needed = dict(self._needed(document, path, pipeline))
        flow_inputs = [
            stored.value.get("flowInput")
            for (kind, _), stored in needed.items()
            if kind == "pipeline"
        ]
        for inner, message in flow_input_faults(pipeline, flow_inputs):
            self._refuse(document, (*path, *inner), message)
        definitions = [stored.value for stored in needed.values()]
        for kind, names in (
            ("algorithm", self._library.algorithms),
            ("pipeline", self._library.pipelines),
        ):
            for name, stored in names.items():
                itself = kind == "pipeline" and name == pipeline.name
                if (kind, name) not in needed and not itself and self._is_right(stored, note=True):
                    definitions.append(stored.value)
        return tuple(definitions)

    def _needed(
        self, document: Document, path: Path, pipeline: Pipeline
    ) -> Iterator[tuple[tuple[str, str], Stored]]:
        """Yield the definitions that a pipeline needs, also indirectly; refuse the missing ones."""
        seen: set[tuple[str, str]] = set()
        ahead = [(document, path, pipeline)]
        while ahead:
            within, start, current = ahead.pop()
            for inner, kind, name in _names_in(current):
                if (kind, name) in seen:
                    continue
                seen.add((kind, name))
                place = (*start, *inner)
                known = self._library.pipelines if kind == "pipeline" else self._library.algorithms
                stored = known.get(name)
                if stored is None:
                    near = difflib.get_close_matches(name, known, n=1)
                    hint = f"; did you mean {near[0]!r}?" if near else ""
                    self._refuse(within, place, f"{kind} {name} Not Found: {_WHERE}{hint}")
                    continue
                if not self._is_right(stored):
                    continue
                yield (kind, name), stored
                if kind == "pipeline":
                    problems: list[Problem] = []
                    read = check_pipeline(stored.document, stored.path, stored.value, problems)
                    if read is not None:
                        ahead.append((stored.document, stored.path, read))

    def _is_right(self, stored: Stored, *, note: bool = False) -> bool:
        """Return whether a definition can be used here; add a refusal, or only a note, if not."""
        # Cached: many pipelines of one file may name the same definition.
        key = (id(stored), note)
        if key not in self._known:
            self._known[key] = self._check(stored, note=note)
        return self._known[key]

    def _check(self, stored: Stored, *, note: bool) -> bool:
        problems: list[Problem] = []
        notes: list[str] = []
        if is_pipeline(stored.value):
            result: object = check_pipeline(stored.document, stored.path, stored.value, problems)
        else:
            result = read_definition(
                stored.document, stored.path, stored.value, problems, notes, is_hosted=True
            )
        if result is not None:
            self.notes += [] if note else notes
            return True
        message = refuse(stored.document, problems).message
        if note:
            self.notes.append(f"{message}: is left out, and needed by no node")
        else:
            self.refusals.append(message)
        return False

    def _refuse(self, document: Document, path: Path, message: str) -> None:
        place = document.place_of(path)
        at = f":{place.line}:{place.column}" if document.places else ""
        self.refusals.append(f"{document.name}{at}: {show_path(path)}: {message}")


def _names_in(pipeline: Pipeline) -> Iterator[tuple[Path, str, str]]:
    """Yield the path, kind and name of each definition that nodes name."""
    for number, node in enumerate(pipeline.nodes):
        path: Path = ("nodes", number)
        spec = node.spec or {}
        if node.kind == "pipeline":
            yield (*path, "spec", "name"), "pipeline", str(spec["name"])
        elif node.kind == "hyperparamsTuner":
            name = str(spec["objectivePipeline"])
            yield (*path, "spec", "objectivePipeline"), "pipeline", name
        elif node.kind in ("algorithm", "debug") and node.algorithm_name is not None:
            yield (*path, "algorithmName"), "algorithm", node.algorithm_name


def _job_name(name: str) -> str:
    """Return a valid job name for a pipeline's name, without colons and marks at its ends."""
    return re.sub(r"^[^A-Za-z0-9]+|[^A-Za-z0-9]+$", "", name.replace(":", "-")[:128]) or "pipeline"
