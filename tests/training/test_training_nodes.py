"""A training on several nodes: processes of this machine, begun as agents begin them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from forked import start_python
from tarmac import RequestError, ranks, runs, train
from tarmac.ranks import find_node
from tarmac.training.processes.rendezvous import find_rendezvous
from tarmac.training.processes.self_test import stuck
from waiting import limit_s

PYTHON = sys.executable
FAULTY = f"{Path(__file__).with_name('faulty.py')}:faulty"


class Nodes:
    """Two processes ``tarmac train``, each as on a node of its own."""

    def __init__(self, port: int, output: Path, *arguments: str, **variables: str) -> None:
        self.processes = [
            start_python(
                *("-m", "tarmac", "train", *arguments),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                env={
                    **os.environ,
                    "TARMAC_RUNS": str(output),
                    "TARMAC_NODES": "2",
                    "TARMAC_NODE_RANK": str(rank),
                    "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": str(port),
                    "SLURMD_NODENAME": f"n{rank + 1}",
                    "TARMAC_LAUNCH": "the-run/0",
                    **variables,
                },
            )
            for rank in range(2)
        ]

    def end(self) -> tuple[list[int], str, str]:
        """Return the exit codes, and what all have printed, once they have ended."""
        try:
            printed = [process.communicate(timeout=limit_s(150)) for process in self.processes]
        finally:
            self.kill()
        codes = [process.returncode for process in self.processes]
        return codes, "".join(out for out, _ in printed), "".join(err for _, err in printed)

    def kill(self) -> None:
        """Kill all, and what they have started."""
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture
def start(reserve_port):
    """Return a function that starts a training on two nodes."""
    return lambda *words, **variables: Nodes(reserve_port(), *words, **variables)


def only_run(output: Path) -> runs.Run:
    (path,) = output.iterdir()
    return runs.Run.open(path)


def assert_same_weights(first: runs.Run, second: runs.Run) -> None:
    ours, theirs = load_file(first.model), load_file(second.model)
    for name, value in ours.items():
        assert torch.allclose(value, theirs[name], rtol=0, atol=1e-6), name


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> runs.Run:
    """Return the training of two replicas in one process, which nothing happens to."""
    output = tmp_path_factory.mktemp("undisturbed")
    return train(FAULTY, devices="cpu:2", strategy="towers", output=output)


def test_two_nodes_train_as_two_ranks_of_one(start, tmp_path, undisturbed):
    codes, out, err = start(tmp_path / "runs", FAULTY, "--devices", "cpu").end()
    assert codes == [0, 0], err
    assert out.count("run /") == 1
    run = only_run(tmp_path / "runs")
    assert run.record.parallel.world_size == 2
    assert_same_weights(run, undisturbed)
    for name, value in undisturbed.metrics.items():
        if "accuracy" in name or "loss" in name:
            assert run.metrics[name] == pytest.approx(value, abs=1e-6), name


def test_two_nodes_of_two_devices_are_four_ranks(start, tmp_path):
    codes, _, err = start(
        tmp_path / "runs", "digits-mlp", "--epochs", "1", "--devices", "cpu:2"
    ).end()
    assert codes == [0, 0], err
    record = only_run(tmp_path / "runs").record
    assert [replica.rank for replica in record.parallel.replicas] == [0, 1, 2, 3]


def test_a_rank_that_is_killed_ends_the_training_on_both_nodes(start, tmp_path):
    codes, _, err = start(tmp_path / "runs", FAULTY, "--devices", "cpu", FAULT="1:30:kill").end()
    # The first node only misses the other.
    assert codes == [os.EX_TEMPFAIL, 128 + signal.SIGKILL]
    assert "rank 1 was killed by SIGKILL" in err


@pytest.mark.parametrize(
    "program",
    ["[ $RANK = 0 ] && exit 3; exec sleep 600", "[ $RANK = 0 ] && exit 0; sleep 0.2; exit 3"],
    ids=["failed", "succeeded"],
)
def test_a_rank_ends_the_others_of_its_node_where_it_failed(monkeypatch, program):
    monkeypatch.setattr(ranks, "_AFTERLIFE_S", 0.0)
    node = ranks.Node(rank=0, count=1, environment=os.environ)
    assert ranks.start_ranks(node, ["sh", "-c", program], devices="cpu:2") == 3


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("1:30:stop", "rank 1 has not answered for"),
        ("0:30:hang", "rank 0 has not finished a step for"),
        ("0:30:stop", "rank 0 has not answered for"),
    ],
)
def test_a_rank_that_hangs_ends_the_other_node_as_a_lost_one_would(start, tmp_path, fault, message):
    options = (FAULTY, "--devices", "cpu", "--hang-timeout", str(round(limit_s(4))))
    nodes = start(tmp_path / "runs", *options, FAULT=fault)
    other = nodes.processes[1 - int(fault[0])]
    _, err = other.communicate(timeout=limit_s(120))
    # What hangs is ended by whoever started it.
    nodes.kill()
    assert other.returncode == os.EX_UNAVAILABLE
    assert f"error: {message}" in err


def test_the_next_beginning_of_a_task_goes_on_from_the_newest_checkpoint(
    start, tmp_path, undisturbed
):
    fault = {"FAULT": "1:30:kill", "FAULT_ONCE": str(tmp_path / "once")}
    options = (tmp_path / "runs", FAULTY, "--devices", "cpu")
    codes, _, _ = start(*options, **fault).end()
    assert codes[1] != 0
    codes, _, err = start(*options, **fault).end()
    assert codes == [0, 0], err
    run = only_run(tmp_path / "runs")
    assert len(run.record.sessions) == 2
    assert [row["epoch"] for row in run.history] == [1, 2, 3]
    assert_same_weights(run, undisturbed)
    # Once it is done there is nothing to do again.
    codes, _, err = start(*options, **fault).end()
    assert codes == [0, 0], err
    assert len(only_run(tmp_path / "runs").record.sessions) == 2


def test_a_training_in_one_process_goes_on_likewise(tmp_path, monkeypatch):
    monkeypatch.setenv("TARMAC_LAUNCH", "the-run/0")
    stopped = train("digits-mlp", epochs=2, device="cpu", output=tmp_path, interrupted=lambda: True)
    assert stopped.record.status == "interrupted"
    done = train("digits-mlp", epochs=2, device="cpu", output=tmp_path)
    assert (done.path, done.record.status) == (stopped.path, "completed")
    again = train("digits-mlp", epochs=2, device="cpu", output=tmp_path)
    assert (again.path, len(again.record.sessions)) == (done.path, 2)
    monkeypatch.setenv("TARMAC_LAUNCH", "the-run/1")
    other = train("digits-mlp", epochs=1, device="cpu", output=tmp_path)
    assert other.path != done.path


def test_a_signal_to_all_processes_of_a_node_saves_the_state(start, tmp_path, undisturbed):
    options = (tmp_path / "runs", FAULTY, "--devices", "cpu")
    codes, _, err = start(*options, FAULT="1:30:terminate_group").end()
    assert codes == [130, 130], err
    assert only_run(tmp_path / "runs").record.status == "interrupted"
    codes, _, err = start(*options).end()
    assert codes == [0, 0], err
    assert_same_weights(only_run(tmp_path / "runs"), undisturbed)


def test_a_self_test_that_hangs_between_hosts_asks_for_their_network():
    assert "n1 cuda:0, n2 cuda:0; name the network between" in stuck(["n1 cuda:0", "n2 cuda:0"])
    assert "NCCL_P2P_DISABLE" in stuck(["n1 cuda:0", "n1 cuda:1"])


def test_a_self_test_that_hangs_names_the_hosts_that_do_not_reach_each_other():
    why = "n2 cannot reach n1 at 10.0.0.1:41233 (No route to host)"
    assert f"self-test: {why}; is there a firewall" in stuck(["n1 cuda:0", "n2 cuda:0"], why)


def test_a_python_program_on_several_nodes_is_told_to_use_a_launcher():
    with pytest.raises(RequestError, match="once on each of 2 nodes") as raised:
        find_rendezvous({"TARMAC_NODES": "2", "TARMAC_NODE_RANK": "0"}, 1)
    assert "torchrun" in raised.value.hint


def test_what_starts_the_ranks_of_a_node_waits_for_no_framework(tmp_path):
    script = (
        "import sys\n"
        "from tarmac.ranks import Node, start_ranks\n"
        "node = Node(rank=0, count=2, environment={})\n"
        "assert start_ranks(node, ['true'], devices='cpu:2') == 0\n"
        "assert start_ranks(node, ['false'], devices='cpu') == 1\n"
        "assert 'torch' not in sys.modules\n"
    )
    # A fork has imported it.
    subprocess.run([PYTHON, "-c", script], check=True, cwd=tmp_path)


def test_a_node_without_a_place_to_meet_is_refused():
    with pytest.raises(RequestError, match="TARMAC_NODE_RANK=, MASTER_ADDR=a, MASTER_PORT="):
        find_node({"TARMAC_NODES": "2", "MASTER_ADDR": "a"})


@pytest.mark.parametrize(
    "environment", [{}, {"TARMAC_NODES": "1"}, {"TARMAC_NODES": "2", "RANK": "1"}]
)
def test_one_node_and_a_rank_start_no_ranks(environment):
    assert find_node(environment) is None
