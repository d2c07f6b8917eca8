"""``tarmac convert --to`` a cluster prints what a run there would submit."""

from __future__ import annotations

import json
import os
import re
import subprocess

import pytest
import yaml

from forked import run_python
from waiting import limit_s

JOB = "{name: sweep, command: 'echo {{ n }}', sweep: {grid: {n: [1, 2, 3]}}}"
PIPELINE = """
name: p
pipeline: {name: p, nodes: [{nodeName: a, algorithmName: alg, input: []}]}
algorithms: [{name: alg, algorithmImage: i, cpu: 1, mem: 256Mi}]
"""


@pytest.fixture
def tarmac(tmp_path):
    (tmp_path / "job.yaml").write_text(JOB)
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        env = os.environ | {"TARMAC_RUNS": str(tmp_path / "runs")} | variables
        return run_python("-m", "tarmac", *arguments, cwd=tmp_path, env=env, timeout=limit_s(120))

    return run


@pytest.mark.slurm
def test_slurm_gets_the_files_of_a_dry_run_and_nothing_is_made(tarmac, start_slurm, tmp_path):
    variables = start_slurm().variables
    written = tarmac("convert", "job.yaml", "--to", "slurm", **variables)
    assert written.returncode == 0, written.stderr
    assert written.stdout.startswith("#!/")
    assert "#SBATCH --array=0-2" in written.stdout
    assert written.stderr == "note: sweep: file 1 for a Slurm cluster\n"
    shown = tarmac("run", "job.yaml", "--on", "slurm", "--dry-run", **variables)
    assert written.stdout in shown.stdout
    assert not (tmp_path / "runs").exists()


def test_ray_gets_what_a_dry_run_shows_and_nobody_is_asked(tarmac, tmp_path):
    variables = {"RAY_ADDRESS": "nowhere.invalid:6379"}
    written = tarmac("convert", "job.yaml", "--to", "ray", **variables)
    assert written.returncode == 0, written.stderr
    assert json.loads(written.stdout)["tasks"] == 3
    assert written.stderr == "note: sweep: file 1 for a Ray cluster\n"
    shown = tarmac("run", "job.yaml", "--on", "ray", "--dry-run", **variables)
    assert shown.stdout.endswith(f"sweep: file 1 for a Ray cluster\n{written.stdout}")
    assert not (tmp_path / "runs").exists()


def test_without_the_commands_of_slurm_a_comment_says_what_is_assumed(tarmac, tmp_path):
    (tmp_path / "gpu.yaml").write_text("{name: x, command: 'true', resources: {gpus: 2}}")
    written = tarmac("convert", "gpu.yaml", "--to", "slurm", PATH="/nowhere")
    assert written.returncode == 0, written.stderr
    first, second, *_ = written.stdout.splitlines()
    assert first == "#!/bin/sh"
    assert second.startswith("# No Slurm has checked this")
    assert "#SBATCH --gres=gpu:2\n" in written.stdout
    (tmp_path / "gpu.yaml").write_text("{name: x, command: 'true', resources: {gpus: 0.5}}")
    refused = tarmac("convert", "gpu.yaml", "--to", "slurm", PATH="/nowhere")
    assert refused.returncode == 2
    assert "the name of a part differs between sites" in refused.stderr


def test_without_a_kubeconfig_a_comment_says_what_is_assumed(tarmac, tmp_path):
    options = "options: {kubernetes: {image: python:3.12-slim}}"
    needs = "resources: {gpus: 2, nodes: 2}"
    (tmp_path / "gpu.yaml").write_text(f"{{name: x, command: 'true', {needs}, {options}}}")
    nowhere = {"HOME": str(tmp_path), "KUBECONFIG": "", "KUBERNETES_SERVICE_HOST": ""}
    written = tarmac("convert", "gpu.yaml", "--to", "kubernetes", **nowhere)
    assert written.returncode == 0, written.stderr
    job, service = yaml.safe_load_all(written.stdout)
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "2"
    assert service["kind"] == "Service"
    assert written.stdout.startswith(
        "---\n# No cluster has checked this, because no kubeconfig was found"
    )
    shown = tarmac("run", "gpu.yaml", "--on", "kubernetes", "--dry-run", **nowhere)
    # A nonce is new each time, and a port goes with it.
    (nonce,) = re.findall(r"tarmac.dev/nonce: (\w+)", written.stdout)
    lines = [line for line in written.stdout.splitlines() if nonce not in line]
    assert {*lines} <= {*shown.stdout.splitlines()}
    run = tarmac("run", "gpu.yaml", "--on", "kubernetes", **nowhere)
    assert run.returncode == 2
    assert "no kubeconfig" in run.stderr


def test_a_kubeconfig_that_is_named_has_to_be_there(tarmac, tmp_path):
    options = "options: {kubernetes: {image: python:3.12-slim, kubeconfig: /no/such}}"
    (tmp_path / "named.yaml").write_text(f"{{name: x, command: 'true', {options}}}")
    refused = tarmac("convert", "named.yaml", "--to", "kubernetes")
    assert refused.returncode == 2
    assert "/no/such is not there" in refused.stderr


def test_a_pipeline_is_no_cluster_s_and_a_silent_cluster_is_said(tarmac, tmp_path):
    refused = tarmac("convert", "pipeline.yaml", "--to", "slurm")
    assert refused.returncode == 2
    assert refused.stderr.startswith("error: p is a pipeline")
    for name in ("sbatch", "scontrol"):
        command = tmp_path / name
        command.write_text(
            "#!/bin/sh\necho 'error: Unable to contact slurm controller' >&2; exit 1\n"
        )
        command.chmod(0o755)
    silent = tarmac("convert", "job.yaml", "--to", "slurm", PATH=f"{tmp_path}:/usr/bin:/bin")
    assert silent.returncode == 2
    assert "Slurm does not answer" in silent.stderr
    assert silent.stdout == ""
