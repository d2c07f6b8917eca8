"""``tarmac convert --to`` a cluster prints what a run there would submit."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

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
        return subprocess.run(
            [sys.executable, "-m", "tarmac", *arguments],
            cwd=tmp_path,
            env=os.environ | {"TARMAC_RUNS": str(tmp_path / "runs")} | variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    return run


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


def test_a_pipeline_is_no_cluster_s_and_a_silent_cluster_is_said(tarmac):
    refused = tarmac("convert", "pipeline.yaml", "--to", "slurm")
    assert refused.returncode == 2
    assert refused.stderr.startswith("error: p is a pipeline")
    silent = tarmac("convert", "job.yaml", "--to", "slurm", PATH="/nowhere")
    assert silent.returncode == 2
    assert silent.stdout == ""
