"""Pipelines run by a host of plain functions."""

from __future__ import annotations

import pytest
from hkube_functions import Functions, Log

from tarmac.hkube.running import work_on_pipeline
from tarmac.jobs import Job, create_run, find_run


@pytest.fixture
def run(tmp_path):
    """Return a function that runs a pipeline with functions, and gives (end, log, run)."""

    def go(pipeline, functions, *, resume=None, stored=(), log=None, output=None, **options):
        names = {node.get("algorithmName") for node in pipeline["nodes"]} if pipeline else set()
        names |= {n.get("algorithmName") for part in stored for n in part["nodes"]} | {*functions}
        definitions = [
            {"name": name, "options": {"tarmac": {"command": ["true"]}}} for name in names if name
        ]
        if resume is None:
            job = Job(name="p", pipeline=pipeline, algorithms=(*definitions, *stored))
            made = create_run(job, tmp_path, (), output or tmp_path / "runs")
        else:
            made = find_run(str(resume.path), tmp_path / "runs")
        log = log or Log()

        def host(algorithms, run, *, watcher, calls, **_):
            return Functions(functions, run, watcher=watcher, calls=calls)

        return work_on_pipeline(made, log, open_host=host, **options), log, made

    return go
