"""Every format keeps what all promise, and the suite that holds them to it notices who does not."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tarmac.documents import parse_document
from tarmac.formats import Format, Reading, Written, find_format
from tarmac.jobs import parse_job
from tarmac.testing.formats import FORMAT_CHECKS, FormatCase

OWN = """
name: mnist
environment: {python: "3.11", requirements: [torch==2.13.0]}
resources: {cpus: 2, memory: 4GiB, gpus: 1}
env: {SEED: 1}
secrets: {TOKEN: {env: MY_TOKEN}}
timeout: 2h
retries: {count: 2, backoff: 1s}
tasks:
  - name: fetch
    command: [curl, -O, "https://example.org/x"]
    outputs: [{path: x, to: "run:x"}]
  - name: train
    needs: [fetch]
    command: python train.py --lr {{ lr }}
    inputs: [{from: "run:x", to: data}]
    sweep: {grid: {lr: [0.1, 0.01]}}
after_all: {name: report, command: "true"}
concurrency: 2
"""
SHIPYARD = """
pool_specification:
  id: p
  vm_configuration: {}
  vm_size: STANDARD_NC6
  vm_count: {dedicated: 1}
job_specifications:
- id: train
  priority: 3
  environment_variables: {A: 1e-3}
  tasks:
  - id: first
    docker_image: my/image
    command: python train.py
    max_wall_time: 12:00:00
    max_task_retries: 2
    shm_size: 1g
    resource_files: [{file_path: a, blob_source: "https://h/p?x=1"}]
    output_data:
      azure_storage: [{storage_account_settings: s, remote_path: c/x, include: ['*.pt']}]
  - docker_image: my/image
    depends_on: [first]
    id: second
    command: echo {0}
  - docker_image: my/image
    command: echo {0}
    task_factory: {parametric_sweep: {product: [{start: 0, stop: 3, step: 1}]}}
  merge_task: {docker_image: my/image, command: echo all}
"""
HKUBE = """
name: green-alg
algorithmImage: hkube/algorithm
cpu: 0.5
mem: 512Mi
gpu: 1
minHotWorkers: 0
options: {debug: false}
algorithmEnv:
  A: 1
  B: {secretKeyRef: {name: s, key: k}}
  C: {fieldRef: {fieldPath: x}}
"""
HKUBE_PIPELINE = """
name: p
nodes:
- {nodeName: a, algorithmName: green-alg, input: ['#@flowInput.x', {y: ['@flowInput']}]}
- {nodeName: b, algorithmName: green-alg, input: ['@a'], retry: {policy: Never}, ttl: 5}
- {nodeName: t, kind: hyperparamsTuner, spec: {numberOfTrials: 2, objectivePipeline: o,
   hyperParams: [{name: x, suggest: uniform, low: 0, high: 1}]}}
- {nodeName: o, kind: output, input: ['@b', '@t']}
flowInput: {x: [1, 2]}
options: {batchTolerance: 100}
triggers: {cron: {pattern: 0 * * * *}}
streaming: {flows: {}}
edges: [{source: a, target: t}]
"""

CASES = {
    "tarmac": FormatCase(
        find_format("tarmac"),
        [
            OWN,
            "{name: x, command: [echo, hello]}",
            "{name: x, pipeline: {name: p, nodes: [{nodeName: a, algorithmName: aa}]}, "
            "algorithms: [{name: aa, algorithmImage: x}]}",
        ],
        ["name: x\ncommands: y\n", "name: x\ntasks: [{name: a, command: b, needs: [c]}]", "5"],
    ),
    "shipyard": FormatCase(
        find_format("shipyard"),
        [SHIPYARD],
        [
            "job_specifications:\n- id: j\n  taskss: []\n",
            "job_specifications:\n- id: 08\n  tasks: [{docker_image: x}]\n",
            "pool_specification: {id: x}\n",
        ],
    ),
    "hkube": FormatCase(
        find_format("hkube"),
        [
            HKUBE,
            '[{"name": "ab", "image": "x", "resources": {"cpu": 1, "mem": "1Gi"}}]',
            "{name: ab, options: {tarmac: {command: [a], protocol: plain, inputs: [{from: a}]}}}",
            HKUBE_PIPELINE,
            "{name: ab, input: [1, {x: '#[1...3]'}]}",
            "{name: p, flowInput: {x: 1}, priority: 5}",
        ],
        [
            "name: ab\nalgorithmImage: x\ncpu: many\n",
            "nodes: []\nname: p\n",
            "name: p\nflowInput: []\n",
            "name: A\ninput: []\n",
        ],
    ),
}


def test_a_job_is_written_with_the_keys_that_a_job_file_has():
    tarmac = find_format("tarmac")
    written = tarmac.write([parse_job(OWN)], Path()).text
    given = parse_document(written, "job.yaml").value["tasks"][1]["inputs"]
    assert given == [{"from": "run:x", "to": "data"}]


@pytest.mark.parametrize("check", FORMAT_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", CASES)
def test_a_format_keeps_what_all_promise(name, check):
    check(CASES[name])


def lines_read(documents, environment):
    return Reading("lines", [parse_job(f"{{name: x, command: {documents[0].value['run']}}}")])


def lines_split(documents, environment):
    return Reading(
        "lines", [parse_job(f"{{name: x, command: {documents[0].value['run'].split()}}}")]
    )


LINES = Format(
    name="lines",
    title="Lines",
    looks_like=lambda value: isinstance(value, dict) and "run" in value,
    read=lines_read,
)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"looks_like": lambda value: "run" in value}, "is not iterable"),
        ({"looks_like": lambda value: True}, "looks like lines: "),
        ({"read": lambda documents, environment: Reading("line", ())}, "the format is 'line'"),
        ({"read": lines_split}, "AttributeError: "),
        ({"write": lambda jobs, directory: Written("{run: other}")}, "became"),
    ],
)
def test_a_format_that_breaks_its_promise_is_caught(changes, said):
    case = FormatCase(dataclasses.replace(LINES, **changes), ["run: echo hello"])
    messages = []
    for check in FORMAT_CHECKS:
        try:
            check(case)
        except (AssertionError, TypeError) as error:
            messages.append(str(error))
    assert any(said in message for message in messages), messages
