"""Requirements for GPUs, by the CUDA that the driver of the machine runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from forked import run_python
from tarmac.errors import RequestError
from tarmac.executors.elements import build_environments
from tarmac.jobs import Venv, parse_job, plan_tasks

_BY_CUDA = {"cuda11": ["a==11"], "cuda12": ["a==12"], "cuda12.8": ["a==12.8"], "cuda13": ["a==13"]}
_HEALTHY = Path(__file__).parents[1] / "checks" / "machines" / "healthy.txt"


def environment(gpu_requirements, **more) -> Venv:
    task = {"requirements": ["a==1"], "gpu_requirements": gpu_requirements, **more}
    return Venv.model_validate(task).chosen(with_gpus=True)


@pytest.mark.parametrize(
    ("driver", "version"),
    [
        ("11.0", "11"),
        ("11.8", "11"),
        ("12.0", "12"),
        ("12.7", "12"),
        ("12.8", "12.8"),
        ("12.10", "12.8"),
        ("13.0", "13"),
        ("14.1", "13"),
    ],
)
def test_the_newest_that_a_driver_runs_is_taken(driver, version):
    assert environment(_BY_CUDA).for_driver(driver).requirements == (f"a=={version}",)


@pytest.mark.parametrize(
    ("driver", "words"),
    [
        ("10.2", r"are for cuda11, cuda12, cuda12\.8, cuda13, and the driver on \S+ runs CUDA 10"),
        (None, "are for cuda11, .* and no NVIDIA driver answers on"),
    ],
)
def test_a_driver_that_runs_none_of_them_is_named(driver, words):
    with pytest.raises(RequestError, match=words) as raised:
        environment(_BY_CUDA).for_driver(driver)
    assert "key cuda" in raised.value.hint or "cuda10: [...]" in raised.value.hint


@pytest.mark.parametrize("driver", [None, "10.2"])
def test_those_for_any_driver_are_for_older_ones_and_for_none(driver):
    chosen = environment({"cuda12": ["a==12"], "cuda": ["a==2"]})
    assert chosen.for_driver(driver).requirements == ("a==2",)


def test_what_is_installed_before_and_variables_are_of_gpus_too():
    more = {
        "before": ["b"],
        "gpu_before": ["b-gpu"],
        "build_env": {"X": "1", "Y": "1"},
        "gpu_build_env": {"Y": "2"},
    }
    chosen = environment([], **more)
    assert chosen.is_for_gpus
    assert chosen.for_driver(None) == chosen
    assert (chosen.requirements, chosen.before) == (("a==1",), ("b-gpu",))
    assert chosen.build_env == {"X": "1", "Y": "2"}
    without = chosen.chosen(with_gpus=False)
    assert (without.gpu_before, without.gpu_build_env, without.is_for_gpus) == ((), {}, False)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("six", "expected a list, or lists by CUDA's version: cuda12: [...]"),
        ("{rocm: [six]}", "'rocm': expected cuda, or a version of it such as cuda12"),
        ("{cuda12: six}", "'six': expected a list"),
        ("{cuda12: []}", "expected at least one requirement"),
    ],
)
def test_what_is_no_list_by_cuda_has_its_place(value, words):
    text = f"name: x\ncommand: a\nenvironment:\n  requirements: [a]\n  gpu_requirements: {value}"
    with pytest.raises(RequestError) as raised:
        parse_job(text)
    assert words in str(raised.value)
    assert str(raised.value).startswith("job:5:")


@pytest.fixture
def job(tmp_path, make_wheel) -> Path:
    """Return a job's file whose tasks print which requirements they have."""
    lists = {}
    for name in ("plain", "cuda12", "cuda13"):
        directory = tmp_path / name
        directory.mkdir()
        wheel = make_wheel(f"print('made for', {name!r})\n")
        lists[name] = [str(wheel.rename(directory / wheel.name))]
    task = {
        "name": "x",
        "command": "python -m tool",
        "environment": {"requirements": lists.pop("plain"), "gpu_requirements": lists},
    }
    path = tmp_path / "job.json"
    path.write_text(json.dumps(task))
    return path


@pytest.mark.parametrize(
    ("lines", "taken"),
    [
        ("cuda 13000", "cuda13, as the driver here runs CUDA 13.0"),
        ("cuda 12080", "cuda12, as the driver here runs CUDA 12.8"),
        ("cuda 11040", None),
    ],
)
def test_a_task_has_the_packages_for_the_driver_of_its_machine(
    job, on_machine, tmp_path, lines, taken
):
    machine = tmp_path / "machine.txt"
    machine.write_text(f"{lines}\n{_HEALTHY.read_text()}")
    env = on_machine("healthy", NVML_STAND_IN=str(machine))
    words = ("-m", "tarmac", "run", str(job), "--set", "resources.gpus=1")
    options = {"cwd": tmp_path, "env": env}
    plan = run_python(*words, "--dry-run", **options)
    (row,) = json.loads(run_python(*words, "--dry-run", "--json", **options).stdout)
    done = run_python(*words, "--follow", **options)
    if taken is None:
        assert "venv of gpu_requirements for cuda12 or cuda13, by the driver" in plan.stdout
        refusal = "gpu_requirements are for cuda12, cuda13, and the driver on "
        assert refusal in plan.stderr
        assert refusal in done.stderr
        assert done.returncode == 2
        assert not (tmp_path / "runs").exists()
        return
    assert done.returncode == 0, done.stderr
    assert f"venv of gpu_requirements for {taken}" in plan.stdout
    assert f"made for {taken[:6]}" in done.stdout
    assert taken[:6] in row["environment"]["requirements"][0]


def test_no_driver_and_no_gpu_take_the_plain_ones(job, tmp_path):
    done = run_python("-m", "tarmac", "run", str(job), "--follow", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "made for plain" in done.stdout


def test_what_is_built_here_for_nodes_of_unknown_drivers_is_refused(job, tmp_path):
    spec = json.loads(job.read_text()) | {
        "resources": {"gpus": 1},
        "options": {"slurm": {"environments": "here"}},
    }
    tasks = [*plan_tasks(parse_job(json.dumps(spec)), tmp_path)]
    with pytest.raises(RequestError, match="depend on the driver of its node") as raised:
        build_environments(tasks, tmp_path, engine="slurm")
    assert "Leave environments out" in raised.value.hint


def test_pretended_gpus_take_the_plain_ones(job, tmp_path):
    words = ("-m", "tarmac", "run", str(job), "--set", "resources.gpus=1", "--fake-gpus", "1")
    plan = run_python(*words, "--dry-run", cwd=tmp_path)
    assert "venv of requirements, as its GPUs are pretended" in plan.stdout
    assert "cannot be run" not in plan.stderr
    done = run_python(*words, "--follow", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "made for plain" in done.stdout
