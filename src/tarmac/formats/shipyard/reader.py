"""Conversion of Batch Shipyard's jobs to Tarmac jobs.

Sources, all of Azure/batch-shipyard at bf190ec (3.9.1): the properties from schemas/, their rules
from docs/12 to docs/14 and docs/35, convoy/settings.py and convoy/batch.py; the form before 3.0
from recipes/Chainer-GPU at 3329150.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tarmac.documents import Document
from tarmac.formats.shipyard.mapping.jobs import JobMaker
from tarmac.formats.shipyard.reading.merge import merge
from tarmac.formats.shipyard.reading.properties import check, without_secrets
from tarmac.formats.shipyard.report import Path, Report
from tarmac.jobs import Job

if TYPE_CHECKING:
    from tarmac.formats.shipyard.mapping.expand import Lister


@dataclasses.dataclass(frozen=True)
class ShipyardReading:
    """The content of a configuration.

    Attributes:
        jobs: Jobs in the order of the file.
        notes: Sentences on values that Tarmac reads differently or that have no effect here.
        refusals: Reasons why the jobs cannot run here. Tarmac can still show and convert them.
    """

    jobs: Sequence[Job]
    notes: Sequence[str]
    refusals: Sequence[str]


def read_shipyard(
    documents: Sequence[Document], *, list_objects: Lister | None = None
) -> ShipyardReading:
    """Read a Batch Shipyard configuration, without running or importing any code that it names.

    Args:
        documents: Files of the configuration: config, credentials, pool, jobs. A later file
            overrides an earlier one.
        list_objects: Returns the URIs below a URI, for factories over files. Default: None, then
            the tasks of such a factory are unknown, which is a refusal.

    Returns:
        A job for each of the configuration's jobs. Each job stores the configuration without
        credentials and other secrets.

    Raises:
        RequestError: The configuration is invalid, or Batch Shipyard handles it wrongly. The error
            lists the problems with file, line, column and path.
    """
    configuration = merge(documents)
    report = Report(configuration)
    value = check(configuration.value, report)
    specifications = value.get("job_specifications")
    if not specifications and not configuration.value.get("job_specifications"):
        report.wrong(
            ("job_specifications",) if "job_specifications" in value else (),
            "job_specifications is missing or empty",
            "give the jobs file too: tarmac run config.yaml pool.yaml jobs.yaml",
            rests_on=("job_specifications",),
        )
    stored = without_secrets(configuration.value)
    common = {key: part for key, part in stored.items() if key != "job_specifications"}
    jobs: list[Job] = []
    for number, specification in enumerate(specifications or ()):
        if specification is None:
            continue
        path: Path = ("job_specifications", number)
        own = stored["job_specifications"][number]
        maker = JobMaker(value, specification, path, report, list_objects)
        job = maker.make({**common, "job_specifications": [own]})
        jobs += [job] if job is not None else []
    return ShipyardReading(jobs, *report.finish())
