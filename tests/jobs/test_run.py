"""Running jobs for real: processes, files, signals."""

from __future__ import annotations

import hashlib
import http.server
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import textwrap
import threading
import zipfile
from pathlib import Path

import psutil
import pytest

from forked import ForkedProcess, start_python
from tarmac.errors import RequestError, TarmacError
from tarmac.files import OwnerLock
from tarmac.jobs import (
    RunRequest,
    create_run,
    find_run,
    parse_job,
    prepare,
    read_status,
    task_directory,
    work_on,
)
from tarmac.jobs.journal import read_journal
from tarmac.processes.cgroup import make_memory_group
from tarmac.tasks.inputs import fetch_inputs
from tarmac.tasks.model import Input
from waiting import limit_s, wait_until


class Watcher:
    def __init__(self) -> None:
        self.log: list[str] = []
        self.ends: dict[str, object] = {}
        self.grants: dict[str, object] = {}
        self.running = 0
        self.most = 0

    def started(self, task, attempt, grant) -> None:
        self.log.append(f"+{task.name}")
        self.grants[task.name] = grant
        self.running += 1
        self.most = max(self.most, self.running)

    def waited(self) -> None:
        pass

    def retrying(self, task, reason, delay_s) -> None:
        self.log.append(f"~{task.name}")
        self.running -= 1

    def ended(self, ended) -> None:
        self.log.append(f"-{ended.task.name}")
        self.ends[ended.task.name] = ended
        self.running -= ended.outcome != "skipped"


@pytest.fixture
def run(tmp_path):
    """Return a function that runs a job and returns (watcher, run, counts)."""

    def go(text: str, *, fake_gpus: int = 0, **options):
        job, request = parse_job(textwrap.dedent(text)), RunRequest(fake_gpus=fake_gpus)
        tasks = prepare(job, tmp_path, request)
        made = create_run(job, tmp_path, tasks, tmp_path / "runs")
        watcher = Watcher()
        counts = work_on(made, watcher, request, **options)
        return watcher, made, counts

    return go


def stdout(made, name: str) -> str:
    (task,) = [task for task in made.tasks if task.name == name]
    return (task_directory(made.path, task) / "stdout").read_text()


def test_tasks_follow_what_they_need_and_after_all_comes_last(run):
    watcher, made, counts = run(
        """
        name: x
        tasks:
          - {name: c, needs: [b], command: cat ../../../b}
          - {name: b, needs: [a], command: cp ../../../a ../../../b}
          - {name: a, command: echo hello > ../../../a}
        after_all: {name: last, command: [echo, bye]}
        """
    )
    assert counts == {"succeeded": 4}
    assert watcher.log == ["+a", "-a", "+b", "-b", "+c", "-c", "+last", "-last"]
    assert stdout(made, "c") == "hello\n"


def test_a_failure_skips_what_needs_it_and_after_all_comes_all_the_same(run):
    watcher, _, counts = run(
        """
        name: x
        tasks:
          - {name: a, command: exit 3}
          - {name: b, needs: [a], command: echo}
          - {name: c, needs: [b, d], command: echo}
          - {name: d, command: sleep 0.1}
        after_all: {name: last, command: [echo, bye]}
        """
    )
    assert counts == {"failed": 1, "skipped": 2, "succeeded": 2}
    assert watcher.ends["a"].reason == "exit code 3"
    assert watcher.ends["c"].reason == "b has failed"


def test_priority_and_then_the_order_of_the_file_decide(run):
    watcher, _, _ = run(
        """
        name: x
        concurrency: 1
        tasks:
          - {name: a, command: echo}
          - {name: b, command: echo, priority: 5}
          - {name: c, command: echo}
        """
    )
    assert [entry for entry in watcher.log if entry[0] == "+"] == ["+b", "+a", "+c"]


def test_a_task_is_tried_again_on_the_codes_that_are_named(run):
    watcher, _, counts = run(
        """
        name: x
        retries: {count: 2, backoff: 0.01, exit_codes: [75]}
        tasks:
          - {name: a, command: 'echo x >> ../n; test $(wc -l < ../n) = 3 || exit 75'}
          - {name: b, command: exit 4}
        """
    )
    assert counts == {"succeeded": 1, "failed": 1}
    assert (watcher.ends["a"].attempts, watcher.ends["b"].attempts) == (3, 1)


def test_a_time_limit_ends_the_whole_process_tree(run):
    nap = f"612.{os.getpid()}"
    watcher, _, counts = run(
        f"""
        name: x
        command: 'sh -c "sleep {nap} & sleep {nap}" & wait'
        timeout: 0.3
        """
    )
    assert counts == {"failed": 1}
    assert watcher.ends["x"].reason == "its time limit of 0.3 s"
    assert not sleepers(nap)


@pytest.mark.parametrize("by", ["kernel", "watching"])
def test_a_task_that_takes_more_memory_than_it_asked_for_is_ended(run, monkeypatch, by):
    if by == "watching":
        monkeypatch.setattr("tarmac.executors.launching.make_memory_group", lambda *_: None)
    elif (group := make_memory_group(f"tarmac-test-{os.getpid()}", 2**26)) is None:
        pytest.skip("control groups cannot be made here; try as root, outside of containers")
    else:
        group.remove()
    watcher, _, counts = run(
        f"""
        name: x
        resources: {{memory: 100MiB}}
        command:
          - {sys.executable}
          - -c
          - "x = bytearray(300 * 2**20); import signal; signal.pause()"
        """
    )
    assert counts == {"failed": 1}
    said = {"kernel": "more than 100 MiB of memory", "watching": "of 100 MiB of memory"}
    assert said[by] in watcher.ends["x"].reason


def test_no_more_run_at_once_than_there_is_room_for(run):
    watcher, _, _ = run(
        "{name: x, command: 'sleep 0.05', resources: {gpus: 1, cpus: 0.01}, sweep: {repeat: 6}}",
        fake_gpus=2,
    )
    assert watcher.most == 2


def test_each_task_gets_gpus_of_its_own_and_parts_share_one(run):
    watcher, made, _ = run(
        """
        name: x
        tasks:
          - name: whole
            command: echo $CUDA_VISIBLE_DEVICES $OMP_NUM_THREADS
            resources: {gpus: 2, cpus: 1}
          - name: part
            command: echo $CUDA_VISIBLE_DEVICES; sleep 0.1
            resources: {gpus: 0.5, cpus: 0.01}
            sweep: {repeat: 2}
          - {name: none, command: 'echo "<$CUDA_VISIBLE_DEVICES>"'}
        """,
        fake_gpus=2,
    )
    assert stdout(made, "whole") == "FAKE-0,FAKE-1 1\n"
    parts = [watcher.grants[f"part[repeat={n}]"] for n in (0, 1)]
    assert parts[0].gpus == parts[1].gpus
    assert stdout(made, "none") == "<>\n"


def test_tasks_without_gpus_go_on_where_only_gpus_are_short(run):
    watcher, _, _ = run(
        """
        name: x
        tasks:
          - {name: first, command: sleep 0.3, resources: {gpus: 1, cpus: 0.01}}
          - {name: second, command: echo, resources: {gpus: 1, cpus: 0.01}}
          - {name: small, command: echo, resources: {cpus: 0.01}}
        """,
        fake_gpus=1,
    )
    assert watcher.log.index("+small") < watcher.log.index("+second")


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        ("{gpus: 3}", "task 'x' needs 3 GPUs, this machine has 2"),
        ("{cpus: 4000}", "task 'x' needs 4,000 CPUs, this machine has"),
        ("{memory: 900TiB}", "task 'x' needs 921600.0 GiB of memory, this machine has"),
        ("{gpus: 1, gpu_memory: 80GiB}", "task 'x' needs 1 GPU of 80.0 GiB, this machine has 0"),
    ],
)
def test_what_can_never_fit_is_refused_before_anything_starts(run, tmp_path, resources, message):
    with pytest.raises(RequestError) as caught:
        run(f"{{name: x, command: echo, resources: {resources}}}", fake_gpus=2)
    assert str(caught.value).startswith(message)
    assert not (tmp_path / "runs").exists()


def test_outputs_are_kept_as_it_was_asked_and_failures_keep_theirs(run, tmp_path):
    _, _, counts = run(
        """
        name: x
        tasks:
          - name: good
            command: mkdir d; echo 1 > d/a; echo 2 > b; ln -s /etc/passwd d/outside
            outputs:
              - {path: d, to: kept/good}
              - {path: b, to: kept/no, when: failure}
          - name: bad
            command: echo 3 > log; exit 1
            outputs:
              - {path: log, to: kept/bad, when: failure}
              - {path: log, to: kept/always, when: always}
              - {path: log, to: kept/never}
        """
    )
    assert counts == {"succeeded": 1, "failed": 1}
    kept = sorted(str(p.relative_to(tmp_path / "kept")) for p in (tmp_path / "kept").rglob("*"))
    assert kept == ["always", "always/log", "bad", "bad/log", "good", "good/d", "good/d/a"]


def test_directories_come_in_and_go_out_without_what_is_excluded(run, tmp_path):
    for name in ("a.txt", "deep/b.txt", "deep/c.bin"):
        (tmp_path / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / name).write_text(name)
    watcher, _, _ = run(
        """
        name: x
        command: cat a.txt deep/b.txt && test ! -e deep/c.bin
        inputs: [{from: data, to: ., include: ["*"], exclude: ["*.bin"]}]
        outputs: [{path: "*", to: kept, exclude: ["deep/*"]}]
        """
    )
    assert watcher.ends["x"].outcome == "succeeded", watcher.ends["x"].reason
    kept = [path.name for path in (tmp_path / "kept").rglob("*") if path.is_file()]
    assert kept == ["a.txt"]


def test_names_of_outputs_start_from_their_root(run, tmp_path):
    run(
        """
        name: x
        command: mkdir -p sub/deep && touch sub/a sub/deep/b c
        outputs:
          - {path: "**/*", to: kept, root: sub}
          - {path: sub/a, to: one, root: sub/a}
        """
    )
    found = sorted(path.relative_to(tmp_path) for path in tmp_path.glob("[ko]*/**/*"))
    assert [str(path) for path in found if (tmp_path / path).is_file()] == [
        *("kept/a", "kept/c", "kept/deep/b", "one/a"),
    ]


def test_an_output_that_cannot_be_kept_fails_the_task_and_not_the_others(run, tmp_path):
    (tmp_path / "file").write_text("in the way")
    watcher, _, counts = run(
        """
        name: x
        command: echo 1 > a; echo 2 > b
        outputs: [{path: a, to: file/x}, {path: b, to: kept}, {path: c, to: kept}]
        """
    )
    assert counts == {"failed": 1}
    assert len(watcher.ends["x"].problems) == 2
    assert (tmp_path / "kept/b").read_text() == "2\n"


def test_secrets_reach_the_program_and_no_file_of_ours(run, tmp_path, monkeypatch):
    monkeypatch.setenv("MY_TOKEN", "hunter2hunter2")
    (tmp_path / "secret").write_text("swordfish99\n")
    watcher, made, _ = run(
        f"""
        name: x
        command: test ${{#TOKEN}} = 14 && test ${{#OTHER}} = 11
        secrets: {{TOKEN: {{env: MY_TOKEN}}, OTHER: {{file: {tmp_path / "secret"}}}}}
        """
    )
    assert watcher.ends["x"].outcome == "succeeded"
    for path in made.path.rglob("*"):
        if path.is_file():
            assert b"hunter2" not in path.read_bytes()
            assert b"swordfish" not in path.read_bytes()


def test_every_secret_that_is_missing_is_said_before_anything_starts(run, tmp_path):
    with pytest.raises(RequestError) as caught:
        run("{name: x, command: echo, secrets: {A: {env: NOT_SET_1}, B: {name: s, key: k}}}")
    assert "secret for A: the variable NOT_SET_1 is not set" in str(caught.value)
    assert "secret for B: no source is known for s/k" in str(caught.value)


def test_a_program_that_is_not_there_fails_its_task(run):
    watcher, _, _ = run("{name: x, command: [no-such-program]}")
    assert watcher.ends["x"].reason == "no-such-program: No such file or directory"


def test_a_resumed_run_repeats_only_what_has_not_succeeded(run, tmp_path):
    _, made, counts = run(
        """
        name: x
        tasks:
          - {name: a, command: echo x >> ../../../a}
          - {name: b, command: 'echo x >> ../../../b; test -e ../../../fixed'}
          - {name: c, needs: [b], command: echo x >> ../../../c}
        """
    )
    assert counts == {"succeeded": 1, "failed": 1, "skipped": 1}
    (made.path / "fixed").touch()
    watcher = Watcher()
    again = work_on(find_run(made.path.name, tmp_path / "runs"), watcher)
    assert again == {"succeeded": 3}
    assert watcher.log == ["+b", "-b", "+c", "-c"]
    assert (made.path / "a").read_text() == "x\n"
    assert work_on(find_run("latest", tmp_path / "runs"), Watcher()) == {"succeeded": 3}


@pytest.mark.parametrize("has_name", [True, False], ids=["now", "until 0.2"])
def test_a_run_in_which_a_task_was_tried_again_is_resumed(run, tmp_path, has_name):
    _, made, _ = run(
        """
        name: x
        retries: {count: 1, backoff: 0.01}
        command: test -e ../../../fixed
        """
    )
    journal = made.path / "journal.jsonl"
    events = [json.loads(line) for line in journal.read_text().splitlines()]
    assert [event["event"] for event in events] == ["started", "retried", "started", "ended"]
    if not has_name:
        del events[1]["name"]
        journal.write_text("".join(json.dumps(event) + "\n" for event in events))
    assert read_status(made.path).problems == ()
    (made.path / "fixed").touch()
    assert work_on(find_run("latest", tmp_path / "runs"), Watcher()) == {"succeeded": 1}


def test_a_run_whose_files_have_changed_is_not_resumed(run, tmp_path):
    (tmp_path / "a.txt").touch()
    run("{name: x, command: 'echo {{ f }}', sweep: {files: {f: '*.txt'}}}")
    (tmp_path / "b.txt").touch()
    with pytest.raises(RequestError, match="has 1 task, but its job now makes 2"):
        find_run("latest", tmp_path / "runs")


def test_a_torn_last_line_of_the_journal_is_left_out_and_a_damaged_one_is_said(run, tmp_path):
    _, made, _ = run("{name: x, command: echo, sweep: {repeat: 3}}")
    journal = made.path / "journal.jsonl"
    whole = journal.read_text()
    journal.write_text(whole[:-10])
    assert len([*read_journal(journal)]) == 5
    assert work_on(find_run("latest", tmp_path / "runs"), Watcher()) == {"succeeded": 3}
    journal.write_text("{torn\n" + whole)
    with pytest.raises(TarmacError, match=r"journal\.jsonl:1: the journal is damaged"):
        work_on(find_run("latest", tmp_path / "runs"), Watcher())


def tarmac(*arguments: str, **options) -> ForkedProcess:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return start_python("-m", "tarmac", "run", *arguments, **pipes, **options)


def sleepers(seconds: str) -> list[psutil.Process]:
    return [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", seconds]]


def test_nothing_runs_on_when_the_runner_is_killed_and_it_can_be_resumed(tmp_path):
    nap = f"713.{os.getpid()}"
    (tmp_path / "job.yaml").write_text(
        "name: x\n"
        "tasks:\n"
        "  - {name: quick, command: echo x >> ../../../quick}\n"
        "  - {name: slow, needs: [quick], "
        f"command: 'test -e ../../../resumed || {{ setsid sleep {nap} & sleep {nap}; }}'}}\n"
    )
    process = tarmac(str(tmp_path / "job.yaml"), "--output", str(tmp_path / "runs"))
    wait_until(lambda: len(sleepers(nap)) == 2, "both programs of the task")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    wait_until(lambda: not sleepers(nap), "the end of the task")
    (run,) = (tmp_path / "runs").iterdir()
    (run / "resumed").touch()
    resumed = tarmac("--resume", str(run))
    out, err = resumed.communicate(timeout=limit_s(60))
    assert resumed.returncode == 0, out + err
    assert (run / "quick").read_text() == "x\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all_tasks_and_says_how_to_go_on(tmp_path, number):
    nap = f"714.{os.getpid()}"
    (tmp_path / "job.yaml").write_text(
        f"{{name: x, command: [sleep, '{nap}'], sweep: {{repeat: 2}}}}"
    )
    process = tarmac(str(tmp_path / "job.yaml"), "--output", str(tmp_path / "runs"))
    wait_until(lambda: sleepers(nap), "a task")
    process.send_signal(number)
    _, err = process.communicate(timeout=limit_s(60))
    assert process.returncode == 130
    assert "interrupted\n  Resume the remaining tasks: tarmac run --resume" in err
    assert not sleepers(nap)


def test_a_signal_after_the_last_success_is_no_error(tmp_path, monkeypatch):
    from tarmac import jobs
    from tarmac.cli import main

    def work_and_signal(*arguments, **options):
        counts = work_on(*arguments, **options)
        os.kill(os.getpid(), signal.SIGINT)
        return counts

    monkeypatch.setattr(jobs, "work_on", work_and_signal)
    (tmp_path / "job.yaml").write_text("{name: x, command: echo}")
    arguments = ["run", str(tmp_path / "job.yaml"), "--output", str(tmp_path / "runs")]
    with pytest.raises(SystemExit) as succeeded:
        main(arguments)
    (tmp_path / "job.yaml").write_text("{name: x, command: exit 3}")
    with pytest.raises(SystemExit) as failed:
        main(arguments)
    assert (succeeded.value.code, failed.value.code) == (0, 1)


def test_two_processes_never_share_a_gpu(tmp_path):
    from tarmac.machine import GpuInfo
    from tarmac.tasks.machine import Machine
    from tarmac.tasks.model import Resources

    def machine() -> Machine:
        gpus = [GpuInfo("GPU-a", "fast", 2**34), GpuInfo("GPU-b", "fast", 2**34)]
        return Machine(cpus=8, memory=2**34, gpus=gpus, leases=tmp_path / "leases")

    ours, theirs = machine(), machine()
    one = Resources(gpus=1)
    first = ours.take(one)
    assert first is not None
    second = theirs.take(one)
    assert second is not None
    assert first.gpus != second.gpus
    assert ours.take(one) is None
    theirs.give_back(second)
    third = ours.take(one)
    assert third is not None
    assert third.gpus == second.gpus
    half = Resources(gpus=0.5)
    ours.give_back(third)
    shared = [ours.take(half), ours.take(half)]
    assert all(shared)
    assert theirs.take(half) is None


@pytest.fixture
def server(tmp_path):
    """Return the address of a server of the files in ``served``."""
    (tmp_path / "served").mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments) -> None:
            super().__init__(*arguments, directory=str(tmp_path / "served"))

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{serving.server_address[1]}"
        serving.shutdown()


def test_inputs_come_from_paths_and_urls_and_are_checked(run, tmp_path, server):
    (tmp_path / "served/data.bin").write_bytes(b"data")
    (tmp_path / "script.sh").write_text("cat in/data.bin\n")
    digest = hashlib.sha256(b"data").hexdigest()
    watcher, made, _ = run(
        f"""
        name: x
        command: ./script.sh
        inputs:
          - {{from: "{server}/data.bin", to: in/data.bin, sha256: {digest}}}
          - {{from: script.sh, mode: "0755"}}
        """
    )
    assert watcher.ends["x"].reason in ("", "./script.sh: Exec format error")
    _, made, _ = run(
        f"{{name: x, command: cat data.bin, "
        f"inputs: [{{from: '{server}/data.bin', sha256: {digest}}}]}}"
    )
    assert stdout(made, "x") == "data"


def test_an_input_with_another_checksum_or_none_at_all_fails_its_task(run, server, tmp_path):
    (tmp_path / "served/data.bin").write_bytes(b"other")
    watcher, _, _ = run(
        f"{{name: x, command: echo, inputs: [{{from: '{server}/data.bin', sha256: '{'0' * 64}'}}]}}"
    )
    assert "its SHA-256 is" in watcher.ends["x"].reason
    watcher, _, _ = run(
        f"{{name: x, command: echo, inputs: [{{from: '{server}/none?token=hunter2'}}]}}"
    )
    assert watcher.ends["x"].reason.endswith("none: HTTP 404 File not found")


def test_a_missing_input_is_refused_before_anything_starts(run):
    with pytest.raises(RequestError, match="input nowhere: no such file or directory"):
        run("{name: x, command: echo, inputs: [{from: nowhere}]}")


def archive(kind: str, name: str) -> bytes:
    content = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(content, "w") as file:
            file.writestr(name, "x")
    else:
        with tarfile.open(fileobj=content, mode="w:gz") as tar:
            member = tarfile.TarInfo(name)
            member.size = 1
            tar.addfile(member, io.BytesIO(b"x"))
    return content.getvalue()


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_archives_are_unpacked_and_cannot_leave_the_directory(tmp_path, kind):
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / f"good.{kind}").write_bytes(archive(kind, "a/b"))
    fetch_inputs([Input(source=f"good.{kind}", to="in", unpack=True)], tmp_path, work)
    assert (work / "in/a/b").read_text() == "x"
    (tmp_path / f"bad.{kind}").write_bytes(archive(kind, "../../evil"))
    if kind == "zip":
        fetch_inputs([Input(source="bad.zip", unpack=True)], tmp_path, work)
    else:
        with pytest.raises(TarmacError, match="cannot be unpacked"):
            fetch_inputs([Input(source="bad.tar.gz", unpack=True)], tmp_path, work)
    assert not (tmp_path / "evil").exists()
    assert not (tmp_path.parent / "evil").exists()


def test_an_archive_that_explodes_is_refused(tmp_path):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as file:
        for number in range(8):
            file.writestr(f"zeros-{number}", bytes(2**24))
    (tmp_path / "bomb.zip").write_bytes(content.getvalue())
    work = tmp_path / "work"
    work.mkdir()
    with pytest.raises(TarmacError, match="expands to more"):
        fetch_inputs([Input(source="bomb.zip", unpack=True)], tmp_path, work)


@pytest.mark.frameworks
def test_a_venv_is_built_once_and_used(run, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    text = (
        "{name: x, command: python -c 'import six; print(six.__version__)', "
        "environment: {requirements: [six==1.17.0]}}"
    )
    for _ in range(2):
        watcher, made, _ = run(text)
        assert watcher.ends["x"].outcome == "succeeded", watcher.ends["x"].reason
        assert stdout(made, "x") == "1.17.0\n"
    assert len([*(tmp_path / "cache/tarmac/venvs").glob("*/requirements.txt")]) == 1
    watcher, _, _ = run(text.replace("six==1.17.0", "no-such-package-xyz==1"))
    assert "no-such-package-xyz" in watcher.ends["x"].reason


def test_the_command_line_runs_a_file_and_says_so_as_json(tmp_path):
    (tmp_path / "job.yaml").write_text(
        "{name: x, command: 'exit {{ n }}', sweep: {grid: {n: [0, 5]}}}"
    )
    done = tarmac(str(tmp_path / "job.yaml"), "--output", str(tmp_path / "runs"), "--json")
    out, _ = done.communicate(timeout=limit_s(60))
    assert done.returncode == 1
    (result,) = json.loads(out)
    assert result["counts"] == {"succeeded": 1, "failed": 1}
    assert {task["name"]: task["exit_code"] for task in result["tasks"]} == {
        "x[n=0]": 0,
        "x[n=5]": 5,
    }


def test_a_dry_run_shows_all_and_starts_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_TOKEN", "hunter2hunter2")
    (tmp_path / "job.yaml").write_text(
        "{name: x, command: 'touch {{ f }}', sweep: {grid: {f: [a, b]}}, "
        "secrets: {T: {env: MY_TOKEN}}}"
    )
    done = tarmac(
        str(tmp_path / "job.yaml"), "--dry-run", "--set", "resources.cpus=0.5", cwd=tmp_path
    )
    out, err = done.communicate(timeout=limit_s(60))
    assert done.returncode == 0, err
    assert "$ sh -c 'touch a'" in out
    assert "0.5 CPUs" in out
    assert "T=(secret: variable MY_TOKEN)" in out
    assert "hunter2" not in out
    assert [path.name for path in tmp_path.iterdir()] == ["job.yaml"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "error: expected job files, or --resume RUN"),
        (["none.yaml"], "error: none.yaml: cannot be read: No such file or directory"),
        (["--resume", "none"], "error: there is no run 'none' in"),
        (["job.yaml", "--jobs", "0"], "error: jobs is 0, expected at least 1"),
        (["job.yaml", "--set", "x"], "error: --set 'x' is not of the form KEY=VALUE"),
    ],
)
def test_a_wrong_line_is_refused(tmp_path, arguments, message):
    (tmp_path / "job.yaml").write_text("{name: x, command: echo}")
    done = tarmac(*arguments, cwd=tmp_path)
    _, err = done.communicate(timeout=limit_s(60))
    assert done.returncode == 2
    assert err.startswith(message)


def test_a_run_that_is_worked_on_is_not_resumed_twice(run, tmp_path):
    _, made, _ = run("{name: x, command: echo}")
    with (
        OwnerLock(made.path / ".lock").held(),
        pytest.raises(RequestError, match="another process works on"),
    ):
        work_on(find_run("latest", Path(tmp_path / "runs")), Watcher())
