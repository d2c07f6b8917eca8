"""What an attempt needs is brought by Tarmac, and what it made is kept, around its program."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import textwrap
from pathlib import Path

import pytest

from tarmac.executors.elements import prepare_element
from tarmac.executors.interface import Attempt, Site
from tarmac.executors.spool import Spool
from tarmac.jobs import parse_job
from tarmac.tasks.plan import plan_tasks


@pytest.fixture
def prepared(run, tmp_path):
    """Return a function that makes the element of a job's one task."""

    def prepare(job: str):
        (task,) = plan_tasks(parse_job(textwrap.dedent(job)), tmp_path)
        shared = run.path / "shared"
        site = Site(tasks=[task], run=run.path, base=tmp_path, shared=shared, secrets={})
        attempt = Attempt(task, 1, run.path / "tasks" / "0")
        return prepare_element(attempt, "ours", site, Spool(run.path, tmp_path / "s"), options={})

    return prepare


@pytest.fixture
def answering(run, interpreter):
    """Return a function that makes an element with an interpreter that answers as it is told."""

    def make(script: str, *command: str, **values):
        element = run.element(*(command or ("true",)), **values)
        return element._replace(stage="the request", python=interpreter(script))

    return make


@pytest.mark.parametrize("work", ["shared", "$SCRATCH"])
def test_inputs_are_brought_and_outputs_kept(prepared, run, tmp_path, work):
    (tmp_path / "words").write_text("three little words\n")
    element = prepared(
        """
        name: count
        command: [sh, -c, "wc -w < words > counted"]
        inputs: [{from: words}]
        outputs: [{path: counted, to: kept}]
        """
    )
    element = element._replace(work=work)
    assert run.run(element, SCRATCH=str(run.path / "scratch")) == (0, "")
    assert run.record(element).outcome == "succeeded"
    assert (tmp_path / "kept" / "counted").read_text().split() == ["3"]


def test_an_input_that_is_not_there_is_told_and_nothing_begins(prepared, run):
    element = prepared("{name: x, command: [touch, begun], inputs: [{from: none}]}")
    assert run.run(element) == (1, "")
    record = run.record(element)
    assert (record.outcome, record.cause, record.exit_code) == ("failed", "start", None)
    assert record.reason.startswith("not started: ")
    assert "none" in record.reason
    assert not Path(element.directory, "work", "begun").exists()


def test_an_output_that_is_not_there_is_a_problem_of_a_success(prepared, run):
    element = prepared("{name: x, command: ['true'], outputs: [{path: none, to: kept}]}")
    assert run.run(element) == (0, "")
    record = run.record(element)
    assert record.outcome == "succeeded"
    assert any("none" in problem for problem in record.problems)


def test_an_interpreter_of_another_kind_of_machine_is_named(run):
    python = run.path / "python"
    python.write_bytes(b"\x7fELF of another processor")
    python.chmod(0o755)
    element = run.element("true", stage="{}", python=str(python))
    run.run(element, SLURM_JOB_ID="80", SLURMD_NODENAME="n7")
    record = run.record(element)
    assert record.cause == "start"
    assert record.reason.startswith(
        f"not started: Tarmac's interpreter {python} does not start on n7: Exec format error, and "
        "this task has inputs"
    )


def test_an_interpreter_that_is_not_there_is_named(run):
    element = run.element("true", stage="{}", python="/no/python")
    run.run(element, SLURM_JOB_ID="80", SLURMD_NODENAME="n7")
    assert run.record(element).cause == "start"
    assert run.record(element).reason == (
        "not started: Tarmac's interpreter /no/python is not on n7, and this task has inputs, "
        "outputs, a container or a virtual environment. Install Tarmac in a directory that the "
        "nodes see; tarmac check --on slurm says which nodes see it"
    )


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("exit 0", "staging ended with exit code 1"),
        ("echo noise", "staging ended with exit code 1"),
        ("echo '[]'", "staging ended with exit code 1"),
        ("echo '{\"unknown\": 1}'", "staging ended with exit code 1"),
        ("echo first >&2; echo last >&2; exit 3", "staging ended with exit code 3: last"),
        ("echo '{}'; exit 3", "staging ended with exit code 3"),
        ('echo \'{"error": "no such bucket"}\'', "no such bucket"),
        ("kill -9 $$", "staging ended with exit code -9"),
    ],
)
def test_no_answer_is_no_success(answering, run, script, words):
    element = answering(script, "touch", f"{run.path}/begun")
    assert run.run(element) == (1, "")
    record = run.record(element)
    assert (record.outcome, record.cause) == ("failed", "start")
    assert record.reason == f"not started: {words}"
    assert not (run.path / "begun").exists()


def test_the_request_the_mark_and_the_gpus_reach_who_stages(answering, run):
    said = run.path / "said"
    script = f"cat > {said}; echo $4 $TARMAC_RUN $CUDA_VISIBLE_DEVICES >> {said}; echo '{{}}'"
    element = answering(script, "sh", "-c", "echo $TARMAC_RUN", gpus=1, is_pretending=True)
    assert run.run(element, CUDA_VISIBLE_DEVICES="1") == (0, "")
    mark = run.printed(element).strip()
    assert mark
    assert said.read_text() == f"the requestout {mark} 1\n"


def test_what_was_made_for_the_program_is_used(answering, run):
    answer = {
        "command": ["sh", "-c", "echo $A $B; kill -9 $$"],
        "variables": {"A": "staged", "B": "staged"},
        "is_over_memory": True,
        "problems": ["one", "two"],
    }
    element = answering(
        f"echo {shlex.quote(json.dumps(answer))}", variables={"B": "own"}, memory_bytes=2**30
    )
    assert run.run(element) == (137, "")
    assert run.printed(element) == "staged own\n"
    record = run.record(element)
    assert (record.outcome, record.cause) == ("failed", "memory")
    assert record.reason == "it took more than 1024 MiB of memory"
    assert record.problems == ["one", "two"]


def test_outputs_are_told_how_it_ended(answering, run):
    said = run.path / "said"
    script = f"echo $4 $6 $7 >> {said}; echo '{{}}'"
    assert run.run(answering(script, "sh", "-c", "exit 4")) == (4, "")
    assert run.run(answering(script, "no-such", task=1))[0] == 1
    assert run.run(answering(script, "true", task=2))[0] == 0
    assert said.read_text() == "in\nout failed 4\nin\nout failed none\nin\nout succeeded 0\n"


@pytest.mark.parametrize("phase", ["in", "out"])
def test_staging_ends_when_the_attempt_is_to_end(answering, run, phase):
    pipe = run.pipe()
    script = f'[ "$4" = {phase} ] && {{ echo > {pipe}; sleep 600; }}; echo "{{}}"'
    element = answering(script)
    agent = run.start(element)
    pipe.read_text()
    agent.terminate()
    run.end(agent)
    record = run.record(element)
    assert (record.outcome, record.cause) == ("interrupted", "stop")
    when = " before its outputs were kept" if phase == "out" else ""
    assert record.reason == f"its engine ended it (SIGTERM){when}"


@pytest.mark.parametrize("phase", ["in", "out"])
def test_staging_that_its_engines_time_limit_ends_is_told_so(answering, run, phase):
    pipe = run.pipe()
    element = answering(f'[ "$4" = {phase} ] && {{ echo > {pipe}; sleep 600; }}; echo "{{}}"')
    agent = run.start(element, SLURM_JOB_ID="80")
    pipe.read_text()
    agent.send_signal(signal.SIGUSR1)
    run.end(agent)
    record = run.record(element)
    assert (record.outcome, record.cause) == ("interrupted", "timeout")


def test_staging_that_slurm_ended_before_the_agent_heard_is_no_failure(answering, run, end_unheard):
    pipe = run.pipe()
    element = answering(f"echo $$ > {pipe}; exec sleep 600")
    agent = run.start(element, SLURM_JOB_ID="80")
    end_unheard(agent, int(pipe.read_text()))
    assert run.record(element).outcome == "interrupted"


def test_outputs_of_an_interrupted_attempt_are_not_kept(answering, run):
    said, pipe = run.path / "said", run.pipe()
    element = answering(
        f"echo $4 >> {said}; echo '{{}}'", "sh", "-c", f"echo > {pipe}; exec sleep 600"
    )
    agent = run.start(element)
    pipe.read_text()
    agent.terminate()
    run.end(agent)
    assert said.read_text() == "in\n"


def test_a_container_ends_with_an_agent_that_was_killed(prepared, run, busybox_image):
    # The container runs beside the agent, not below it.
    element = prepared(
        f"""
        name: x
        environment: {{kind: container, image: {busybox_image}, engine: docker}}
        command: [sh, -c, "echo begun; sleep 600"]
        """
    )
    name = json.loads(element.stage)["name"]
    stdout = Path(element.directory, "stdout")
    stdout.parent.mkdir(parents=True)
    stdout.touch()
    with subprocess.Popen(["tail", "-f", stdout], stdout=subprocess.PIPE) as tail:
        agent = run.start(element)
        assert tail.stdout.readline() == b"begun\n"
        tail.kill()
    ended = subprocess.Popen(["docker", "wait", name], stdout=subprocess.DEVNULL)
    agent.kill()
    agent.communicate()
    # Gone by then is as good.
    assert ended.wait(60) in (0, 1)
