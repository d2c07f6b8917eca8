"""GPUs are checked before a program begins, where that is asked for; what others hold is said."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

_MACHINES = Path(__file__).parents[1] / "checks" / "machines"
_SLURM = {"SLURM_JOB_ID": "80", "SLURMD_NODENAME": "n7"}
_FIRST = "GPU-7d3c132a-675f-077e-3bf7-99d79213d062"


@pytest.fixture
def on(run, stand_in):
    """Return a function that runs an agent on a machine, with the GPUs of those numbers."""

    def start(machine: Path, *elements, gpus: str = "0", **given):
        seen = {"LD_LIBRARY_PATH": str(stand_in), "NVML_STAND_IN": str(machine)}
        return run.start(*elements, CUDA_VISIBLE_DEVICES=gpus, **_SLURM, **seen, **given)

    return start


@pytest.fixture
def checked(run, interpreter):
    """Return a function that makes an element whose check is done by a script of sh."""

    def make(script: str, *command: str, **values):
        python = interpreter(f"echo asked >> {run.path}/asked\n{script}")
        given = {"gpus": 1, "check": "quick", "python": python, **values}
        return run.element(*(command or ("touch", "begun")), **given)

    return make


def has_begun(element) -> bool:
    return Path(element.directory, "work/begun").exists()


def test_a_gpu_that_is_not_fit_is_the_nodes_failure_and_the_program_does_not_begin(run, on):
    element = run.element("touch", "begun", gpus=1, check="quick", python=sys.executable)
    assert run.end(on(_MACHINES / "ecc-errors.txt", element)) == (1, "")
    record = run.record(element)
    assert (record.outcome, record.cause, record.bad_host) == ("failed", "node", "n7")
    assert record.exit_code is None
    assert record.reason.startswith(
        "not started: a GPU of n7 is not fit: uncorrected memory errors (GPU 0): 3 uncorrected"
    )
    assert not has_begun(element)


@pytest.mark.parametrize("given", ["0", "GPU-9c1f0d2e-1111-4e2a-8a5c-6d0f3a2b1c00"])
def test_a_gpu_that_is_lost_is_the_nodes_failure_with_or_without_a_check(run, on, given):
    element = run.element("touch", "begun", gpus=1)
    assert run.end(on(_MACHINES / "fell-off-bus.txt", element, gpus=given)) == (1, "")
    record = run.record(element)
    assert (record.cause, record.bad_host) == ("node", "n7")
    assert record.reason.startswith(f"not started: Slurm gave GPU {given} on n7, ")
    assert "does not answer: NVIDIA's driver fails: GPU is lost" in record.reason


def test_a_gpu_that_is_lost_does_not_keep_the_others_from_work(run, on):
    element = run.element("touch", "begun", gpus=1)
    assert run.end(on(_MACHINES / "fell-off-bus.txt", element, gpus="1")) == (0, "")
    assert run.record(element).gpus == [_FIRST]


def test_what_could_not_be_looked_at_is_said_and_the_program_begins(run, on, checked):
    element = checked("""echo '{"failures": [], "unseen": ["nothing was computed there"]}'""")
    assert run.end(on(_MACHINES / "healthy.txt", element)) == (0, "")
    record = run.record(element)
    assert record.notes == ["check: quick on n7: nothing was computed there"]
    assert (record.outcome, record.problems) == ("succeeded", [])
    said = run.printed(element, "stderr")
    assert said == "--- check: quick on n7: nothing was computed there ---\n"
    assert has_begun(element)


def test_the_check_sees_the_given_gpus_alone(run, on, checked):
    script = f"""
    echo "$@ $CUDA_VISIBLE_DEVICES" > {run.path}/seen; echo '{{"failures": [], "unseen": []}}'
    """
    element = checked(script)
    assert run.end(on(_MACHINES / "pair.txt", element)) == (0, "")
    said = (run.path / "seen").read_text().strip()
    assert said == f"-P -m tarmac.checks.given_gpus {_FIRST} {_FIRST}"


def test_a_check_without_an_answer_is_no_good_news(run, on, checked):
    element = checked("echo Segmentation fault >&2; exit 139")
    assert run.end(on(_MACHINES / "healthy.txt", element)) == (1, "")
    record = run.record(element)
    assert (record.cause, record.bad_host) == ("node", "n7")
    assert "its check ended with exit code 139: Segmentation fault" in record.reason


def test_tasks_that_share_a_job_have_its_gpus_checked_once(run, on, checked):
    elements = [
        checked("""echo '{"failures": [], "unseen": []}'""")._replace(
            task=task,
            directory=str(run.path / "tasks" / str(task)),
        )
        for task in range(3)
    ]
    assert run.end(on(_MACHINES / "healthy.txt", *elements, arguments=("0", "3"))) == (0, "")
    assert all(map(has_begun, elements))
    assert (run.path / "asked").read_text().split() == ["asked"]


def test_pretended_gpus_are_said_not_to_be_looked_at(run, checked):
    element = checked("exit 1", is_pretending=True)
    # Where this machine has a driver, the agent must not see it.
    hidden = run.path / "empty"
    hidden.mkdir()
    (hidden / "libnvidia-ml.so.1").write_text("no library\n")
    variables = {"CUDA_VISIBLE_DEVICES": "0", "LD_LIBRARY_PATH": str(hidden), **_SLURM}
    assert run.run(element, **variables) == (0, "")
    assert run.record(element).notes == ["check: quick checked nothing: no driver shows GPUs on n7"]


def test_a_task_without_gpus_is_not_checked(run, checked):
    element = checked("exit 1", gpus=0)
    assert run.run(element, **_SLURM) == (0, "")
    assert not (run.path / "asked").exists()


def test_a_node_without_tarmacs_interpreter_is_told_with_what_to_do(run, on, checked):
    element = checked("")._replace(python="/nowhere/bin/python")
    assert run.end(on(_MACHINES / "healthy.txt", element)) == (1, "")
    record = run.record(element)
    assert (record.cause, record.bad_host) == ("start", "")
    assert record.reason == (
        "not started: Tarmac's interpreter /nowhere/bin/python is not on n7, and this task asks "
        "for check: quick. Install Tarmac in a directory that the nodes see; tarmac check --on "
        "slurm says which nodes see it"
    )


def test_a_check_is_ended_with_its_attempt(run, on, checked):
    pipe = run.pipe()
    element = checked(f"echo > {pipe}; exec sleep 600", grace_s=0.2)
    agent = on(_MACHINES / "healthy.txt", element)
    pipe.read_text()
    agent.send_signal(signal.SIGTERM)
    run.end(agent)
    record = run.record(element)
    assert (record.outcome, record.cause) == ("interrupted", "stop")
    assert not has_begun(element)


def machine(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(("like healthy", *lines, "")))
    return path


@pytest.mark.parametrize(
    ("lines", "who"),
    [
        (("0.used 8589934592", "0.process 4242 8589934592"), "process 4242"),
        (("0.used 8589934592",), "no process that is shown here"),
    ],
)
def test_memory_that_others_hold_on_a_given_gpu_is_noted(run, on, tmp_path, lines, who):
    (tmp_path / "healthy.txt").write_text((_MACHINES / "healthy.txt").read_text())
    element = run.element("true", gpus=1)
    assert run.end(on(machine(tmp_path / "held.txt", *lines), element)) == (0, "")
    assert run.record(element).notes == [
        f"8.0 of 140.4 GiB of {_FIRST} on n7 were in use before the program began, by {who}"
    ]


@pytest.mark.parametrize(
    ("lines", "shares_gpus"),
    [
        # What is everybody's, little, or not told.
        (("0.used 8589934592",), True),
        (("0.used 104857600",), False),
        (("0.used 8589934592", "old 1"), False),
    ],
)
def test_memory_that_says_nothing_of_others_is_not_noted(run, on, tmp_path, lines, shares_gpus):
    (tmp_path / "healthy.txt").write_text((_MACHINES / "healthy.txt").read_text())
    element = run.element("true", gpus=1, shares_gpus=shares_gpus)
    assert run.end(on(machine(tmp_path / "held.txt", *lines), element)) == (0, "")
    assert run.record(element).notes == []
