"""Stores in place of a volume, as they are typed: what is refused, and a runner that is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from waiting import wait_until

pytest.importorskip("obstore", reason="needs pip install 'tarmac-gpu[objects]'")


@pytest.fixture
def versions(s3):
    """Return a function that counts the versions of an object: how often it was written."""
    s3.put_bucket_versioning(Bucket="bucket", VersioningConfiguration={"Status": "Enabled"})

    def count(key):
        return len(s3.list_object_versions(Bucket="bucket", Prefix=key).get("Versions", ()))

    return count


def tarmac_run(cluster, tmp_path, job, *words, **environment):
    path = tmp_path / "job.yaml"
    path.write_text(textwrap.dedent(job))
    settings = tmp_path / "settings.toml"
    settings.write_text(
        f'[kubernetes]\nkubeconfig = "{cluster.kubeconfig}"\nimage = "registry.example/tarmac:7"\n'
        f'python = "{sys.executable}"\n'
    )
    command = [sys.executable, "-m", "tarmac", "run", str(path), "--on", "kubernetes"]
    return [*command, *words], os.environ | {
        "TARMAC_SETTINGS_FILE": str(settings),
        **environment,
    }


@pytest.mark.kubernetes
@pytest.mark.parametrize("words", [(), ("--dry-run",)])
@pytest.mark.parametrize(
    ("job", "place"),
    [
        (
            "name: x\ncommand: 'true'\ninputs:\n  - from: s3://bucket/a\n  - from: here.txt\n",
            "job.yaml:5:5: inputs[1].from: task 'x': the input here.txt has no way",
        ),
        (
            "name: x\noutputs: [{path: a, to: 's3://bucket/a'}]\ntasks:\n"
            "  - {name: b, command: 'true'}\n"
            "  - name: c\n    command: 'true'\n    outputs: [{path: o, to: 'run:o'}]\n",
            "job.yaml:7:25: tasks[1].outputs[0].to: task 'c': the output o to run:o has no way",
        ),
    ],
)
def test_files_of_this_machine_are_refused_with_their_place(cluster, tmp_path, job, place, words):
    (tmp_path / "here.txt").touch()
    command, environment = tarmac_run(cluster, tmp_path, job, *words)
    refused = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert refused.returncode == 2
    assert place in refused.stderr
    assert "s3://BUCKET/" in refused.stderr


@pytest.mark.kubernetes
def test_a_secret_that_is_not_there_is_refused(cluster, tmp_path):
    job = "{name: x, command: 'true', outputs: [{path: o, to: 's3://bucket/o'}]}"
    options = ("--set", "options.kubernetes.store_secret=nothing")
    command, environment = tarmac_run(cluster, tmp_path, job, *options)
    refused = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "there is no Secret nothing in the namespace" in refused.stderr


@pytest.mark.kubernetes
def test_a_killed_runner_finds_what_its_pods_have_kept_meanwhile(cluster, tmp_path, versions):
    keys = {"AWS_ACCESS_KEY_ID": "pod-key", "AWS_SECRET_ACCESS_KEY": "pssst"}
    cluster.create_secret("keys", **keys)
    runs = tmp_path / "runs"
    job = """
    name: x
    command: 'sleep 3; echo done > out'
    outputs: [{path: out, to: "s3://bucket/results"}]
    """
    options = ("--output", str(runs), "--set", "options.kubernetes.store_secret=keys")
    command, environment = tarmac_run(cluster, tmp_path, job, *options)
    with subprocess.Popen(command, env=environment, start_new_session=True) as runner:
        wait_until(
            lambda: [p for p in cluster.pods() if p["status"].get("phase") == "Running"],
            "the pod",
            unless=runner.poll,
        )
        os.killpg(runner.pid, signal.SIGKILL)
    wait_until(lambda: versions("results/.tarmac/"), "the outputs of the pod", seconds=120)
    (run,) = [path for path in runs.iterdir() if path.is_dir()]
    again = [sys.executable, "-m", "tarmac", "run", "--resume", str(run)]
    ended = subprocess.run(again, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert versions("results/out") == 1
    assert len([*run.glob("tasks/*/attempt-*.json")]) == 1


@pytest.mark.parametrize("words", [(), ("--dry-run",)])
def test_a_search_without_a_volume_is_refused_before_it_is_made(tmp_path, words):
    settings = tmp_path / "settings.toml"
    settings.write_text('[kubernetes]\nimage = "registry.example/tarmac:7"\n')
    output = tmp_path / "runs"
    command = [sys.executable, "-m", "tarmac", "search", "mlp-evolve", "--on", "kubernetes"]
    refused = subprocess.run(
        [*command, "--workers", "2", "--output", str(output), *words],
        env=os.environ | {"TARMAC_SETTINGS_FILE": str(settings)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode == 2
    assert "no volume holds that directory" in refused.stderr
    assert 'volume = {claim = "runs", path = "/runs"}' in refused.stderr
    assert not output.exists()
