"""Readers of files that people write: jobs, studies, settings, secrets, kubeconfigs."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from fuzzed_readers import Reader, Samples, of_file, of_text

from doc_pages import PAGES, ROOT, blocks
from tarmac import settings
from tarmac.checks.report.expectation import read_expectation
from tarmac.documents import parse_document, parse_toml, read_plain
from tarmac.environments.requirements import read_requirements
from tarmac.errors import TarmacError
from tarmac.formats import find_format, format_names, read_paths
from tarmac.hkube.serving.request import read_settings as read_algorithm_settings
from tarmac.jobs import plan_tasks, read_secret_mapping
from tarmac.kubernetes.kubeconfig import find_place
from tarmac.studies.request import read_request, read_space

_PIPELINE = {
    "name": "p",
    "nodes": [
        {"nodeName": "a", "algorithmName": "one", "input": ["@flowInput.x"]},
        {"nodeName": "b", "algorithmName": "one", "input": ["#@a.y", {"z": "*@flowInput.z"}]},
    ],
    "flowInput": {"x": 1, "z": [1, 2]},
}
_ALGORITHM = {"name": "one", "algorithmImage": "one:v1", "cpu": 1, "mem": "256Mi", "gpu": 1}

_KUBECONFIG = b"""\
apiVersion: v1
kind: Config
current-context: mine
contexts:
- {name: mine, context: {cluster: c, user: u, namespace: team}}
clusters:
- name: c
  cluster: {server: 'https://127.0.0.1:6443', certificate-authority-data: QUJD}
users:
- name: u
  user: {token: abc, exec: {command: get-token, args: [a], env: [{name: A, value: b}]}}
"""
_SETTINGS = b"""\
on = "slurm"
runner = "here"
[slurm]
partition = "gpu"
[profiles.big]
on = "kubernetes"
kubernetes = { namespace = "team", image = "python:3.12-slim" }
"""
_EXPECTATION = b"""\
gpus = ">=8"
driver = ">=550"
gpu_memory = 80
[rates.torch]
bf16 = 600
"""
_JOBS = (
    *("every-key.yaml", "hello.yaml", "sweep.yaml", "rates.yaml", "fabric.yaml", "loop.yaml"),
    *("secret.yaml", "gpu-alg.json", "train.yaml", "recipe/config/jobs.yaml"),
)


def _documented(*names: str) -> Samples:
    """Return files that pages of the documentation show, by their names."""
    files = {
        block.file: block.text.encode() for page in PAGES for block in blocks(page) if block.file
    }
    return {name: files[name] for name in names}


def _jobs() -> Samples:
    return {
        **_documented(*_JOBS),
        "pipeline.json": json.dumps(_PIPELINE).encode(),
        "algorithm.json": json.dumps(_ALGORITHM, indent=1).encode(),
    }


def _read_job_file(path: Path) -> None:
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


def _read_settings(path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TARMAC_SETTINGS_FILE", str(path))
        for profile in settings.profile_names():
            settings.read_settings(profile)


def _read_study(path: Path) -> None:
    read_request(path, {})


READERS = {
    "YAML": Reader(
        lambda: _documented("every-key.yaml"), of_text(lambda text: parse_document(text, "a.yaml"))
    ),
    "TOML": Reader(
        lambda: {"settings.toml": _SETTINGS}, of_text(lambda text: parse_toml(text, "a.toml"))
    ),
    "JSON": Reader(
        lambda: {"pipeline.json": json.dumps(_PIPELINE).encode()}, of_file("a.json", read_plain)
    ),
    "job files": Reader(_jobs, of_file("job.yaml", _read_job_file), share=1),
    "studies": Reader(
        lambda: {
            **_documented("study.yaml"),
            "mlp-evolve.yaml": (
                ROOT / "src" / "tarmac" / "studies" / "studies" / "mlp-evolve.yaml"
            ).read_bytes(),
        },
        of_file("study.yaml", _read_study),
        share=1,
    ),
    "spaces": Reader(
        lambda: {"space.yaml": b"hidden: [8, 16]\nrate: {low: 0.001, high: 0.1, log: true}\n"},
        of_file("space.yaml", read_space),
    ),
    "settings": Reader(
        lambda: {"settings.toml": _SETTINGS}, of_file("settings.toml", _read_settings)
    ),
    "secrets": Reader(
        lambda: {"secrets.toml": b'"a/b" = { env = "A" }\nc = {file = "~/x"}\n'},
        of_file("secrets.toml", read_secret_mapping),
    ),
    "kubeconfigs": Reader(
        lambda: {"config": _KUBECONFIG},
        of_file("config", lambda path: find_place({}, kubeconfig=path)),
    ),
    "expectations": Reader(
        lambda: {"expect.toml": _EXPECTATION}, of_file("expect.toml", read_expectation)
    ),
    "requirements": Reader(
        lambda: {"requirements.txt": b"numpy>=1.2\ntorch==2.11 # why\nscipy; extra > '3'\n--pre\n"},
        of_file(
            "requirements.txt", lambda path: read_requirements([f"-r {path.name}"], path.parent)
        ),
    ),
    "settings of algorithms": Reader(
        lambda: {"settings": b'{"epochs": 2, "lr": 0.1}'},
        of_text(lambda text: read_algorithm_settings(text, "TARMAC_SETTINGS")),
    ),
}
