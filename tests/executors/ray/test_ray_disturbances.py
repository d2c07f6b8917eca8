"""What befalls tasks on Ray: workers and nodes that are killed, nodes that are full, and bounds."""

from __future__ import annotations

import json
import os
import signal

import psutil
import pytest

from tarmac.errors import RequestError
from tarmac.jobs import Began, Waiting, find_executor
from tarmac.processes.handles import has_ended

pytestmark = pytest.mark.ray

# Its tasks are on the other nodes, which are killed.
HEAD = {"num_cpus": 0, "num_gpus": 0}
NODES = (
    {"num_cpus": 4, "num_gpus": 1, "node_name": "n1", "resources": {"accelerator_type:T4": 1}},
    {"num_cpus": 4, "num_gpus": 1, "node_name": "n2", "resources": {"accelerator_type:A100": 1}},
)

# The first attempt stays, the others are done at once.
STAYS_ONCE = (
    "echo $$ >> {0}/pids; echo $PPID >> {0}/agents; if [ $TARMAC_ATTEMPT = 1 ]; then sleep 600; fi"
)


def alive(pids: list[str]) -> list[str]:
    """Return those that have not ended; one that waits for its parent to see it has."""
    return [pid for pid in pids if not has_ended(int(pid))]


def test_a_worker_that_is_killed_takes_its_program_along_and_the_task_begins_again(runs, tmp_path):
    killed = []

    def kill(progress):
        if not killed and (agents := runs.lines("agents")):
            worker = psutil.Process(int(agents[0])).parent()
            killed.append(worker.pid)
            os.kill(worker.pid, signal.SIGKILL)

    progress = runs(f"{{name: x, command: '{STAYS_ONCE.format(tmp_path)}'}}", kill)
    (end,) = progress.ends.values()
    assert (end.outcome, end.attempts) == ("succeeded", 2), end
    assert progress.retries == ["its Ray worker ended unexpectedly"]
    assert not alive(runs.lines("pids")), "the first attempt's program goes on"


def test_tasks_share_a_gpu_by_parts_as_far_as_it_goes(runs, tmp_path):
    line = f"date +%s%N; sleep 0.5; date +%s%N; echo $CUDA_VISIBLE_DEVICES >> {tmp_path}/seen"
    job = "{{name: x, sweep: {{repeat: {0}}}, resources: {{cpus: 0.1, gpus: {1}}}, command: '{2}'}}"

    def most_at_once(num, gpus):
        progress = runs(job.format(num, gpus, line))
        assert {end.outcome for end in progress.ends.values()} == {"succeeded"}
        marks = []
        for began in progress.of(Began):
            printed = (began.attempt.directory / "stdout").read_text().split()[-2:]
            marks += [(int(printed[0]), 1), (int(printed[1]), -1)]
        at_once = most = 0
        for _, step in sorted(marks):
            at_once += step
            most = max(most, at_once)
        return most

    assert most_at_once(2, 0.6) <= 2
    assert set(runs.lines("seen")) == {"0"}
    (tmp_path / "run").rename(tmp_path / "before")
    # Two GPUs: three tasks of 0.6 do not fit at once, four of 0.5 may.
    assert most_at_once(4, 0.6) <= 2


def test_halves_of_two_gpus_are_four_tasks_at_once(runs, tmp_path):
    meet = f"touch {tmp_path}/at-{{{{ n }}}}; until test $(ls {tmp_path}/at-* | wc -l) = 4; "
    job = {
        "name": "x",
        "command": f"{meet} do sleep 0.1; done; echo $CUDA_VISIBLE_DEVICES",
        "sweep": {"grid": {"n": [1, 2, 3, 4]}},
        "resources": {"cpus": 0.1, "gpus": 0.5},
        "timeout": 200,
    }
    progress = runs(json.dumps(job))
    assert {end.outcome for end in progress.ends.values()} == {"succeeded"}
    hosts = [began.host for began in progress.of(Began)]
    assert sorted(hosts) == ["n1", "n1", "n2", "n2"]


def test_what_no_node_ever_has_is_refused_in_numbers(runs):
    tasks = runs.tasks("{name: greedy, command: 'true', resources: {gpus: 3}}")
    with pytest.raises(RequestError, match=r"greedy.*1 CPU, 3 GPUs; the largest has 1 GPU\n"):
        find_executor("ray").refuse(tasks, 0)
    together = runs.tasks("{name: wide, command: 'true', resources: {gpus: 1, nodes: 3}}")
    with pytest.raises(RequestError, match=r"wide.*needs 3 nodes with 1 CPU, 1 GPU; 2 have that"):
        find_executor("ray").refuse(together, 0)


def test_a_task_is_run_where_gpus_of_its_kind_are(runs):
    kind = "{type: a100, count: 0.5}"
    needs = f"resources: {{gpus: {kind}}}"
    progress = runs(f"{{name: x, command: 'true', sweep: {{repeat: 4}}, {needs}}}")
    assert {end.outcome for end in progress.ends.values()} == {"succeeded"}
    assert {event.host for event in progress.of(Began)} == {"n2"}
    tasks = runs.tasks("{name: other, command: 'true', resources: {gpus: {type: h100}}}")
    with pytest.raises(RequestError, match=r"no node has GPUs of type 'h100'; there are A100, T4"):
        find_executor("ray").refuse(tasks, 0)


def test_a_task_that_waits_says_what_is_free_and_gives_up_at_its_limit(runs):
    progress = runs(
        """
        name: x
        options: {ray: {autoscaling: true, pending_limit: 3}}
        resources: {gpus: 3}
        command: 'true'
        """
    )
    (end,) = progress.ends.values()
    assert end.outcome == "failed"
    assert end.reason.startswith("it has waited for 3 s, which is its `pending_limit`: it needs")
    assert any("the largest has 1 GPU" in event.reason for event in progress.of(Waiting))


def test_no_more_run_at_once_than_the_run_says(runs, tmp_path):
    line = f"mkdir {tmp_path}/alone && sleep 0.2 && rmdir {tmp_path}/alone"
    job = f"{{name: x, sweep: {{repeat: 3}}, resources: {{cpus: 0.1}}, command: '{line}'}}"
    progress = runs(job, concurrency=1)
    assert {end.outcome for end in progress.ends.values()} == {"succeeded"}


def test_a_node_that_is_killed_leaves_no_orphan_and_its_task_begins_on_another(
    runs, cluster, tmp_path
):
    killed = []

    def kill(progress):
        if not killed and runs.lines("agents") and progress.of(Began):
            host = progress.of(Began)[0].host
            killed.append(host)
            cluster.kill_node(host)

    progress = runs(f"{{name: x, command: '{STAYS_ONCE.format(tmp_path)}'}}", kill)
    (end,) = progress.ends.values()
    assert (end.outcome, end.attempts) == ("succeeded", 2), end
    assert progress.of(Began)[0].host == killed[0]
    assert end.host not in killed
    assert not alive(runs.lines("pids")), "the first attempt's program goes on"
    cluster.add_node(num_cpus=4, num_gpus=1, node_name=f"{killed[0]}-again")
