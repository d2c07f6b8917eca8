"""Algorithms in the form that their host needs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, cast

from tarmac.documents import Document, Problem, refuse
from tarmac.formats.hkube.coercion import text_of_scalar
from tarmac.formats.hkube.reading import read_definition
from tarmac.jobs import Job

Protocol = Literal["hkube", "plain"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Algorithm:
    """An algorithm to host.

    Attributes:
        name: Algorithm name from HKube's definition, such as ``green-alg``.
        job: Job with one task: command, image, resources, variables and secrets of an instance. Its
            name may differ from the algorithm's.
        protocol: Source of its input: HKube's worker, or a file for a plain program.
        min_hot_workers: Instances to keep running while no task waits. Default 0.
        max_workers: Most instances at once. Default 0: as many as fit.
        env: ``nodejs``, ``python``, ``java`` or ``jvm``. None if the definition does not set it.
        options: Values of ``options`` in the definition, without ``tarmac``.
        worker_env: Variables of the worker with plain values, as texts.
        definition: Definition as read, as plain values.
    """

    name: str
    job: Job
    protocol: Protocol = "hkube"
    min_hot_workers: int = 0
    max_workers: int = 0
    env: str | None = None
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    worker_env: Mapping[str, str] = dataclasses.field(default_factory=dict)
    definition: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def read_algorithm(definition: Mapping[str, Any]) -> Algorithm:
    """Read an algorithm's definition, in the form of HKube's API or of hkubectl.

    Args:
        definition: Definition as plain values.

    Raises:
        RequestError: HKube would refuse the definition, or it cannot run here. The error lists
            the problems by their paths in the definition.
    """
    document = Document(f"algorithm {definition.get('name', 'without a name')}", dict(definition))
    problems: list[Problem] = []
    result = read_definition(document, (), document.value, problems, [], is_hosted=True)
    if result is None:
        raise refuse(document, problems)
    job, fields = result
    options = fields.options.model_dump(by_alias=True, exclude_unset=True) if fields.options else {}
    options.pop("tarmac", None)
    variables = (fields.worker_env or {}).items()
    return Algorithm(
        name=fields.name,
        job=job,
        protocol=cast("Protocol", fields.own.protocol or "hkube"),
        min_hot_workers=fields.min_hot_workers or 0,
        max_workers=fields.max_workers or 0,
        env=fields.env,
        options=options,
        worker_env={
            name: text_of_scalar(value)
            for name, value in variables
            if isinstance(value, (str, int, float))
        },
        definition=definition,
    )
