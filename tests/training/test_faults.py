"""What happens to a training in several processes when one of them is lost, hangs or fails."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import torch
from safetensors.torch import load_file

from forked import start_python
from tarmac import RequestError, runs, train
from tarmac.training.processes.rendezvous import Rendezvous, find_rendezvous
from tarmac.training.processes.self_test import _NUM_ELEMENTS, _PERIOD, _pattern, blame
from tarmac.training.processes.watchdog import Heartbeat, name_hung
from waiting import limit_s

FAULTY = f"{Path(__file__).with_name('faulty.py')}:faulty"


def tarmac(output: Path, *arguments: str, launcher: tuple[str, ...] = (), **environment: str):
    command = [sys.executable, *launcher, "-m", "tarmac", "train"]
    done = subprocess.run(
        [*command, *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=limit_s(150),
        env=os.environ | environment | {"TARMAC_RUNS": str(output)},
    )
    left = [
        process.info["cmdline"]
        for process in psutil.process_iter(["cmdline"])
        if str(output) in (process.info["cmdline"] or [""])[-1]
    ]
    assert not left
    return done


def torchrun(num_ranks: int, *options: str) -> tuple[str, ...]:
    name = "torch.distributed.run"
    return ("-m", name, "--standalone", f"--nproc-per-node={num_ranks}", *options)


def only_run(output: Path) -> runs.Run:
    (path,) = output.iterdir()
    return runs.Run.open(path)


def assert_same_weights(first: runs.Run, second: runs.Run) -> None:
    ours, theirs = load_file(first.model), load_file(second.model)
    for name, value in ours.items():
        assert torch.equal(value, theirs[name]), name


@pytest.fixture
def undisturbed(tmp_path) -> runs.Run:
    """Return the training of two replicas in one process, which nothing happens to."""
    output = tmp_path / "undisturbed"
    return train(FAULTY, devices="cpu:2", strategy="towers", output=output)


def test_a_run_in_workers_says_how_it_was_shared(tmp_path, undisturbed):
    done = tarmac(tmp_path / "runs", FAULTY, "--devices", "cpu:2")
    assert done.returncode == 0, done.stderr
    run = only_run(tmp_path / "runs")
    assert_same_weights(run, undisturbed)
    record = json.loads((run.path / "run.json").read_text())
    assert record["configuration"]["strategy"] == "ddp"
    assert record["configuration"]["devices"] == "cpu:2"
    parallel = record["parallel"]
    assert (parallel["world_size"], parallel["backend"]) == (2, "gloo")
    assert [replica["rank"] for replica in parallel["replicas"]] == [0, 1]
    for replica in parallel["replicas"]:
        assert replica["samples_per_s"] > 0
        assert replica["device"]["type"] == "cpu"
    assert not (undisturbed.path / "logs").exists() or not list(
        (undisturbed.path / "logs").iterdir()
    )


@pytest.mark.parametrize("launcher", [(), torchrun(2, "--max-restarts=1")], ids=["own", "torchrun"])
def test_a_worker_killed_in_mid_epoch_changes_nothing(tmp_path, undisturbed, launcher):
    # 23 steps make an epoch, so the 30th is in the second one.
    done = tarmac(
        tmp_path / "runs",
        FAULTY,
        *(("--devices", "cpu:2") if not launcher else ()),
        launcher=launcher,
        FAULT="1:30:kill",
        FAULT_ONCE=str(tmp_path / "once"),
    )
    assert done.returncode == 0, done.stderr
    if not launcher:
        assert "rank 1 was killed by SIGKILL; all start again" in done.stdout
        assert "(1 of at most 3 times)" in done.stdout
    run = only_run(tmp_path / "runs")
    assert run.record.status == "completed"
    assert [row["epoch"] for row in run.history] == [1, 2, 3]
    assert_same_weights(run, undisturbed)


@pytest.fixture(scope="module")
def undisturbed_shards(tmp_path_factory) -> runs.Run:
    """Return the training of two ranks by shards, which nothing happens to."""
    output = tmp_path_factory.mktemp("shards")
    return train(FAULTY, devices="cpu:2", strategy="fsdp", output=output)


@pytest.mark.parametrize("launcher", [(), torchrun(2, "--max-restarts=1")], ids=["own", "torchrun"])
def test_a_rank_of_a_sharded_model_that_is_killed_changes_nothing(
    tmp_path, undisturbed_shards, launcher
):
    devices = ("--devices", "cpu:2") if not launcher else ()
    done = tarmac(
        tmp_path / "runs",
        *(FAULTY, *devices, "--strategy", "fsdp"),
        launcher=launcher,
        FAULT="1:30:kill",
        FAULT_ONCE=str(tmp_path / "once"),
    )
    assert done.returncode == 0, done.stderr
    if not launcher:
        assert "rank 1 was killed by SIGKILL; all start again" in done.stdout
    run = only_run(tmp_path / "runs")
    assert [row["epoch"] for row in run.history] == [1, 2, 3]
    assert_same_weights(run, undisturbed_shards)


def test_a_worker_lost_too_often_ends_the_training(tmp_path):
    done = tarmac(tmp_path, FAULTY, "--devices", "cpu:2", "--max-restarts", "1", FAULT="1:3:kill")
    assert done.returncode == 1
    run = only_run(tmp_path)
    assert done.stderr.splitlines()[-3:] == [
        "error: the training lost a worker 2 times: rank 1 was killed by SIGKILL",
        f"  Resume from the newest checkpoint: tarmac train --resume {run.path}",
        f"  Logs of the workers: {run.path / 'logs'}",
    ]
    assert run.record.status == "failed"
    resumed = tarmac(tmp_path, "--resume", str(run.path), launcher=torchrun(3))
    assert f"error: run {run.name} was started by 2 processes, and cannot resume" in resumed.stderr


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("1:30:stop", "rank 1 has not answered for"),
        ("1:30:hang", "rank 1 has not finished a step for"),
        ("1:0:hang", "rank 1 did not get ready within {timeout} s of the others"),
    ],
)
def test_a_rank_that_hangs_is_named(tmp_path, fault, message):
    # On a busy machine one rank may be ready seconds before the others, and none of them hangs.
    timeout = str(round(limit_s(4)))
    message = message.format(timeout=timeout)
    options = ("--devices", "cpu:2", "--max-restarts", "0", "--hang-timeout", timeout)
    done = tarmac(tmp_path, FAULTY, *options, FAULT=fault)
    assert done.returncode == 1
    assert f"error: the training lost a worker: {message}" in done.stderr
    assert message in only_run(tmp_path).record.error


@pytest.mark.parametrize("launcher", [(), torchrun(4)], ids=["own", "torchrun"])
def test_an_error_on_rank_3_is_said_once_as_rank_3s(tmp_path, launcher):
    options = ("--devices", "cpu:4") if not launcher else ()
    done = tarmac(tmp_path, FAULTY, *options, launcher=launcher, FAULT="3:30:fail")
    assert done.returncode == 1
    run = only_run(tmp_path)
    said = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert said == ["error: rank 3: ValueError: the pigeons are"]
    assert run.record.status == "failed"
    assert run.record.error.startswith("rank 3: ValueError: the pigeons are\nasleep")
    if not launcher:
        assert done.stderr.count("pigeons") == 1
        assert "Traceback" not in done.stderr
        log = run.path / "logs" / "rank-3.err"
        assert str(log) in done.stderr
        assert "raise ValueError" in log.read_text()


def test_an_error_on_all_ranks_is_said_once(tmp_path):
    done = tarmac(tmp_path, FAULTY, launcher=torchrun(3), FAULT="all:30:fail")
    assert done.returncode == 1
    assert done.stderr.count("pigeons") == 1
    (said,) = re.findall(
        r"^error: rank \d: ValueError: the pigeons are$", done.stderr, re.MULTILINE
    )
    assert only_run(tmp_path).record.error.startswith(said.removeprefix("error: "))


@pytest.mark.parametrize("fault", ["terminate_launcher", "interrupt_everyone"])
def test_a_signal_saves_the_state_of_all_ranks_together(tmp_path, undisturbed, fault):
    output = tmp_path / "runs"
    process = subprocess.Popen(
        [sys.executable, "-m", "tarmac", "train", FAULTY, "--devices", "cpu:2"],
        env=os.environ | {"TARMAC_RUNS": str(output), "FAULT": f"1:30:{fault}"},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    _, err = process.communicate(timeout=limit_s(100))
    assert process.returncode == 130
    run = only_run(output)
    assert err.splitlines()[-2:] == [
        "interrupted; the state is saved",
        f"  Resume it: tarmac train --resume {run.path}",
    ]
    assert run.record.status == "interrupted"
    # The launcher may hear of it some steps later.
    assert len(run.history) < 3
    assert tarmac(output, "--resume", str(run.path)).returncode == 0
    assert_same_weights(only_run(output), undisturbed)


def test_workers_do_not_outlive_their_launcher(tmp_path):
    process = start_python(
        *("-m", "tarmac", "train", FAULTY, "--devices", "cpu:2"),
        env=os.environ | {"TARMAC_RUNS": str(tmp_path), "FAULT": "1:30:hang"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert any("epoch 1/3" in line for line in process.stdout)
    workers = psutil.Process(process.pid).children(recursive=True)
    assert len(workers) >= 2
    process.send_signal(signal.SIGKILL)
    process.communicate()
    _, alive = psutil.wait_procs(workers, timeout=limit_s(60))
    assert not alive
    resumed = tarmac(tmp_path, "--resume", "latest")
    assert resumed.returncode == 0, resumed.stderr


def test_a_wrong_sum_is_blamed_on_the_pair(tmp_path):
    script = tmp_path / "broken_link.py"
    script.write_text(
        "import torch\n"
        "import torch.distributed as dist\n"
        "from tarmac import TarmacError\n"
        "from tarmac.errors import PeerFailed\n"
        "from tarmac.training.processes.self_test import check_all_reduce\n"
        "dist.init_process_group('gloo')\n"
        "rank = dist.get_rank()\n"
        "def broken(tensor, group=None):\n"
        "    members = dist.get_process_group_ranks(group)\n"
        "    dist.all_reduce(tensor, group=group)\n"
        "    if {0, 2} <= set(members) and rank == 2:\n"
        "        tensor[1234] += 1\n"
        "try:\n"
        "    check_all_reduce(['a', 'b', 'c'], rank, torch.device('cpu'))\n"
        "    check_all_reduce(['a', 'b', 'c'], rank, torch.device('cpu'), broken)\n"
        "except PeerFailed:\n"
        "    pass\n"
        "except TarmacError as error:\n"
        "    print(rank, error.message)\n"
        "dist.barrier()\n"
        "dist.destroy_process_group()\n"
    )
    done = subprocess.run(
        [sys.executable, *torchrun(3), str(script)],
        check=False,
        capture_output=True,
        text=True,
        timeout=limit_s(100),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "0 the all-reduce self-test gave a wrong sum between a (rank 0) and c (rank 2)"
    ]


def test_a_self_test_that_does_not_end_says_so(tmp_path):
    script = tmp_path / "dead_link.py"
    script.write_text(
        "import os, threading\n"
        "from tarmac.cli import main\n"
        "from tarmac.training.processes.self_test import check_all_reduce\n"
        "if os.environ['RANK'] == '1':\n"
        "    check_all_reduce.__defaults__ = (lambda *_, **__: threading.Event().wait(),)\n"
        f"main(['train', 'digits-mlp', '--no-check', '--hang-timeout', '{round(limit_s(4))}'])\n"
    )
    done = subprocess.run(
        [sys.executable, *torchrun(2), str(script)],
        check=False,
        capture_output=True,
        text=True,
        timeout=limit_s(100),
        env=os.environ | {"TARMAC_RUNS": str(tmp_path / "runs")},
    )
    assert done.returncode == 1
    (said,) = re.findall("^error: .*", done.stderr, re.MULTILINE)
    assert "s, in the all-reduce self-test over " in said
    assert said.endswith("; try NCCL_P2P_DISABLE=1, or --strategy towers")


@pytest.mark.parametrize("rank", [0, 1, 7])
def test_numbers_of_the_self_test_differ_by_place_and_by_rank(rank):
    place = torch.arange(_NUM_ELEMENTS)
    expected = ((place * (2 * rank + 3) + rank) % _PERIOD).float()
    assert torch.equal(_pattern(rank, torch.device("cpu")), expected)


def test_a_sum_that_is_wrong_only_for_all_blames_no_pair():
    assert "although each pair of them gave a right one" in blame(["a", "b", "c"], [])


def heartbeat(beats: int, *, waits: bool) -> Heartbeat:
    return Heartbeat(beats=beats, waits=waits, looks=7)


@pytest.mark.parametrize(
    ("waits", "still", "silent", "message"),
    [
        ((True, True), (9, 9), (0, 0), None),
        ((True, False), (11, 11), (0, 0), "rank 1 has not finished a step for 11 s"),
        ((True, True), (11, 12), (0, 0), "all ranks have waited for each other for 11 s"),
        ((True, True), (11, 3), (0, 0), None),
        ((True, False), (11, 11), (0, 30), "rank 1 has not answered for 30 s"),
        ((True, False), (11, 11), (0, 9), "rank 1 has not answered for 9 s"),
        ((False, False), (11, 12), (0, 0), "ranks 0, 1 have not finished a step for 12 s"),
    ],
)
def test_who_hangs_is_told_from_heartbeats(waits, still, silent, message):
    found = name_hung(
        {rank: heartbeat(5, waits=waits[rank]) for rank in (0, 1)},
        dict(enumerate(still)),
        dict(enumerate(silent)),
        limit_s=10,
    )
    assert (found is None) == (message is None)
    if found is not None:
        assert found[0].startswith(message)


RANKS = {
    "RANK": "1",
    "WORLD_SIZE": "2",
    "LOCAL_RANK": "1",
    "MASTER_ADDR": "localhost",
    "MASTER_PORT": "29500",
}


def test_the_variables_of_a_launcher_are_obeyed():
    assert find_rendezvous({}, 1) is None
    assert find_rendezvous({"MASTER_PORT": "1"}, 1) is None
    assert find_rendezvous(RANKS, 1) == Rendezvous(
        rank=1,
        world_size=2,
        local_rank=1,
        local_world_size=2,
        address="localhost:29500",
        launch="",
        num_restarts=0,
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"WORLD_SIZE": ""}, "RANK=1, .* set, but not WORLD_SIZE"),
        ({"MASTER_ADDR": "", "MASTER_PORT": ""}, "set, but not MASTER_ADDR, MASTER_PORT"),
        ({"RANK": "first"}, "RANK is 'first', expected a number"),
        ({"MASTER_PORT": "99999"}, "MASTER_PORT is 99999, expected 1 to 65535"),
        ({"RANK": "2"}, "contradict each other"),
        ({"LOCAL_WORLD_SIZE": "1"}, "contradict each other"),
        ({"LOCAL_WORLD_SIZE": "3"}, "contradict each other"),
    ],
)
def test_mixed_variables_of_a_launcher_are_refused(changes, message):
    with pytest.raises(RequestError, match=message):
        find_rendezvous(RANKS | changes, 1)


def test_a_port_in_use_is_said(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ranks = RANKS | {
            "RANK": "0",
            "LOCAL_RANK": "0",
            "WORLD_SIZE": "1",
            "MASTER_PORT": str(port),
        }
        done = tarmac(tmp_path, "digits-mlp", **(ranks | {"MASTER_ADDR": "127.0.0.1"}))
    assert done.returncode == 2
    assert f"the rendezvous address 127.0.0.1:{port} is in use" in done.stderr
    assert not tmp_path.exists() or not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("digits-mlp", "--nonsense"), "unknown option '--nonsense'"),
        (("nosuch",), "unknown workload 'nosuch'"),
        (("digits-mlp", "--batch-size", "1"), "batch_size is 1, which 2 devices cannot share"),
        (("digits-mlp", "--devices", "cpu:3"), "devices is 'cpu:3', but 2 processes were started"),
        (("digits-mlp", "--strategy", "towers"), "strategy is 'towers', but 2 processes were"),
    ],
)
def test_a_wrong_line_under_torchrun_is_refused_once(tmp_path, arguments, message):
    done = tarmac(tmp_path, *arguments, launcher=torchrun(2))
    assert len(re.findall("^error: ", done.stderr, re.MULTILINE)) == 1
    assert f"error: {message}" in done.stderr
    assert not list(tmp_path.iterdir())
