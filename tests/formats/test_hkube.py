"""HKube's algorithm definitions: what HKube takes is taken, what it refuses is refused."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forked import run_python
from tarmac.documents import parse_document
from tarmac.errors import RequestError
from tarmac.formats import (
    left_out_for_hkube,
    notes_for_hkube,
    read_algorithm,
    read_any,
    read_hkube,
    write_hkube,
)
from tarmac.jobs import parse_job, plan_tasks, prepare

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
    assert notes[1].startswith("alg.json:1:1: gpu-alg: without effect off HKube, and kept: ")
    assert "kept: options, workerEnv, minHotWorkers" in notes[1]
    assert notes[2].startswith("alg.json: cpu and mem are what HKube sets aside")
    assert "here they are limits, by default 0.1 CPUs and 256 MiB" in notes[2]
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
        ('"algorithmEnv": {"A": [1]}', "a list cannot be the value of a variable"),
        (
            '"kaiObject": {"queue": "q", "memory": "1Gi", "fraction": 0.5}',
            'kaiObject: only one of "memory" or "fraction" can be defined',
        ),
        ('"kaiObject": {"queue": "q", "memory": "1"}', "kaiObject.memory: '1': memory unit must"),
        (
            '"sideCars": [{"container": {"name": "a", "image": "x"}},'
            ' {"container": {"name": "a", "image": "y"}}]',
            "sideCars: container names must be unique",
        ),
        (
            '"workerCustomResources": {"requests": {"memory": "1Gi"}, "limits": {}}',
            "workerCustomResources: limits.memory must be defined",
        ),
        (
            '"workerCustomResources": {"requests": {}, "limits": {"cpu": 1}}',
            "workerCustomResources: requests.cpu must be defined",
        ),
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
    with pytest.raises(
        RequestError, match="x1 has several tasks, but an algorithm is a single task"
    ):
        write_hkube(parse_job(f"{{name: x1, tasks: [{task}, {task.replace('a,', 'b,')}]}}"))


def test_unknown_keys_are_kept_and_reported():
    (job,), notes = read('{"name": "a1", "algorithmImage": "x", "algorithmEnvs": {"A": 1}}')
    assert notes[:-1] == [
        "alg.json:1:39: algorithmEnvs is not a field of HKube's, and is kept; did you mean "
        "'algorithmEnv'?"
    ]
    assert write_hkube(job)["algorithmEnvs"] == {"A": 1}


BUILT = "HKube builds this algorithm's image from its code, which is not done here"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (
            "name: mult\nenv: python\nresources: {cpu: 0.5, mem: 512Mi}\n"
            "code: {path: m.tar.gz, entryPoint: m.py}\n",
            "x.yaml:4:8: code.path",
        ),
        (
            "name: trainer\nminHotWorkers: 0\ngitRepository: {url: 'https://h/x'}\n"
            "entryPoint: main.py\n",
            "x.yaml:3:1: gitRepository",
        ),
        ("name: ab\ncpu: 1\nmem: 1Gi\ngitRepository: {url: 'https://h/x'}\n", "x.yaml:4:1: git"),
    ],
)
def test_a_definition_whose_image_hkube_builds_is_kept_and_not_run(text, place, tmp_path):
    document = parse_document(text, "x.yaml")
    (job,) = read_any(document).jobs
    (refusal,) = job.refusals
    assert refusal.startswith(place)
    assert BUILT in refusal
    assert write_hkube(job) == document.value
    with pytest.raises(RequestError, match="cannot be run here"):
        prepare(job, tmp_path)
    # A host of it would run it at once.
    with pytest.raises(RequestError, match=BUILT):
        read_algorithm(document.value)


def test_a_definition_that_hkube_builds_is_converted_back(tmp_path):
    path = tmp_path / "alg.json"
    definition = {"name": "ab", "type": "Git", "gitRepository": {"url": "https://h/x"}, "cpu": 2}
    path.write_text(json.dumps(definition))
    done = run_python("-m", "tarmac", "convert", str(path), "--to", "hkube")
    assert json.loads(done.stdout) == definition


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "ab", "cpu": 1}',
        '{"name": "ab", "minHotWorkers": 1}',
        '{"name": "ab", "minHotWorkers": 1, "gitRepository": null}',
    ],
)
def test_a_definition_without_an_image_is_refused(text):
    with pytest.raises(RequestError, match="x:1:1: algorithmImage is missing"):
        read_any(parse_document(text, "x"))


@pytest.mark.parametrize(
    "text",
    [
        "{name: a, command: x, gpu: 1}",
        "{name: a, command: x, nodes: [1]}",
        "{name: a, image: x}",
        "{name: a, tasks: [], cpu: 1}",
    ],
)
def test_a_job_file_with_a_wrong_key_is_no_definition(text):
    with pytest.raises(RequestError) as caught:
        read_any(parse_document(text, "job.yaml"))
    assert "unknown key" in str(caught.value)


def test_image_is_another_word_where_there_is_no_algorithm_image():
    (job,), notes = read('{"name": "ab", "algorithmImage": "x", "image": "y"}')
    assert job.environment.image == "x"
    assert any("image is not a field of HKube's" in note for note in notes)
    (job,), _ = read('{"name": "ab", "image": {"algorithmImage": "x"}, "minHotWorkers": 0}')
    assert job.environment.image == "x"
    assert write_hkube(job)["image"] == {"algorithmImage": "x"}


@pytest.mark.parametrize(
    ("fields", "place", "message"),
    [
        ('"gpu": 1.5', "1:42: gpu", "expected a whole number of GPUs"),
        (
            '"algorithmEnv": {"A": 1, "spark.a": "x"}',
            "1:67: algorithmEnv.spark.a",
            "not a name for an environment variable",
        ),
        (
            '"algorithmEnv": {"my-var": {"secretKeyRef": {"name": "s", "key": "k"}}}',
            "1:59: algorithmEnv.my-var",
            "not a name for an environment variable",
        ),
        ('"mem": "99999999999Ti"', "1:42: mem", "amount of memory"),
        ('"cpu": 1e30', "1:42: cpu", "number of CPUs"),
        ('"cpu": .inf', "1:42: cpu", "expected a number of at least 0"),
        ('"mem": .inf', "1:42: mem", "expected a number"),
        ('"gpu": .nan', "1:42: gpu", "expected a number of at least 0"),
        ('"minHotWorkers": .inf', "1:42: minHotWorkers", "expected a whole number"),
        ('"maxWorkers": .nan', "1:42: maxWorkers", "expected a whole number"),
        ('"cpu": "0x' + "f" * 5000 + '"', "1:42: cpu", "expected a number"),
    ],
)
def test_what_cannot_be_run_here_is_refused_where_it_stands(fields, place, message):
    with pytest.raises(RequestError) as caught:
        read('{"name": "alg-1", "algorithmImage": "x", ' + fields + "}")
    assert str(caught.value).startswith(f"alg.json:{place}: ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("field", "path"),
    [
        ('"kind": "debug"', "kind: 'debug': expected one of batch, stream"),
        ('"type": "git"', "type: 'git'"),
        ('"env": "ruby"', "env: 'ruby'"),
        ('"options": "x"', "options: 'x': expected a mapping"),
        ('"options": {"pending": "x"}', "options.pending: 'x': expected true or false"),
        ('"reservedMemory": "1"', "reservedMemory: '1': memory unit must be one of"),
        ('"labels": {"Ab": "cd"}', "labels: 'Ab'"),
        ('"annotations": {"ab": 1}', "annotations: 'ab': the value must be a text"),
        ('"mounts": [{}]', "mounts[0].pvcName: is missing"),
        ('"mounts": [{"pvcName": "ab", "path": "a b"}]', "mounts[0].path: 'a b'"),
        (
            '"mounts": [{"pvcName": "ab", "path": "/"}, {"pvcName": "ab", "path": "/"}]',
            "mounts: two of the list are the same",
        ),
        ('"volumes": [{}]', "volumes[0].name: is missing"),
        ('"volumeMounts": [{"name": "x"}]', "volumeMounts[0].mountPath: is missing"),
        ('"sideCars": [{"container": {"name": "x"}}]', "sideCars[0].container.image: is missing"),
        ('"workerCustomResources": {"requests": {"cpu": 1}}', "limits: is missing"),
        ('"kaiObject": {}', "kaiObject.queue: is missing"),
        ('"gitRepository": {"url": "x"}', "gitRepository.url: 'x': expected a URL"),
        ('"nodeSelector": "x"', "nodeSelector: 'x': expected a mapping"),
        ('"securityContext": {"fsGroup": "x"}', "securityContext.fsGroup: 'x'"),
        ('"stateType": "x"', "stateType: 'x'"),
        ('"entryPoint": []', "entryPoint: expected a text"),
        ('"mem": " 512Mi"', "mem: ' 512Mi': memory unit"),
        ('"mem": "\uff15Gi"', "memory unit"),
        ('"mem": null', "memory must be at least 4 Mi"),
        ('"cpu": "1_0"', "cpu: '1_0'"),
    ],
)
def test_fields_without_effect_are_validated_as_hkube_does(field, path):
    with pytest.raises(RequestError) as caught:
        read('{"name": "alg-1", "algorithmImage": "x", ' + field + "}")
    assert str(caught.value).startswith("alg.json:1:")
    assert path in str(caught.value)


@pytest.mark.parametrize(
    ("field", "cpus", "memory"),
    [
        ('"mem": ".5Gi"', 0.1, 2**29),
        ('"mem": "5.Gi"', 0.1, 5 * 2**30),
        ('"mem": "+5Mi"', 0.1, 5 * 2**20),
        ('"cpu": "0x10"', 16, 2**28),
        ('"cpu": true', 1, 2**28),
        ('"cpu": " 2 "', 2, 2**28),
        ('"minHotWorkers": null', 0.1, 2**28),
        ('"maxWorkers": ""', 0.1, 2**28),
        ('"labels": {"a.b/cd": "ef"}', 0.1, 2**28),
    ],
)
def test_what_hkube_takes_is_taken(field, cpus, memory):
    (job,), _ = read('{"name": "alg-1", "algorithmImage": "x", ' + field + "}")
    assert (job.resources.cpus, job.resources.memory) == (cpus, memory)


def test_scalars_are_taken_for_their_texts():
    text = (
        "{name: true, algorithmImage: 5, algorithmEnv: {A: 1.0, B: 1.10, C: 1e-7, D: yes, E: on}}"
    )
    (job,), _ = read(text)
    assert (job.name, job.environment.image) == ("true", "5")
    assert job.env == {"A": "1", "B": "1.1", "C": "1e-7", "D": "yes", "E": "on"}


def test_no_processor_at_all_is_said_to_be_read_as_some():
    (job,), notes = read('{"name": "a1", "algorithmImage": "x", "cpu": 0}')
    assert job.resources.cpus == 0.1
    assert notes[0].startswith("alg.json:1:39: cpu: 0 reserves nothing in HKube")


def test_a_changed_job_is_written_with_its_changes_and_says_so():
    definition = {
        "name": "a1",
        "algorithmImage": "x",
        "mem": "1.5 Gi",
        "minHotWorkers": 2,
        "algorithmEnv": {"A": "1", "B": "2", "POD": {"fieldRef": {"fieldPath": "x"}}},
    }
    (job,), _ = read(json.dumps(definition))
    assert notes_for_hkube(job) == []
    env = {"A": "1", "C": "3"}
    resources = job.resources.model_copy(update={"gpus": 2.0})
    changed = job.model_copy(update={"env": env, "resources": resources})
    assert write_hkube(changed) == definition | {
        "gpu": 2,
        "algorithmEnv": {"A": "1", "C": "3", "POD": {"fieldRef": {"fieldPath": "x"}}},
    }
    (note,) = notes_for_hkube(changed)
    assert note.startswith("a1: the job was changed since it was read")
    assert write_hkube(job) == definition


OWN = {
    "name": "count-words",
    "cpu": 1,
    "options": {
        "pending": False,
        "tarmac": {
            "protocol": "plain",
            "command": ["python", "x.py"],
            "inputs": [{"from": "x.py"}],
        },
    },
}


def test_a_definition_says_what_runs_on_this_machine_in_options_of_its_own():
    (job,), _ = read(json.dumps(OWN))
    assert (job.command, job.environment.kind) == (("python", "x.py"), "system")
    assert [one.source for one in job.inputs] == ["x.py"]
    assert write_hkube(job) == OWN
    changed = job.model_copy(update={"command": ("python", "y.py")})
    own = OWN["options"]["tarmac"] | {"command": ["python", "y.py"]}
    assert write_hkube(changed) == OWN | {"options": {"pending": False, "tarmac": own}}
    assert left_out_for_hkube(changed) == []
    algorithm = read_algorithm(OWN)
    assert (algorithm.protocol, algorithm.job.command) == ("plain", ("python", "x.py"))
    assert algorithm.options == {"pending": False}


def test_a_command_goes_over_the_image_and_says_so():
    own = {"command": "x", "environment": {"image": "other"}}
    (job,), _ = read(json.dumps({"name": "ab", "options": {"tarmac": own}}))
    assert (job.environment.image, job.command) == ("other", "x")
    own = {"command": "x"}
    definition = {"name": "ab", "algorithmImage": "i", "options": {"tarmac": own}}
    (job,), notes = read(json.dumps(definition))
    assert job.environment.kind == "system"
    assert "options.tarmac.command: runs on this machine, and not the image i" in notes[0]


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"protocol": "http"}, "options.tarmac.protocol: 'http': expected one of hkube, plain"),
        ({"comand": "x"}, "options.tarmac.comand: unknown key"),
        ({"command": []}, "options.tarmac: cannot be run here: command is empty"),
        ({"environment": "system"}, "command is missing, which only an image has of its own"),
        ({"environment": {"x": 1}, "command": "x"}, "options.tarmac.environment: cannot be run"),
        ({"command": "x", "inputs": [{}]}, "options.tarmac.inputs[0].from: cannot be run here"),
        ("x", "options.tarmac: 'x': expected a mapping"),
    ],
)
def test_what_is_wrong_in_options_of_its_own_is_said_where_it_stands(own, message):
    with pytest.raises(RequestError) as caught:
        read(json.dumps({"name": "ab", "options": {"tarmac": own}}))
    assert str(caught.value).startswith("alg.json:1:")
    assert message in str(caught.value)


def test_an_algorithm_is_what_a_host_obeys():
    definition = {
        "name": "a1",
        "image": "x",
        "minHotWorkers": 2,
        "maxWorkers": None,
        "workerEnv": {"A": 5, "B": {"fieldRef": {}}, "C": None},
        "env": "python",
    }
    algorithm = read_algorithm(definition)
    assert (algorithm.min_hot_workers, algorithm.max_workers) == (2, 0)
    assert (algorithm.worker_env, algorithm.env) == ({"A": "5"}, "python")
    assert (algorithm.protocol, algorithm.definition) == ("hkube", definition)
    with pytest.raises(RequestError, match=r"^algorithm a1: mem: '1': memory unit must be one of"):
        read_algorithm(definition | {"mem": "1"})


def test_a_change_goes_where_hkubectls_form_has_it():
    (job,), _ = read("{name: ab, image: x, resources: {cpu: 1, mem: 1Gi}, code: {entryPoint: m}}")
    changed = job.model_copy(
        update={"resources": job.resources.model_copy(update={"memory": 2**31})}
    )
    assert write_hkube(changed) == {
        "name": "ab",
        "image": "x",
        "resources": {"cpu": 1, "mem": "2048Mi"},
        "code": {"entryPoint": "m"},
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{name: My_Job, environment: {image: i}}", "name: 'My_Job': algorithm name must contain"),
        ("{name: " + "a" * 44 + ", environment: {image: i}}", "2 to 32 characters"),
        ("{name: ok, command: x}", "ok has no image, but HKube's algorithms are images"),
        (
            "{name: ok, environment: {image: i}, env: {A: '{{ a }}'}, sweep: {grid: {a: [1, 2]}}}",
            "ok has several tasks, but an algorithm is a single task",
        ),
        ("{name: ok, environment: {image: i j}}", "an image's name has no blanks"),
    ],
)
def test_only_what_hkube_takes_is_written(text, message):
    with pytest.raises(RequestError) as caught:
        write_hkube(parse_job(text))
    assert message in str(caught.value)


def test_what_an_algorithm_cannot_say_is_said():
    job = parse_job(
        "{name: ok, environment: {image: i, user: 5, network: host, workdir: /x, engine: docker, "
        "mounts: [{source: /a, target: /b}]}, priority: 2, timeout: 5, "
        "resources: {memory: 1MiB, shm: 1GiB, gpu_memory: 1GiB, gpus: {type: a100}}, "
        "env: {A: \"{{ '{{' }} x }}\"}}"
    )
    definition = write_hkube(job)
    assert definition["mem"] == "4Mi"
    assert definition["algorithmEnv"] == {"A": "{{ x }}"}
    lost, memory = notes_for_hkube(job)
    for name in ("user", "network", "workdir", "engine", "mounts", "priority", "timeout"):
        assert name in lost
    assert "shm" in lost
    assert "gpu_memory" in lost
    assert "gpus.type" in lost
    assert memory == "ok: mem is 4Mi, the least that HKube takes"
    (jobs, _) = read(json.dumps(definition))
    assert jobs[0].environment.image == "i"


def test_a_task_gets_what_its_job_sets():
    job = parse_job(
        "{name: ok, environment: {image: i}, env: {A: 1}, tasks: [{name: t, command: [x], "
        "env: {B: 2}, resources: {memory: 1GiB}}]}"
    )
    definition = write_hkube(job)
    assert (definition["algorithmImage"], definition["algorithmEnv"]) == ("i", {"A": "1", "B": "2"})


def test_unsaid_memory_is_said():
    (note,) = notes_for_hkube(parse_job("{name: ok, environment: {image: i}}"))
    assert note == "ok: no memory is set, so HKube uses 256Mi"


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
    assert notes_for_hkube(jobs[0]) == []


def test_the_command_line_says_which_secret_is_missing_and_takes_its_place(tmp_path):
    (tmp_path / "alg.json").write_text(GPU)

    def tarmac(*arguments: str) -> subprocess.CompletedProcess[str]:
        env = os.environ | {"MY_KEY": "hunter2hunter2"}
        return run_python("-m", "tarmac", *arguments, cwd=tmp_path, env=env)

    done = tarmac("run", "alg.json", "--fake-gpus", "1")
    assert done.returncode == 2
    assert "secret for AWS_ACCESS_KEY_ID: no source is known for s3-secret/awsKey" in done.stderr
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


def test_a_job_file_of_0_1_is_written_from_what_it_kept_and_with_its_changes():
    definition = {"name": "alg-1", "algorithmImage": "x", "mem": "1Gi", "minHotWorkers": 2}
    (job,), _ = read(json.dumps(definition))
    value = job.model_dump(mode="json", by_alias=True, exclude_unset=True)
    value["kept"] = {"hkube": value.pop("original")["hkube"]}
    old = parse_job(json.dumps(value))
    assert write_hkube(old) == definition
    assert notes_for_hkube(old) == []
    value["resources"]["cpus"] = 2
    changed = parse_job(json.dumps(value))
    assert write_hkube(changed) == definition | {"cpu": 2.0}
    assert "was changed" in notes_for_hkube(changed)[0]


def test_a_job_with_a_workload_becomes_an_algorithm_that_serves_it():
    text = (
        "{name: x1, workload: digits-mlp, settings: {hidden: 64, note: '{{ job.name }}'}, "
        "environment: {image: i}, resources: {gpus: 2}, env: {A: b}}"
    )
    job = parse_job(text)
    assert left_out_for_hkube(job) == []
    variables = write_hkube(job)["algorithmEnv"]
    assert json.loads(variables.pop("TARMAC_SETTINGS")) == {"hidden": "64", "note": "x1"}
    assert variables == {"TARMAC_WORKLOAD": "digits-mlp", "TARMAC_GPUS": "2", "A": "b"}
    plain = write_hkube(parse_job("{name: x1, workload: mnist-mlp, environment: {image: i}}"))
    assert plain["algorithmEnv"] == {"TARMAC_WORKLOAD": "mnist-mlp"}
