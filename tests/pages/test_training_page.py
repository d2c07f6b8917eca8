import json
import os
from datetime import timedelta
from pathlib import Path

import pytest
from made_runs import EVIL, epoch, make_run, replicas, write_epochs, write_samples
from reading import check_page, texts

from tarmac.checks.evidence import Evidence
from tarmac.checks.report.make import make_report
from tarmac.errors import RequestError, TarmacError
from tarmac.pages import page_of, report
from tarmac.runs import Layer, Session, write_layers

H100 = Path(__file__).parents[1] / "checks" / "recorded" / "h100.json"


def shown(run):
    """Return the elements of a run's page, and its whole text."""
    elements = check_page(report([run.path]))
    return elements, texts(elements, "body")[0]


def sections(elements):
    return [e.attributes["id"] for e in elements if e.name == "section"]


def tiles(elements):
    names, values = texts(elements, "dt"), texts(elements, "dd")
    return dict(zip(names, values, strict=True))


def test_a_whole_run_has_all_its_sections(tmp_path):
    run = make_run(tmp_path, energy_joules=36000.0, throttled_s={"power": 9.5}, mfu=0.41)
    write_epochs(run)
    write_samples(run)
    elements, text = shown(run)
    assert sections(elements) == [
        "result",
        "curves",
        "waits",
        "energy",
        "events",
        "asked",
        "environment",
    ]
    facts = tiles(elements)
    assert facts["test accuracy"].startswith("98.4 %")
    assert facts["energy"].startswith("10 Wh")
    assert facts["model FLOPs used"].startswith("41 %")
    assert facts["took"] == "40 s"
    assert "clocks lowered for power" in facts
    assert "NVIDIA H100" in text


def test_gpus_lie_under_the_curves_on_the_same_axis(tmp_path):
    run = make_run(tmp_path)
    write_epochs(run, at_s=0.0)
    write_samples(run)
    elements, text = shown(run)
    axes = {e.attributes["data-x"] for e in elements if e.attributes.get("data-group") == "time"}
    assert axes == {"0.0 40.0 linear"}
    for name in ("GPU 0: in use", "GPU 1: power", "GPU 0: memory", "GPU 0: clocks lowered", "CPU"):
        assert name in text
    assert [e.attributes["data-text"] for e in elements if "mark" in e.attributes.get("class", "")]


def test_many_gpus_have_a_lane_each_and_one_for_their_power(tmp_path):
    run = make_run(tmp_path)
    write_epochs(run)
    write_samples(run, gpus=8)
    _, text = shown(run)
    assert "GPU 7: in use" in text
    assert "GPU 7: power" not in text
    assert "all GPUs: power" in text


def test_waits_are_told_as_shares_of_the_time(tmp_path):
    run = make_run(tmp_path)
    write_epochs(run)
    _, text = shown(run)
    assert "Of all epochs' time: 20 % waiting for data, 10 % waiting for other ranks." in text


def test_a_run_without_samples_says_why_there_are_none(tmp_path):
    run = make_run(tmp_path, configuration={"workload": "mnist-mlp", "sampling": False})
    write_epochs(run)
    _, text = shown(run)
    assert "GPUs and host were not sampled: --no-sampling." in text


@pytest.mark.parametrize(
    ("met", "state", "words"), [(True, "ok", "as expected"), (False, "bad", "not as expected")]
)
def test_the_result_stands_against_what_was_expected(tmp_path, met, state, words):
    expectation = {
        "metric": "test_accuracy",
        "at_least": 0.98,
        "at_most": None,
        "source": "a paper",
        "met": met,
        "text": f"test accuracy 0.984, expected at least 0.98: {words}",
    }
    run = make_run(tmp_path, expectation=expectation)
    write_epochs(run)
    elements, text = shown(run)
    assert [e for e in elements if e.attributes.get("class") == f"message {state}"]
    assert f"expected at least 0.98: {words}" in text
    assert "expected in the test: at least 98 %" in text
    assert tiles(elements)["test accuracy"].endswith(words)


def test_times_of_older_runs_are_added_up_by_session(tmp_path):
    run = make_run(tmp_path)
    began = run.record.created_at
    sessions = [
        Session(started_at=began + timedelta(seconds=at), pid=at + 1).model_dump()
        for at in (0, 100)
    ]
    run.update(sessions=sessions)
    rows = [epoch(1, setup_s=5.0), epoch(2), epoch(3, setup_s=5.0)]
    (run.path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    elements, text = shown(run)
    assert "End times of epochs are sums of their durations." in text
    cells = texts(elements, "td")
    # The first session's two epochs, and one of the session that began 100 s later.
    assert {"15 s", "25 s", "1 min 55 s"} <= set(cells)


def test_everything_that_a_user_names_is_shown_as_text(tmp_path):
    run = make_run(
        tmp_path,
        name=f"evil {EVIL}".replace("/", "|"),
        workload=EVIL,
        command=["tarmac", "train", EVIL],
        configuration={"workload": EVIL, EVIL: EVIL, "settings": {EVIL: EVIL}},
        dataset={"name": EVIL, EVIL: EVIL},
        device={"name": EVIL, EVIL: [EVIL]},
        versions={EVIL: EVIL},
        expectation={"text": EVIL, "source": EVIL, "met": None, "at_least": EVIL},
        error=EVIL,
        stopped_early=EVIL,
        uploaded_to=EVIL,
        tracked={EVIL: EVIL},
        metrics={EVIL: 1.0},
    )
    write_epochs(run)
    write_samples(run, name=EVIL)
    (run.path / "logs").mkdir()
    (run.path / "logs" / "rank-0.log").write_text(EVIL)
    elements, text = shown(run)
    # The page's own scripts and no other.
    scripts = [e.text for e in elements if e.name == "script"]
    assert len(scripts) == 1
    assert "alert" not in scripts[0]
    assert EVIL in text


def test_secrets_never_reach_the_page(tmp_path):
    run = make_run(
        tmp_path,
        command=["tarmac", "train", "x", "--token", "hunter2secret", "API_KEY=hunter2secret"],
        configuration={"workload": "x", "api_key": "hunter2secret"},
        error="cannot log in: password=hunter2secret",
        uploaded_to="https://user:hunter2secret@host/bucket",
    )
    assert "hunter2secret" not in report([run.path])


def test_a_failed_run_says_why_and_what_to_type_and_shows_the_end_of_its_log(tmp_path):
    run = make_run(tmp_path, status="failed", error="the training diverged", metrics={})
    (run.path / "logs").mkdir()
    (run.path / "logs" / "rank-0.log").write_bytes(b"first\n\xff\x1b[31mred\x1b[0m\nlast words\n")
    elements, text = shown(run)
    assert "It failed: the training diverged" in text
    assert f"tarmac train --resume {run.path}" in texts(elements, "pre")
    assert "last words" in text
    assert "\x1b" not in text


def test_of_many_logs_those_of_ranks_that_failed_and_the_newest_are_shown(tmp_path):
    run = make_run(tmp_path, status="failed", error="rank 3: no memory", metrics={})
    logs = run.path / "logs"
    logs.mkdir()
    for rank in range(9):
        log = logs / f"rank-{rank}.err"
        log.write_text(f"words of {rank}\n")
        os.utime(log, (1e9 - rank, 1e9 - rank))
    long = "Traceback (most recent call last)\n" + "  frame\n" * 90
    (logs / "rank-7.err").write_text(long)
    os.utime(logs / "rank-7.err", (1, 1))
    elements, text = shown(run)
    assert [name for name in texts(elements, "summary") if "logs/" in name] == [
        f"The end of logs/rank-{rank}.err" for rank in (3, 7, 0, 1)
    ]
    # Of those that say nothing of a failure, the last to say anything is why all others waited.
    assert "4 of 9 logs" in text
    assert "Left out: rank-2.err, rank-4.err, rank-5.err, rank-6.err and 1 more." in text
    assert f"tarmac runs logs {run.path}" in text


@pytest.mark.parametrize(
    "written",
    ["", '{"epoch":1,"loss":0.5}\n{"epoch":2,"lo', '{"epoch":1}\nno json\n', "[1]\n{}\n", "null\n"],
)
def test_a_run_that_is_being_written_is_shown_as_far_as_it_goes(tmp_path, written):
    run = make_run(tmp_path, status="running", ended_at=None, elapsed_s=0.0, metrics={})
    (run.path / "metrics.jsonl").write_text(written)
    (run.path / "samples.jsonl").write_text('{"kind":"session","at_s":0}\n{"kind":"sam')
    _, text = shown(run)
    # No process works on it.
    assert "interrupted" in text


def test_a_damaged_line_is_named(tmp_path):
    run = make_run(tmp_path)
    (run.path / "metrics.jsonl").write_text('{"epoch":1}\nno json\n')
    _, text = shown(run)
    assert "metrics.jsonl:2 is damaged" in text


def test_numbers_that_are_none_leave_holes(tmp_path):
    run = make_run(tmp_path, metrics={"test_accuracy": float("nan")})
    rows = '{"epoch":1,"loss":NaN,"seconds":null}\n{"epoch":2,"loss":Infinity,"accuracy":"x"}\n'
    (run.path / "metrics.jsonl").write_text(rows)
    elements, _ = shown(run)
    assert "test accuracy" not in tiles(elements)


def test_ranks_are_listed(tmp_path):
    parallel = {"strategy": "ddp", "world_size": 3, "backend": "nccl", "replicas": replicas(3)}
    run = make_run(tmp_path, parallel=parallel)
    _, text = shown(run)
    assert "3 x NVIDIA H100" in text
    assert "node-2" in text


def test_the_network_is_a_table_of_its_layers(tmp_path):
    run = make_run(tmp_path)
    own = Layer(name=f"blocks.0.{EVIL}", kind="Conv2d", shape=(16, 28, 28), parameters=160)
    write_layers(run.path, [own, Layer(name="last", kind="Odd", shape=None, parameters=0)])
    elements, text = shown(run)
    assert "network" in sections(elements)
    assert f"blocks.0.{EVIL}" in text
    assert "16 x 28 x 28" in text
    assert "160 parameters." in text


def test_of_a_thousand_layers_the_first_ones_are_shown_when_they_are_wanted(tmp_path):
    run = make_run(tmp_path)
    layers = [Layer(name=f"at-{n}", kind="ReLU", shape=(1,), parameters=0) for n in range(1000)]
    write_layers(run.path, layers)
    elements, text = shown(run)
    assert "network-layers" in [e.attributes["id"] for e in elements if e.name == "details"]
    assert "at-199" in text
    assert "at-200" not in text
    assert "800 more are in layers.json." in text


def test_a_network_that_cannot_be_read_says_so(tmp_path):
    run = make_run(tmp_path)
    (run.path / "layers.json").write_text("{")
    _, text = shown(run)
    assert "It cannot be read" in text


def test_a_check_that_cannot_be_read_says_so(tmp_path):
    run = make_run(tmp_path)
    (run.path / "check.json").write_text("{")
    _, text = shown(run)
    assert "The check cannot be read" in text


def test_a_check_is_shown_with_its_age_at_the_start_of_the_training(tmp_path):
    run = make_run(tmp_path)
    checked_at = run.record.created_at - timedelta(hours=3)
    evidence = json.loads(H100.read_text())
    evidence["inventory"]["gpus"][0]["uncorrected_errors"] = 2
    checked = make_report(Evidence.model_validate(evidence), seconds=1.0)
    aged = checked.model_copy(update={"checked_at": f"{checked_at:%Y-%m-%dT%H:%M:%SZ}"})
    (run.path / "check.json").write_text(aged.model_dump_json())
    _, text = shown(run)
    assert "Checked 3 h before the training began." in text
    assert "uncorrected memory errors (GPU 0)" in text


def test_a_run_of_a_newer_version_is_refused_with_what_to_do(tmp_path):
    run = make_run(tmp_path)
    record = json.loads((run.path / "run.json").read_text())
    (run.path / "run.json").write_text(json.dumps(record | {"schema_version": 999}))
    with pytest.raises(RequestError, match="newer Tarmac") as refusal:
        report([run.path])
    assert "Upgrade" in (refusal.value.hint or "")


def test_a_damaged_record_and_a_path_that_is_no_run_are_errors(tmp_path):
    run = make_run(tmp_path)
    (run.path / "run.json").write_text("{")
    with pytest.raises(TarmacError, match="damaged"):
        report([run.path])
    with pytest.raises(RequestError, match="is not a run"):
        report([tmp_path / "nothing"])
    with pytest.raises(RequestError, match="at least one"):
        page_of([])


def test_a_page_of_a_thousand_epochs_is_small(tmp_path):
    run = make_run(tmp_path)
    write_epochs(run, 1000)
    write_samples(run, gpus=8, count=2000)
    html = report([run.path])
    check_page(html)
    assert len(html.encode()) < 1_000_000


def test_power_is_averaged_over_the_time_at_work(tmp_path):
    # The samples reach to 35 s, with a pause between two sessions.
    run = make_run(tmp_path, energy_joules=2000.0, elapsed_s=20.0)
    write_samples(run)
    _, text = shown(run)
    assert "on average100 W" in text


def test_what_was_expected_is_no_curve_by_itself(tmp_path):
    expected = {
        "metric": "test_accuracy",
        "at_least": 0.96,
        "at_most": None,
        "met": None,
        "text": "at least 0.96",
    }
    run = make_run(tmp_path, status="failed", error="nan", metrics={}, expectation=expected)
    elements, text = shown(run)
    assert "Expected in the test: at least 0.96" in text
    assert not [e for e in elements if e.attributes.get("id") == "curve-accuracy"]
    write_epochs(run)
    elements, _ = shown(run)
    names = [e.attributes.get("data-name", "") for e in elements]
    assert "expected in the test: at least 96 %" in names


def test_what_to_type_can_be_typed_with_any_path(tmp_path):
    run = make_run(tmp_path / "my runs", status="failed", error="nan", metrics={})
    elements, _ = shown(run)
    assert f"tarmac train --resume '{run.path}'" in texts(elements, "pre")


def test_a_log_of_one_line_that_is_written_over_shows_its_end(tmp_path):
    run = make_run(tmp_path, status="failed", error="nan", metrics={})
    (run.path / "logs").mkdir()
    bar = b"".join(b"\r%5d of 10000 samples" % number for number in range(10_000))
    (run.path / "logs" / "rank-0.log").write_bytes(bar)
    elements, _ = shown(run)
    assert "9999 of 10000 samples" in texts(elements, "pre")


def test_columns_have_names_and_only_sections_are_landmarks(tmp_path):
    run = make_run(tmp_path)
    write_epochs(run)
    write_samples(run)
    elements, _ = shown(run)
    assert all(texts(elements, "th"))
    assert not [e for e in elements if e.attributes.get("role") == "region"]
