"""examples/pbs: an engine by docs/extend-scheduler.md, with a stand-in of PBS's commands."""

from __future__ import annotations

import json
import os
import threading
import tomllib
from pathlib import Path

import pytest
from pbs_server import PbsServer

from command_line import tarmac
from tarmac.executors.queueing import Accepted, Full, Refused, Silent, TooLarge
from tarmac.jobs import find_executor
from tarmac.testing.executors import EXECUTOR_CHECKS, ExecutorCase

__all__ = ["tarmac"]

PACKAGE = Path(__file__).parents[2] / "examples" / "pbs"
LIMIT = {"Resource_List": {"walltime": "01:00:00"}, "resources_used": {"walltime": "01:00:02"}}
JOB = "{name: sweep, sweep: {repeat: 6}, command: 'sleep 0.2; echo $TARMAC_ENGINE_UNIT'}"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Start PBS, and install the package as pip would: its modules and its entry point."""
    directory = tmp_path_factory.mktemp("pbs")
    groups = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]["entry-points"]
    information = directory / "tarmac_pbs-1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: tarmac-pbs\nVersion: 1\n")
    (row,) = groups["tarmac.executors"].items()
    (information / "entry_points.txt").write_text(f"[tarmac.executors]\n{' = '.join(row)}\n")
    server = PbsServer(directory / "server")
    with pytest.MonkeyPatch.context() as patch:
        for path in (PACKAGE, directory):
            patch.syspath_prepend(str(path))
        patch.setenv("PATH", str(server.bin), prepend=os.pathsep)
        yield server
    server.close()


@pytest.fixture
def pbs(server, monkeypatch):
    """Return the server in its first state."""
    for name, value in (("has_history", True), ("refusal", ""), ("most_at_once", 0)):
        monkeypatch.setattr(server, name, value)
    return server


# The suite takes minutes; that of Slurm's engine holds the interface in `make test`.
@pytest.mark.nightly
@pytest.mark.parametrize("check", EXECUTOR_CHECKS, ids=lambda check: check.__name__)
def test_pbs_is_an_executor(check, pbs, tmp_path):
    check(ExecutorCase(kind=find_executor("pbs"), directory=tmp_path))


@pytest.mark.parametrize("has_history", [True, False])
def test_a_sweep_is_an_array_of_which_as_many_run_as_may(
    has_history, pbs, tarmac, tmp_path, monkeypatch
):
    pbs.has_history = has_history
    monkeypatch.chdir(tmp_path)
    Path("job.yaml").write_text(JOB)
    options = ("--on", "pbs", "--jobs", "2", "--output", "runs", "--json")
    code, out, err = tarmac("run", "job.yaml", *options)
    assert code == 0, err
    (result,) = json.loads(out)
    printed = {Path(task["directory"], "stdout").read_text() for task in result["tasks"]}
    (array,) = {name.partition("[")[0] for name in printed}
    assert printed == {f"{array}[{index}].pbs1\n" for index in range(6)}
    assert pbs.most_at_once == 2


def test_a_requeued_attempt_is_restarted(pbs, tarmac, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    until = f"[ $TARMAC_RESTART = 1 ] || {{ echo > {tmp_path}/pipe; sleep 600; }}"
    job = {"name": "x", "command": f"echo restart $TARMAC_RESTART; {until}"}
    Path("job.yaml").write_text(json.dumps(job))

    def requeue() -> None:
        Path("pipe").read_text()
        pbs.requeue()

    thread = threading.Thread(target=requeue, daemon=True)
    thread.start()
    code, out, err = tarmac("run", "job.yaml", "--on", "pbs", "--output", "runs", "--json")
    thread.join()
    assert code == 0, err
    (task,) = json.loads(out)[0]["tasks"]
    assert (task["outcome"], task["attempts"]) == ("succeeded", 1)
    assert Path(task["directory"], "stdout").read_text() == "restart 0\nrestart 1\n"


@pytest.mark.parametrize(
    ("values", "cause", "words"),
    [
        ({"Exit_status": 0, "substate": 92}, None, "Exit_status 0"),
        ({"Exit_status": 143, "substate": 91}, "cancelled", "deleted with qdel"),
        ({"substate": 91}, "cancelled", "deleted with qdel"),
        ({"Exit_status": 127, "substate": 93}, "start", "and its job printed: no module"),
        ({"Exit_status": 265, "substate": 93}, "signal", "PBS says Exit_status 265"),
        ({"Exit_status": 143, "substate": 93, **LIMIT}, "timeout", "in PBS, 01:00:00"),
        ({"Exit_status": -1, "substate": 93}, "start", "PBS says Exit_status -1"),
        ({"Exit_status": -4, "substate": 93}, "node", "PBS says Exit_status -4"),
    ],
)
def test_an_ended_job_has_a_cause(values, cause, words, pbs, tmp_path):
    from tarmac_pbs.engine import shown

    (tmp_path / "0.engine").write_text("no module\n")
    unit = shown("7.pbs1", {"job_state": "F", **values}, tmp_path / "0.engine")
    assert (unit.phase, unit.ending.cause) == ("over", cause)
    assert words in unit.ending.words


@pytest.mark.parametrize(
    ("refusal", "kind"),
    [
        ("would exceed queue generic's per-user limit of jobs in 'Q' state", Full),
        ("Array job exceeds server or queue size limit", TooLarge),
        ("Unknown queue", Refused),
        ("cannot connect to server pbs1 (errno=111)", Silent),
        ("", Accepted),
    ],
)
def test_an_answer_of_qsub_is_told_from_none(refusal, kind, pbs):
    from tarmac_pbs import commands

    pbs.refusal = refusal
    words = ("-N", "x", "-l", "select=1:ncpus=1", "-o", "/dev/null")
    assert isinstance(commands.submit(*words, script="true\n"), kind)
