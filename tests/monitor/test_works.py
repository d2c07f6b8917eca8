"""What is shown of each work."""

import pytest
from monitor_values import NOW, ago, glance, gpu, process, table

from tarmac.machine import LiveProcess
from tarmac.monitor.candidates import Candidate
from tarmac.monitor.hangs import Rank
from tarmac.monitor.joining import join
from tarmac.monitor.snapshot import Finding
from tarmac.monitor.works import Facts, is_warming, ranks_of, work_of


def shown(candidates, gpus=(), processes=(), **facts):
    known = table(*processes)
    facts = {
        "idle_s": {},
        "throttled": {},
        "quota_ratio": None,
        "group": "",
        "findings": (),
        "idle_after_s": 600.0,
        "user": "ada",
        "now": NOW,
    } | facts
    joined = join(gpus, known, candidates)
    whole = Facts(gpus={one.uuid: one for one in gpus}, processes=known, joined=joined, **facts)
    return [work_of(candidate, whole) for candidate in candidates]


def training(**fields):
    return Candidate("run", glance(**{"epoch": 3, "step_s": 60.0, **fields}), roots=frozenset({7}))


@pytest.mark.parametrize(
    ("fields", "facts", "state"),
    [
        ({"active_at": ago(50)}, {}, "busy"),
        ({"active_at": ago(50), "epoch": 0, "step_s": None}, {}, "warming"),
        ({"active_at": ago(50), "epoch": 0, "step_s": None, "started_at": ago(1801)}, {}, "busy"),
        ({"active_at": ago(50)}, {"idle_s": {"GPU-0": 599.0}}, "busy"),
        ({"active_at": ago(50)}, {"idle_s": {"GPU-0": 600.0}}, "idle"),
        ({"active_at": ago(301)}, {}, "hung"),
        # A hang says more than that its GPU is idle.
        ({"active_at": ago(3000)}, {"idle_s": {"GPU-0": 2000.0}}, "hung"),
        ({"status": "queued"}, {}, "waiting"),
    ],
)
def test_a_works_state_is_what_is_worst_of_it(fields, facts, state):
    spinning = gpu(0, 7, power_watts=150.0)
    assert shown([training(**fields)], [spinning], [process(7)], **facts)[0].state == state


def test_a_hang_is_the_first_reason_and_comes_with_a_command():
    run = training(active_at=ago(600), waits={"data": 0.5})
    (work,) = shown([run], [gpu(0, 7, power_watts=150.0)], [process(7, tells_stack=True)])
    assert work.slow[0].startswith("no sign of life for 10 min")
    assert work.advice == ("kill -USR2 7", "")
    assert work.quiet_s == 600.0


def test_whose_work_it_is_is_told_by_its_process():
    run = training()
    (mine,) = shown([run], [], [process(7)])
    (theirs,) = shown([run], [], [process(7, user="bob", uid=2000)])
    assert (mine.user, mine.is_own) == ("ada", True)
    assert (theirs.user, theirs.is_own) == ("bob", False)


def test_a_neighbour_is_named_and_ones_own_processes_are_none():
    rows = [LiveProcess(n, n, memory_bytes=2**30, sm_ratio=0.4) for n in (7, 8, 9)]
    processes = [
        process(7),
        process(8, 7),
        process(9, user="bob", command="/usr/bin/python3 x.py"),
    ]
    (work,) = shown([training()], [gpu(0, *rows)], processes)
    assert work.slow == ("bob's python3 (9) takes 40% of GPU 0",)


def test_a_task_is_not_the_neighbour_of_the_training_in_it():
    row = LiveProcess(8, 8, memory_bytes=2**30, sm_ratio=0.9)
    task = Candidate("job/task", glance("task", "job/task"), "job", frozenset({7}))
    run = Candidate("run", glance(), roots=frozenset({8}))
    works = shown([task, run], [gpu(0, row)], [process(7), process(8, 7)])
    assert [work.slow for work in works] == [(), ()]
    assert works[1].parent == "job/task"


def test_errors_of_its_gpus_since_it_began_are_reasons():
    findings = (
        Finding("xid", "failure", "GPU 0: Xid 79", gpu_uuid="GPU-0", at=ago(10)),
        Finding("xid", "failure", "long ago", gpu_uuid="GPU-0", at=ago(5000)),
        Finding("xid", "note", "its program's own", gpu_uuid="GPU-0", at=ago(10)),
        Finding("xid", "failure", "another's", gpu_uuid="GPU-1", at=ago(10)),
    )
    (work,) = shown([training()], [gpu(0, 7)], [process(7)], findings=findings)
    assert work.slow == ("GPU 0: Xid 79 since it began",)


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        ("/pod/x", ("its quota of CPU ran out in 50% of the last periods",)),
        ("/pod", ("its quota of CPU ran out in 50% of the last periods",)),
        ("/podium", ()),
        ("/", ()),
    ],
)
def test_a_quota_slows_only_what_is_under_it(group, expected):
    (work,) = shown([training()], [], [process(7, group=group)], quota_ratio=0.5, group="/pod")
    assert work.slow == expected


def test_a_run_on_another_host_is_not_judged_here():
    run = Candidate("run", glance(waits={"data": 0.9}, host="other"))
    assert shown([run])[0].slow == ()


def test_ranks_are_rows_the_slowest_first():
    recorded = [
        {"rank": 0, "host": "a", "samples_per_s": 100.0, "waiting_s": 9.0},
        {"rank": 1, "host": "b", "samples_per_s": 60.0, "waiting_s": 0.0},
    ]
    rows = ranks_of([Rank(7, 0, gpu(0))], recorded)
    assert [(row["rank"], row.get("pid")) for row in rows] == [(1, None), (0, 7)]
    assert rows[1]["gpu_uuid"] == "GPU-0"


def test_a_training_of_one_process_has_no_rows():
    assert ranks_of([Rank(7)], []) == ()
    assert ranks_of([Rank(7, 0)], []) == ()


def test_whom_the_others_wait_for_is_named():
    ranks = ({"rank": 0, "samples_per_s": 99.0}, {"rank": 3, "samples_per_s": 9.0, "host": "n7"})
    (work,) = shown([training(waits={"ranks": 0.3}, ranks=ranks)], [], [process(7)])
    assert work.slow == ("waits for rank 3 on n7 30% of the time",)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"epoch": 0}, True),
        ({"epoch": 1}, False),
        ({"epoch": 0, "started_at": ago(1801)}, False),
        ({"epoch": 0, "started_at": None}, True),
        ({"epoch": 0, "kind": "task"}, False),
    ],
)
def test_a_training_warms_up_until_its_first_epoch_but_not_for_ever(fields, expected):
    assert is_warming(glance(**fields), NOW) is expected
