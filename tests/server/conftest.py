"""Runs to be served, and a site that shows them without drawing anything."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from markupsafe import Markup
from serving_process import Served

import tarmac
from tarmac.jobs import Job
from tarmac.pages import Page, Section
from tarmac.runs import Run
from tarmac.server.listing import RunLister
from tarmac.server.site import Site


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the indexes of runs that a site makes out of the user's cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def output(tmp_path: Path) -> Path:
    path = tmp_path / "runs"
    path.mkdir()
    return path


@pytest.fixture
def training(output: Path) -> Callable[..., Run]:
    """Return a function that makes a training."""

    def make(name: str, *, status: str = "completed", above: Path = output, **changes) -> Run:
        run = Run.create(
            above,
            workload="digits-mlp",
            command=[],
            configuration={"epochs": 3},
            dataset={},
            device={},
            versions={},
            seed=0,
            git=None,
            expectation=None,
            name=name,
        )
        run.update(status=status, **changes)
        return run

    return make


@pytest.fixture
def job(output: Path) -> Callable[[str], Path]:
    """Return a function that runs a command as a job of one task, and gives its directory."""

    def run(command: str) -> Path:
        return tarmac.run(Job(name="hello", command=command), output=output).path

    return run


@pytest.fixture
def damaged(output: Path) -> Path:
    path = output / "damaged"
    path.mkdir()
    (path / "run.json").write_text('{"schema_version')
    return path


class Drawing:
    """Makes pages that say which directories they are of, and what a file there holds."""

    def __init__(self) -> None:
        self.drawn: list[list[str]] = []
        self.error: Exception | None = None

    def page_of(self, paths: Sequence[Path]) -> Page:
        self.drawn.append([path.name for path in paths])
        if self.error is not None:
            raise self.error
        record = paths[0] / "run.json"
        status = json.loads(record.read_text())["status"] if record.exists() else "-"
        body = Markup("<p>{}</p>").format(status)
        return Page(
            title=" and ".join(path.name for path in paths),
            sections=[Section("asked", "Request", body)],
        )


@pytest.fixture
def drawing() -> Drawing:
    return Drawing()


def no_look():
    raise AssertionError("nobody asked for GPUs")


@pytest.fixture
def site(output: Path, drawing: Drawing) -> Site:
    """Return a site that looks at directories each time."""
    lister = RunLister(output, every_s=0.0)
    return Site(lister, drawing.page_of, no_look)


@pytest.fixture
def served(output: Path, tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Return a function that starts `tarmac serve` and waits until it answers."""
    started: list[Served] = []

    def start(*words: str) -> Served:
        started.append(Served(*words, output=output, XDG_CACHE_HOME=str(tmp_path / "cache")))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.communicate()
