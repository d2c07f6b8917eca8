"""One attempt on several nodes, which are processes of this machine."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tarmac.node.inbox import Inbox
from tarmac.node.member import Member
from tarmac.node.rendezvous import Invitation, Line, hosts_of, reach

HERE = Path(__file__).parent


@pytest.fixture
def on_nodes(run):
    """Return what starts a Python program on two nodes, or more: its element and its agent."""

    def start(program: str, *, count: int = 2, gpus: int = 0, **variables: str):
        element = run.element(
            sys.executable, "-c", program, nodes=count, gpus=gpus, is_pretending=True
        )
        given = {
            "PATH": f"{HERE}:{os.environ['PATH']}",
            "SLURM_JOB_ID": "80",
            "SLURMD_NODENAME": "n1",
            "SLURM_JOB_NODELIST": f"n[1-{count}]",
            "CUDA_VISIBLE_DEVICES": "0,1",
        }
        return element, run.start(element, **{**given, **variables})

    return start


def test_a_program_on_each_node_is_told_where_all_meet(run, on_nodes):
    names = (
        "NODE_RANK NNODES TARMAC_NODE_RANK TARMAC_NODES TARMAC_GPUS_PER_NODE PET_NODE_RANK "
        "PET_NNODES PET_NPROC_PER_NODE MASTER_ADDR MASTER_PORT"
    )
    element, agent = on_nodes(
        f"import os; print(*(os.environ[n] for n in {names!r}.split()), "
        "'TARMAC_RENDEZVOUS' in os.environ)",
        gpus=2,
    )
    assert run.end(agent) == (0, "")
    record = run.record(element)
    assert (record.outcome, record.exit_code, record.gpus) == ("succeeded", 0, ["0", "1"] * 2)
    first = run.printed(element).split()
    second = run.printed(element, "stdout.node-1").split()
    assert first[:8] == ["0", "2", "0", "2", "2", "0", "2", "2"]
    assert second[:8] == ["1", "2", "1", "2", "2", "1", "2", "2"]
    assert first[8:] == second[8:]
    assert first[-1] == "False"


def test_programs_meet_where_the_first_one_listens(run, on_nodes):
    pipe = run.pipe()
    element, agent = on_nodes(f"""
import os, socket
address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if os.environ["NODE_RANK"] == "0":
    with socket.create_server(("", address[1])) as server:
        open({str(pipe)!r}, "w").close()
        print(server.accept()[0].recv(10).decode())
else:
    open({str(pipe)!r}).read()
    socket.create_connection(address).sendall(b"hello")
""")
    assert run.end(agent) == (0, "")
    assert run.printed(element) == "hello\n"


def test_the_failure_of_one_node_ends_all_and_is_named_with_its_last_lines(run, on_nodes):
    element, agent = on_nodes("""
import os, signal, sys
if os.environ["NODE_RANK"] == "1":
    for number in range(30):
        print("line", number, file=sys.stderr)
    sys.exit(7)
signal.pause()
""")
    code, _ = run.end(agent)
    record = run.record(element)
    assert (code, record.outcome, record.cause, record.exit_code) == (7, "failed", "exit", 7)
    assert record.reason == "n2 (node 1): exit code 7"
    assert run.printed(element, "stderr").splitlines() == [
        "--- the last lines of n2 (node 1):",
        *(f"line {number}" for number in range(10, 30)),
        "--- n2 (node 1): exit code 7; the attempt was ended on all of its nodes",
    ]


def test_lines_of_a_node_are_told_whole_or_not_at_all(run, on_nodes):
    # Only who runs the job knows the secrets that it masks: half of one is none of these.
    element, agent = on_nodes("""
import os, signal, sys
if os.environ["NODE_RANK"] == "1":
    print("x" * 20000 + "-half-a-secret", file=sys.stderr)
    print("error:", *["word"] * 58, "s3cret" * 10, file=sys.stderr)
    sys.exit(69)
signal.pause()
""")
    run.end(agent)
    reason = run.record(element).reason
    assert reason.startswith("n2 (node 1): exit code 69: word word")
    assert reason.endswith("word ...")
    assert "half-a-secret" not in run.printed(element, "stderr")


def test_a_node_that_only_lost_the_others_is_not_the_one_that_failed(run, on_nodes):
    pipe = run.pipe()
    element, agent = on_nodes(f"""
import os, sys
if os.environ["NODE_RANK"] == "0":
    open({str(pipe)!r}).read()
    sys.exit(75)
os.environ["NODE_RANK"] == "1" and open({str(pipe)!r}, "w").close()
sys.exit(3)
""")
    run.end(agent)
    record = run.record(element)
    assert (record.exit_code, record.reason) == (3, "n2 (node 1): exit code 3")


def test_a_node_that_has_found_another_one_hung_says_so_in_its_own_words(run, on_nodes):
    element, agent = on_nodes("""
import os, signal, sys
if os.environ["NODE_RANK"] == "0":
    sys.exit(print("error: rank 1 has not answered for 31 s", file=sys.stderr) or 69)
signal.pause()
""")
    run.end(agent)
    record = run.record(element)
    assert record.reason == "n1 (node 0): exit code 69: rank 1 has not answered for 31 s"


def test_a_node_whose_agent_is_killed_is_lost_and_the_others_end(run, on_nodes):
    element, agent = on_nodes("""
import os, signal
if os.environ["NODE_RANK"] == "1":
    os.kill(os.getppid(), signal.SIGKILL)
os.environ["NODE_RANK"] == "0" and signal.pause()
""")
    run.end(agent)
    record = run.record(element)
    assert (record.outcome, record.cause, record.exit_code) == ("failed", "node", None)
    assert record.reason == "n2 (node 1) was lost: its agent is gone"


def test_nodes_that_srun_does_not_start_are_named(run, on_nodes):
    element, agent = on_nodes("", count=3, ABSENT="n1 n2 n3")
    run.end(agent)
    record = run.record(element)
    assert (record.outcome, record.cause) == ("failed", "node")
    assert record.reason == (
        "n1 (node 0), n2 (node 1), n3 (node 2) did not connect before srun ended; "
        "its output is in the engine's log"
    )


def test_a_node_that_never_comes_is_named(run):
    element = run.element("true", nodes=3)
    done = subprocess.run(
        [sys.executable, str(HERE / "conduct.py"), str(run.agent), str(run.chunk(element))],
        env={
            "PATH": f"{HERE}:{os.environ['PATH']}",
            "SLURM_JOB_NODELIST": "n[1-3]",
            "ABSENT": "n2 n3",
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    # On a busy machine the srun of the tests may end before the time is over.
    assert done.stdout.startswith("failed node: n2 (node 1), n3 (node 2) did not connect ")


def test_a_node_without_its_gpus_is_named(run, on_nodes):
    element, agent = on_nodes("", gpus=2, CUDA_VISIBLE_DEVICES="0")
    run.end(agent)
    record = run.record(element)
    assert (record.outcome, record.cause) == ("failed", "start")
    assert "(node " in record.reason
    assert "1 of 2 GPUs" in record.reason


# An agent that says all at once, as one does whose conductor's node is busy: in the place of srun,
# for both nodes.
SAYS_ALL_AT_ONCE = """
import json, os, socket, sys
port, token, *_ = os.environ["TARMAC_RENDEZVOUS"].split()
ended = {"do": "ended", "outcome": "failed", "cause": "start", "reason": "so", "tail": ""}
lines = []
for rank in (0, 1):
    line = socket.create_connection(("127.0.0.1", int(port)))
    line.sendall(token.encode() + b"\\n")
    assert line.recv(100).strip().decode() == token
    hello = {"rank": rank, "host": f"n{rank + 1}", "addresses": [], "port": 1, "gpus": []}
    said = [hello, ended] if rank else [hello]
    line.sendall(b"".join(json.dumps(each).encode() + b"\\n" for each in said))
    lines.append(line)
heard = b""
while b'"end"' not in heard:
    heard += lines[0].recv(100) or sys.exit("no end came")
lines[0].sendall(json.dumps({**ended, "outcome": "interrupted"}).encode() + b"\\n")
"""


def test_what_a_node_says_right_after_it_has_come_is_heard(run, tmp_path):
    (tmp_path / "bin").mkdir()
    srun = tmp_path / "bin" / "srun"
    srun.write_text(f'#!/usr/bin/env -S "{sys.executable}"\n{SAYS_ALL_AT_ONCE}')
    srun.chmod(0o755)
    element = run.element("true", nodes=2)
    done = subprocess.run(
        [sys.executable, str(HERE / "conduct.py"), str(run.agent), str(run.chunk(element))],
        env={"PATH": f"{srun.parent}:{os.environ['PATH']}", "SLURM_JOB_NODELIST": "n[1-2]"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == "failed start: n2 (node 1): so\n"


def test_an_agent_without_srun_says_so(run, on_nodes, tmp_path):
    (tmp_path / "bin").mkdir()
    element, agent = on_nodes("", PATH=str(tmp_path / "bin"))
    run.end(agent)
    record = run.record(element)
    assert (record.cause, record.reason) == (
        "start",
        "not started: srun: No such file or directory",
    )


@pytest.fixture
def inbox():
    """Give what an agent is asked by, and signals back afterwards."""
    signals = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)
    before = {number: signal.getsignal(number) for number in signals}
    made = Inbox(signals_all=False)
    yield made
    signal.set_wakeup_fd(-1)
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_node_answers_others_after_one_whose_connection_broke(run, inbox):
    with socket.create_server(("127.0.0.1", 0)) as server:
        there = socket.create_connection(server.getsockname())
        here, _ = server.accept()
    element = run.element("true", nodes=2)
    member = Member(element, 0, Line(here), "token", inbox)
    invitation = Invitation(["127.0.0.1"], member.port, "token")
    with there, here, member.answering():
        _, broken = reach(invitation, 30.0)
        # It is reset, not closed.
        broken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        broken.close()
        _, connection = reach(invitation, 30.0)
        connection.close()


@pytest.mark.parametrize("is_killed", [False, True], ids=["asked", "killed"])
def test_the_programs_of_all_nodes_end_with_the_agent_that_conducts(run, on_nodes, is_killed):
    pipe = run.pipe()
    element, agent = on_nodes(f"""
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, {{signal.SIGTERM}})
with open({str(pipe)!r}, "w") as held:
    held.write("x")
    held.flush()
    signal.sigwait({{signal.SIGTERM}})
    print("saved", flush=True)
""")
    with pipe.open() as ready:
        assert ready.read(2) == "xx"
        agent.send_signal(signal.SIGKILL if is_killed else signal.SIGUSR1)
        # Both programs hold it until they end.
        assert ready.read() == ""
    run.end(agent)
    if not is_killed:
        record = run.record(element)
        assert (record.outcome, record.cause) == ("interrupted", "timeout")
        assert record.reason == "its engine announced its end (SIGUSR1)"
        assert run.printed(element) == "saved\n"
        assert run.printed(element, "stdout.node-1") == "saved\n"


def test_what_ends_the_conductors_processes_leaves_other_agents_time_for_their_programs(
    run, on_nodes
):
    element, agent = on_nodes("""
import os
print("TARMAC_RUN=" in open(f"/proc/{os.getppid()}/environ").read(), "TARMAC_RUN" in os.environ)
""")
    assert run.end(agent) == (0, "")
    assert run.printed(element) == "False True\n"


@pytest.mark.parametrize(
    ("nodes", "hosts"),
    [
        ("n[1-2]", ["n1", "n2"]),
        ("gpu-a", ["gpu-a"]),
        ("n[08-10,12],x1", ["n08", "n09", "n10", "n12", "x1"]),
        ("r[1-2]c[1,3]", ["r1c1", "r1c3", "r2c1", "r2c3"]),
        ("", []),
    ],
)
def test_hosts_are_read_from_slurms_list(nodes, hosts):
    assert hosts_of(nodes) == hosts
