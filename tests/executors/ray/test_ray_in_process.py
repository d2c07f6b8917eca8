"""Ray's part in a run, with workers that are threads of this process and agents that are real."""

from __future__ import annotations

import dataclasses
import json
import sys
import textwrap
import threading
from pathlib import Path

import pytest
from ray_in_process import Node

from tarmac.errors import RequestError, TarmacError
from tarmac.jobs import Began, Waiting, find_executor
from tarmac.processes.handles import has_ended
from tarmac.testing.executors import EXECUTOR_CHECKS, ExecutorCase

# The first attempt stays until it is ended.
STAYS_ONCE = (
    "echo $$ >> {0}/pids; if [ $TARMAC_ATTEMPT = 1 ]; then touch {0}/begun; exec sleep 600; fi"
)

# Each node says where it is, and the last waits for the others' files.
MEET = """
cd {0}; touch $TARMAC_NODE_RANK
until [ -e 0 ] && [ -e 1 ]; do sleep 0.02; done
echo $TARMAC_NODE_RANK of $TARMAC_NODES, GPU $CUDA_VISIBLE_DEVICES
"""


@pytest.mark.parametrize("check", EXECUTOR_CHECKS)
def test_the_executor_keeps_what_all_executors_promise(check, in_process, tmp_path):
    ray = in_process(Node("n1", num_gpus=2))
    options = {"ray": {"address": ray.head.address}}
    check(ExecutorCase(find_executor("ray"), tmp_path, options=options))
    assert ray.held == []


def job_of(command: str, **more) -> str:
    return json.dumps({"name": "x", "command": command, **more})


def once(runs, act):
    """Return what acts once, after a program and its record have begun."""
    done = []

    def look(progress):
        if not done and progress.of(Began) and (runs.directory / "begun").exists():
            done.append(True)
            act(progress.of(Began)[0].host)

    return look


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ("kill_worker", "its Ray worker ended unexpectedly"),
        ("kill_node", "its node was lost: gone"),
        (
            "fill",
            "its node's memory was full (61.1GB of 64.0GB), and Ray ended the newest task there",
        ),
    ],
)
def test_what_befalls_a_worker_costs_no_retry_and_leaves_no_program(
    in_process, runs_on, tmp_path, event, reason
):
    ray = in_process(Node("n1", cpus=1), Node("n2", cpus=1))
    runs = runs_on(ray.head.address)
    progress = runs(job_of(STAYS_ONCE.format(tmp_path)), once(runs, getattr(ray, event)))
    (end,) = progress.ends.values()
    assert (end.outcome, end.attempts) == ("succeeded", 2), end
    assert progress.retries == [reason]
    assert all(has_ended(int(pid)) for pid in runs.lines("pids"))
    assert progress.of(Began)[0].host == "n1"
    assert end.host == ("n2" if event == "kill_node" else "n1")


def test_the_programs_of_two_nodes_see_their_rank_and_their_nodes_gpu(
    in_process, runs_on, tmp_path
):
    ray = in_process(*(Node(f"n{number}", num_gpus=1) for number in (1, 2)))
    needs = {"cpus": 1, "gpus": 1, "nodes": 2}
    progress = runs_on(ray.head.address)(job_of(MEET.format(tmp_path), resources=needs))
    (end,) = progress.ends.values()
    assert end.outcome == "succeeded", (end.reason, progress.retries)
    (began,) = progress.of(Began)
    assert (began.attempt.directory / "stdout").read_text() == "0 of 2, GPU 0\n"
    assert (began.attempt.directory / "stdout.node-1").read_text() == "1 of 2, GPU 0\n"
    assert ray.held == []
    # Both parts are in the group; the agents beside it ask for nothing of their own.
    assert [call["num_cpus"] for call in ray.calls if call.get("num_gpus")] == [1, 1]


def test_ranks_meet_where_pythons_path_has_a_space(in_process, runs_on, tmp_path, monkeypatch):
    python = tmp_path / "a path/python"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(python))
    ray = in_process(Node("n1"), Node("n2"))
    progress = runs_on(ray.head.address)(job_of(MEET.format(tmp_path), resources={"nodes": 2}))
    (end,) = progress.ends.values()
    assert end.outcome == "succeeded", (end.reason, progress.retries)


def test_the_failure_of_one_node_ends_the_attempt_on_both(in_process, runs_on, tmp_path):
    ray = in_process(Node("n1"), Node("n2"))
    command = f"echo $$ >> {tmp_path}/pids; [ $TARMAC_NODE_RANK = 0 ] || exit 7; exec sleep 600"
    runs = runs_on(ray.head.address)
    progress = runs(job_of(command, resources={"nodes": 2}))
    (end,) = progress.ends.values()
    assert (end.outcome, end.exit_code) == ("failed", 7), end
    assert "node 1" in end.reason
    assert all(has_ended(int(pid)) for pid in runs.lines("pids"))
    assert ray.held == []


def test_a_lost_second_node_gets_the_attempt_another_group(in_process, runs_on, tmp_path):
    ray = in_process(*(Node(f"n{number}") for number in (1, 2, 3)))
    command = (
        f"echo $TARMAC_NODE_RANK >> {tmp_path}/ranks; "
        f"if [ $TARMAC_ATTEMPT = 1 ]; then [ $TARMAC_NODE_RANK = 0 ] || touch {tmp_path}/begun; "
        "exec sleep 600; fi"
    )
    runs = runs_on(ray.head.address)
    act = once(runs, lambda _: ray.kill_node("n2"))
    progress = runs(job_of(command, resources={"nodes": 2}), act)
    (end,) = progress.ends.values()
    assert (end.outcome, end.attempts) == ("succeeded", 2), end
    (reason,) = progress.retries
    assert "lost" in reason or "gone" in reason, reason
    assert sorted(runs.lines("ranks")) == ["0", "0", "1", "1"]
    assert ray.held in ([], ["n2"])


def test_a_group_that_is_still_waited_for_is_given_up_with_its_run(in_process, runs_on, tmp_path):
    ray = in_process(Node("n1", cpus=1), Node("n2", cpus=1))
    runs = runs_on(ray.head.address)
    job = f"""
        name: x
        tasks:
          - {{name: first, command: 'touch {tmp_path}/begun; exec sleep 600'}}
          - {{name: wide, command: 'true', resources: {{nodes: 2}}}}
    """
    progress = runs(job, stop=(tmp_path / "begun").exists)
    assert {end.outcome for end in progress.ends.values()} == {"interrupted"}
    assert ray.held == []


def test_a_node_that_does_not_see_the_run_sends_what_its_tasks_print(
    in_process, runs_on, monkeypatch, tmp_path
):
    monkeypatch.setenv("VAULT", "hunter2hunter2")
    ray = in_process(Node("n1", is_blind=True))
    job = f"""
        name: x
        tasks:
          - name: good
            secrets: {{TOKEN: {{env: VAULT}}}}
            command: >
              printf 'out\\n'; head -c 200000 /dev/zero | tr '\\0' x; printf "${{#TOKEN}}\\n" >&2;
              pwd > {tmp_path}/place
          - {{name: bad, command: exit 3}}
          - {{name: staged, inputs: [{{from: in.txt}}], command: 'true'}}
    """
    (tmp_path / "in.txt").touch()
    progress = runs_on(ray.head.address)(job, keep_going=True)
    ends = {name: (end.outcome, end.exit_code) for name, end in progress.ends.items()}
    assert ends == {"good": ("succeeded", 0), "bad": ("failed", 3), "staged": ("failed", None)}
    assert "n1 does not see the run's directory; make the run where all nodes see it" in (
        progress.ends["staged"].reason
    )
    names = {began.attempt.task.name: began.attempt.directory for began in progress.of(Began)}
    assert (names["good"] / "stdout").read_text() == "out\n" + "x" * 200_000
    assert (names["good"] / "stderr").read_text() == "14\n"
    # The node's own copy is gone.
    assert not (tmp_path / "place").read_text().startswith(str(tmp_path))


def test_tasks_that_begin_together_on_a_new_node_put_one_agent_there(
    in_process, runs_on, monkeypatch
):
    both_have_written, replace = threading.Barrier(2), Path.replace

    def last_step(self, target):
        if target.parent.name.startswith("tarmac-agents-"):
            both_have_written.wait(60)
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", last_step)
    ray = in_process(Node("n1", cpus=2, is_blind=True))
    progress = runs_on(ray.head.address)(job_of("true", sweep={"repeat": 2}))
    ends = [(end.outcome, end.reason) for end in progress.ends.values()]
    assert ends == [("succeeded", "")] * 2


def test_a_second_node_that_does_not_see_the_run_is_carried_too(in_process, runs_on, tmp_path):
    ray = in_process(Node("n1"), Node("n2", is_blind=True))
    progress = runs_on(ray.head.address)(
        job_of(MEET.format(tmp_path), resources={"cpus": 1, "nodes": 2})
    )
    (end,) = progress.ends.values()
    assert end.outcome == "succeeded", (end.reason, progress.retries)
    directory = progress.of(Began)[0].attempt.directory
    assert (directory / "stdout").read_text() == "0 of 2, GPU\n"
    assert (directory / "stdout.node-1").read_text() == "1 of 2, GPU\n"


def test_a_cancelled_task_on_a_node_that_does_not_see_the_run_is_ended(
    in_process, runs_on, tmp_path
):
    ray = in_process(Node("n1", is_blind=True))
    runs = runs_on(ray.head.address)
    job = job_of(f"echo $$ >> {tmp_path}/pids; exec sleep 600")
    progress = runs(job, stop=(tmp_path / "pids").exists)
    (end,) = progress.ends.values()
    assert (end.outcome, end.reason) == ("interrupted", "the run was stopped")
    assert all(has_ended(int(pid)) for pid in runs.lines("pids"))


def test_no_more_tasks_run_at_once_than_the_run_says(in_process, runs_on, tmp_path):
    ray = in_process(Node("n1"))
    command = f"mkdir {tmp_path}/alone && sleep 0.05 && rmdir {tmp_path}/alone"
    job = job_of(command, sweep={"repeat": 3}, resources={"cpus": 0.1})
    progress = runs_on(ray.head.address)(job, concurrency=1)
    assert [end.outcome for end in progress.ends.values()] == ["succeeded"] * 3


def test_a_task_that_waits_says_what_is_free_and_gives_up_at_its_limit(in_process, runs_on):
    ray = in_process(Node("n1", num_gpus=1))
    options = {"ray": {"autoscaling": True, "pending_limit": 0.3}}
    job = job_of("true", resources={"gpus": 3}, options=options)
    progress = runs_on(ray.head.address)(job)
    (end,) = progress.ends.values()
    assert end.outcome == "failed"
    assert end.reason.startswith("it has waited for 0.3 s, which is its `pending_limit`: it needs")
    assert any(
        "the largest has 1 GPU; the cluster may grow" in e.reason for e in progress.of(Waiting)
    )


def test_a_head_that_is_gone_ends_the_run_and_its_programs(in_process, runs_on, tmp_path):
    ray = in_process(Node("n1"))
    runs = runs_on(ray.head.address)
    act = once(runs, lambda _: ray.head.stop())
    with pytest.raises(TarmacError, match=f"cluster at {ray.head.address} is gone") as gone:
        runs(job_of(STAYS_ONCE.format(tmp_path)), act)
    assert gone.value.hint == "Resume it when the head is back: tarmac run --resume latest"
    assert all(has_ended(int(pid)) for pid in runs.lines("pids"))


def test_what_no_node_ever_has_is_refused_in_numbers(in_process, runs_on):
    ray = in_process(Node("n1", num_gpus=1, resources={"accelerator_type:T4": 1}), Node("n2"))
    runs = runs_on(ray.head.address)

    def refused(**needs) -> str:
        with pytest.raises(RequestError) as error:
            find_executor("ray").refuse(runs.tasks(job_of("true", resources=needs)), 0)
        assert error.value.hint == (
            "If the cluster scales automatically: --set options.ray.autoscaling=true"
        )
        return error.value.message

    where = f"task 'x': no node of the Ray cluster at {ray.head.address} can run it:"
    assert refused(gpus=3) == f"{where} it needs a node with 1 CPU, 3 GPUs; the largest has 1 GPU"
    assert refused(nodes=3) == f"{where} it needs 3 nodes with 1 CPU; 2 have that"
    kind = {"type": "a100"}
    assert refused(gpus=kind) == f"{where} no node has GPUs of type 'a100'; there are T4"
    find_executor("ray").refuse(runs.tasks(job_of("true", resources={"gpus": {"type": "t4"}})), 0)
    grows = {"ray": {"autoscaling": True}}
    find_executor("ray").refuse(runs.tasks(job_of("true", resources={"gpus": 3}, options=grows)), 0)


def test_a_task_is_run_where_gpus_of_its_kind_are(in_process, runs_on):
    nodes = [
        Node(name, num_gpus=1, resources={f"accelerator_type:{kind}": 1})
        for name, kind in (("n1", "T4"), ("n2", "A100"))
    ]
    ray = in_process(*nodes)
    job = job_of("true", sweep={"repeat": 2}, resources={"gpus": {"type": "a100", "count": 0.5}})
    progress = runs_on(ray.head.address)(job)
    assert {event.host for event in progress.of(Began)} == {"n2"}
    assert {call["accelerator_type"] for call in ray.calls} == {"A100"}


def test_a_preview_shows_what_ray_would_get(in_process, runs_on):
    runs = runs_on(in_process(Node("n1")).head.address)
    job = textwrap.dedent("""
        name: x
        options: {ray: {spread: true, labels: {zone: a}, resources: {tape: 1}}}
        tasks:
          - {name: many, command: 'true', sweep: {repeat: 3}}
          - {name: wide, command: 'true', resources: {nodes: 2, memory: 1 GiB}}
    """)
    site = type("Site", (), {"tasks": runs.tasks(job)})
    many, wide = map(json.loads, find_executor("ray").preview(site))
    assert many["tasks"] == 3
    assert many["resources"] == {"CPU": 1.0, "tape": 1.0}
    assert many["options"] == {
        "label_selector": {"zone": "a"},
        "max_retries": 0,
        "num_cpus": 1.0,
        "num_gpus": 0.0,
        "resources": {"tape": 1.0},
        "scheduling_strategy": "SPREAD",
    }
    assert wide["placement_group"] == {"bundles": 2, "strategy": "STRICT_SPREAD"}
    assert (wide["first"], wide["last"]) == ("wide", "wide")
    assert wide["options"]["memory"] == wide["resources"]["memory"] == 2**30


def test_the_tasks_of_a_run_are_in_one_cluster(runs_on, tmp_path):
    tasks = [runs_on(address).tasks("{name: x, command: 'true'}")[0] for address in ("a:1", "b:2")]
    tasks[1] = dataclasses.replace(tasks[1], spec="other")
    with pytest.raises(RequestError, match=r"options\.ray\.address is 'a:1' and 'b:2'"):
        find_executor("ray").refuse_afar(tasks, 0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"resources": {"GPU": 1}},
            "options.ray.resources: GPU is set by Tarmac itself; use",
        ),
        ({"resources": {"tape": 0}}, "options.ray.resources: tape is 0, expected more than 0"),
        ({"max_pending": 0}, "options.ray.max_pending: "),
    ],
)
def test_options_of_a_job_made_in_python_are_refused_with_their_place(runs_on, options, words):
    (task,) = runs_on("a:1").tasks("{name: x, command: 'true'}")
    task = dataclasses.replace(task, options={"ray": options})
    with pytest.raises(RequestError) as refused:
        find_executor("ray").refuse_afar([task], 0)
    assert refused.value.message.startswith(f"task 'x': {words}")


def test_a_runner_over_http_needs_no_cluster_here(runs_on, in_process):
    ray = in_process(Node("n1"))
    tasks = runs_on(ray.head.address).tasks("{name: x, command: 'true', resources: {gpus: 9}}")
    with pytest.raises(RequestError, match="the largest has 0 GPU"):
        find_executor("ray").refuse_afar(tasks, 0)
    ray.inits.clear()
    ray.head.versions["ray_version"] = "2.9.0"
    find_executor("ray").refuse_afar(tasks, 0)
