"""Ranks that a launcher has started find out which of their hosts is slow, gone or different."""

from __future__ import annotations

import contextlib
import json
import math
import os
import secrets
import subprocess
import sys
from typing import TYPE_CHECKING

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forked import process_behind, start_python
from tarmac import RequestError
from tarmac.checks.network import Port, read_network
from tarmac.checks.ranks.place import find_place, first_host, host_name
from tarmac.checks.ranks.rounds import pair_up
from tarmac.cli.check_refusals import refuse_beside_all_ranks
from tarmac.cli.commands.check import command
from waiting import limit_s, wait_until

pytest.importorskip("torch", reason="needs pip install 'tarmac-gpu[train]'")

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from forked import ForkedProcess

SLURM = {
    "SLURM_JOB_ID": "77",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NODELIST": "localhost",
    "SLURM_LOCALID": "0",
}


@given(st.integers(2, 12))
def test_each_meets_each_other_once_and_one_at_a_time(count):
    rounds = list(pair_up(range(count), most_rounds=count))
    for pairs in rounds:
        met = [unit for pair in pairs for unit in pair]
        assert len(met) == len(set(met)) >= count - 1
    everyone = {frozenset(pair) for pairs in rounds for pair in pairs}
    assert len(everyone) == sum(map(len, rounds)) == count * (count - 1) // 2


@pytest.mark.parametrize(
    ("nodes", "first"),
    [
        ("node03", "node03"),
        ("node[03-05,9],gpu1", "node03"),
        ("a,b", "a"),
        ("rack[1-2]-ib,b", "rack1-ib"),
    ],
)
def test_the_first_host_of_slurms_list_is_where_ranks_meet(nodes, first):
    assert first_host(nodes) == first


def test_a_check_of_all_ranks_is_made_with_one_python():
    for pythons in ([], ["/a"]):
        words = ["--ranks", "all", *(word for path in pythons for word in ("--python", path))]
        refuse_beside_all_ranks(command.make_context("check", words))
    words = ["--ranks", "all", "--python", "/a", "--python", "/b"]
    with pytest.raises(RequestError, match="does not go with several --python"):
        refuse_beside_all_ranks(command.make_context("check", words))


@pytest.mark.parametrize(
    ("environment", "rank", "size", "host"),
    [
        (
            {"RANK": "3", "WORLD_SIZE": "8", "MASTER_ADDR": "a", "MASTER_PORT": "29500"},
            3,
            8,
            "a",
        ),
        (SLURM | {"SLURM_PROCID": "1", "SLURM_NTASKS": "2"}, 1, 2, "localhost"),
        (
            {
                "OMPI_COMM_WORLD_RANK": "0",
                "OMPI_COMM_WORLD_SIZE": "2",
                "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
            },
            0,
            2,
            "127.0.0.1",
        ),
        # torchrun under srun: its ranks are the ones that compute.
        (
            SLURM
            | {"SLURM_PROCID": "0", "SLURM_NTASKS": "2", "RANK": "9", "WORLD_SIZE": "16"}
            | {"MASTER_ADDR": "b", "MASTER_PORT": "1"},
            9,
            16,
            "b",
        ),
    ],
)
def test_a_launchers_variables_say_which_rank_this_is(environment, rank, size, host):
    place = find_place(environment)
    assert (place.rank, place.size, place.host) == (rank, size, host)


def test_launches_on_one_host_do_not_meet_each_other():
    places = [
        find_place(SLURM | {"SLURM_PROCID": "0", "SLURM_NTASKS": "2", "SLURM_STEP_ID": step})
        for step in "01"
    ]
    assert places[0].launch != places[1].launch
    assert places[0].ports != places[1].ports


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({}, "for ranks that a launcher has started"),
        ({"RANK": "0", "WORLD_SIZE": "1"}, "expected at least 2 ranks"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "expected at least 2 ranks"),
        ({"RANK": "x", "WORLD_SIZE": "2"}, "RANK is 'x', expected a number"),
        ({"RANK": "0", "WORLD_SIZE": "2"}, "MASTER_ADDR is not set"),
    ],
)
def test_variables_that_name_no_place_are_refused(environment, message):
    with pytest.raises(RequestError, match=message):
        find_place(environment)


def test_a_host_is_called_as_slurm_calls_it():
    assert host_name({"SLURMD_NODENAME": "gpu-07"}) == "gpu-07"
    assert host_name({}) == os.uname().nodename


def test_ports_and_interfaces_are_read_from_the_kernels_files(tmp_path):
    port = tmp_path / "sys/class/infiniband/mlx5_0/ports/1"
    port.mkdir(parents=True)
    for name, text in {
        "state": "4: ACTIVE",
        "phys_state": "5: LinkUp",
        "link_layer": "InfiniBand",
        "rate": "400 Gb/sec (4X NDR)",
    }.items():
        (port / name).write_text(f"{text}\n")
    (tmp_path / "sys/class/net/ib0").mkdir(parents=True)
    driver = tmp_path / "proc/driver/nvidia/version"
    driver.parent.mkdir(parents=True)
    driver.write_text("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.126.20\n")
    network = read_network(tmp_path)
    assert network.ports == (
        Port(
            name="mlx5_0/1",
            state="ACTIVE",
            physical="LinkUp",
            layer="InfiniBand",
            rate="400 Gb/sec (4X NDR)",
        ),
    )
    assert (network.interfaces, network.open_module) == (("ib0",), True)


class Launch:
    """Four ranks of ``tarmac check --ranks all``, each on a host of its own, says Slurm.

    Args:
        arguments: What the command line has after them.
        without: A rank that is not started.
        importing: A rank that imports PyTorch for seconds, in which it meets no other.
    """

    def __init__(
        self, *arguments: str, without: int | None = None, importing: int | None = None
    ) -> None:
        job = secrets.token_hex(8)
        words = ("-m", "tarmac", "check", "--ranks", "all", "--json", *arguments)
        self.ranks: dict[int, ForkedProcess | subprocess.Popen[str]] = {}
        for rank in {*range(4)} - {without}:
            streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
            variables = {
                **os.environ,
                **SLURM,
                "SLURM_JOB_ID": job,
                "SLURM_PROCID": str(rank),
                "SLURM_NTASKS": "4",
                "SLURMD_NODENAME": f"node{rank}",
                "OMP_NUM_THREADS": "1",
            }
            if rank == importing:
                command = [sys.executable, *words]
                self.ranks[rank] = subprocess.Popen(command, env=variables, **streams)
            else:
                self.ranks[rank] = start_python(*words, env=variables, **streams)

    def probe(self, rank: int) -> psutil.Process:
        """Wait for the process that a rank has compute, and return it."""
        return wait_until(
            lambda: self._probe(rank), f"the probe of rank {rank}", unless=self.ranks[rank].poll
        )

    def _probe(self, rank: int) -> psutil.Process | None:
        for child in psutil.Process(self.ranks[rank].pid).children():
            with contextlib.suppress(psutil.Error):
                if any(word.endswith("ranks_probe.py") for word in child.cmdline()):
                    return child
        return None

    def end(self) -> tuple[dict[str, object], list[int], str]:
        """Wait for all; return rank 0's report, the exit codes, and what the others printed."""
        said = {rank: process.communicate() for rank, process in self.ranks.items()}
        report = json.loads(said.pop(0)[0])
        others = "".join(out + err for out, err in said.values())
        return report, [process.returncode for process in self.ranks.values()], others

    def close(self) -> None:
        for process in self.ranks.values():
            process.kill()
            process.communicate()


@pytest.fixture
def launch() -> Iterator[Callable[..., Launch]]:
    with contextlib.ExitStack() as started:

        def start(*arguments: str, **ranks: int) -> Launch:
            made = Launch(*arguments, **ranks)
            started.callback(made.close)
            return made

        yield start


def found(report: dict[str, object]) -> dict[str, dict[str, object]]:
    return {finding["code"]: finding for finding in report["findings"]}


def test_sound_hosts_agree_and_rank_0_alone_says_so(launch):
    report, codes, others = launch("--require", "cpus>=1").end()
    assert codes == [0, 0, 0, 0]
    assert others == ""
    assert [rank["host"] for rank in report["ranks"]["ranks"]] == [f"node{n}" for n in range(4)]
    assert {rank["torch"] for rank in report["ranks"]["ranks"]} == {
        report["probes"][0]["result"]["version"]
    }
    assert len(report["ranks"]["pairs"]) == 6
    assert all(pair["seconds"] > 0 for pair in report["ranks"]["pairs"])
    (verdict,) = report["frameworks"]
    assert verdict["name"] == "all-reduce (4 ranks on 4 hosts)"


def test_a_rank_that_never_comes_is_named_and_the_others_are_still_compared(launch):
    limit = math.ceil(limit_s(10))
    report, codes, others = launch("--timeout", str(limit), without=3).end()
    assert codes == [1, 1, 1]
    assert others == ""
    missing = found(report)["rank-missing"]
    assert (missing["where"], missing["evidence"]) == (["rank 3"], f"did not join within {limit} s")
    assert len([pair for pair in report["ranks"]["pairs"] if pair["seconds"]]) == 3


def test_a_host_that_dies_is_named(launch):
    running = launch(importing=2)
    running.probe(2)
    running.ranks[2].kill()
    report, codes, others = running.end()
    assert codes == [1, 1, -9, 1]
    assert others == ""
    lost = found(report)["rank-lost"]
    assert lost["where"] == ["node2"]
    assert lost["evidence"] == "rank 2: its connection has ended"


def test_a_host_that_hangs_is_named_and_its_partners_are_not(launch):
    running = launch("--timeout", str(math.ceil(limit_s(10))), importing=1)
    running.probe(1).suspend()
    report, codes, _ = running.end()
    assert codes == [1, 1, 1, 1]
    lost = found(report)["rank-lost"]
    assert lost["where"] == ["node1"]
    assert lost["evidence"].startswith("rank 1: gives no sign at: ")


def test_a_host_that_is_slow_with_every_partner_is_named(limited_group, launch):
    slow = limited_group("cpu", {"cpu.max": "5000 100000"})
    running = launch()
    (slow / "cgroup.procs").write_text(str(process_behind(running.probe(3).pid)))
    report, codes, _ = running.end()
    assert codes == [1, 1, 1, 1]
    assert found(report)["host-slow"]["where"] == ["node3"]


def test_ranks_of_one_host_under_torchrun_are_compared_one_by_one():
    pytest.importorskip("torch")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
            *("--nproc-per-node", "3", "--no-python"),
            *(sys.executable, "-m", "tarmac", "check", "--ranks", "all"),
        ],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    # Other tests share the cores: one rank may well be slower than the others meanwhile.
    assert done.returncode == 0 or "[host-slow]" in done.stdout, done.stdout + done.stderr
    lines = [line.split("  ")[1] for line in done.stdout.splitlines() if "median" in line]
    assert lines == ["rank 0", "rank 1", "rank 2"]
    assert done.stdout.count("In pairs") == 1
