"""What the pages show is run: files are written, console and Python blocks executed."""

from __future__ import annotations

import dataclasses
import importlib
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from doc_pages import PAGES, ROOT, Block, anchors, blocks, is_printed, links, page_id
from forked import forked_interpreter
from ray_heads import OBJECT_STORE_BYTES, start_head

RUN = ("console", "python")
# Newcomers read it first: `make test` runs it whole; all others are of the group `docs`. Each of
# their commands is run by tests/journeys.
FIRST = (ROOT / "README.md",)

# Of a cluster: looks for work often; and its nodes may have more CPUs than this machine.
QUICK = (
    "SchedulerParameters=sched_min_interval=10000,sched_interval=1,bf_interval=1,batch_sched_delay=0",
    "SlurmdParameters=config_overrides",
)


# Where pages have the volume of a cluster, and the Python of an image; see `stands_for`.
VOLUME, PYTHON = "/runs", "/opt/tarmac/bin/python"


def write_file(block: Block, directory: Path) -> None:
    assert block.file is not None
    path = directory / block.file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(block.text)


def here(block: Block, stands_for: Mapping[str, str]) -> Block:
    """Return a block with the paths that this machine has instead of those of the page."""
    text = block.text
    for shown, real in stands_for.items():
        text = re.sub(rf"(?<![\w./-]){re.escape(shown)}(?![\w./-])", real, text)
    return dataclasses.replace(block, text=text)


@pytest.fixture
def leading(page, request):
    """Return the variables that lead to the cluster that a page's commands name, if any."""
    shown = [block.text for block in blocks(page) if block.kind in RUN]
    variables = {}
    if any("--on slurm" in text or "--to slurm" in text for text in shown):
        variables |= request.getfixturevalue("start_slurm")(settings=QUICK).variables
    if any("--on ray" in text for text in shown):
        variables["RAY_ADDRESS"] = request.getfixturevalue("ray_head")
    if any("--on kubernetes" in text for text in shown):
        variables["KUBECONFIG"] = str(request.getfixturevalue("kubernetes").kubeconfig)
    return variables


@pytest.fixture
def stands_for(page, request):
    """Return, by the path that a page shows, what this machine has there."""
    if not any("--on kubernetes" in block.text for block in blocks(page) if block.kind in RUN):
        return {}
    cluster = request.getfixturevalue("kubernetes")
    volume = cluster.directory / "claims" / cluster.namespace / "runs"
    volume.mkdir(parents=True)
    return {VOLUME: str(volume), PYTHON: sys.executable}


@pytest.fixture
def kubernetes(tmp_path_factory, monkeypatch):
    """Start an emulator of Kubernetes' API, with two nodes."""
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "kubernetes"))
    emulator = importlib.import_module("emulator")
    # Pods that are runners reach it as pods do, which takes TLS.
    cluster = emulator.Emulator(tmp_path_factory.mktemp("cluster"), nodes=2, tls=True)
    yield cluster
    cluster.stop()


@pytest.fixture
def ray_head():
    """Start a Ray of two nodes; return its address."""
    pytest.importorskip("ray", reason="needs pip install 'tarmac-gpu[ray]'")
    cluster = start_head(num_cpus=2)
    cluster.add_node(num_cpus=2, object_store_memory=OBJECT_STORE_BYTES)
    yield cluster.address
    cluster.shutdown()


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("epoch 1/2  loss 0.31\n...\nrun ...\n", "epoch 1/2   loss 0.298\na\nb\nrun /x y\n", True),
        ("took 2.3 s\n...\n", "took 11 s\n", True),
        ("took 2 s\n", "took two s\n", False),
        ("took 2 s\n", "took 2 s\nwarning\n", False),
    ],
)
def test_shown_output_is_compared_but_for_what_varies(shown, printed, same):
    assert is_printed(shown, printed) is same


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page_id(page), marks=[] if page in FIRST else pytest.mark.docs)
        for page in PAGES
        if any(block.kind in RUN for block in blocks(page))
    ],
)
@pytest.mark.timeout(900)  # a page's commands are whole trainings and searches, one after another
def test_every_example_runs_in_order(page, tmp_path, leading, stands_for):
    # What `make test` runs is forked; in the group of pages each command is a process of its own.
    python, programs = sys.executable, f"{Path(sys.executable).parent}"
    if page in FIRST:
        python = forked_interpreter()
        tarmac = tmp_path / "programs" / "tarmac"
        tarmac.parent.mkdir()
        tarmac.write_text(f'#!/bin/sh\nexec "{python}" -m tarmac "$@"\n')
        tarmac.chmod(0o755)
        programs = f"{tarmac.parent}:{programs}"
    environment = os.environ | {
        "PATH": f"{programs}:{os.environ['PATH']}",
        # A page's examples need nothing but what is embedded.
        "TARMAC_DATA": str(tmp_path / "data"),
        # Tests run on every core, where more threads would only wait for each other.
        "OMP_NUM_THREADS": "1",
        **leading,
    }
    for shown in blocks(page):
        block = here(shown, stands_for)
        if block.file is not None:
            write_file(block, tmp_path)
        if block.kind == "python":
            command = [python, "-c", block.text]
        elif block.kind == "console":
            command = ["bash", "-euxo", "pipefail", "-c", block.text]
        else:
            continue
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{page.name}: {block.text}\n{done.stdout}{done.stderr}"
        if block.output is not None:
            assert is_printed(block.output, done.stdout), f"{page.name} prints:\n{done.stdout}"


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_block_of_yaml_is_yaml(page):
    for block in blocks(page):
        if block.kind == "yaml":
            assert yaml.safe_load(block.text) is not None, block.text


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_shown_output_is_below_what_prints_it(page):
    outputs = [block for block in blocks(page) if block.output is not None]
    assert len(outputs) == page.read_text().count("<!-- output -->")
    assert {block.kind for block in outputs} <= set(RUN)


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_link_leads_to_a_file_and_to_a_heading_in_it(page):
    for link in links(page):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), f"{page_id(page)} links to {link}"
        if anchor:
            assert anchor in anchors(target), f"{page_id(page)} links to {link}"


def linked_pages(page: Path) -> set[Path]:
    return {(page.parent / link.partition("#")[0]).resolve() for link in links(page)}


def test_every_page_is_at_most_two_links_from_the_readme():
    first = linked_pages(ROOT / "README.md").intersection(PAGES)
    second = set().union(*map(linked_pages, first))
    assert not {page_id(page) for page in set(PAGES) - first - second}
