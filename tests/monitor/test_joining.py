"""Which work a process on a GPU belongs to."""

import dataclasses

import pytest
from monitor_values import ago, glance, gpu, process, table

from tarmac.machine import LiveProcess
from tarmac.monitor.candidates import Candidate, candidates_of, roots_of
from tarmac.monitor.joining import join
from tarmac.monitor.processes import FileId

LOCK = FileId(8, 1, 77)
CONTAINER = "ab" * 32


def joined(gpus, processes, *candidates, names=None):
    return join(gpus, table(*processes), candidates, names)


def test_a_child_of_the_process_that_a_run_names_is_the_runs():
    found = joined(
        [gpu(0, 12), gpu(1, 99)],
        [process(10), process(11, 10), process(12, 11), process(99)],
        Candidate("run", glance(), roots=frozenset({10})),
    )
    assert found.work_of == {("GPU-0", 12): "run"}
    assert found.gpus_of == {"run": ("GPU-0",)}
    assert found.joined_by == {"run": "processes"}
    assert found.pids_of == {"run": (10, 12)}


def test_of_several_works_above_a_process_the_nearest_one_has_it():
    found = joined(
        [gpu(0, 30)],
        [process(10), process(20, 10), process(30, 20)],
        Candidate("job", glance("job", "job"), roots=frozenset({10})),
        Candidate("job/task", glance("task", "job/task"), "job", frozenset({20})),
        Candidate("run", glance(name="run"), roots=frozenset({30})),
    )
    assert found.work_of == {("GPU-0", 30): "run"}
    assert found.parent_of == {"job/task": "job", "run": "job/task"}
    # What a part uses, the whole uses.
    assert found.gpus_of == dict.fromkeys(("run", "job/task", "job"), ("GPU-0",))


def test_a_training_that_is_a_tasks_own_program_is_a_part_of_the_task():
    found = joined(
        [gpu(0, 20)],
        [process(10), process(20, 10)],
        Candidate("job", glance("job", "job"), roots=frozenset({10})),
        Candidate("job/task", glance("task", "job/task"), "job", frozenset({20})),
        Candidate("run", glance(name="run"), roots=frozenset({20})),
    )
    assert found.work_of == {("GPU-0", 20): "run"}
    assert found.parent_of["run"] == "job/task"


ELASTIC = {
    "TORCHELASTIC_RUN_ID": "night",
    "MASTER_ADDR": "localhost",
    "MASTER_PORT": "29500",
    "WORLD_SIZE": "2",
}


@pytest.mark.parametrize(
    ("variables", "launch"),
    [
        pytest.param(ELASTIC, "night-5", id="by the launch that torchrun names"),
        pytest.param(ELASTIC, "", id="by where they meet"),
        pytest.param({"TARMAC_LAUNCH": "a1"}, "a1", id="by the launch that Tarmac names"),
    ],
)
def test_ranks_that_another_launcher_has_started_are_one_training(variables, launch):
    asked = glance(variables={"TARMAC_LAUNCH": launch} if launch else {})
    ranks = [process(n, 5, variables=variables | {"RANK": str(n - 10)}) for n in (10, 11)]
    found = joined(
        [gpu(0, 10), gpu(1, 11)],
        [process(5), *ranks],
        Candidate("run", asked, roots=frozenset({10})),
    )
    assert found.gpus_of == {"run": ("GPU-0", "GPU-1")}


def test_other_ranks_at_the_same_place_of_another_user_are_not_ours():
    ours = process(10, 5, variables=ELASTIC | {"RANK": "0"})
    theirs = process(11, 6, uid=2000, variables=ELASTIC | {"RANK": "1"})
    candidate = Candidate("run", glance(), roots=frozenset({10}))
    found = joined([gpu(0, 10), gpu(1, 11)], [ours, theirs], candidate)
    assert found.gpus_of == {"run": ("GPU-0",)}


def test_ranks_on_a_cpu_are_found_beside_the_one_that_holds_the_run():
    ranks = [process(n, 5, variables=ELASTIC | {"RANK": str(n - 10)}) for n in (10, 11)]
    found = candidates_of([glance(pids=(10,))], table(process(5), *ranks), {}, {}, {10: (10, 11)})
    assert found[0].roots == {10, 11}


TASK = {"TARMAC_TASK_INDEX": "3", "TARMAC_ATTEMPT": "1"}


def test_a_tasks_processes_carry_its_number_and_the_mark_of_their_runner():
    job = glance(
        "job",
        "job",
        pids=(10,),
        parts=(glance("task", "job/task", variables=TASK, pids=(), started_at=None),),
    )
    mine = process(20, 10, variables=TASK | {"TARMAC_RUN": "a1", "CUDA_VISIBLE_DEVICES": "GPU-1"})
    strayed = process(30, 1, variables=TASK | {"TARMAC_RUN": "a1"})
    others = process(40, 1, variables=TASK | {"TARMAC_RUN": "b2"})
    processes = table(process(10), mine, strayed, others)
    found = candidates_of([job], processes, {}, {}, {10: (20,)})
    assert [(one.id, one.roots) for one in found] == [("job", {10}), ("job/task", {20})]
    told = join([gpu(0, 30), gpu(1), gpu(2, 40)], processes, found)
    assert told.work_of == {("GPU-0", 30): "job/task"}
    # It was given another one, on which no process of it is.
    assert told.given_of["job/task"] == ("GPU-1",)
    assert told.gpus_of["job/task"] == ("GPU-0", "GPU-1")


@pytest.mark.parametrize(
    ("recorded", "expected"),
    [
        (("GPU-1",), ("GPU-1",)),
        ((), ()),
        (None, ("GPU-0", "GPU-1")),
    ],
)
def test_what_was_given_to_a_container_is_not_what_its_engine_sees(recorded, expected):
    task = glance("task", "job/task", variables=TASK, gpus=recorded)
    # What starts the container has the variables of whoever has started the job.
    engine = process(20, 10, variables=TASK | {"CUDA_VISIBLE_DEVICES": "0,1"})
    found = joined(
        [gpu(0), gpu(1)],
        [process(10), engine],
        Candidate("job/task", task, "job", roots=frozenset({20})),
    )
    assert found.given_of["job/task"] == expected


@pytest.mark.parametrize(
    ("group", "names"),
    [
        pytest.param("/process/tarmac-a1-3-1", {}, id="the control group of its attempt"),
        pytest.param(
            f"/system.slice/docker-{CONTAINER}.scope",
            {CONTAINER: "tarmac-a1-3-1"},
            id="the container of its attempt",
        ),
    ],
)
def test_a_process_in_a_tasks_control_group_or_container_is_the_tasks(group, names):
    task = glance("task", "job/task", variables=TASK)
    container = CONTAINER if names else ""
    found = joined(
        [gpu(0, 50)],
        [process(50, group=group, container=container)],
        Candidate("job/task", task, "job", marks=frozenset({"a1"})),
        Candidate(
            "job/other",
            dataclasses.replace(task, variables={**TASK, "TARMAC_TASK_INDEX": "4"}),
            "job",
            marks=frozenset({"a1"}),
        ),
        names=names,
    )
    assert found.work_of == {("GPU-0", 50): "job/task"}
    assert found.joined_by["job/task"] == "cgroup"


def test_a_control_group_that_is_shared_by_all_of_a_session_joins_nothing():
    session = "/user.slice/user-1000.slice/session-3.scope"
    found = joined(
        [gpu(0, 50)],
        [process(10, group=session), process(50, group=session)],
        Candidate("run", glance(), roots=frozenset({10})),
    )
    assert found.work_of == {}


@pytest.mark.parametrize(
    ("variables", "place"),
    [
        ({"SLURM_JOB_ID": "81"}, "81"),
        (
            {"SLURM_JOB_ID": "95", "SLURM_ARRAY_JOB_ID": "80", "SLURM_ARRAY_TASK_ID": "3"},
            "80_3",
        ),
    ],
)
def test_a_clusters_job_joins_its_processes_to_its_task(variables, place):
    found = joined(
        [gpu(0, 50)],
        [process(50, variables=variables)],
        Candidate("job/task", glance("task", "job/task", slurm_job=place), "job"),
    )
    assert found.joined_by == {"job/task": "slurm"}


def test_where_processes_have_no_number_here_the_run_says_where_it_computes():
    unseen = LiveProcess(None, 4242, memory_bytes=2**30)
    found = joined([gpu(0, unseen)], [], Candidate("run", glance(uuids=("GPU-0",))))
    assert found.joined_by == {"run": "report"}
    assert found.work_of == {("GPU-0", 4242): "run"}


def test_of_two_runs_that_say_so_none_is_guessed():
    unseen = LiveProcess(None, 4242, memory_bytes=2**30)
    found = joined(
        [gpu(0, unseen)],
        [],
        Candidate("a", glance(name="a", uuids=("GPU-0",))),
        Candidate("b", glance(name="b", uuids=("GPU-0",))),
    )
    assert found.work_of == {}
    assert found.gpus_of == {"a": ("GPU-0",), "b": ("GPU-0",)}


def test_a_run_of_another_host_has_no_gpu_here():
    found = joined([gpu(0)], [], Candidate("run", glance(uuids=("GPU-0",), host="other")))
    assert found.gpus_of == {}


def test_whoever_holds_a_runs_lock_is_its_process_whatever_number_it_wrote_down():
    # In its container it was process 7, which is somebody else's number here.
    processes = table(process(7, command="sshd"), process(4007, inner_pid=7))
    assert roots_of(glance(pids=(7,)), processes, {LOCK: 4007}, [LOCK]) == {4007}


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        pytest.param({}, {7}, id="it began before the run did"),
        pytest.param({"started_at": ago(10)}, set(), id="its number has come again"),
        pytest.param({"pid": 4007}, {4007}, id="of a container, by the number that it has there"),
        pytest.param(
            {"pid": 4007, "started_at": ago(90_000)}, set(), id="of a container, long before"
        ),
    ],
)
def test_without_a_lock_a_runs_process_is_told_by_number_and_time(fields, found):
    one = process(fields.pop("pid", 7), inner_pid=7, **fields)
    assert roots_of(glance(pids=(7,)), table(one), {}, []) == found
