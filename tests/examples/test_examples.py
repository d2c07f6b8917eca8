"""Every example is a job that can be read, and runs to the accuracy that its data support."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from conda_channel import index, make_package
from forked import forked_interpreter, run_python
from tarmac import checks
from tarmac.checks.frameworks import find_framework
from tarmac.environments import VenvSpec, build_venv
from tarmac.jobs import Venv, plan_tasks, read_job
from tarmac.training import settings_of
from tarmac.workloads import find_workload

EXAMPLES = Path(__file__).parents[2] / "examples"
JOBS = sorted(path.parent.name for path in EXAMPLES.glob("*/job.yaml"))
GUESTS = ["chainer", "tensorflow", "jax", "mxnet", "horovod"]


def tarmac(*arguments, cwd, **variables):
    folders = (Path(forked_interpreter()).parent, Path(sys.executable).parent)
    path = ":".join([*map(str, folders), os.environ["PATH"]])
    env = os.environ | {"PATH": path} | variables
    return run_python("-m", "tarmac", *arguments, cwd=cwd, env=env)


@pytest.fixture
def examples(tmp_path):
    """A copy, so that nothing of a run can land beside ours."""
    return Path(shutil.copytree(EXAMPLES, tmp_path / "examples"))


def printed(examples, name, dataset, *options, file="job.yaml"):
    """Run an example, and return what its training printed."""
    done = tarmac(
        *("run", f"{name}/{file}", "--set", f"env.DATASET={dataset}", "--json"),
        *("--output", str(examples / "runs"), *options),
        cwd=examples,
    )
    assert done.stdout, done.stderr
    (result,) = json.loads(done.stdout)
    directories = {task["name"]: Path(task["directory"]) for task in result["tasks"]}
    if not result["ok"]:
        said = [path.read_text() for d in directories.values() for path in d.glob("stderr")]
        pytest.fail("\n".join([json.dumps(result["tasks"], indent=2), *said]))
    return (directories["train"] / "stdout").read_text()


def accuracy_in(text):
    return float(re.findall(r"test accuracy (\d\.\d+)", text)[-1])


def test_there_is_an_example_of_each_framework():
    assert {name.removesuffix("-mnist") for name in JOBS} == {*GUESTS, "pytorch"}


@pytest.mark.parametrize("name", JOBS)
def test_an_examples_files_are_there(name):
    directory = EXAMPLES / name
    job = read_job(directory / "job.yaml")
    assert job.name == name
    tasks = [*plan_tasks(job, directory)]
    made = {f"{output.to}/{output.path}" for task in tasks for output in task.outputs}
    for task in tasks:
        for given in task.inputs:
            assert given.source in made or (directory / given.source).is_file()


def test_examples_can_be_planned_together(tmp_path):
    files = [str(EXAMPLES / name / "job.yaml") for name in JOBS]
    done = tarmac("run", *files, "--dry-run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("train.py data.npz") == len(JOBS)
    assert not [*tmp_path.iterdir()]


def test_the_examples_page_shows_each_with_its_command():
    page = (EXAMPLES / "README.md").read_text()
    assert all(f"({name}/job.yaml)" in page for name in JOBS)
    named = set(re.findall(r"examples/(\S+)/job\.yaml", page))
    assert named
    assert named <= {*JOBS}


@pytest.mark.parametrize("framework", GUESTS)
def test_an_example_has_the_environment_that_the_check_of_its_framework_provisions(framework):
    directory = EXAMPLES / f"{framework}-mnist"
    environment = read_job(directory / "job.yaml").environment
    assert isinstance(environment, Venv)
    provisioned = find_framework(framework).pins
    assert provisioned is not None
    pins = Path(checks.__file__).parent / "environments" / f"{framework}.txt"
    assert (directory / "requirements.txt").read_text() == pins.read_text()
    assert len(environment.before) == len(provisioned.before)
    assert environment.build_env == provisioned.build_env
    if provisioned.before:
        assert environment.requirements == provisioned.requirements


def test_horovods_packages_for_gpus_differ_by_the_build_of_mxnet_alone():
    plain, for_gpus = (
        (EXAMPLES / "horovod-mnist" / f"requirements{end}.txt").read_text() for end in ("", "-gpu")
    )
    assert for_gpus == plain.replace("mxnet==", "mxnet-cu112==")


def test_the_sweep_on_slurm_trains_what_it_names():
    job = read_job(EXAMPLES / "slurm" / "sweep.yaml")
    assert job.workload is not None
    known = settings_of(find_workload(job.workload))
    for task in plan_tasks(job, EXAMPLES):
        words = iter(task.command)
        named = {next(words).partition("=")[0] for word in words if word == "--set"}
        assert named <= {*known}, task.command


def test_the_pytorch_example_runs(examples):
    text = printed(examples, "pytorch-mnist", "digits")
    assert re.search(r"PyTorch \S+ on (cpu|cuda)", text)
    assert text.splitlines()[-1] == f"test accuracy {accuracy_in(text):.4f}"
    assert accuracy_in(text) >= 0.94


def stand_in_channel(channel, packages):
    """Make a channel of an environment's packages, which lead to an installed framework.

    Args:
        channel: Its directory.
        packages: Where the framework is installed: a ``site-packages``.
    """
    real = Path(sys.executable).resolve()
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    settings = f"home = {real.parent}\nversion = {version}\n"
    path = f"lib/python{version}/site-packages/{{}}.pth"
    make_package(
        channel,
        "python",
        "3.12.1",
        files={"pyvenv.cfg": settings, path.format("found"): f"{packages}\n"},
        links={"bin/python": str(real)},
    )
    for name, newest in (("pytorch", "2.9.0"), ("tensorflow", "2.19.0"), ("numpy", "2.3.0")):
        make_package(channel, name, newest)
    index(channel)


def printed_by_conda(examples, framework, packages, monkeypatch):
    """Run an example of conda's, with a channel on this machine in the place of conda-forge."""
    pytest.importorskip("rattler", reason="needs pip install 'tarmac-gpu[conda]'")
    monkeypatch.setenv("RATTLER_CACHE_DIR", str(examples / "packages"))
    stand_in_channel(examples / "channel", packages)
    file = examples / "conda" / f"{framework}-environment.yml"
    text = file.read_text()
    assert "channels: [conda-forge]\n" in text
    file.write_text(text.replace("conda-forge]", "../channel]"))
    return printed(examples, "conda", "digits", file=f"{framework}.yaml")


def test_the_example_of_pytorch_in_an_environment_of_condas_runs(examples, monkeypatch):
    packages = Path(np.__file__).parents[1]
    text = printed_by_conda(examples, "pytorch", packages, monkeypatch)
    assert accuracy_in(text) >= 0.94


@pytest.mark.frameworks
@pytest.mark.timeout(3600)
def test_the_example_of_tensorflow_in_an_environment_of_condas_runs(examples, monkeypatch):
    pins = (EXAMPLES / "tensorflow-mnist" / "requirements.txt").read_text().splitlines()
    venv = build_venv(VenvSpec(tuple(pins)), examples)
    (packages,) = venv.glob("lib/python*/site-packages")
    text = printed_by_conda(examples, "tensorflow", packages, monkeypatch)
    assert accuracy_in(text) >= 0.94


def test_the_pytorch_example_trains_by_two_processes_as_by_one(examples):
    text = printed(examples, "pytorch-mnist", "digits", "--set", "env.REPLICAS=2")
    sums = re.findall(r"weights add up to (\S+)", text)
    assert len(sums) == 2
    assert len({*sums}) == 1
    assert accuracy_in(text) >= 0.94


@pytest.mark.parametrize("floor", [0.0, 1.1])
def test_a_training_below_what_the_data_support_fails(tmp_path, floor):
    images, labels = np.zeros((200, 8, 8), np.uint8), np.arange(200) % 10
    np.savez(
        tmp_path / "data.npz",
        **{f"{part}_images": images for part in ("train", "test")},
        **{f"{part}_labels": labels for part in ("train", "test")},
        epochs=1,
        floor=floor,
    )
    done = run_python(EXAMPLES / "pytorch-mnist" / "train.py", "data.npz", cwd=tmp_path)
    assert done.returncode == (1 if floor else 0), done.stderr
    assert ("expected at least 1.1" in done.stderr) == bool(floor)


def test_a_training_that_was_given_a_gpu_and_sees_none_fails_before_it_trains(tmp_path):
    np.savez(tmp_path / "data.npz", floor=0.0)
    env = os.environ | {"CUDA_VISIBLE_DEVICES": "GPU-of-nobody"}
    script = EXAMPLES / "pytorch-mnist" / "train.py"
    done = run_python(script, "data.npz", cwd=tmp_path, env=env)
    assert done.returncode == 1
    assert done.stderr.startswith("was given a GPU, and sees none: tarmac check torch --python /")


def test_the_gpus_that_an_example_is_given_are_its_trainings(tmp_path):
    files = [str(EXAMPLES / name / "job.yaml") for name in JOBS]
    options = ("--set", "resources.gpus=2", "--fake-gpus", "2", "--dry-run", "--json")
    done = tarmac("run", *files, *options, cwd=tmp_path)
    gpus = [(row["task"], row["resources"]["gpus"]) for row in json.loads(done.stdout)]
    assert gpus == [("data", 0), ("train", 2)] * len(JOBS)


@pytest.mark.parametrize("name", JOBS)
def test_every_example_fails_where_it_was_given_a_gpu_and_sees_none(name):
    assert "was given a GPU, and sees none" in (EXAMPLES / name / "train.py").read_text()


def test_data_that_are_not_known_are_refused(tmp_path):
    done = subprocess.run(
        [sys.executable, EXAMPLES / "data.py"],
        cwd=tmp_path,
        env=os.environ | {"DATASET": "cifar"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == "DATASET is 'cifar', expected one of mnist, digits\n"


@pytest.mark.frameworks
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("framework", GUESTS)
def test_an_example_reaches_the_accuracy_that_its_data_support(examples, framework):
    text = printed(examples, f"{framework}-mnist", "digits")
    assert re.search(r"(?i) on (\S*cpu|@numpy|\S*gpu|@cupy|cuda)", text)
    assert accuracy_in(text) >= 0.94
    if framework == "horovod":
        sums = dict(re.findall(r"rank (\d) of 2: .* weights add up to (\S+)", text))
        assert sums.keys() == {"0", "1"}
        assert sums["0"] == sums["1"]


@pytest.mark.frameworks
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("framework", ["chainer", "tensorflow", "jax", "mxnet"])
def test_an_example_trains_by_two_replicas_as_by_one(examples, framework):
    texts = [
        printed(examples, f"{framework}-mnist", "digits", "--set", f"env.REPLICAS={number}")
        for number in (1, 2)
    ]
    assert [len(re.findall(r"(?i)cpu\W?\d|@numpy", text)) for text in texts] == [1, 2]
    one, two = map(accuracy_in, texts)
    assert abs(one - two) < 0.01


@pytest.mark.nightly
@pytest.mark.mnist
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("framework", [*GUESTS, "pytorch"])
@pytest.mark.usefixtures("mnist")
def test_an_example_trains_on_the_real_mnist(examples, framework):
    assert accuracy_in(printed(examples, f"{framework}-mnist", "mnist")) >= 0.96
