import pytest
from made_runs import EVIL, make_run, write_epochs, write_samples
from reading import check_page, texts

import tarmac
from tarmac.errors import RequestError, TarmacError
from tarmac.jobs import Job, read_timeline
from tarmac.pages import report
from tarmac.pages.numbers import worded


def two(tmp_path):
    first = make_run(tmp_path, "first", configuration={"workload": "w", "batch_size": 32})
    second = make_run(
        tmp_path,
        "second",
        configuration={"workload": "w", "batch_size": 64},
        metrics={"test_accuracy": 0.99},
    )
    write_epochs(first)
    write_epochs(second, 6)
    write_samples(second)
    return first, second


def test_what_differed_is_shown_and_nothing_else(tmp_path):
    first, second = two(tmp_path)
    elements = check_page(report([first.path, second.path]))
    rows = texts(elements, "tr")
    assert "configuration.batch_size3264" in rows
    assert not [row for row in rows if row.startswith("configuration.workload")]


def test_runs_are_overlaid_by_epoch_and_by_time(tmp_path):
    first, second = two(tmp_path)
    elements = check_page(report([first.path, second.path]))
    drawn = [e.attributes["id"] for e in elements if e.name == "figure"]
    assert {"epoch-val-accuracy", "epoch-loss", "time-val-loss"} <= set(drawn)
    lines = [e.attributes["data-name"] for e in elements if "data-name" in e.attributes]
    assert set(lines) == {"first", "second"}


def test_the_best_of_each_metric_stands_out(tmp_path):
    first, second = two(tmp_path)
    assert texts(check_page(report([first.path, second.path])), "b") == ["99 %"]


def test_runs_of_one_name_are_told_apart(tmp_path):
    first = make_run(tmp_path / "a", "run")
    second = make_run(tmp_path / "b", "run")
    (subtitle,) = [
        e.text
        for e in check_page(report([first.path, second.path]))
        if e.attributes.get("class") == "subtitle"
    ]
    assert str(first.path) in subtitle
    assert str(second.path) in subtitle


def test_hostile_values_are_text_and_secrets_are_hidden(tmp_path):
    first = make_run(tmp_path, "a", configuration={"workload": "w", "x": EVIL, "token": "hunter2"})
    second = make_run(tmp_path, "b", configuration={"workload": "w", "token": "hunter3"})
    html = report([first.path, second.path])
    elements = check_page(html)
    assert EVIL in texts(elements, "td")
    assert "hunter" not in html


def test_a_run_without_epochs_can_be_compared(tmp_path):
    first = make_run(tmp_path, "a", status="running", metrics={}, elapsed_s=0.0)
    second = make_run(tmp_path, "b")
    (second.path / "metrics.jsonl").write_text("no json\n{}\n")
    with pytest.raises(TarmacError, match="damaged"):
        report([first.path, second.path])


def test_ten_runs_have_as_many_lines(tmp_path):
    made = [make_run(tmp_path, f"run-{number}") for number in range(10)]
    for run in made:
        write_epochs(run)
    html = report([run.path for run in made])
    elements = check_page(html)
    drawn = [e for e in elements if e.attributes.get("data-name") == "run-9"]
    # Its colour is that of the second one, so it is dashed.
    assert all("far" in e.attributes["class"] for e in drawn)


def test_a_path_that_is_no_run_is_named(tmp_path):
    run = make_run(tmp_path)
    with pytest.raises(RequestError, match="gone is not a run"):
        report([run.path, tmp_path / "gone"])


def test_secrets_deep_in_what_was_asked_are_hidden(tmp_path):
    tasks = [{"env": {"SSH_KEY": "abc"}, "command": ["run", "--token", "def"], "name": "one"}]
    first = make_run(tmp_path, "a", configuration={"workload": "w", "tasks": tasks})
    second = make_run(tmp_path, "b", configuration={"workload": "w", "tasks": [1, 2]})
    cells = texts(check_page(report([first.path, second.path])), "td")
    hidden = '[{"env": {"SSH_KEY": "(hidden)"}, "command": ["run", "--token", "(hidden)"], '
    assert f'{hidden}"name": "one"}}]' in cells
    assert "[1, 2]" in cells


def test_compared_jobs_say_how_long_they_took(tmp_path):
    jobs = [Job(name=name, command="echo hello") for name in ("a", "b")]
    made = [tarmac.run(job, output=tmp_path).path for job in jobs]
    elements = check_page(report(made))
    assert "from start to end" in texts(elements, "th")
    for path in made:
        timeline = read_timeline(path)
        took = worded(timeline.until - timeline.began_at, "s")
        (row,) = [row for row in texts(elements, "tr") if row.startswith(path.name)]
        assert took in row
