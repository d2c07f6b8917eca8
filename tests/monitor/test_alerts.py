"""Events, and the commands that are run for them."""

from __future__ import annotations

import dataclasses
import json
from datetime import timedelta

import pytest
from watched_machine import AT, HOST, SNAPSHOT, TRAINING, XID, with_host, with_work

from tarmac.monitor import Alerts, Finding, TappedFeed, idle_ones
from tarmac.monitor.events import EVENTS, EventWatch
from waiting import wait_until

QUIET = with_host(gpu_idle_s={}, findings=())


def no_time() -> float:
    """A clock that stands still: a busy machine ends no command for its slowness."""
    return 0.0


def told(*snapshots, idle_after_s=600.0) -> list[list[tuple[str, str]]]:
    watch = EventWatch(idle_after_s)
    return [[(event.event, event.subject) for event in watch.new(one)] for one in snapshots]


def changed(**changes):
    return dataclasses.replace(TRAINING, **changes)


def test_nothing_is_told_of_a_machine_that_works():
    assert told(QUIET, QUIET) == [[], []]


def test_a_gpu_that_is_held_is_idle_once_its_time_is_over():
    early, late = with_host(findings=(), gpu_idle_s={"GPU-1": 599.0}), with_host(findings=())
    assert told(early, late, late, QUIET, late) == [
        *([], [("idle", "GPU-1")], [], [], [("idle", "GPU-1")]),
    ]
    assert idle_ones(early, 600.0) == ()
    (event,) = idle_ones(late, 600.0)
    assert event.text == "GPU 1 is held by bob and does nothing for 1200 s"


def test_work_that_holds_idle_gpus_is_told_instead_of_each_of_them():
    idle = with_host(
        findings=(),
        work=(changed(state="idle", idle_s=700.0, gpu_uuids=("GPU-0", "GPU-1")),),
    )
    (event,) = idle_ones(idle, 600.0)
    assert (event.subject, event.facts["idle_s"]) == ("brave-fox", 700.0)


def test_a_finding_is_told_once_and_a_new_one_again():
    again = dataclasses.replace(XID, text="GPU 0: Xid 79, fallen off the bus")
    one, both = (with_host(gpu_idle_s={}, findings=found) for found in ((XID,), (XID, again)))
    assert told(one, one, both) == [[("finding", "GPU-0")], [], [("finding", "GPU-0")]]


def test_what_happens_again_is_told_again_and_what_a_later_check_repeats_is_not():
    def found(code, seconds, text="slow"):
        finding = Finding(code, "warning", text, at=AT + timedelta(seconds=seconds))
        return with_host(gpu_idle_s={}, findings=(finding,))

    assert told(found("ecc", 0), found("ecc", 0), found("ecc", 9)) == [
        *([("finding", "ecc")], [], [("finding", "ecc")]),
    ]
    assert told(found("slow-compute", 0), found("slow-compute", 9, "slower")) == [
        *([("finding", "slow-compute")], []),
    ]


def test_notes_and_troubles_of_alerts_themselves_are_no_findings():
    said = (Finding("persistence-off", "note", "..."), Finding("outlet", "warning", "..."))
    assert told(with_host(gpu_idle_s={}, findings=said)) == [[]]


def test_what_gives_no_sign_of_life_is_told_once():
    hung = with_host(gpu_idle_s={}, findings=(), work=(changed(state="hung", quiet_s=300.0),))
    assert told(QUIET, hung, hung) == [[], [("stalled", "brave-fox")], []]


def test_a_task_that_goes_back_to_its_queue_or_out_of_sight_there_has_not_ended():
    task = changed(id="job/t1", kind="task", parent="job")
    queued = dataclasses.replace(task, status="queued", state="waiting")
    one, other, gone = (
        with_host(gpu_idle_s={}, findings=(), work=work) for work in ((task,), (queued,), ())
    )
    assert told(one, other, gone, one, gone) == [[], [], [], [], [("finished", "job/t1")]]


@pytest.mark.parametrize("work", [(), (changed(status="failed"),)])
def test_what_has_ended_is_told_once(work):
    over = with_host(gpu_idle_s={}, findings=(), work=work)
    assert told(QUIET, over, over) == [[], [("finished", "brave-fox")], []]


def test_how_it_ended_is_told_where_it_is_known():
    watch = EventWatch(600.0)
    watch.new(QUIET)
    (event,) = watch.new(with_host(findings=(), gpu_idle_s={}, work=(changed(status="failed"),)))
    assert event.text == "training brave-fox has ended: failed"


def test_a_host_that_is_gone_ends_nothing():
    gone = with_host(gpu_idle_s={}, findings=(), work=(), problem="Connection refused")
    assert told(QUIET, gone, QUIET) == [[], [], []]


def test_what_had_ended_before_is_not_told():
    assert told(with_host(gpu_idle_s={}, findings=(), work=(changed(status="failed"),))) == [[]]


def test_a_command_gets_each_event_once_as_json(tmp_path):
    rules = [(event, f"cat >> {tmp_path}/{event}") for event in EVENTS]
    alerts = Alerts(rules, idle_after_s=600.0, clock=no_time)
    snapshots = (SNAPSHOT, SNAPSHOT, with_work(state="hung"), with_host(work=()))
    for snapshot in snapshots:
        assert alerts.take(snapshot) == ""
    alerts.close()
    lines = {path.name: path.read_text().splitlines() for path in tmp_path.iterdir()}
    assert {name: len(found) for name, found in lines.items()} == dict.fromkeys(EVENTS, 1)
    finding = json.loads(lines["finding"][0])
    assert finding["event"] == "finding"
    assert finding["host"] == "n01"
    assert finding["code"] == "xid"
    assert finding["command"] == "restart it"
    assert json.loads(lines["finished"][0])["id"] == "brave-fox"


def until_said(alerts) -> str:
    """Take what says nothing new until the command has ended."""
    alerts.take(SNAPSHOT)
    problem = wait_until(lambda: alerts.take(SNAPSHOT), "the end of the command")
    alerts.close()
    return problem


def test_a_command_that_fails_is_said_without_what_may_be_secret_in_it():
    command = "exit 3 # https://hooks.example/hunter2"
    problem = until_said(Alerts([("finding", command)], idle_after_s=600.0, clock=no_time))
    assert problem == "--on finding: its command ended with 3"


@pytest.mark.parametrize(("number", "name"), [(15, "SIGTERM"), (40, "signal 40")])
def test_a_command_that_a_signal_ended_is_said_with_it(number, name):
    problem = until_said(Alerts([("finding", f"kill -{number} $$")], idle_after_s=600.0))
    assert problem == f"--on finding: its command was ended by {name}"


def test_a_command_that_hangs_is_ended_with_all_that_it_started(trace):
    now = 0.0
    alerts = Alerts([("finding", "sleep 600 & sleep 600")], idle_after_s=600.0, clock=lambda: now)
    alerts.take(SNAPSHOT)
    wait_until(lambda: len(trace.processes("sleep")) == 2, "both programs of the command")
    now = 61.0
    assert alerts.take(SNAPSHOT) == "--on finding: its command took over 60 s"
    alerts.close()
    wait_until(lambda: not trace.processes("sleep"), "the end of both programs")


def test_more_events_than_commands_at_once_wait_for_their_turn(tmp_path):
    found = tuple(Finding(f"code-{i}", "failure", f"number {i}") for i in range(20))
    alerts = Alerts([("finding", f"cat >> {tmp_path}/told")], idle_after_s=600.0, clock=no_time)
    alerts.take(with_host(findings=found))
    alerts.close()
    assert len((tmp_path / "told").read_text().splitlines()) == 20


class Endless:
    """A feed of a machine that stays as it is."""

    def next(self):
        return SNAPSHOT

    def close(self):
        pass


def test_what_is_wrong_with_an_alert_is_shown_with_the_snapshot():
    alerts = Alerts([("finding", "kill -TERM $$")], idle_after_s=600.0, clock=no_time)
    feed = TappedFeed(Endless(), [alerts])
    (host,) = wait_until(
        lambda: [h for h in feed.next().hosts if len(h.findings) > len(HOST.findings)],
        "the finding of the alert",
    )
    feed.close()
    assert host.findings[-1].code == "outlet"
    assert host.findings[-1].text == "--on finding: its command was ended by SIGTERM"
    assert host.at >= AT
