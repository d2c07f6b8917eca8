"""Readers of job files take mutants of real files, or refuse them in words."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from doc_pages import ROOT, blocks
from mutants import refused_mutants
from tarmac.errors import TarmacError
from tarmac.formats import find_format, format_names, read_paths
from tarmac.inference.parts import Part
from tarmac.inference.reading import read_samples
from tarmac.jobs import plan_tasks, read_secret_mapping

PIPELINE = {
    "name": "p",
    "nodes": [
        {"nodeName": "a", "algorithmName": "one", "input": ["@flowInput.x"]},
        {"nodeName": "b", "algorithmName": "one", "input": ["#@a.y", {"z": "*@flowInput.z"}]},
    ],
    "flowInput": {"x": 1, "z": [1, 2]},
}
ALGORITHM = {"name": "one", "algorithmImage": "one:v1", "cpu": 1, "mem": "256Mi", "gpu": 1}


def _documented() -> dict[str, bytes]:
    """Return job files of the docs: of Tarmac's, Shipyard's and SkyPilot's."""
    pages = ("every-key", "jobs", "shipyard", "skypilot", "clusters")
    files = {}
    for page in pages:
        path = ROOT / "docs" / f"{page}.md"
        for number, block in enumerate(blocks(path) if path.exists() else ()):
            if block.kind in ("yaml", "json"):
                files[f"{page}-{number}.{block.kind}"] = block.text.encode()
    return files


JOBS = {
    **dict(itertools.islice(_documented().items(), 12)),
    "pipeline.json": json.dumps(PIPELINE).encode(),
    "algorithm.json": json.dumps(ALGORITHM, indent=1).encode(),
}


def read_job_file(path: Path) -> None:
    for reading, base in read_paths([path], environment={}):
        for job in reading.jobs:
            if job.pipeline is None:
                list(itertools.islice(plan_tasks(job, base), 20))
        for name in format_names():
            write = find_format(name).write
            if write is not None and len(reading.jobs) == 1:
                try:
                    write(reading.jobs, base)
                except TarmacError:
                    continue


def read_rows(path: Path) -> None:
    np = pytest.importorskip("numpy")
    list(read_samples(path, [Part("", (2,), np.dtype(np.float32))], 10))


FILES = {name: (content, read_job_file) for name, content in JOBS.items()} | {
    "secrets.toml": (b'"a/b" = { env = "A" }\nc = {file = "~/x"}\n', read_secret_mapping),
    "rows.csv": (b"a,b\n1,2\n3,4\n", read_rows),
    "rows.json": (b"[[1, 2], [3, 4]]", read_rows),
    "rows.jsonl": (b"[1, 2]\n[3, 4]\n", read_rows),
}


@pytest.mark.parametrize("name", FILES)
def test_a_mutant_of_a_file_is_read_and_written_or_refused_in_words(tmp_path, name):
    content, read = FILES[name]
    path = tmp_path / name

    def read_mutant(mutant: bytes) -> None:
        path.write_bytes(mutant)
        read(path)

    refused_mutants(content, name, read_mutant)
