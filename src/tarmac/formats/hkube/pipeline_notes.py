"""Notes on a pipeline: keys without effect here, and unknown keys."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from pydantic import BaseModel

from tarmac.documents import Document, show_path
from tarmac.formats.hkube.fields import Path
from tarmac.formats.hkube.pipeline import Pipeline

_MAX_NOTES = 20
# Keys without effect here, of a pipeline, its options and its nodes.
_IDLE = ("experimentName", "tags", "version")
_IDLE_OPTIONS = ("concurrentPipelines", "progressVerbosityLevel")
_IDLE_OF_NODES = ("metrics", "minStatelessCount", "maxStatelessCount", "stateType")
# HKube adds these keys to its exports.
_EXPORTED = frozenset(
    (
        "auditTrail",
        "created",
        "createdTime",
        "modified",
        "modifiedTime",
        "userInfo",
        "types",
        "jobId",
    )
)


def pipeline_notes(document: Document, path: Path, pipeline: Pipeline) -> list[str]:
    """Return notes on a pipeline's keys without effect here, and on keys unknown to HKube."""
    notes = []
    parts = [(pipeline, "", _IDLE), (pipeline.options, "options.", _IDLE_OPTIONS)]
    parts += [(node, "nodes.", _IDLE_OF_NODES) for node in pipeline.nodes]
    idle = dict.fromkeys(
        f"{prefix}{key}" for part, prefix, keys in parts for key in keys if _says(part, key)
    )
    if idle:
        where = _where(document, path)
        shown = f"{pipeline.name}: without effect off HKube, and kept: {', '.join(idle)}"
        notes.append(f"{where}: {shown}")
    unknown = list(_unknown(pipeline))
    for inner, near in unknown[:_MAX_NOTES]:
        hint = f"; did you mean {near[0]!r}?" if near else ""
        where = _where(document, (*path, *inner))
        shown = show_path((*path, *inner))
        notes.append(f"{where}: {shown} is not a field of HKube's, and is kept{hint}")
    if len(unknown) > _MAX_NOTES:
        more = f"{len(unknown) - _MAX_NOTES:,} more keys"
        notes.append(
            f"{_where(document, path)}: and {more} are not fields of HKube's, and are kept"
        )
    return notes


def _says(part: BaseModel, key: str) -> bool:
    return any(
        (field.alias or name) == key and name in part.model_fields_set
        for name, field in type(part).model_fields.items()
    )


def _unknown(pipeline: Pipeline) -> Iterator[tuple[Path, list[str]]]:
    parts: list[tuple[Path, BaseModel]] = [((), pipeline), (("options",), pipeline.options)]
    for number, node in enumerate(pipeline.nodes):
        parts += [(("nodes", number), node), (("nodes", number, "retry"), node.retry)]
    num_hints = 0
    for path, part in parts:
        known = [field.alias or name for name, field in type(part).model_fields.items()]
        for key in part.model_extra or {}:
            if key in _EXPORTED:
                continue
            num_hints += 1
            is_shown = num_hints <= _MAX_NOTES
            yield (*path, key), difflib.get_close_matches(key, known, n=1) if is_shown else []


def _where(document: Document, path: Path) -> str:
    place = document.place_of(path)
    return f"{document.name}:{place.line}:{place.column}"
