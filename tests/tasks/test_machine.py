"""What is given to tasks, and leases between processes of several users."""

from __future__ import annotations

import functools
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from forked import run_python
from tarmac import RequestError
from tarmac.jobs import parse_job, plan_tasks
from tarmac.machine import GpuInfo
from tarmac.tasks.leases import Leases, TaskLeases, default_leases, inherited_leases
from tarmac.tasks.machine import Machine
from tarmac.tasks.model import Resources

ONE = Resources(gpus=1)


def machine(leases: Path | None, *gpus: GpuInfo, **options) -> Machine:
    gpus = gpus or (GpuInfo("GPU-a", "fast", 2**34),)
    return Machine(cpus=8, memory=2**34, gpus=gpus, leases=leases, **options)


def take_one(leases: Path) -> bool:
    return machine(leases).take(ONE) is not None


def test_two_users_lease_the_same_gpus_in_turn(second_user, open_directory):
    leases = open_directory / "leases"
    before = os.umask(0o077)
    try:
        ours = machine(leases)
        grant = ours.take(ONE)
    finally:
        os.umask(before)
    assert grant is not None
    assert second_user(functools.partial(take_one, leases)) is False
    ours.give_back(grant)
    assert second_user(functools.partial(take_one, leases)) is True
    assert ours.take(ONE) is not None


def test_a_second_user_makes_the_directory_and_the_first_uses_it(second_user, open_directory):
    leases = open_directory / "leases"
    assert second_user(functools.partial(take_one, leases)) is True
    assert stat.S_IMODE(leases.stat().st_mode) == 0o1777
    assert take_one(leases)


@pytest.mark.parametrize("prepared", ["link", "directory link", "pipe", "closed", "file"])
def test_what_somebody_else_has_prepared_is_refused_and_never_followed(
    second_user, open_directory, prepared
):
    leases, victim = open_directory / "leases", open_directory / "victim"
    lock = leases / "GPU-a.lock"

    def prepare() -> None:
        if prepared == "directory link":
            victim.mkdir()
            leases.symlink_to(victim)
        elif prepared == "file":
            leases.touch()
        else:
            leases.mkdir()
            if prepared == "link":
                lock.symlink_to(victim)
            elif prepared == "pipe":
                os.mkfifo(lock)

    if prepared == "closed":
        leases.mkdir(mode=0o700)
        attempt = functools.partial(second_user, functools.partial(take_one, leases))
    else:
        second_user(prepare)
        attempt = functools.partial(take_one, leases)
    with pytest.raises(RequestError, match=r"GPU-a\.lock: GPUs cannot be leased"):
        attempt()
    assert not victim.is_file()
    assert not victim.is_dir() or not list(victim.iterdir())


def test_locks_that_cannot_be_opened_are_said_before_anything_starts(tmp_path):
    (tmp_path / "leases").touch()
    tasks = [*plan_tasks(parse_job("{name: x, command: a, resources: {gpus: 1}}"), tmp_path)]
    with pytest.raises(RequestError, match="GPUs cannot be leased"):
        machine(tmp_path / "leases").refuse_what_never_fits(tasks)


def test_gpus_are_leased_where_every_user_may_write(tmp_path):
    closed, opened = tmp_path / "closed", tmp_path / "opened"
    closed.mkdir()
    opened.mkdir()
    opened.chmod(0o1777)
    for candidates in ((closed, opened), (opened, closed), (tmp_path / "none", opened)):
        assert default_leases(candidates) == opened / "tarmac-leases"


def test_the_place_of_leases_does_not_depend_on_who_asks(tmp_path, monkeypatch):
    before = default_leases()
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert default_leases() == before


def test_a_parent_that_ends_while_it_is_asked_for_does_not_fail_the_question(tmp_path, monkeypatch):
    variables, parents = TaskLeases((), tmp_path).variables(), psutil.Process.parents
    ended = [psutil.NoSuchProcess(7)]

    def ask(process: psutil.Process) -> list[psutil.Process]:
        if ended:
            raise ended.pop()
        return parents(process)

    monkeypatch.setattr(psutil.Process, "parents", ask)
    assert inherited_leases(variables) is None
    assert not ended


def test_a_program_that_has_left_its_task_has_nothing_of_what_was_leased_for_it(tmp_path):
    told = TaskLeases(("GPU-a",), tmp_path).variables()
    program = (
        "import os; from tarmac.tasks.leases import inherited_leases\n"
        "print(inherited_leases(os.environ) is not None)"
    )

    def within(variables: dict[str, str]) -> str:
        return subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | variables,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()

    assert within(told) == "True"
    gone = subprocess.Popen(["true"])
    gone.wait()
    (name, value), *_ = told.items()
    assert within({name: value.replace(str(os.getpid()), str(gone.pid))}) == "False"
    assert within({name: "{garbage"}) == "False"
    assert within({name: "[]"}) == "False"


def test_gpus_beside_those_of_the_task_are_leased_from_everybody(tmp_path):
    inherited = TaskLeases(("GPU-a",), tmp_path / "task")
    rival = Leases(tmp_path / "all")
    assert rival.take("GPU-a")
    assert rival.take("GPU-b")
    own = Leases(tmp_path / "all", inherited)
    assert own.take("GPU-a")
    assert not own.take("GPU-b")
    assert not Leases(tmp_path / "all", inherited).take("GPU-a")


def test_an_instance_with_slashes_in_its_name_can_be_leased(tmp_path):
    leases = Leases(tmp_path / "leases")
    assert leases.take("MIG-GPU-a/1/2")
    assert not Leases(tmp_path / "leases").take("MIG-GPU-a/1/2")
    leases.give_back("MIG-GPU-a/1/2")
    assert Leases(tmp_path / "leases").take("MIG-GPU-a/1/2")


def test_a_task_gets_one_instance_of_a_partitioned_gpu_and_never_two():
    parts = [GpuInfo(f"MIG-{n}", "H100 1g", 2**33, is_instance=True) for n in range(2)]
    whole = GpuInfo("GPU-a", "H100", 2**36)
    shared = machine(None, *parts, whole)
    assert shared.candidates(Resources(gpus=2)) == [whole]
    assert shared.candidates(ONE) == [*parts, whole]


def test_a_part_of_a_gpu_that_takes_one_process_is_all_of_it():
    exclusive = GpuInfo("GPU-x", "H100", 2**36, is_exclusive=True)
    shared = GpuInfo("GPU-a", "H100", 2**36)
    half = Resources(gpus=0.5)
    given = machine(None, exclusive, shared)
    grants = [given.take(half) for _ in range(4)]
    assert [grant and (grant.gpus, grant.share) for grant in grants] == [
        (("GPU-a",), 0.5),
        (("GPU-a",), 0.5),
        (("GPU-x",), 1.0),
        None,
    ]
    assert grants[2] is not None
    given.give_back(grants[2])
    assert given.take(ONE) is not None


_HIDDEN = {
    "GPU-none": "this machine has 0: CUDA_VISIBLE_DEVICES is 'GPU-none', and the",
    "7": "this machine has 0: CUDA_VISIBLE_DEVICES is '7', and the first name",
    "some": "this machine has 0: CUDA_VISIBLE_DEVICES is 'some', and the first",
    "": "this machine has 0: CUDA_VISIBLE_DEVICES is empty, which hides all GPUs",
}

_REFUSE = """
import os, sys
from pathlib import Path
from tarmac import RequestError
from tarmac.jobs import parse_job, plan_tasks, read_machine
job = parse_job("{name: x, command: a, resources: {gpus: 1}}")

def refuse():
    try:
        read_machine().refuse_what_never_fits(plan_tasks(job, Path(".")))
    except RequestError as error:
        return f"{error.message} {error.hint}"
    return ""

print(refuse())
for visible in sys.argv[1:]:
    os.environ["CUDA_VISIBLE_DEVICES"] = visible
    print(refuse())
"""


def test_why_a_machine_has_too_few_gpus_for_a_task_is_said(on_machine):
    def reasons(machine, *visible):
        done = subprocess.run(
            [sys.executable, "-c", _REFUSE, *visible],
            env=on_machine(machine),
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.splitlines()

    (prohibited,) = reasons("prohibited")
    assert "this machine has 0: NVIDIA H200 is in compute mode PROHIBITED" in prohibited
    enough, *hidden = reasons("healthy", *_HIDDEN)
    assert enough == ""
    for reason, text in zip(hidden, _HIDDEN.values(), strict=True):
        assert text in reason
        assert "name some of: 0 (GPU-7d3c132a-675f-077e-3bf7-99d79213d062)" in reason


_HEALTHY = Path(__file__).parents[1] / "checks" / "machines" / "healthy.txt"
_WITHOUT_PATIENCE = "from tarmac.machine import nvml\nnvml._PATIENCE_S = 0.2\n"


@pytest.mark.parametrize("lines", ["0.hang 1", "init_hang 1"])
def test_a_driver_that_hangs_hangs_no_run(on_machine, tmp_path, lines):
    machine = tmp_path / "machine.txt"
    machine.write_text(f"like healthy\n{lines}\n")
    (tmp_path / "healthy.txt").write_text(_HEALTHY.read_text())
    env = on_machine("healthy", NVML_STAND_IN=str(machine))
    done = run_python("-c", _WITHOUT_PATIENCE + _REFUSE, env=env, timeout=60)
    assert done.returncode == 0, done.stderr
    words = "NVIDIA's driver does not say which GPUs there are: "
    who = "GPU 0" if lines.startswith("0.") else "NVML"
    assert f"{words}{who}: no answer for 0 s Find the cause: tarmac check.\n" in done.stdout


def test_unknown_gpus_stop_tasks_that_need_them_and_no_others(tmp_path):
    job = parse_job(
        "{name: x, tasks: [{name: a, command: a}, {name: b, command: b, resources: {gpus: 1}}]}"
    )
    without, with_gpu = plan_tasks(job, tmp_path)
    blind = machine(None, gpu_problem=RequestError("the driver does not say"))
    blind.refuse_what_never_fits([without])
    with pytest.raises(RequestError, match="the driver does not say"):
        blind.refuse_what_never_fits([with_gpu])


def test_what_is_short_counts_what_others_will_give_back():
    ours = machine(None, GpuInfo("GPU-a", "fast", 2**34), GpuInfo("GPU-b", "fast", 2**34))
    needs = Resources(cpus=6, memory=2**33, gpus=2)
    assert not ours.shortage(needs)
    grant = ours.take(Resources(cpus=4, memory=2**34, gpus=1))
    short = ours.shortage(needs)
    assert (short.cpus, short.memory, short.gpus) == (2, 2**33, 1)
    assert short.is_eased_by(grant)
    assert not ours.shortage(needs, [grant])
    ours.give_back(grant)
    assert not ours.shortage(needs)


@pytest.mark.parametrize(
    ("taken", "needs", "reason"),
    [
        (Resources(cpus=8), Resources(cpus=0.5), "8 of 8 CPUs are in use, it needs 0.5"),
        (
            Resources(memory=3 * 2**32),
            Resources(memory=2**33),
            "12.0 of 16.0 GiB of memory are in use, it needs 8.0",
        ),
        (Resources(gpus=0.5), ONE, "1 of 1 GPU is in use, it needs 1"),
        (Resources(gpus=0.5), Resources(gpus=0.5), ""),
    ],
)
def test_why_a_task_cannot_begin_is_said_with_numbers(taken, needs, reason):
    ours = machine(None)
    ours.take(taken)
    if reason:
        assert ours.why_full(needs) == reason
    else:
        assert not ours.shortage(needs)


def test_gpus_of_other_programs_are_named_as_why_a_task_waits(tmp_path):
    other, ours = machine(tmp_path), machine(tmp_path)
    assert other.take(ONE) is not None
    assert ours.take(ONE) is None
    assert "leased by other programs" in ours.why_full(ONE)


_LOOKS = """
import sys, tarmac.cli.preflight as preflight
from tarmac.cli import main
from tarmac.jobs import read_status
real = preflight._conclude
def conclude(report, run, **options):
    print("while it checks:", read_status(run).state)
    real(report, run, **options)
preflight._conclude = conclude
main(["run", "job.json"])
"""


def test_a_run_is_at_work_while_its_gpus_are_checked(on_machine, tmp_path):
    job = {"name": "x", "command": ["true"], "resources": {"gpus": 1}}
    (tmp_path / "job.json").write_text(json.dumps(job))
    done = run_python("-c", _LOOKS, cwd=tmp_path, env=on_machine("healthy"))
    assert done.returncode == 0, done.stderr
    assert "while it checks: running\n" in done.stdout
