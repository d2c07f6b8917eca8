"""What tasks need and make, and their secrets, on a real Slurm."""

from __future__ import annotations

import os
import shutil
import textwrap
from pathlib import Path

import pytest

from conda_channel import make_tool, write_lock
from tarmac.environments import node_directory
from tarmac.errors import RequestError
from tarmac.jobs import Silent, create_run, parse_job, prepare, task_directory, work_on

pytestmark = pytest.mark.slurm

SETTINGS = ("JobAcctGatherType=jobacct_gather/none",)


class Ends(Silent):
    """Remembers how tasks ended."""

    def __init__(self) -> None:
        self.ends = {}

    def ended(self, ended) -> None:
        self.ends[ended.task.name] = ended


@pytest.fixture
def spool(tmp_path, monkeypatch):
    monkeypatch.setenv("TARMAC_SPOOL", str(tmp_path / "spool"))
    return tmp_path / "spool"


@pytest.fixture
def run(on_cluster, tmp_path, spool):
    """Return a function that runs a job on the cluster and returns how its tasks ended."""

    def go(text: str, **options):
        job = parse_job(textwrap.dedent(text))
        tasks = prepare(job, tmp_path, executor="slurm")
        made = create_run(job, tmp_path, tasks, tmp_path / "runs", executor="slurm")
        reporter = Ends()
        work_on(made, reporter, **options)
        printed = {
            task.name: path.read_text()
            for task in tasks
            if (path := task_directory(made.path, task) / "stdout").exists()
        }
        return reporter.ends, printed

    return go


def test_a_task_works_on_the_nodes_own_disk_with_its_inputs_and_outputs(run, tmp_path):
    (tmp_path / "data").write_text("hello\n")
    ends, printed = run(
        f"""
        name: x
        command: pwd; cat data > made
        inputs: [{{from: data}}]
        outputs: [{{path: made, to: kept}}]
        options: {{slurm: {{work: {tmp_path}/scratch/$SLURM_JOB_ID}}}}
        """
    )
    assert ends["x"].outcome == "succeeded", ends["x"].reason
    assert (tmp_path / "kept/made").read_text() == "hello\n"
    work = Path(printed["x"].strip())
    assert work.is_relative_to(tmp_path / "scratch")
    assert not work.exists()


def test_an_input_that_is_not_to_be_had_is_why_a_task_never_began(run, tmp_path):
    (tmp_path / "data").write_text("hello\n")
    ends, _ = run(f"{{name: x, command: 'true', inputs: [{{from: data, sha256: '{'0' * 64}'}}]}}")
    assert (ends["x"].outcome, ends["x"].exit_code) == ("failed", None)
    assert "not started: " in ends["x"].reason
    assert "SHA-256" in ends["x"].reason


def test_an_output_that_nothing_matches_is_said(run):
    ends, _ = run("{name: x, command: 'true', outputs: [{path: made, to: kept}]}")
    assert ends["x"].problems == ("output made: nothing matches",)


def test_tasks_of_one_environment_build_it_once_and_have_it_on_their_nodes(
    run, make_wheel, tmp_path, monkeypatch
):
    wheel = make_wheel("import sys\n\ndef main():\n    print(sys.prefix)\n", has_script=True)
    ends, printed = run(
        f"""
        name: x
        command: [tool]
        environment: {{requirements: ['{wheel}']}}
        sweep: {{repeat: 3}}
        options: {{slurm: {{store: {tmp_path}/store}}}}
        """
    )
    assert {end.outcome for end in ends.values()} == {"succeeded"}, ends
    places = set(printed.values())
    assert len(places) == 1
    assert not Path(places.pop().strip()).is_relative_to(tmp_path / "store")
    assert [path.suffix for path in (tmp_path / "store").iterdir()] == [".tar"]


def test_an_environment_of_condas_is_built_where_its_tasks_run(run, tmp_path, monkeypatch):
    pytest.importorskip("rattler", reason="needs pip install 'tarmac-gpu[conda]'")
    monkeypatch.setenv("RATTLER_CACHE_DIR", str(tmp_path / "packages"))
    make_tool(tmp_path / "channel")
    (tmp_path / "environment.yml").write_text("channels: [./channel]\ndependencies: [tool]\n")
    (tmp_path / "project").mkdir()
    write_lock(tmp_path / "project/pixi.lock", tmp_path / "channel", "tool=1.0")
    ends, printed = run(
        """
        name: x
        tasks:
        - {name: file, command: tool, environment: {kind: conda, file: environment.yml}}
        - {name: project, command: tool, environment: {path: project}}
        """
    )
    assert [end.reason for end in ends.values() if end.outcome != "succeeded"] == []
    for place in printed.values():
        assert Path(place.removeprefix("tool at ").strip()).is_relative_to(node_directory())


def test_a_container_runs_on_a_node(run, busybox_image):
    ends, printed = run(
        f"""
        name: x
        command: echo "$PLAIN in $PWD by $TARMAC_TASK"
        env: {{PLAIN: hello}}
        environment: {{image: {busybox_image}, network: none}}
        options: {{slurm: {{containers: docker}}}}
        """
    )
    assert ends["x"].outcome == "succeeded", ends["x"].reason
    assert printed["x"] == "hello in /tarmac by x\n"


# Takes what only Pyxis knows from srun's command line, and mounts nothing.
SRUN = """#!/bin/sh
if [ "$1" = --help ]; then echo --container-image; exit; fi
for word; do
  shift
  case $word in --container-*|--no-container-*) ;; *) set -- "$@" "$word" ;; esac
done
exec {srun} "$@"
"""


def test_a_program_in_a_container_of_pyxis_ends_by_itself_when_its_time_is_over(
    run, tmp_path, monkeypatch
):
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs/srun").write_text(SRUN.format(srun=shutil.which("srun")))
    (tmp_path / "programs/srun").chmod(0o755)
    (tmp_path / "image.sqsh").write_text("image\n")
    monkeypatch.setenv("PATH", f"{tmp_path}/programs:{os.environ['PATH']}")
    ends, printed = run(
        """
        name: x
        command: trap 'echo bye; exit 7' TERM; echo "$PLAIN"; while :; do sleep 0.1; done
        env: {PLAIN: "hello,  'x'"}
        timeout: 10
        environment: {image: ./image.sqsh, engine: pyxis, workdir: /}
        """
    )
    assert ends["x"].reason == "its time limit of 10 s"
    assert printed["x"] == "hello,  'x'\nbye\n"


def test_what_the_named_engine_lacks_is_refused_before_anything(on_cluster, tmp_path):
    job = parse_job(
        "{name: x, command: ['true'], environment: {image: i, ulimits: [memlock=-1]},"
        " options: {slurm: {containers: apptainer}}}"
    )
    with pytest.raises(
        RequestError, match="task 'x': container: apptainer does not support this value of ulimits"
    ):
        prepare(job, tmp_path, executor="slurm")
