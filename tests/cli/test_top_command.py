"""``tarmac top`` from its options to what it prints, mostly of recordings."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from tarmac.cli import choices
from tarmac.machine import LiveGpu, LiveHost
from tarmac.monitor import EVENTS, HostSnapshot, Recorder, Snapshot, Work, from_json

AT = datetime(2026, 11, 22, 12, 0, 0, tzinfo=UTC)
TRAINING = Work("brave-fox", "training", "/runs/brave-fox", "running", gpu_uuids=("GPU-0",))


def moment(number: int, **changes: object) -> Snapshot:
    at = AT + timedelta(seconds=number)
    facts = {
        "gpus": (LiveGpu(0, "GPU-0", "NVIDIA H100", utilization_ratio=number / 10),),
        "gpu_states": {"GPU-0": "busy"},
        "work": (TRAINING,),
    }
    return Snapshot(at, (HostSnapshot(at, LiveHost("n01"), **facts | changes),))


@pytest.fixture
def recording(tmp_path):
    path = tmp_path / "night.jsonl"
    recorder = Recorder(path)
    for number in range(3):
        recorder.take(moment(number))
    return str(path)


@pytest.fixture
def idle(tmp_path):
    path = tmp_path / "idle.jsonl"
    Recorder(path).take(moment(0, gpu_states={"GPU-0": "held"}, gpu_idle_s={"GPU-0": 1000.0}))
    return str(path)


def test_events_are_those_that_watching_tells():
    assert choices.EVENTS == EVENTS


def test_a_table_is_what_there_is_without_a_terminal(tarmac, recording):
    code, out, err = tarmac("top", "--replay", recording)
    assert (code, err) == (0, "")
    assert "brave-fox" in out
    assert "\x1b" not in out


def test_one_json_is_the_last_of_a_recording(tarmac, recording):
    code, out, _ = tarmac("top", "--json", "--replay", recording)
    assert code == 0
    assert from_json(json.loads(out)) == moment(2)


def test_with_watch_each_snapshot_is_a_line_of_json(tarmac, recording):
    code, out, _ = tarmac("top", "--json", "--watch", "1", "--replay", recording)
    assert code == 0
    assert [from_json(json.loads(line)) for line in out.splitlines()] == [
        moment(number) for number in range(3)
    ]


def test_csv_has_its_columns_once(tarmac, recording):
    code, out, _ = tarmac("top", "--csv", "--watch", "1", "--replay", recording)
    assert code == 0
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [row["utilization_ratio"] for row in rows] == ["0.0", "0.1", "0.2"]


@pytest.mark.parametrize("form", ["--once", "--json", "--csv"])
def test_a_gpu_that_is_held_and_idle_fails_where_that_is_asked(tarmac, idle, recording, form):
    assert tarmac("top", form, "--replay", idle)[0] == 0
    assert tarmac("top", form, "--fail-idle", "--replay", idle)[0] == 1
    assert tarmac("top", form, "--fail-idle", "--idle-after", "1h", "--replay", idle)[0] == 0
    assert tarmac("top", form, "--fail-idle", "--replay", recording)[0] == 0


@pytest.mark.parametrize("form", ["--once", "--json", "--csv"])
def test_a_machine_that_does_not_answer_is_none_without_an_idle_gpu(tarmac, tmp_path, form):
    path = tmp_path / "silent.jsonl"
    Recorder(path).take(moment(0, gpus=(), work=(), problem="No route to host"))
    code, _, said = tarmac("top", form, "--fail-idle", "--replay", str(path))
    assert code == 1
    assert "cannot tell whether a GPU of n01 is idle: No route to host" in said
    assert tarmac("top", form, "--replay", str(path))[0] == 0


def test_commands_are_run_for_the_events_of_a_recording(tarmac, idle, tmp_path):
    told = tmp_path / "told"
    code, out, _ = tarmac("top", "--replay", idle, "--on", "idle", f"cat > {told}")
    assert (code, out) == (0, "")
    assert json.loads(told.read_text())["event"] == "idle"


def test_a_command_for_an_event_that_fails_is_said(tarmac, idle):
    code, _, err = tarmac("top", "--once", "--replay", idle, "--on", "idle", "exit 3")
    assert (code, err) == (1, "error: --on idle: its command ended with 3\n")


def test_what_cannot_be_recorded_is_said_once_and_shown_all_the_same(tarmac, tmp_path):
    code, out, err = tarmac("top", "--json", "--record", str(tmp_path / "none" / "x.jsonl"))
    assert code == 1
    assert err.startswith("warning: cannot write ")
    (finding,) = [f for f in json.loads(out)["hosts"][0]["findings"] if f["code"] == "outlet"]
    assert "cannot write" in finding["text"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--json", "--csv"), "--json and --csv exclude each other"),
        (("--once", "--serve"), "--once and --serve exclude each other"),
        (("--serve", "--watch", "5"), "--watch is for --once, --json and --csv"),
        (("--dcgm-names",), "--dcgm-names is for --serve"),
        (("--speed", "2"), "--speed is for --replay"),
        (("--serve", "--fail-idle"), "--fail-idle is for --once, --json and --csv"),
        (("--web", "0", "--on", "idle", "true"), "do not go with --web"),
        (("--serve", "example.org"), "is no address"),
        (("--on", "birthday", "true"), "unknown --on 'birthday'"),
        (("--watch", "soon", "--json"), "'soon'"),
        (("--watch", "0", "--json"), "expected more than 0 seconds"),
        (("--pid", "one"), "expected numbers"),
        (("--gpu", ","), "no name is given"),
        (("--hosts", "-oProxyCommand=x"), "is not a host name"),
        (("--once", "--host", "b"), "--host is for several machines"),
        (("--hosts", "a", "--host", "b"), "there is no host to watch among a"),
    ],
)
def test_what_does_not_go_together_is_refused(tarmac, words, said):
    code, out, err = tarmac("top", *words)
    assert (code, out) == (2, "")
    assert said in err


@pytest.mark.parametrize("words", [("--mine",), ("--gpu", "0"), ("--record", "x"), ("--slurm",)])
def test_what_is_for_now_is_refused_beside_a_recording(tarmac, recording, words):
    code, _, err = tarmac("top", "--replay", recording, *words)
    assert code == 2
    assert f"{words[0]} needs live data" in err


def test_the_speed_of_a_recording_is_more_than_none(tarmac, recording):
    assert tarmac("top", "--replay", recording, "--speed", "0")[0] == 2


def test_a_recording_that_is_none_is_said(tarmac, tmp_path):
    (tmp_path / "empty").touch()
    code, _, err = tarmac("top", "--replay", str(tmp_path / "empty"))
    assert code == 1
    assert "holds no snapshot" in err


def test_a_browser_is_served_the_screen_with_the_options_that_were_given(tarmac, monkeypatch):
    served = []
    monkeypatch.setattr(
        "tarmac.monitor.serve_in_browser", lambda words, port: served.append((words, port))
    )
    words = ["--gpu", "0,1", "--mine", "--interval", "2.5", "--host-command", "a b"]
    assert tarmac("top", *words, "--web", "8080")[0] == 0
    ((given, port),) = served
    assert port == 8080
    assert sorted(given) == sorted(words)
    assert given[given.index("--host-command") :][:2] == ["--host-command", "a b"]


@pytest.mark.parametrize(
    ("words", "variable", "readonly"),
    [
        ((), "", False),
        (("--readonly",), "", True),
        ((), "1", True),
        ((), "0", False),
        (("--hosts", "n01"), "", True),
        (("--replay", "RECORDING"), "", True),
    ],
)
def test_nothing_can_be_stopped_where_that_is_asked_or_not_of_this_machine(
    tarmac, monkeypatch, recording, *, words, variable, readonly
):
    shown = []
    monkeypatch.setattr("tarmac.monitor.can_show_screen", lambda: True)
    monkeypatch.setenv("TARMAC_TOP_READONLY", variable)
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr("tarmac.monitor.run_screen", lambda _, options: shown.append(options))
    given = [recording if word == "RECORDING" else word for word in words]
    assert tarmac("top", *given)[0] == 0
    assert [options.readonly for options in shown] == [readonly]
    # Nor are files and processes looked for on this machine that are not this machine's, or now.
    is_here = not {"--hosts", "--replay"} & {*words}
    assert [not options.elsewhere for options in shown] == [is_here]


def begin(*words: str, **options: object) -> subprocess.Popen:
    command = [sys.executable, "-m", "tarmac", "top", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)


def test_a_reader_that_has_seen_enough_ends_it_quietly(recording):
    watch = begin("--json", "--watch", "1", "--replay", recording, stderr=subprocess.PIPE)
    watch.stdout.close()
    assert (watch.wait(200), watch.stderr.read()) == (1, "")
    watch.stderr.close()
