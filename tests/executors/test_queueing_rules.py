"""The rules of executors whose attempts wait in an engine's queue, without any engine."""

from __future__ import annotations

import pytest

from tarmac.executors.queueing.clusters import ClusterId
from tarmac.executors.queueing.engine import Ending, Shown
from tarmac.executors.queueing.failures import FirstFailures, Hosts
from tarmac.executors.queueing.fences import fence_unbegun
from tarmac.executors.queueing.verdict import Evidence, Judge, Next, Over, Patience
from tarmac.executors.queueing.window import Window
from tarmac.jobs import Attempt, Finished, parse_job, plan_tasks
from tarmac.node import AttemptRecord, read_attempt

JUDGE = Judge(engine="Slurm", run="/run", patience=Patience())
BEGAN = AttemptRecord(nonce="a", state="began", host="n1")
ENDED = BEGAN._replace(state="ended", outcome="succeeded", exit_code=0)
FAILED = ENDED._replace(outcome="failed", cause="exit", reason="exit code 3")
KILLED = FAILED._replace(cause="signal", reason="signal 9", exit_code=-9)
STOPPED = ENDED._replace(outcome="interrupted", cause="stop", exit_code=-15)
WARNED = STOPPED._replace(cause="timeout")


def missing(record=None, ending=None, *, looks=1, **values) -> Evidence:
    """Return what is known of an attempt that the engine has not shown since second 0."""
    evidence = Evidence(record=record, missing_since=0.0, looks=looks, **values)
    if ending is not None:
        evidence.hear(ending, 0.0)
    return evidence


def said(cause, words="so", near_limit=None) -> Ending:
    return Ending(cause, words, "n1", near_limit=near_limit)


@pytest.mark.parametrize(
    ("evidence", "now", "expected"),
    [
        pytest.param(Evidence(record=ENDED), 0, ("succeeded", None), id="its result decides"),
        pytest.param(Evidence(record=FAILED), 0, ("failed", "exit"), id="also where it failed"),
        pytest.param(missing(FAILED, said(None)), 0, ("failed", "exit"), id="against the engine"),
        pytest.param(Evidence(record=BEGAN), 10**6, Next.WAIT, id="what is shown goes on"),
        pytest.param(missing(), 0, Next.ASK, id="absence is a question"),
        pytest.param(missing(looks=9), 119, Next.ASK, id="for two minutes"),
        pytest.param(missing(looks=2), 999, Next.ASK, id="and three looks"),
        pytest.param(missing(looks=3, beat_at=990), 999, Next.ASK, id="and no sign of life"),
        pytest.param(missing(looks=3), 120, ("failed", "lost"), id="then it is lost"),
        pytest.param(missing(ending=said(None)), 89, Next.WAIT, id="a result may be late"),
        pytest.param(
            missing(ending=said(None)), 90, ("failed", "start"), id="no result, no success"
        ),
        pytest.param(missing(BEGAN, said("node")), 29, Next.WAIT, id="a late file of a failure"),
        pytest.param(missing(BEGAN, said("node")), 30, ("failed", "node"), id="node"),
        pytest.param(missing(BEGAN, said("start")), 30, ("failed", "lost"), id="a silent agent"),
        pytest.param(missing(ending=said("start")), 30, ("failed", "start"), id="it never began"),
        pytest.param(
            missing(BEGAN, Ending("exit", "disk", is_own_limit=True)),
            30,
            ("failed", "exit"),
            id="a limit of its own",
        ),
        pytest.param(
            missing(STOPPED, Ending("exit", "disk", is_own_limit=True)),
            0,
            ("failed", "exit"),
            id="a limit of its own whose agent had time",
        ),
        pytest.param(missing(ending=said("cancelled")), 0, ("failed", "cancelled"), id="cancelled"),
        pytest.param(
            missing(ending=said("timeout"), shares_unit=True, follows=True, first=Evidence(BEGAN)),
            30,
            ("failed", "evicted"),
            id="its turn in the job never came",
        ),
        pytest.param(
            missing(ending=said("start"), shares_unit=True, follows=True),
            30,
            ("failed", "evicted"),
            id="nor where its first one ended before this session",
        ),
        *(
            pytest.param(
                missing(ending=said(cause), shares_unit=True, follows=follows, first=first),
                30,
                ("failed", cause),
                id=f"its job ended before any turn by {cause}, {follows}",
            )
            for cause in ("start", "timeout", "memory")
            for follows, first in ((False, None), (True, Evidence()))
        ),
        pytest.param(Evidence(record=STOPPED), 0, Next.WAIT, id="the engine may begin it again"),
        pytest.param(missing(STOPPED), 0, Next.ASK, id="ended from outside, by whom"),
        pytest.param(
            missing(STOPPED, said("preempted")), 0, ("failed", "preempted"), id="preempted"
        ),
        pytest.param(missing(STOPPED, said("timeout")), 0, ("failed", "timeout"), id="timeout"),
        pytest.param(missing(STOPPED), 30, ("failed", "lost"), id="nobody says by whom"),
        pytest.param(missing(STOPPED, said("start")), 0, ("failed", "lost"), id="a lone agent"),
        pytest.param(
            missing(WARNED, said("start", near_limit="an hour")),
            0,
            ("failed", "timeout"),
            id="late",
        ),
        pytest.param(
            missing(WARNED, said("start", near_limit="")),
            0,
            ("failed", "preempted"),
            id="too early",
        ),
        pytest.param(missing(WARNED), 0, Next.ASK, id="warned, of what"),
        pytest.param(missing(WARNED), 30, ("failed", "timeout"), id="most are warned of time"),
        pytest.param(
            missing(STOPPED, said("timeout"), shares_unit=True, follows=True),
            0,
            ("failed", "evicted"),
            id="others took its time",
        ),
        pytest.param(
            Evidence(record=STOPPED, end_reason="no"), 0, ("interrupted", "stop"), id="asked"
        ),
        pytest.param(
            missing(end_reason="no"), 0, ("interrupted", "stop"), id="asked before it began"
        ),
        pytest.param(
            missing(BEGAN, end_reason="no"), 0, Next.ASK, id="asked, and it says how it ends"
        ),
        pytest.param(Evidence(record=KILLED), 0, Next.WAIT, id="killed, by whom"),
        pytest.param(missing(KILLED), 0, Next.ASK, id="killed, the engine knows"),
        pytest.param(missing(KILLED, said("memory")), 0, ("failed", "memory"), id="for memory"),
        pytest.param(missing(KILLED, said("start")), 0, ("failed", "signal"), id="by itself"),
    ],
)
def test_an_attempt_is_over_by_two_witnesses(evidence, now, expected):
    over = JUDGE.judge(evidence, now)
    assert (over if isinstance(over, Next) else (over.outcome, over.cause)) == expected


def test_what_the_engine_shows_again_is_no_longer_missed():
    evidence = missing(STOPPED, said("preempted"))
    evidence.see(Shown("waiting", "80"), 5.0)
    assert JUDGE.judge(evidence, 10**6) is Next.WAIT


def test_what_is_given_up_says_so():
    over = JUDGE.judge(missing(BEGAN, looks=3), 120)
    assert isinstance(over, Over)
    assert over.is_given_up
    assert over.host == "n1"


@pytest.mark.parametrize(
    ("left", "here", "expected"),
    [
        (ClusterId("s1"), ClusterId("s1"), False),
        (ClusterId("s1"), ClusterId("s2"), True),
        (ClusterId("https://a", "u1"), ClusterId("https://b", "u1"), False),
        (ClusterId("https://a", "u1"), ClusterId("https://a", "u2"), True),
        (ClusterId("https://a", "u1"), ClusterId("https://a"), False),
        (ClusterId("https://a", "u1"), ClusterId("https://b"), True),
        # From a pod of the cluster.
        (ClusterId("https://a"), ClusterId("", "u1"), False),
    ],
)
def test_clusters_differ_by_their_own_ids_and_else_by_their_names(left, here, expected):
    assert left.differs(here) is expected


def submit_all(count: int, limit: int, drained: int) -> list[int]:
    """Return how many units each submission had, at a site that takes `limit` of them."""
    window, held, left, sizes = Window(1000), 0, count, []
    while left:
        tried = min(window.room(held), left)
        if not tried:
            held = max(0, held - drained)
            continue
        sizes.append(tried)
        if held + tried > limit:
            window.refuse(held, tried)
        else:
            held, left = held + tried, left - tried
            window.accept(held)
            held = min(held, drained)
    return sizes


@pytest.mark.parametrize("limit", [1, 2, 7, 20, 64])
def test_a_window_meets_a_sites_limit_after_few_refusals(limit):
    sizes = submit_all(200, limit, drained=0)
    assert len(sizes) <= -(-200 // limit) + 2 * limit.bit_length() + 8


def test_of_what_was_refused_half_is_tried_beside_what_is_there():
    window = Window(1000)
    window.refuse(held=6, tried=4)
    assert (window.refused, window.size) == (10, 8)
    assert [window.room(held) for held in (0, 6, 8, 9)] == [8, 2, 0, 0]
    # The middle of what was taken and what was refused comes next.
    window.accept(held=8)
    assert window.room(8) == 1


def test_a_window_that_is_never_refused_stays_open():
    assert submit_all(500, 10**6, drained=0) == [500]


@pytest.fixture
def attempt(tmp_path):
    (task,) = plan_tasks(parse_job("{name: x, command: a}"), tmp_path)
    return Attempt(task, 1, tmp_path / "task")


class Clock:
    """Seconds that a test lets pass."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def disturb(hosts, attempt, host, cause, began_at=0.0):
    return hosts.note(Finished(attempt, "failed", cause=cause, host=host), began_at)


def test_a_host_that_disturbs_in_three_events_alike_is_avoided(attempt):
    clock = Clock()
    hosts = Hosts(clock)
    for host, cause in (("n1", "node"), ("n2", "node"), ("n1", "lost"), ("n1", "preempted")):
        disturb(hosts, attempt, host, cause)
    clock.now += 3600
    disturb(hosts, attempt, "n1", "node")
    assert not hosts.excluded
    clock.now += 3600
    words = disturb(hosts, attempt, "n1", "node")
    assert words == (
        "n1 has disturbed tasks in 3 events within a day: this session avoids it until the first "
        "of them is a day old"
    )
    assert hosts.excluded == {"n1"}


def test_events_of_a_host_are_forgotten_after_a_day(attempt):
    clock = Clock()
    hosts = Hosts(clock)
    for _ in range(3):
        clock.now += 3600
        words = disturb(hosts, attempt, "n1", "node")
    assert "avoids" in words
    clock.now += 86_400 - 2 * 3600
    # The first event is a day old, and two are left; another one is the third again.
    assert not hosts.excluded
    assert "avoids" in disturb(hosts, attempt, "n1", "node")
    assert hosts.excluded == {"n1"}
    for _ in range(9):
        clock.now += 12 * 3600 + 1
        assert disturb(hosts, attempt, "n2", "node") == ""
    assert not hosts.excluded


def test_unfit_gpus_are_not_forgotten(attempt):
    clock = Clock()
    hosts = Hosts(clock)
    hosts.note(Finished(attempt, "failed", cause="node", bad_host="n1"))
    clock.now += 10 * 86_400
    assert hosts.excluded == {"n1"}


@pytest.mark.parametrize(
    ("began_at", "told_at", "expected"),
    [
        pytest.param([900, 900, 900, 900], [1000, 1001, 1030, 1400], set(), id="one reboot"),
        pytest.param([0, 0, 0, 0], [1000, 1010, 1040, 1059], set(), id="none had begun"),
        pytest.param([900, 1001, 1003, 1005], [1000, 1002, 1004, 1006], {"n1"}, id="again at once"),
        pytest.param([0, 0, 0, 0], [1000, 1100, 1200, 1300], {"n1"}, id="again and again"),
    ],
)
def test_what_was_at_work_on_a_host_together_is_disturbed_by_one_event(
    attempt, began_at, told_at, expected
):
    clock = Clock()
    hosts = Hosts(clock)
    for began, told in zip(began_at, told_at, strict=True):
        clock.now = told
        disturb(hosts, attempt, "n1", "node", began)
    assert hosts.excluded == expected


@pytest.mark.parametrize(
    ("events", "may_tell", "expected"),
    [
        pytest.param("", True, None, id="others may tell"),
        pytest.param("", False, "task", id="nobody can tell"),
        pytest.param("+a1", True, "host", id="another host starts"),
        pytest.param("+a1", False, "host", id="another host has started"),
        pytest.param("-a1", True, "task", id="another host does not start either"),
        pytest.param("+a1 -a1", True, "task", id="nor any more"),
        pytest.param("-a1 +a1", True, "host", id="but now it does"),
        pytest.param("-a1 +b1", True, "host", id="one of the others does"),
        pytest.param("+h1", True, None, id="the host itself says nothing of others"),
        pytest.param("+a1:other", True, None, id="other tasks say nothing"),
    ],
)
def test_a_host_is_at_fault_where_others_start_such_tasks(events, may_tell, expected):
    hosts = Hosts()
    hosts.note_failed_start("h1", "spec")
    for event in events.split():
        host, _, spec = event[1:].partition(":")
        note = hosts.note_start if event[0] == "+" else hosts.note_failed_start
        note(host, spec or "spec")
    assert hosts.blame(0, "h1", "spec", may_tell=may_tell) == expected


def test_before_agents_begin_all_tasks_are_alike():
    hosts = Hosts()
    hosts.note_start("a1", "any")
    assert hosts.blame(0, "h1", "", may_tell=True) == "host"


def test_a_task_that_three_hosts_do_not_start_is_at_fault_itself():
    hosts = Hosts()
    hosts.note_start("a1", "spec")
    blames = []
    for host in ("h1", "h1", "h2", "h3"):
        hosts.note_failed_start(host, "spec")
        blames.append(hosts.blame(0, host, "spec", may_tell=True))
        hosts.charge(0, host)
    assert blames == ["host", "host", "host", "task"]


def test_a_host_that_does_not_start_three_in_a_row_is_avoided_until_it_starts_one(attempt):
    hosts = Hosts()
    words = [hosts.charge(task, "h1") for task in range(4)]
    once = [
        "other hosts start such tasks, and h1 has not started 3 in a row: this session avoids it "
        "until it starts one"
    ]
    assert [one for one in words if "avoids" in one] == once
    assert hosts.excluded == {"h1"}
    hosts.note_start("h1", "spec")
    assert not hosts.excluded
    # What else is known of a host stays.
    hosts.note(Finished(attempt, "failed", cause="node", bad_host="h1"))
    for task in range(4):
        hosts.charge(task, "h1")
    hosts.note_start("h1", "spec")
    assert hosts.excluded == {"h1"}


def test_a_host_whose_gpus_are_found_unfit_is_avoided_at_once(attempt):
    hosts = Hosts()
    # Of an attempt on several nodes, whose first is another.
    finished = Finished(attempt, "failed", cause="node", host="n1", bad_host="n2")
    assert hosts.note(finished) == "this session avoids n2 from now on"
    assert hosts.excluded == {"n2"}
    assert hosts.note(finished) == ""


def test_what_several_nodes_disturb_together_is_no_nodes_fault(tmp_path):
    (task,) = plan_tasks(parse_job("{name: x, command: a, resources: {nodes: 2}}"), tmp_path)
    hosts = Hosts()
    for _ in range(9):
        # The first of its nodes, or all of them where no agent has begun.
        for host in ("n1", "n[1-2]"):
            finished = Finished(Attempt(task, 1, tmp_path), "failed", cause="node", host=host)
            assert hosts.note(finished) == ""
    assert not hosts.excluded


def test_the_first_twenty_that_fail_alike_speak_for_all(attempt):
    first = FirstFailures()
    same = Finished(attempt, "failed", "exit code 1", seconds=1.0)
    assert [first.note(same) for _ in range(25)] == [None] * 19 + ["exit code 1"] + [None] * 5


@pytest.mark.parametrize(
    "other",
    [
        {"outcome": "succeeded"},
        {"outcome": "failed", "reason": "exit code 2"},
        {"outcome": "failed", "reason": "exit code 1", "seconds": 60.0},
    ],
)
def test_one_that_ends_otherwise_speaks_for_none(attempt, other):
    first = FirstFailures()
    same = Finished(attempt, "failed", "exit code 1", seconds=1.0)
    said = [first.note(same) for _ in range(10)]
    said.append(first.note(Finished(attempt, **other)))
    assert [*said, *(first.note(same) for _ in range(30))] == [None] * 41


def test_a_node_that_fails_with_all_its_attempts_speaks_for_no_other(attempt):
    first = FirstFailures()
    lost = Finished(attempt, "failed", "its node failed on n1", cause="node", host="n1")
    assert [first.note(lost) for _ in range(30)] == [None] * 30
    same = Finished(attempt, "failed", "exit code 1", seconds=1.0, cause="exit")
    assert [first.note(same) for _ in range(20)] == [None] * 19 + ["exit code 1"]


def test_a_fence_keeps_an_attempt_from_beginning_once(attempt):
    assert fence_unbegun(attempt, "a")
    assert not fence_unbegun(attempt, "b")
    record = read_attempt(attempt.directory, 1)
    assert record is not None
    assert (record.nonce, record.state) == ("a", "fenced")
    assert [path.name for path in attempt.directory.iterdir()] == ["attempt-1.json"]


def test_an_attempt_that_had_begun_is_not_said_to_have_ended_before():
    ending = Ending("start", "ended before its program began", begun_words="its container ended")
    judged = JUDGE.judge(missing(BEGAN, ending), 30)
    assert judged.reason == "its agent ended without a result: its container ended"
    judged = JUDGE.judge(missing(STOPPED, ending), 0)
    assert judged.reason == "its container ended"
    assert JUDGE.judge(missing(ending=ending), 30).reason == "ended before its program began"
