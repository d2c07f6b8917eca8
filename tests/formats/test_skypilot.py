"""Jobs as SkyPilot's tasks: which machine they ask for, and that what they carry runs."""

from __future__ import annotations

import os
import re
import socket
import subprocess
from fractions import Fraction
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from forked import forked_interpreter
from tarmac.cli.commands.convert import command as convert
from tarmac.documents import parse_document
from tarmac.environments import VenvSpec, build_venv
from tarmac.errors import RequestError
from tarmac.formats import find_format, read_any
from tarmac.formats.skypilot.azure_sizes import find_size, spelled, successor_of
from tarmac.jobs import Job, parse_job, plan_tasks

HERE = Path()
POOL = """
pool_specification:
  id: p
  vm_configuration: {{platform_image: {{publisher: a, offer: b, sku: c}}}}
  vm_size: {size}
  vm_count: {count}
job_specifications:
- id: train
  tasks:
  - {{docker_image: my/image, command: python train.py}}
"""
# One of each kind that SkyPilot is to read.
JOBS = {
    "plain": "{name: hello, command: [echo, hello]}",
    "needs": "{name: a.b_c, command: x, resources: {cpus: 3.5, memory: 5GiB, gpus: 2}}",
    "kind": "{name: x, command: x, resources: {gpus: {type: a100, count: 3}}}",
    "half": "{name: x, command: x, resources: {gpus: 0.5, gpu_memory: 40GiB}}",
    "nodes": "{name: x, workload: digits-mlp, resources: {nodes: 2, gpus: 8}}",
    "files": "{name: x, command: x, inputs: [{from: /data/}, {from: here}], "
    "secrets: {A: {env: A}, B: {name: n, key: k}}}",
    "sweep": "{name: x, command: 'echo {{ n }} > $HOME', sweep: {grid: {n: [1, 2]}}}",
    "blobs": "{name: x, command: x, outputs: [{path: a, to: 'az://b/c'}]}",
    "image": "{name: x, command: x, environment: {image: i, login: {file: ~/.login}}}",
}


def write(job: Job) -> tuple[dict, str, list[str]]:
    written = find_format("skypilot").write([job], HERE)
    return yaml.safe_load(written.text), written.text, [*written.notes]


def of_pool(size: str, count: str = "{dedicated: 1}") -> Job:
    text = POOL.format(size=size, count=count)
    ((job),) = read_any(parse_document(text, "pool.yaml")).jobs
    return job


@pytest.mark.parametrize(
    ("size", "instance", "gpus", "old"),
    [
        ("STANDARD_NC6", "Standard_NC4as_T4_v3", {"T4": 1}, "Standard_NC6 (1 K80) on 2023-08-31"),
        ("STANDARD_NC24R", "Standard_NC64as_T4_v3", {"T4": 4}, "(4 K80) on 2023-08-31"),
        ("standard_nc12s_v3", "Standard_NC48ads_A100_v4", {"A100-80GB": 2}, "on 2025-09-30"),
        ("Standard_NV12s_v3", "Standard_NV36ads_A10_v5", {"A10": 1}, "(1 M60) on 2026-09-30"),
        (
            "STANDARD_NV24S_V2",
            "Standard_NC64as_T4_v3",
            {"T4": 4},
            "opens no Standard_NV24s_v2 (4 M60)",
        ),
        ("Standard_NV8as_v4", "Standard_NV12ads_A10_v5", {"A10": 0.333}, "is for Windows alone"),
        ("Standard_ND40rs_v2", "Standard_ND40rs_v2", {"V100-32GB": 8}, None),
        ("STANDARD_NC40ADS_H100_V5", "Standard_NC40ads_H100_v5", {"H100": 1}, None),
        ("STANDARD_D4S_V3", "Standard_D4s_v3", None, None),
    ],
)
def test_a_pools_size_is_the_machine_or_what_succeeds_it(size, instance, gpus, old):
    task, _, notes = write(of_pool(size))
    resources = task["resources"]
    assert (resources["infra"], resources["instance_type"]) == ("azure", instance)
    assert resources.get("accelerators") == gpus
    told = [note for note in notes if "; the task asks for" in note]
    assert [old in note and instance in note for note in told] == [True] * (old is not None)


@pytest.mark.parametrize(
    ("gpu_type", "offered"),
    [("a100", {"A100", "A100-80GB"}), ("A100-80GB", {"A100-80GB"}), ("mi300x", {"mi300x"})],
)
def test_a_kind_of_gpu_is_asked_for_by_the_names_of_skypilot(gpu_type, offered):
    job = f"{{name: x, command: x, resources: {{gpus: {{type: {gpu_type}, count: 3}}}}}}"
    task, _, _ = write(parse_job(job))
    assert task["resources"]["accelerators"] == dict.fromkeys(offered, 4)


@given(st.from_regex(r"(?i)standard_[a-z]{1,3}[0-9]{1,3}[a-z]{0,4}(_v[0-9])?", fullmatch=True))
def test_any_name_of_a_size_is_found_in_any_case(name):
    assert spelled(name).lower() == name.lower()
    assert spelled(spelled(name)) == spelled(name)
    assert find_size(name.upper()) == find_size(name.lower())
    assert successor_of(name.upper()) == successor_of(name.lower())


def test_no_successor_has_fewer_gpus_than_what_it_succeeds():
    kinds_of = {"NC": ["", "s_v2", "s_v3"], "ND": ["s"], "NV": ["", "s_v2", "s_v3", "as_v4"]}
    for family, kinds in kinds_of.items():
        for cpus in (4, 6, 8, 12, 16, 24, 32, 48):
            for kind in kinds:
                found = successor_of(f"Standard_{family}{cpus}{kind}")
                if found is not None:
                    assert found.size.gpus >= Fraction(found.had.split()[0])
                    assert successor_of(found.size.name) is None


def test_a_pool_of_low_priority_is_a_spot_machine_and_of_many_one_is_opened():
    task, _, notes = write(of_pool("STANDARD_NC6", "{dedicated: 0, low_priority: 3}"))
    assert task["resources"]["use_spot"] is True
    assert "autostop" not in task["resources"]
    assert any("3 machines, but only one is opened" in note for note in notes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "{name: x, command: x, environment: {image: i, engine: apptainer}}",
            "x: task 'x': environment.engine is apptainer",
        ),
        (
            "{name: x, tasks: [{name: a, command: x}, {name: b, command: x, "
            "resources: {nodes: 2}}]}",
            "x: task 'b' runs on 2 nodes beside others",
        ),
        (
            "{name: x, command: x, resources: {nodes: 2}, environment: {image: i}}",
            "x: task 'x' runs on several nodes in a container",
        ),
        ("{name: x, command: x, resources: {gpus: 9}}", "x: a task asks for 9 GPUs, and no"),
        (
            "{name: x, command: x, resources: {gpus: 1, gpu_memory: 200GiB}}",
            "x: a task asks for GPUs of 200 GiB",
        ),
        (
            "{name: x, command: x, resources: {gpus: {type: t4}, gpu_memory: 24GiB}}",
            "x: a task asks for GPUs t4 of 24 GiB",
        ),
        (
            "{name: x, tasks: [{name: a, command: x, resources: {gpus: {type: t4}}}, "
            "{name: b, command: x, resources: {gpus: {type: h100}}}]}",
            "x: tasks ask for GPUs h100 and t4, and share one machine",
        ),
        ("{name: x, pipeline: {name: p, nodes: []}}", "x is a pipeline"),
    ],
)
def test_what_skypilot_cannot_say_is_refused(text, message):
    with pytest.raises(RequestError) as caught:
        write(parse_job(text))
    assert caught.value.message.startswith(message)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("name: x\ncommand: x\nenvironment:\n  image: i\n  engine: apptainer\n", "5:3: x: task"),
        ("name: x\nresources: {gpus: 9}\ntasks: [{name: a, command: x}]\n", "2:13: x: a task asks"),
        (
            "name: x\ntasks:\n- {name: a, command: x}\n- name: b\n  command: x\n  resources:\n"
            "    gpus: 1\n    gpu_memory: 200GiB\n",
            "8:5: x: a task asks for GPUs of 200 GiB",
        ),
        (
            "name: x\ntasks:\n- {name: a, command: x}\nafter_all:\n  name: z\n  command: x\n"
            "  resources: {nodes: 2}\n",
            "7:15: x: task 'z' runs on 2 nodes beside others",
        ),
    ],
)
def test_a_refusal_says_file_line_and_column(text, where, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("job.yaml").write_text(text)
    done = CliRunner().invoke(convert, ["job.yaml", "--to", "skypilot"])
    assert isinstance(done.exception, RequestError), done.output
    assert done.exception.message.startswith(f"job.yaml:{where}")


@pytest.mark.parametrize(
    ("place", "secrets", "told"),
    [
        ("az://box/out", ["AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT_KEY"], "az://box)"),
        ("s3://bucket/out", [], "s3://bucket is asked for with the machine's own role"),
        ("gs://bucket/out", [], "gs://bucket is asked for with the machine's own role"),
    ],
)
def test_outputs_in_a_store_have_what_asks_it_and_the_keys(place, secrets, told):
    task, text, notes = write(
        parse_job(f"{{name: x, command: x, outputs: [{{path: a, to: '{place}'}}]}}")
    )
    assert "tarmac-gpu[objects]==" in task["setup"]
    assert [*task.get("secrets", {})] == secrets
    assert any(told in note for note in notes)
    launch = next(line for line in text.splitlines() if "sky launch" in line)
    assert re.findall(r"--secret (\w+)", launch) == secrets


def test_what_trains_and_keeps_in_a_store_has_both_extras():
    job = "{name: x, workload: digits-mlp, outputs: [{path: a, to: 's3://b/c'}]}"
    assert "'tarmac-gpu[train,objects]==" in write(parse_job(job))[0]["setup"]
    plain = "{name: x, command: x, outputs: [{path: a, to: 'run:c'}, {path: b, to: here}]}"
    assert " tarmac-gpu==" in write(parse_job(plain))[0]["setup"]


@pytest.mark.parametrize(
    ("environment", "file", "extra"),
    [
        ("{file: environment.yml}", "environment.yml", "[conda]"),
        ("{path: .}", "pixi.lock", "[conda]"),
        ("{path: .}", "uv.lock", ""),
    ],
)
def test_the_machine_gets_what_builds_the_environment(tmp_path, environment, file, extra):
    (tmp_path / file).touch()
    job = parse_job(f"name: x\ncommand: a\nenvironment: {environment}\n")
    text = find_format("skypilot").write([job], tmp_path).text
    assert f"tarmac-gpu{extra}==" in text


def test_more_gpus_than_the_pools_machine_has_are_refused():
    job = of_pool("STANDARD_NC6")
    resources = job.tasks[0].resources.model_copy(update={"gpus": 2.0})
    spec = job.tasks[0].model_copy(update={"resources": resources})
    with pytest.raises(RequestError, match="asks for 2 GPUs, and Standard_NC4as_T4_v3 has 1"):
        write(job.model_copy(update={"tasks": (spec,)}))


def test_a_windows_pool_is_refused_with_the_words_of_its_reader():
    text = POOL.format(size="STANDARD_D2_V2", count="{dedicated: 1}")
    text = text.replace("publisher: a", "publisher: MicrosoftWindowsServer")
    (job,) = read_any(parse_document(text, "pool.yaml")).jobs
    with pytest.raises(RequestError, match="its machines have Windows"):
        write(job)


def test_a_task_of_skypilots_is_no_job_of_ours():
    text = "setup: pip install x\nrun: |\n  python x.py\n"
    with pytest.raises(RequestError) as caught:
        read_any(parse_document(text, "task.yaml"))
    assert caught.value.message.startswith("task.yaml:2:")
    assert "a task of SkyPilot's" in caught.value.message


def carried(task: dict) -> str:
    """Return the job file that a task's program writes."""
    end = re.search(r"cat > tarmac-job.yaml <<'(\w+)'\n", task["run"])
    assert end is not None
    text, after = task["run"][end.end() :].split(f"{end[1]}\n", 1)
    assert after == "tarmac run tarmac-job.yaml --output ~/tarmac-runs\n"
    return text


texts = st.text(max_size=30)
words = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=20)


@given(
    command=st.lists(words.filter(lambda word: "{{" not in word), min_size=1, max_size=4),
    note=texts.filter(lambda text: "{{" not in text and "\0" not in text),
    cpus=st.floats(0.1, 64),
    gpus=st.sampled_from([0, 0.5, 1, 3, 8]),
    secret=st.sampled_from([{"env": "MINE"}, {"file": "/a"}, {"name": "n", "key": "k"}]),
)
def test_the_job_that_is_carried_is_the_job(command, note, cpus, gpus, secret):
    job = Job.model_validate(
        {
            "name": "x",
            "command": command,
            "env": {"NOTE": note, "END": "\nTARMAC_JOB\n"},
            "resources": {"cpus": cpus, "gpus": gpus},
            "secrets": {"S": secret},
        }
    )
    task, _, notes = write(job)
    back = parse_job(carried(task))
    (old,), (new,) = plan_tasks(job, HERE), plan_tasks(back, HERE)
    assert (new.command, new.env, new.resources) == (old.command, old.env, old.resources)
    variable = new.secrets["S"].env
    assert task["secrets"] == {variable: None}
    assert any(variable in note for note in notes)
    assert float(task["resources"]["cpus"].rstrip("+")) >= cpus


def on_a_machine(task: dict, home: Path, **variables: str) -> subprocess.Popen[str]:
    """Start a task's program as on a machine that was opened; its Tarmac is this one."""
    work = home / "sky_workdir"
    work.mkdir(parents=True)
    (home / ".local/bin").mkdir(parents=True)
    program = home / ".local/bin/tarmac"
    program.write_text(f'#!/bin/sh\nexec {forked_interpreter()} -m tarmac "$@"\n')
    program.chmod(0o755)
    return subprocess.Popen(
        ["bash", "-c", task["run"]],
        cwd=work,
        env={**os.environ, "HOME": str(home), "OMP_NUM_THREADS": "1", **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_what_is_carried_runs_with_its_secret_and_keeps_its_outputs(tmp_path):
    job = parse_job(
        '{name: x, command: \'test "$S" = "a b"; echo done > out.txt\', '
        "secrets: {S: {file: /nowhere}}, outputs: [{path: out.txt, to: kept}]}"
    )
    task, text, _ = write(job)
    (variable,) = task["secrets"]
    runs = on_a_machine(task, tmp_path, **{variable: "a b"})
    said, _ = runs.communicate(timeout=300)
    assert runs.returncode == 0, said
    assert (tmp_path / "sky_workdir/kept/out.txt").read_text() == "done\n"
    assert [*(tmp_path / "tarmac-runs").glob("*/journal.jsonl")]
    assert "rsync -a x:sky_workdir/kept/ kept/" in text


def test_a_training_on_two_machines_is_one_training(tmp_path):
    pytest.importorskip("torch")
    job = parse_job(
        "{name: x, workload: digits-mlp, settings: {epochs: '1'}, resources: {nodes: 2}}"
    )
    task, _, _ = write(job)
    assert task["num_nodes"] == 2
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = str(taken.getsockname()[1])
    nodes = [
        on_a_machine(
            task,
            tmp_path / str(rank),
            SKYPILOT_NUM_NODES="2",
            SKYPILOT_NODE_RANK=str(rank),
            SKYPILOT_NODE_IPS="127.0.0.1\n127.0.0.2",
            MASTER_PORT=port,
        )
        for rank in (0, 1)
    ]
    for node in nodes:
        said, _ = node.communicate(timeout=300)
        assert node.returncode == 0, said
    trained = [*tmp_path.glob("*/tarmac-runs/*/**/run.json")]
    assert any('"world_size": 2' in path.read_text() for path in trained)


@pytest.mark.frameworks
@pytest.mark.timeout(900)
def test_skypilots_own_loader_takes_what_is_written(tmp_path):
    venv = build_venv(VenvSpec(("skypilot==0.14.1",)), tmp_path)
    files = []
    pools = ["STANDARD_NC6", "STANDARD_NC24R", "Standard_ND40rs_v2", "Standard_NV12ads_A10_v5"]
    pools += ["Standard_ND96isr_H200_v5", "STANDARD_D2_V2"]
    jobs = {name: parse_job(text) for name, text in JOBS.items()}
    jobs |= {size: of_pool(size) for size in pools}
    jobs["spot"] = of_pool("STANDARD_NC6", "{dedicated: 0, low_priority: 1}")
    for name, job in jobs.items():
        files.append(tmp_path / f"{name}.yaml")
        files[-1].write_text(find_format("skypilot").write([job], HERE).text)
    loads = (
        "import sys, sky\n"
        "for path in sys.argv[1:]:\n"
        "    task = sky.Task.from_yaml(path)\n"
        "    task.validate_name(), task.validate_run()\n"
        "    print(path.rsplit('/')[-1], task.num_nodes, len(task.resources), sep=' ')\n"
    )
    done = subprocess.run(
        [venv / "bin/python", "-c", loads, *files],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, "HOME": str(tmp_path), "SKYPILOT_DISABLE_USAGE_COLLECTION": "1"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    read = {line.split()[0]: [*map(int, line.split()[1:])] for line in done.stdout.splitlines()}
    assert [*read] == [f"{name}.yaml" for name in jobs]
    assert read["nodes.yaml"][0] == 2
    assert read["half.yaml"][1] > 1
    assert read["STANDARD_NC6.yaml"] == [1, 1]
