"""What an agent gets for an attempt, and what Tarmac stages for it on a node, as a real process."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path

import pytest

from forked import ForkedProcess, start_python
from hostile import each_name
from tarmac.errors import RequestError
from tarmac.executors.elements import prepare_element
from tarmac.executors.spool import Spool
from tarmac.jobs import Attempt, Job, Secret, Site, plan_tasks
from tarmac.jobs.reader import parse_job
from tarmac.node import AttemptSpec
from tarmac.tasks.placeholders import escape

# What a job of an engine starts from: none of the variables of the process that submits.
CLEAN = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}


@dataclasses.dataclass
class Node:
    """Does for elements what an agent does, as far as staging goes."""

    base: Path
    site: Site
    spool: Spool
    variables: dict[str, str] = dataclasses.field(default_factory=dict)

    def element(self, task, *, number=1, options=None) -> AttemptSpec:
        attempt = Attempt(task, number, self.base / "tasks" / str(task.index))
        return prepare_element(attempt, "ab12", self.site, self.spool, options=options or {})

    def start(self, *arguments: str, env: Mapping[str, str], **options) -> ForkedProcess:
        """Start staging as an agent does, with pipes for its input and its answer."""
        return start_python(
            *("-m", "tarmac.executors.stage", *arguments),
            env=dict(env) | {"PYTHONSAFEPATH": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=False,
            **options,
        )

    def stage(self, element: AttemptSpec, *arguments: str, **variables: str) -> dict:
        env = CLEAN | self.variables | variables
        process = self.start(*arguments, env=env, cwd="/", stderr=subprocess.PIPE)
        stdout, stderr = process.communicate((element.stage or "").encode())
        assert process.returncode == 0, stderr.decode()
        return json.loads(stdout)

    def run(self, element: AttemptSpec) -> tuple[dict, subprocess.CompletedProcess, dict]:
        """Take an attempt to its end; return what was staged, the program's end, what was kept."""
        work = str(Path(element.directory) / "work")
        staged = self.stage(element, "in", work)
        if staged["error"]:
            return staged, subprocess.CompletedProcess([], 1), {}
        hidden = {
            name: os.fsdecode(Path(path).read_bytes().rstrip(b"\n"))
            for name, path in element.secrets.items()
        }
        done = subprocess.run(
            staged["command"] or element.command,
            cwd=work,
            env=CLEAN | staged["variables"] | element.variables | hidden,
            capture_output=True,
            text=True,
            check=False,
        )
        outcome = "failed" if done.returncode else "succeeded"
        return staged, done, self.stage(element, "out", work, outcome, str(done.returncode))


@pytest.fixture
def node(tmp_path):
    def of(job: str | Job, mapping=None, base: Path = tmp_path) -> tuple[Node, list]:
        model = parse_job(textwrap.dedent(job)) if isinstance(job, str) else job
        tasks = list(plan_tasks(model, base))
        site = Site(
            tasks=tasks, run=base / "run", base=base, shared=base / "shared", secrets=mapping or {}
        )
        return Node(base, site, Spool(base / "run", tmp_path / "spool")), tasks

    return of


def test_a_task_that_needs_nothing_stages_nothing(node):
    at, (task,) = node(
        """
        name: x
        command: [echo, "a b", "it's"]
        env: {A: 1}
        timeout: 90
        resources: {cpus: 3, memory: 1GiB, gpus: 0.5, gpu_memory: 2GiB}
        """
    )
    element = at.element(task)
    assert element.stage is None
    assert element.command == ["echo", "a b", "it's"]
    assert element.variables["A"] == "1"
    assert element.variables["OMP_NUM_THREADS"] == "3"
    assert element.variables["TARMAC_TASK"] == "x"
    assert (element.timeout_s, element.memory_bytes) == (90.0, 2**30)
    assert (element.gpus, element.gpu_memory_bytes) == (1, 2**31)
    assert (element.work, element.python) == ("shared", sys.executable)
    assert AttemptSpec(**json.loads(json.dumps(element._asdict()))) == element


def test_inputs_come_and_outputs_are_kept_as_on_this_machine(node, tmp_path):
    (tmp_path / "data").write_text("hello\n")
    at, (task,) = node(
        """
        name: x
        command: cat data > made
        inputs: [{from: data}]
        outputs: [{path: made, to: kept}, {path: made, to: 'run:for-others'}]
        """
    )
    staged, done, kept = at.run(at.element(task))
    assert (staged["error"], done.returncode, kept["problems"]) == (None, 0, [])
    assert (tmp_path / "kept/made").read_text() == "hello\n"
    assert (tmp_path / "shared/for-others/made").read_text() == "hello\n"


@each_name
def test_any_name_survives_the_way_to_the_node(node, tmp_path, name):
    base = tmp_path / name
    base.mkdir()
    (base / name).write_text("hello\n")
    path = escape(name)
    job = Job.model_validate(
        {
            "name": "x",
            "command": ["cp", path, "made"],
            "inputs": [{"from": path}],
            "outputs": [{"path": "made", "to": path + "-kept"}],
        }
    )
    at, (task,) = node(job, base=base)
    staged, done, kept = at.run(at.element(task))
    assert (staged["error"], done.stderr, kept.get("problems")) == (None, "", [])
    assert (base / f"{name}-kept/made").read_text() == "hello\n"


def test_a_directory_whose_name_is_no_text_survives_too(node, tmp_path):
    base = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    base.mkdir()
    (base / "data").write_text("hello\n")
    at, (task,) = node("{name: x, command: 'true', inputs: [{from: data}]}", base=base)
    staged, _, _ = at.run(at.element(task))
    assert staged["error"] is None
    assert (base / "tasks" / "0" / "work" / "data").read_text() == "hello\n"


def test_an_input_that_is_not_there_is_why_it_never_began(node):
    at, (task,) = node("{name: x, command: 'true', inputs: [{from: none}]}")
    staged, _, _ = at.run(at.element(task))
    assert "none" in staged["error"]


@pytest.mark.parametrize(
    ("retries", "code", "is_kept"),
    [
        ("0", 3, True),
        ("1", 3, False),
        ("{count: 1, exit_codes: [3]}", 3, False),
        ("{count: 1, exit_codes: [3]}", 4, True),
    ],
)
def test_outputs_of_a_failure_that_is_retried_are_not_kept(node, tmp_path, retries, code, is_kept):
    at, (task,) = node(
        f"""
        name: x
        command: 'echo > made; exit {code}'
        retries: {retries}
        outputs: [{{path: made, to: kept, when: always}}]
        """
    )
    at.run(at.element(task))
    assert (tmp_path / "kept/made").exists() == is_kept
    at.run(at.element(task, number=2))
    assert (tmp_path / "kept/made").exists()


def test_other_nodes_of_a_task_leave_its_shared_directory_alone(node, tmp_path):
    (tmp_path / "data").write_text("hello\n")
    at, (task,) = node("{name: x, command: 'true', inputs: [{from: data}]}")
    work = tmp_path / "work"
    at.stage(at.element(task), "in", str(work))
    (work / "data").write_text("changed\n")
    assert at.stage(at.element(task), "environment", str(work))["error"] is None
    assert (work / "data").read_text() == "changed\n"


def test_what_the_submitting_process_knows_reaches_no_task_but_by_its_secrets(
    node, tmp_path, monkeypatch
):
    monkeypatch.setenv("VAULT", "hunter2 \n line")
    monkeypatch.setenv("OTHERS", "swordfish")
    (tmp_path / "key").write_text("in a file\n")
    at, (task,) = node(
        """
        name: x
        command: 'true'
        secrets: {A: {env: VAULT}, B: {file: key}, C: {name: s, key: k}, D: {vault_id: v}}
        """,
        {"s/k": Secret(env="VAULT"), "v": Secret(file=str(tmp_path / "key"))},
    )
    element = at.element(task)
    assert {name: Path(path).read_bytes() for name, path in element.secrets.items()} == {
        "A": b"hunter2 \n line",
        "B": b"in a file\n",
        "C": b"hunter2 \n line",
        "D": b"in a file\n",
    }
    assert element.secrets["A"] == element.secrets["C"]
    assert element.secrets["B"] == str(tmp_path / "key")
    text = json.dumps(element._asdict())
    assert "hunter2" not in text
    assert "swordfish" not in text
    at.spool.remove()
    assert not Path(element.secrets["A"]).exists()


def test_a_secret_that_is_not_set_is_said(node, monkeypatch):
    monkeypatch.delenv("VAULT", raising=False)
    at, (task,) = node("{name: x, command: 'true', secrets: {A: {env: VAULT}}}")
    with pytest.raises(RequestError, match="secret for A: the variable VAULT is not set"):
        at.element(task)


def test_a_thousand_tasks_put_a_secret_down_once(node, monkeypatch, tmp_path):
    monkeypatch.setenv("VAULT", "hunter2")
    at, tasks = node("{name: x, command: a, sweep: {repeat: 1000}, secrets: {A: {env: VAULT}}}")
    assert len({at.element(task).secrets["A"] for task in tasks}) == 1
    assert len([p for p in (tmp_path / "spool").rglob("*") if p.is_file()]) == 2


def test_a_store_is_reached_with_what_the_submitting_process_knows_of_it(node, s3, tmp_path):
    pytest.importorskip("obstore", reason="needs pip install 'tarmac-gpu[objects]'")
    s3.put_object(Bucket="bucket", Key="data", Body=b"hello\n")
    at, (task,) = node(
        """
        name: x
        command: cat data > made && test -z "$AWS_SECRET_ACCESS_KEY"
        inputs: [{from: 's3://bucket/data'}]
        outputs: [{path: made, to: 's3://bucket/kept'}]
        """
    )
    element = at.element(task)
    staged, done, kept = at.run(element)
    assert (staged["error"], done.returncode, kept["problems"]) == (None, 0, [])
    assert s3.get_object(Bucket="bucket", Key="kept/made")["Body"].read() == b"hello\n"
    assert "hunter2" not in json.dumps(element._asdict())


def test_a_spool_that_the_node_does_not_see_is_said(node, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "me")
    at, (task,) = node("{name: x, command: 'true', inputs: [{from: 's3://bucket/data'}]}")
    element = at.element(task)
    at.spool.remove()
    staged, _, _ = at.run(element)
    assert "TARMAC_SPOOL" in staged["error"]
    assert "cannot be read" in staged["error"]


def test_what_another_version_wrote_is_said(node, tmp_path):
    at, (task,) = node("{name: x, command: 'true', inputs: [{from: data}]}")
    element = at.element(task)._replace(stage='{"newer": 1}')
    assert "another version of Tarmac" in at.stage(element, "in", str(tmp_path / "w"))["error"]


def test_nothing_that_libraries_print_is_taken_for_the_answer(node, tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site/sitecustomize.py").write_text(
        "import atexit, os\natexit.register(os.write, 1, b'goodbye')\n"
    )
    (tmp_path / "data").write_text("hello\n")
    at, (task,) = node("{name: x, command: 'true', inputs: [{from: data}]}")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "tarmac.executors.stage", "in", str(tmp_path / "w")],
        input=at.element(task).stage,
        env=CLEAN | {"PYTHONPATH": str(tmp_path / "site")},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["error"] is None


def test_a_download_that_is_asked_to_end_ends_and_leaves_no_part(node, tmp_path, slow_server):
    at, (task,) = node(
        f"{{name: x, command: 'true', inputs: [{{from: '{slow_server.url}/data'}}]}}"
    )
    element = at.element(task)
    process = at.start("in", str(tmp_path / "w"), env=CLEAN, stderr=subprocess.DEVNULL)
    with contextlib.closing(process.stdin):
        process.stdin.write(element.stage.encode())
    assert slow_server.begun.wait(60)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) != 0
    assert process.stdout.read() == b""
    assert not [path for path in (tmp_path / "w").rglob("*") if path.is_file()]


def test_a_virtual_environment_is_on_the_nodes_own_disk(node, make_wheel, tmp_path):
    wheel = make_wheel("print('hello')\n")
    (tmp_path / "scratch").mkdir()
    at, (task,) = node(
        "{name: x, command: 'python -m tool && echo $VIRTUAL_ENV',"
        f" environment: {{requirements: ['{wheel}']}}}}"
    )
    element = at.element(task, options={"store": str(tmp_path / "store")})
    at.variables = {"SLURM_TMPDIR": str(tmp_path / "scratch")}
    staged, done, _ = at.run(element)
    assert staged["error"] is None
    hello, place = done.stdout.split()
    assert hello == "hello"
    assert Path(place).is_relative_to(tmp_path / "scratch")
    assert [path.suffix for path in (tmp_path / "store").iterdir()] == [".tar"]
