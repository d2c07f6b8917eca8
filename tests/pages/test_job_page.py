"""Tests of the pages of jobs, pipelines and tasks."""

from __future__ import annotations

import json
import re

import pytest

from tarmac.cli import main
from tarmac.errors import RequestError, TarmacError
from tarmac.jobs import (
    AttemptSpan,
    Job,
    Silent,
    create_run,
    parse_job,
    plan_tasks,
    prepare,
    read_timeline,
    work_on,
)
from tarmac.pages import is_task, job_page, render_page, task_page
from tarmac.pages.job_lanes import folded, joined
from tarmac.pages.job_time import Spent, at_work, ready_times, spec_times, spent
from tarmac.pages.lanes import Span

MEBIBYTE = 2**20


def html_of(page):
    html = render_page(page)
    ids = re.findall(r' id="([^"]+)"', html)
    assert len(ids) == len({*ids})
    return html


def section(html, key):
    found = re.search(rf'<section id="{key}".*?</section>', html, re.DOTALL)
    return found[0] if found else ""


def ran(tmp_path, text):
    job = parse_job(text)
    run = create_run(job, tmp_path, prepare(job, tmp_path), tmp_path / "runs")
    work_on(run, Silent())
    return run


@pytest.fixture(scope="module")
def failed(tmp_path_factory):
    """A run with a task that succeeded, one that failed twice, and one that was skipped."""
    return ran(
        tmp_path_factory.mktemp("failed"),
        """
        {name: x, env: {API_TOKEN: hunter2-hunter2}, tasks: [
          {name: a, command: 'echo fine; echo token=abcdef123456'},
          {name: b<i>, needs: [a], retries: {count: 1, backoff: 0}, sweep: {grid: {lr: [1, 2]}},
           command: 'echo "\\u001b[31mRuntimeError: CUDA out of memory.\\u001b[0m" >&2; exit 3'},
          {name: c, needs: [b<i>], command: 'true'}]}
        """.replace("b<i>", "b"),
    )


def synthetic(tmp_path, count, *, failures=0.02):
    """Write the run of a sweep, as an engine with two GPUs would have left it."""
    specs = [
        {"name": "prepare", "command": "true"},
        {
            "name": "train",
            "needs": ["prepare"],
            "command": "true",
            "sweep": {"grid": {"seed": [*range(count)]}},
        },
    ]
    job = Job.model_validate({"name": "big", "tasks": specs})
    run = create_run(job, tmp_path, tuple(plan_tasks(job, tmp_path)), tmp_path / "runs")
    at = read_timeline(run.path).began_at + 1
    lines = []

    def write(event, task, name, at, **values):
        line = {"event": event, "task": task, "name": name, "at": at, **values}
        lines.append(line)

    def end(task, name, at, *, is_bad):
        outcome, reason = ("failed", "exit code 1") if is_bad else ("succeeded", "")
        cause = "exit" if is_bad else None
        known = {"outcome": outcome, "reason": reason, "cause": cause, "exit_code": int(is_bad)}
        write("ended", task, name, at, **known, seconds=1.0, attempts=1)

    write("started", 0, "prepare", at, attempt=1)
    end(0, "prepare", at + 10, is_bad=False)
    for seed in range(count):
        name, start = f"train[seed={seed}]", at + 10 + seed // 2
        write("queued", seed + 1, name, at + 10, attempt=1, place=f"80_{seed}")
        gpus = [f"GPU-{seed % 2}"]
        write("started", seed + 1, name, start, attempt=1, host="node1", gpus=gpus)
        is_bad = failures and seed % round(1 / failures) == 7
        end(seed + 1, name, start + 1, is_bad=bool(is_bad))
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (run.path / "journal.jsonl").write_text(text)
    return run.path


def test_a_page_shows_what_failed_and_why_and_what_to_type(failed):
    html = html_of(job_page(failed.path))
    assert 'class="chip bad">failed</span>' in html
    failures = section(html, "failures")
    assert "2 tasks of b" in failures
    assert "exit code 3; cause: exit; 2 attempts of the first" in failures
    assert "[oom]" in failures
    assert "RuntimeError: CUDA out of memory." in failures
    assert "\x1b" not in html
    assert f"tarmac run --resume {failed.path}" in section(html, "outcome")
    assert "1 succeeded, 2 failed, 1 skipped" in section(html, "outcome")


def test_a_page_has_each_attempt_in_time(failed):
    html = html_of(job_page(failed.path))
    lanes = section(html, "timeline")
    assert "CPUs given" in section(html, "devices")
    for words in ("a, attempt 1: succeeded", "b[lr=1], attempt 1: failed", "attempt 2: failed"):
        assert words in lanes
    retries = section(html, "retries")
    assert retries.count("<tr>") == 2
    assert ">2</td><td>failed</td><td>exit</td><td>exit code 3</td>" in retries


def test_no_secret_reaches_a_page(failed):
    (directory,) = failed.path.glob("tasks/000000-*")
    for page in (job_page(failed.path), task_page(directory)):
        html = html_of(page)
        assert "hunter2" not in html
        assert "abcdef123456" not in html
        assert "API_TOKEN" in html


def test_reasons_hold_no_secret_either(tmp_path):
    run = synthetic(tmp_path, 60, failures=0.1)
    journal = run / "journal.jsonl"
    said = "cannot fetch https://jane:hunter2@example.org/data"
    journal.write_text(journal.read_text().replace("exit code 1", said))
    first = next(line for line in journal.read_text().splitlines() if said in line)
    again = json.loads(first) | {"event": "retried", "attempt": 1}
    after = {"event": "started", "attempt": 2, "at": again["at"] + 1}
    after = {key: again[key] for key in ("task", "name")} | after
    with journal.open("a") as more:
        more.write(f"{json.dumps(after)}\n{json.dumps(again | {'attempt': 2})}\n")
    html = html_of(job_page(run))
    assert "cannot fetch https://" in html
    assert "hunter2" not in html


def test_a_tasks_page_has_its_attempts_its_log_and_what_was_asked(failed):
    (directory,) = failed.path.glob("tasks/000002-*")
    assert is_task(directory)
    html = html_of(task_page(directory))
    assert "<h1>b[lr=2]</h1>" in html
    assert f"Task 2 of {failed.path.name}" in html
    assert "[oom]" in section(html, "why")
    assert section(html, "attempts").count('class="chip bad"') == 2
    assert "RuntimeError" in section(html, "log")
    assert "lr=2" in section(html, "asked")


def test_a_task_has_a_page_by_the_command_too(failed, tmp_path, capsys):
    (directory,) = failed.path.glob("tasks/000002-*")
    page = tmp_path / "task.html"
    with pytest.raises(SystemExit) as ended:
        main(["report", str(directory), "--html", str(page)])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"report {page}\n"
    assert "<h1>b[lr=2]</h1>" in page.read_text()


def test_a_directory_that_is_no_task_is_refused(failed, tmp_path):
    assert not is_task(failed.path)
    with pytest.raises(RequestError, match="is not a task of a job's run"):
        task_page(tmp_path)
    ghost = failed.path / "tasks" / "000009-x"
    with pytest.raises(RequestError, match="has not begun"):
        task_page(ghost)


def test_names_are_shown_as_they_are(tmp_path):
    run = synthetic(tmp_path, 1)
    journal = run / "journal.jsonl"
    journal.write_text(journal.read_text().replace("train[seed=0]", "<script>alert(1)</script>"))
    html = html_of(job_page(run))
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert" in html


def test_ten_thousand_tasks_are_folded_and_what_failed_comes_first(tmp_path):
    run = synthetic(tmp_path, 10_000)
    own, folds = folded(read_timeline(run))
    assert len(own) <= 40
    assert {task.state for task in own} == {"failed"}
    assert {(fold.name, fold.state, len(fold.tasks)) for fold in folds} == {
        ("train", "failed", 200 - len(own)),
        ("train", "succeeded", 9_800),
        ("prepare", "succeeded", 1),
    }
    html = html_of(job_page(run))
    assert len(html.encode()) < MEBIBYTE
    assert "200 tasks of train" in section(html, "failures")
    assert "GPU-0" in section(html, "devices")


def test_of_few_tasks_each_has_a_lane_in_the_order_of_the_file(tmp_path):
    own, folds = folded(read_timeline(synthetic(tmp_path, 20)))
    assert [task.index for task in own] == [*range(21)]
    assert folds == ()


def test_ten_thousand_failures_that_all_differ_still_make_a_small_page(tmp_path):
    run = synthetic(tmp_path, 3000, failures=1)
    journal = run / "journal.jsonl"
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    for number, line in enumerate(lines):
        if line["event"] == "ended":
            line |= {"outcome": "failed", "reason": f"its disk {number} is full " + "x" * 500}
    journal.write_text("".join(json.dumps(line) + "\n" for line in lines))
    html = html_of(job_page(run))
    assert len(html.encode()) < MEBIBYTE
    assert "more tasks in 2,989 other ways" in html


@pytest.mark.parametrize("cut", [0, 1, 7, 100, 555])
def test_half_a_journal_and_damaged_lines_make_a_page(tmp_path, cut):
    run = synthetic(tmp_path, 5)
    journal = run / "journal.jsonl"
    journal.write_bytes(journal.read_bytes()[:cut] + b'\n{"event": "ended"}\n\x00\xff\n[1, 2')
    html = html_of(job_page(run))
    assert "interrupted" in html
    assert "Left out: " in html


def test_a_run_of_an_older_version_says_that_it_has_no_times(failed, tmp_path):
    run = synthetic(tmp_path, 3)
    journal = run / "journal.jsonl"
    journal.write_text(re.sub(r', "at": [\d.]+|"at": [\d.]+, ', "", journal.read_text()))
    html = html_of(job_page(run))
    assert "has no times" in section(html, "timeline")
    assert section(html, "time") == ""


def test_a_run_of_a_newer_version_or_none_is_refused_in_words(tmp_path):
    run = synthetic(tmp_path, 1)
    record = json.loads((run / "job-run.json").read_text())
    (run / "job-run.json").write_text(json.dumps(record | {"schema_version": 99}))
    with pytest.raises(RequestError, match="newer"):
        job_page(run)
    with pytest.raises(TarmacError):
        job_page(tmp_path / "none")


def test_a_job_that_this_version_cannot_read_still_has_its_tasks(tmp_path):
    run = synthetic(tmp_path, 2)
    record = json.loads((run / "job-run.json").read_text())
    record["job"] = {"name": "x", "levitates": True}
    (run / "job-run.json").write_text(json.dumps(record))
    html = html_of(job_page(run))
    assert "cannot be read by this version" in section(html, "asked")
    assert "train[seed=1]" in section(html, "tasks")


def test_a_page_of_a_run_at_work_is_the_same_page_for_a_while(tmp_path):
    run = synthetic(tmp_path, 3)
    journal = run / "journal.jsonl"
    journal.write_text("\n".join(journal.read_text().splitlines()[:-1]) + "\n")
    began = read_timeline(run).began_at
    pages = {render_page(job_page(run, now=began + 1000.0 + each)) for each in range(1, 8)}
    assert len(pages) <= 2


def test_a_pipelines_page_has_its_nodes(tmp_path):
    nodes = [{"nodeName": "split", "algorithmName": "cut", "input": [1, "password=hunter2x"]}]
    job = Job.model_validate({"name": "p", "pipeline": {"name": "p", "nodes": nodes}})
    run = create_run(job, tmp_path, (), tmp_path / "runs")
    html = html_of(job_page(run.path))
    assert "A pipeline on this machine" in html
    assert ">split</th><td>cut</td>" in section(html, "asked")
    assert "hunter2x" not in html


def test_time_is_told_apart_by_what_it_went_to():
    first = AttemptSpan(1, queued_at=12.0, began_at=20.0, ended_at=30.0, outcome="failed")
    second = AttemptSpan(2, queued_at=31.0, began_at=36.0, outcome="running")
    assert spent([first, second], 10.0, until=40.0) == Spent(14.0, 13.0, 1.0)
    unknown = AttemptSpan(1, began_at=5.0, outcome="interrupted")
    assert spent([unknown], None, until=40.0) == Spent(0.0, None, 0.0)


def test_a_task_is_ready_once_what_it_needs_has_ended(failed):
    timeline = read_timeline(failed.path)
    ready = ready_times(timeline, failed.job)
    assert ready["a"] == timeline.began_at
    assert ready["b"] == timeline.trace_of(timeline.status.tasks[0]).last_at
    assert ready["c"] > ready["b"]
    first, second, third = spec_times(timeline, ready, timeline.until)
    assert (first.count, second.count, third.count) == (1, 2, 0)
    assert second.attempts == 4
    assert second.others_s == pytest.approx(ready["b"] - timeline.began_at)


def test_a_node_is_ready_once_the_nodes_that_it_takes_from_have_ended(tmp_path):
    nodes = [
        {"nodeName": "count", "algorithmName": "a", "input": ["#@flowInput.texts"]},
        {"nodeName": "sum", "algorithmName": "b", "input": [{"all": "@count.0"}]},
        {"nodeName": "any", "algorithmName": "b", "input": ["*@count"]},
        {"nodeName": "never", "algorithmName": "b", "input": ["@gone"]},
    ]
    job = Job.model_validate({"name": "p", "pipeline": {"name": "p", "nodes": nodes}})
    run = create_run(job, tmp_path, (), tmp_path / "runs")
    ended = [
        {"event": "ended", "task": n, "name": f"count[{n}]", "outcome": "succeeded", "at": 9e9 + n}
        for n in range(3)
    ]
    journal = "".join(json.dumps(line | {"reason": "", "seconds": 1}) + "\n" for line in ended)
    (run.path / "journal.jsonl").write_text(journal)
    timeline = read_timeline(run.path)
    assert ready_times(timeline, job) == {"count": timeline.began_at, "sum": 9e9 + 2}


def test_how_many_were_at_work_is_a_line_of_steps():
    spans = [
        AttemptSpan(began_at=101.0, ended_at=104.0, outcome="succeeded"),
        AttemptSpan(began_at=102.0, outcome="running"),
    ]
    assert at_work(spans, 100.0, 106.0) == [
        *((0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (2.0, 1.0), (2.0, 2.0), (4.0, 2.0), (4.0, 1.0)),
        (6.0, 1.0),
    ]


def test_what_attempts_were_given_adds_up():
    spans = [
        AttemptSpan(began_at=1.0, ended_at=3.0, outcome="succeeded", cpus=0.1),
        AttemptSpan(began_at=2.0, ended_at=4.0, outcome="succeeded", cpus=0.2),
        AttemptSpan(began_at=2.0, outcome="interrupted"),
    ]
    line = at_work(spans, 0.0, 5.0, size=lambda one: one.cpus or 0.0)
    assert [count for _, count in line] == [0.0, 0.0, 0.1, 0.1, 0.3, 0.3, 0.2, 0.2, 0.0, 0.0]


def test_many_short_blocks_become_a_few_that_say_how_many():
    spans = [Span(at, at + 0.9, "x", "bad" if at == 50 else "ok") for at in range(1000)]
    found = joined(spans, 10)
    assert len(found) == 10
    assert [block.state for block in found] == ["warn"] + ["ok"] * 9
    assert found[0].text == "100 attempts: 99 succeeded, 1 failed"
    assert (found[0].start, found[-1].end) == (0, 999.9)
    assert joined(spans[:10], 10) == spans[:10]


def test_a_task_that_was_skipped_could_never_begin(failed):
    timeline = read_timeline(failed.path)
    times = {one.name: one for one in spec_times(timeline, ready_times(timeline, failed.job), 1e10)}
    assert times["b"].others_s is not None
    assert times["c"].others_s is None


def test_commands_can_be_typed_as_they_are_shown(tmp_path):
    run = ran(tmp_path, "{name: x, command: [sh, -c, 'echo two; exit 0', --token, abc]}")
    assert "sh -c &#39;echo two; exit 0&#39; --token &#39;(hidden)&#39;" in html_of(
        job_page(run.path)
    )
