"""Files in others' forms, as Kubernetes gets them: what they send passes the strict schemas."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import kubernetes_validate
import pytest
import yaml

from published_samples import SAMPLES, staged

pytestmark = pytest.mark.kubernetes

SHIPYARD = (
    "2.x/Chainer-GPU/config/jobs.json",
    "3.x/Chainer-GPU/config/jobs.yaml",
    "3.x/PyTorch-GPU/config/jobs.yaml",
    "3.x/BLAST-CPU/config/jobs-split.yaml",
)
VERSIONS = sorted(
    kubernetes_validate.utils.all_versions(), key=lambda name: [*map(int, name.split(".")[:2])]
)[-3:]


def dry_run(path, start_cluster, place):
    """Return how a dry run of a file ends, with a volume that the user's settings name."""
    cluster = start_cluster(nodes=0)
    cluster.hollow.add("h", {"nvidia.com/gpu": "4"}, lambda _: None)
    settings = place / "settings.toml"
    settings.write_text(f'[kubernetes]\nvolume = {{claim = "runs", path = "{place}"}}\n')
    where = {"KUBECONFIG": str(cluster.kubeconfig), "TARMAC_SETTINGS_FILE": str(settings)}
    command = [sys.executable, "-m", "tarmac", "run", str(path), "--dry-run", "--on", "kubernetes"]
    return subprocess.run(
        [*command, "--output", str(place)],
        env=os.environ | where,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(not SAMPLES.exists(), reason="the public samples are not beside the repository")
@pytest.mark.parametrize("sample", SHIPYARD)
def test_batch_shipyards_samples_are_jobs_that_the_schemas_accept(sample, start_cluster, tmp_path):
    done = dry_run(SAMPLES / "batch-shipyard" / sample, start_cluster, tmp_path)
    assert done.returncode == 0, done.stderr
    manifests = [*yaml.safe_load_all(done.stdout.partition("---\n")[2])]
    assert manifests
    for manifest in manifests:
        for version in VERSIONS:
            kubernetes_validate.validate(manifest, version, strict=True)


@pytest.mark.skipif(not SAMPLES.exists(), reason="the public samples are not beside the repository")
def test_hkubes_algorithm_without_a_command_is_refused_with_what_to_do(start_cluster, tmp_path):
    done = dry_run(SAMPLES / "hkube" / "gpu-alg.json", start_cluster, tmp_path)
    assert done.returncode == 2
    assert "it has no command" in done.stderr
    assert "options.tarmac, beside environment: {image: " in done.stderr
    assert "command: [python, main.py]" in done.stderr


def run(words, cluster, place, more=""):
    """Return how a run of a file ends, whose pods are processes."""
    settings = place / "settings.toml"
    settings.write_text(f'[kubernetes]\nimage = "python:3.12-slim"\n{more}\n')
    where = {"KUBECONFIG": str(cluster.kubeconfig), "TARMAC_SETTINGS_FILE": str(settings)}
    return subprocess.run(
        [*(sys.executable, "-m", "tarmac", "run"), *map(str, words), "--on", "kubernetes"],
        env=os.environ | where | {"TARMAC_RUNS": str(place / "runs")},
        capture_output=True,
        text=True,
        check=False,
    )


def outputs_of(place):
    return sorted(path.read_text() for path in place.glob("runs/*/tasks/*/stdout"))


@pytest.mark.skipif(not SAMPLES.exists(), reason="the public samples are not beside the repository")
@pytest.mark.parametrize(
    ("sample", "printed"),
    [
        ("2.x/Chainer-GPU/config/jobs.json", "chainer -g 0\n"),
        ("3.x/Chainer-GPU/config/jobs.yaml", "chainer -g 0\n"),
        ("3.x/PyTorch-GPU/config/jobs.yaml", "pytorch\n"),
        ("3.x/BLAST-CPU/config/jobs-split.yaml", "split into 2\n"),
    ],
)
def test_batch_shipyards_samples_run_with_what_they_fetch(sample, printed, cluster, tmp_path):
    shared = cluster.claim("runs")
    with staged() as stage:
        jobs = stage.copy(sample, tmp_path)
        volume = f'volume = {{claim = "runs", path = "{shared}"}}'
        words = [jobs, "--output", shared, "--fake-gpus", "2"]
        done = run(words, cluster, tmp_path, volume)
        asked = stage.asked
    assert done.returncode == 0, done.stdout + done.stderr
    (stdout,) = shared.glob("*/tasks/*/stdout")
    assert stdout.read_text() == printed
    assert len(asked) == len(set(asked)) == jobs.read_text().count("127.0.0.1")


def test_a_file_of_batch_shipyards_runs_its_tasks_in_their_order(cluster, tmp_path):
    jobs = tmp_path / "jobs.yaml"
    jobs.write_text("""\
job_specifications:
- id: words
  environment_variables: {WORD: hello}
  tasks:
  - id: first
    docker_image: python:3-alpine
    command: python3 -c "import os; print('first', os.environ['WORD'])"
  - id: second
    docker_image: python:3-alpine
    depends_on: [first]
    command: python3 -c "print('second')"
""")
    done = run([jobs], cluster, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert outputs_of(tmp_path) == ["first hello\n", "second\n"]
    said = [line.split()[:2] for line in done.stdout.splitlines()]
    assert said.index(["succeeded", "first"]) < said.index(["started", "second"])


@pytest.mark.skipif(not SAMPLES.exists(), reason="the public samples are not beside the repository")
def test_hkubes_pipelines_are_refused_before_anything_is_sent(cluster, tmp_path):
    pytest.importorskip("bson", reason="needs pip install 'tarmac-gpu[hkube]'")
    pipelines = json.loads((SAMPLES / "hkube" / "pipelines.json").read_text())
    algorithms = json.loads((SAMPLES / "hkube" / "algorithms.json").read_text())
    (tmp_path / "algorithms").mkdir()
    for algorithm in algorithms:
        own = tmp_path / "algorithms" / f"{algorithm['name']}.json"
        own.write_text(json.dumps(algorithm))
    pipeline = tmp_path / "pipeline.json"
    pipeline.write_text(json.dumps(pipelines[0]))
    words = [pipeline, "--algorithms", tmp_path / "algorithms"]
    done = run(words, cluster, tmp_path)
    assert done.returncode == 2
    assert "leave their results in its run's directory, and on Kubernetes no volume" in done.stderr
    volume = f'volume = {{claim = "runs", path = "{tmp_path}"}}'
    done = run(words, cluster, tmp_path, volume)
    assert done.returncode == 2
    assert "has no command, but Tarmac starts first in its container" in done.stderr
    assert not cluster.requests.count("POST", "jobs")
