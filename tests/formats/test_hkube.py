"""HKube's algorithm definitions: what HKube takes is taken, what it refuses is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.errors import RequestError
from tarmac.formats import left_out_for_hkube, read_any, read_hkube, write_hkube
from tarmac.jobs import parse_job, plan_tasks
from tarmac.jobs.documents import parse_document

# kube-HPC/gpu-algorithm at 5ef663a, README.md.
GPU = """{
  "name": "gpu-alg",
  "algorithmImage": "docker-image-name",
  "cpu": 0.1,
  "mem": 1024,
  "gpu": 1,
  "options": {"debug": false},
  "workerEnv": {"ALGORITHM_DISCONNECTED_TIMEOUT_MS": 3600000, "WORKER_ALGORITHM_PROTOCOL": "ws"},
  "algorithmEnv": {
    "AWS_ACCESS_KEY_ID": {"secretKeyRef": {"name": "s3-secret", "key": "awsKey"}},
    "S3_ENDPOINT": "10.32.10.24:9000",
    "S3_USE_HTTPS": "0"
  },
  "minHotWorkers": 0
}"""


def read(text: str):
    return read_hkube(parse_document(text, "alg.json"))


def test_the_original_gpu_example_is_read_with_a_note_on_its_memory(tmp_path):
    (job,), notes = read(GPU)
    assert job.environment.image == "docker-image-name"
    assert job.resources.memory == 2**30
    assert (job.resources.cpus, job.resources.gpus) == (0.1, 1)
    assert job.env == {"S3_ENDPOINT": "10.32.10.24:9000", "S3_USE_HTTPS": "0"}
    assert str(job.secrets["AWS_ACCESS_KEY_ID"]) == "(secret: s3-secret/awsKey)"
    assert notes[0].startswith("alg.json:5:3: mem: 1024 is read as 1024Mi")
    assert "without effect off HKube, and kept: options, workerEnv, minHotWorkers" in notes[1]
    (task,) = plan_tasks(job, tmp_path)
    assert task.command == ()
    assert write_hkube(job) == json.loads(GPU)


def test_hkubectls_form_is_read_too():
    text = (
        "name: my-alg\nimage: my/image\nresources: {cpu: 0.5, gpu: 0.5, mem: 1.5 Gi}\n"
        "code: {path: ./src, entryPoint: main.py}\n"
    )
    assert read_any(parse_document(text, "x")).format == "hkube"
    (job,), _ = read(text)
    assert job.environment.image == "my/image"
    assert (job.resources.cpus, job.resources.gpus) == (0.5, 0.5)
    assert job.resources.memory == int(1.5 * 2**30)


def test_a_list_of_definitions_makes_a_job_each():
    text = '[{"name": "a1", "algorithmImage": "x"}, {"name": "b1", "algorithmImage": "y"}]'
    jobs, _ = read(text)
    assert [job.name for job in jobs] == ["a1", "b1"]
    assert jobs[0].resources.cpus == 0.1
    assert jobs[0].resources.memory == 256 * 2**20


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ('"name": "A"', "alg.json:1:2: name: 'A': algorithm name must contain only lower-case"),
        ('"name": "a"', "2 to 32 characters"),
        ('"name": "' + "a" * 33 + '"', "2 to 32 characters"),
        ('"cpu": "500m"', "cpu: '500m': expected a number of at least 0 (HKube takes cores"),
        ('"cpu": -1', "cpu: -1: expected a number of at least 0"),
        ('"mem": "1GB"', "mem: '1GB': memory unit must be one of Ki, Mi, Gi, Ti, K, M, G, T, m"),
        ('"mem": "1024"', "memory unit must be one of"),
        ('"mem": "3Mi"', "memory must be at least 4 Mi"),
        ('"gpu": "many"', "gpu: 'many': expected a number"),
        ('"minHotWorkers": 1.5', "minHotWorkers: 1.5: expected a whole number of at least 0"),
        ('"algorithmImage": "a b"', "an image's name has no blanks"),
        ('"algorithmEnv": {"A": {"valueFrom": {}}}', "algorithmEnv.A: expected one of fieldRef"),
        ('"algorithmEnv": {"A": {"secretKeyref": {}}}', "did you mean 'secretKeyRef'?"),
        ('"algorithmEnv": {"A": {}}', "expected one of fieldRef"),
        ('"algorithmEnv": {"A": [1]}', "a list is no value of a variable"),
    ],
)
def test_what_hkube_refuses_is_refused_where_it_stands(fields, message):
    base = {"name": '"name": "alg-1"', "algorithmImage": '"algorithmImage": "x"'}
    base.pop(fields.split('"')[1], None)
    with pytest.raises(RequestError) as caught:
        read("{" + ", ".join([fields, *base.values()]) + "}")
    assert message in str(caught.value)


def test_several_problems_come_together():
    with pytest.raises(RequestError) as caught:
        read('{"name": "A", "algorithmImage": "x",\n "cpu": "2x",\n "mem": "1GB"}')
    text = str(caught.value)
    assert [f"alg.json:{line}" in text for line in (1, 2, 3)] == [True] * 3


@pytest.mark.parametrize(
    ("memory", "value"),
    [("512 Mi", 2**29), ("1.5Gi", 1.5 * 2**30), ("5G", 5e9), ("5242880000m", 5242880), (64, 2**26)],
)
def test_memory_in_every_unit(memory, value):
    (job,), _ = read(json.dumps({"name": "a1", "algorithmImage": "x", "mem": memory}))
    assert job.resources.memory == int(value)


def test_a_job_of_one_task_is_an_algorithm_and_one_of_several_is_not():
    task = "{name: a, environment: {image: i}, resources: {gpus: 1}, env: {A: 1}}"
    definition = write_hkube(parse_job(f"{{name: x1, tasks: [{task}]}}"))
    assert definition["algorithmImage"] == "i"
    assert (definition["gpu"], definition["algorithmEnv"]) == (1, {"A": "1"})
    job = parse_job("{name: x1, environment: {image: i}, command: [a], secrets: {B: {env: C}}}")
    assert left_out_for_hkube(job) == ["command", "B"]
    with pytest.raises(RequestError, match="x1 has several tasks, and an algorithm is one"):
        write_hkube(parse_job(f"{{name: x1, tasks: [{task}, {task.replace('a,', 'b,')}]}}"))


def test_unknown_keys_are_kept_and_reported():
    (job,), notes = read('{"name": "a1", "algorithmImage": "x", "algorithmEnvs": {"A": 1}}')
    assert notes == [
        "alg.json:1:39: algorithmEnvs is no field of HKube's, and is kept; did you mean "
        "'algorithmEnv'?"
    ]
    assert write_hkube(job)["algorithmEnvs"] == {"A": 1}


SAMPLES = Path(__file__).parents[3] / "shared" / "samples" / "hkube"


@pytest.mark.skipif(not SAMPLES.exists(), reason="the public samples are not beside the repository")
@pytest.mark.parametrize("name", ["algorithms.json", "gpu-alg.json"])
def test_published_files_are_read_and_given_back(name):
    text = (SAMPLES / name).read_text()
    jobs, _ = read_hkube(parse_document(text, name))
    value = json.loads(text)
    assert [write_hkube(job) for job in jobs] == (value if isinstance(value, list) else [value])


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["secretKeyRef", "name", "key", "A"]), inner, max_size=3)
    ),
    max_leaves=8,
)
FIELDS = [
    "name",
    "algorithmImage",
    "cpu",
    "mem",
    "gpu",
    "algorithmEnv",
    "workerEnv",
    "minHotWorkers",
]


@given(st.dictionaries(st.sampled_from([*FIELDS, "resources", "x"]), VALUES))
def test_any_definition_is_a_job_or_a_designed_error(value):
    try:
        jobs, _ = read(json.dumps(value))
    except RequestError:
        return
    assert write_hkube(jobs[0]).keys() == value.keys()


def test_the_command_line_says_which_secret_is_missing_and_takes_its_place(tmp_path):
    (tmp_path / "alg.json").write_text(GPU)

    def tarmac(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "tarmac", *arguments],
            check=False,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            env=os.environ | {"MY_KEY": "hunter2hunter2"},
        )

    done = tarmac("run", "alg.json", "--fake-gpus", "1")
    assert done.returncode == 2
    assert "secret for AWS_ACCESS_KEY_ID: nothing says where s3-secret/awsKey is" in done.stderr
    plan = tarmac("run", "alg.json", "--dry-run")
    assert plan.returncode == 0, plan.stderr
    assert "AWS_ACCESS_KEY_ID=(secret: s3-secret/awsKey)" in plan.stdout
    wrong = tarmac("run", "alg.json", "--secret", "s3-secret/awsKey=hunter2hunter2")
    assert wrong.returncode == 2
    assert "hunter2" not in wrong.stderr
    there = tarmac("convert", "alg.json")
    assert "image: docker-image-name" in there.stdout
    (tmp_path / "job.yaml").write_text(there.stdout)
    back = tarmac("convert", "job.yaml", "--to", "hkube")
    assert json.loads(back.stdout) == json.loads(GPU)


def test_braces_in_a_value_are_no_placeholder(tmp_path):
    text = '{"name": "alg", "algorithmImage": "i", "algorithmEnv": {"T": "{{ x }}"}}'
    ((job,), _) = read_hkube(parse_document(text, "alg.json"))
    (task,) = plan_tasks(job, tmp_path)
    assert task.env["T"] == "{{ x }}"
