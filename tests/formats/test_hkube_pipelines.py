"""HKube's pipelines: what HKube takes is taken, what it refuses is refused, in its words."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forked import run_python
from tarmac.documents import parse_document
from tarmac.errors import RequestError
from tarmac.formats import (
    find_format,
    read_algorithm,
    read_any,
    read_paths,
    read_pipeline,
    read_the_job,
    with_input,
)
from tarmac.formats.hkube.reading import read_definition
from tarmac.jobs import parse_job

ALGORITHM = {"name": "green-alg", "algorithmImage": "green", "mem": "64Mi"}


def node(name: str, *inputs: object, **fields: object) -> dict[str, object]:
    return {"nodeName": name, "algorithmName": "green-alg", "input": [*inputs], **fields}


def pipeline(*nodes: object, **fields: object) -> dict[str, object]:
    return {"name": "p", "nodes": list(nodes), **fields}


def write(path: Path, value: object) -> Path:
    path.write_text(json.dumps(value))
    return path


def read(path: Path, *, folders: tuple[Path, ...] = ()):
    ((reading, _),) = read_paths([path], folders=folders)
    return reading


def test_what_a_pipeline_does_not_say_is_what_hkube_takes():
    read = read_pipeline(pipeline(node("a")))
    options = read.options
    assert (options.ttl, options.active_ttl, options.batch_tolerance) == (3600, None, 80)
    assert (read.priority, read.kind, read.flow_input) == (3, "batch", None)
    (first,) = read.nodes
    assert (first.retry.policy, first.retry.limit, first.ttl) == ("OnCrash", 3, None)
    assert (first.kind, first.batch_operation) == ("algorithm", "indexed")
    assert not first.include_in_result


def test_values_of_other_types_are_taken_as_hkube_does():
    read = read_pipeline(
        pipeline(
            node("a", ttl="5", includeInResult="true", retry={"limit": "2"}),
            options={"batchTolerance": "100", "ttl": None, "activeTtl": None},
            priority=True,
            flowInput="",
        )
    )
    assert (read.options.batch_tolerance, read.options.ttl, read.options.active_ttl) == (
        100,
        0,
        None,
    )
    assert (read.priority, read.flow_input) == (1, None)
    assert (read.nodes[0].ttl, read.nodes[0].retry.limit) == (5, 2)
    assert read.nodes[0].include_in_result


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": "a b"}, "1:2: name: 'a b': pipeline name must contain only alphanumeric, dash"),
        ({"name": ""}, "name: '': pipeline name must contain only"),
        ({"kind": "batches"}, "kind: 'batches': expected one of batch, stream"),
        ({"priority": 6}, "priority: 6: expected a whole number from 1 to 5"),
        ({"priority": 2.5}, "priority: 2.5: expected a whole number from 1 to 5"),
        ({"tags": ["x" * 33]}, "tags[0]"),
        ({"experimentName": "a/b"}, "experiment name must contain only alphanumeric"),
        ({"flowInput": [1]}, "flowInput: expected a mapping"),
        ({"options": {"batchTolerance": 101}}, "options.batchTolerance: 101: expected a whole"),
        ({"options": {"activeTtl": -1}}, "options.activeTtl: -1: expected a whole number of at"),
        ({"options": {"concurrentPipelines": 5}}, "options.concurrentPipelines: 5: expected a map"),
        ({"options": {"concurrentPipelines": {"amount": 0}}}, "expected a whole number from 1"),
        ({"options": {"concurrentPipelines": {"amout": 1}}}, "did you mean 'amount'?"),
        ({"options": {"progressVerbosityLevel": "all"}}, "expected one of trace, debug, info"),
        ({"options": {"debugOverride": ["b"]}}, "debugOverride node not in nodes list: 'b'"),
        ({"triggers": {"pipelines": "x"}}, "triggers.pipelines: 'x': expected a list"),
        ({"triggers": {"pipelines": [""]}}, "triggers.pipelines[0]: '': is empty"),
        ({"triggers": {"pipelines": ["x", "x"]}}, "two of the list are the same"),
        ({"triggers": {"cron": {"pattern": "bla"}}}, 'should match format "cron"'),
        ({"triggers": {"crons": {}}}, "triggers.crons: unknown key"),
        ({"webhooks": {"result": "not_a_url"}}, "webhooks.result: 'not_a_url': expected a URL"),
        ({"webhooks": {"results": "http://x"}}, "webhooks.results: unknown key"),
        ({"nodes": []}, "nodes: pipeline must have at least one node"),
        ({"nodes": [{}]}, "nodes[0].nodeName: is missing"),
        ({"nodes": [{"node_name": "a", "algorithmName": "b"}]}, "nodes[0].nodeName: is missing"),
        ({"nodes": [{"nodeName": "a"}]}, "nodes[0]: please provide algorithm name"),
        ({"nodes": [node("")]}, "nodes[0].nodeName: '': is empty"),
        ({"nodes": [node("a", algorithmName="A")]}, "algorithm name must contain only lower-case"),
        ({"nodes": [node("a", ttl=-1)]}, "nodes[0].ttl: -1: expected a whole number of at"),
        ({"nodes": [node("a", retry={"limit": 0})]}, "nodes[0].retry.limit: 0: expected a whole"),
        ({"nodes": [node("a", retry={"policy": "always"})]}, "expected one of Never, Always, OnE"),
        ({"nodes": [node("a", batchOperation="zip")]}, "expected one of indexed, cartesian"),
        ({"nodes": [node("a", kind="algorythm")]}, "nodes[0].kind: 'algorythm': expected one of"),
        ({"nodes": [node("a", input={"x": 1})]}, "nodes[0].input: expected a list"),
        ({"nodes": [node("dup"), node("dup")]}, 'nodes[1].nodeName: found duplicate node "dup"'),
        (
            {"nodes": [node("flowInput")]},
            'pipeline "p" has invalid reserved name "flowInput"',
        ),
        (
            {"nodes": [node("A"), node("B", {"x": ["@C"]})]},
            'nodes[1].input[0].x[0]: node "B" is depend on node "C" which is not exists',
        ),
        ({"nodes": [node("a", "#@b.x"), node("b", "*@a")]}, "cyclic nodes are not allowed on"),
        ({"nodes": [node("a", "@a")]}, "nodes[0].input: cyclic nodes are not allowed on batch"),
        (
            {"nodes": [node("a"), node("b")], "edges": [
                {"source": "a", "target": "b"}, {"source": "b", "target": "a"}]},
            "cyclic nodes",
        ),
        ({"nodes": [node("a", kind="pipeline")]}, "nodes[0].spec: node a must have spec with name"),
        ({"nodes": [node("a", kind="dataSource")]}, "you must provide a valid data source spec"),
        (
            {"nodes": [node("a"), node("o", "@a", kind="output"), node("q", "@a", kind="output")]},
            "nodes[2].kind: pipeline can not have more than one output",
        ),
        ({"nodes": [node("o", kind="output")]}, 'nodes[0]: node "o" should have parent nodes'),
        (
            {"nodes": [node("a"), node("o", "@a", kind="output"), node("b", "@o")]},
            'nodes[1]: node "o" should not have child nodes',
        ),
        (
            {"nodes": [node("a"), node("o", "@a", kind="output", spec={"mem": "1"})]},
            "nodes[1].spec.mem: '1': memory unit must be one of",
        ),
        ({"nodes": [node("t", kind="hyperparamsTuner")]}, "tuner node must have spec attribute"),
        (
            {"nodes": [node("t", kind="hyperparamsTuner", spec={"numberOfTrials": 1})]},
            "nodes[0].spec: spec must include hyperParams",
        ),
        (
            {"nodes": [node("t", kind="hyperparamsTuner", spec={"hyperParams": []})]},
            "nodes[0].spec.numberOfTrials: is missing",
        ),
        (
            {"name": "A-long-name-of-it", "nodes": [node("t", kind="hyperparamsTuner", spec={
                "numberOfTrials": 1, "objectivePipeline": "o", "hyperParams": []})]},
            "HKube calls the tuner 'A-long-name-of-it-hyperparamstuner', and would refuse it",
        ),
        (
            {"nodes": [node("t", kind="hyperparamsTuner", spec={"numberOfTrials": 1,
                "objectivePipeline": "o", "sampler": {"name": "Grids"}, "hyperParams": [
                {"name": "x", "suggest": "normal"}]})]},
            "hyperParams[0].suggest: 'normal': expected one of uniform",
        ),
        (
            {"kind": "stream", "nodes": [node("a"), node("b", "@a")]},
            'the "@" sign is not allowed in "stream" pipeline, please use the "streaming.flows"',
        ),
        (
            {"kind": "stream", "nodes": [node("a", minStatelessCount=1)]},
            "Nodes which are not stateType=stateless cant have minStatelessCount",
        ),
        (
            {"kind": "stream", "nodes": [
                node("a", stateType="stateless", minStatelessCount=1, maxStatelessCount=None)]},
            "maxStatelessCount must be greater or equal to minStatelessCount",
        ),
        ({"options": {"activeTtl": 0}}, "options.activeTtl: 0: expected a whole number of at lea"),
        (
            {"kind": "stream", "nodes": [
                node("a", stateType="stateless", minStatelessCount=3, maxStatelessCount=2)]},
            "maxStatelessCount must be greater or equal to minStatelessCount",
        ),
        (
            {"nodes": [node("g", kind="gateway", stateType="stateless")]},
            'Gateway node g stateType must be "stateful". Got stateless',
        ),
    ],
)  # fmt: skip
def test_what_hkube_refuses_is_refused_in_its_words_where_it_stands(fields, message):
    text = json.dumps(pipeline(node("a")) | fields)
    with pytest.raises(RequestError) as caught:
        read_any(parse_document(text, "p.json"))
    assert str(caught.value).startswith("p.json:1:")
    assert message in str(caught.value)


def test_several_problems_come_together_each_with_its_line():
    text = (
        '{"name": "p", "priority": 9,\n "nodes": [\n  {"nodeName": "a", "algorithmName": "A"},\n'
        '  {"nodeName": "b", "ttl": "x", "algorithmName": "b1"}]}'
    )
    with pytest.raises(RequestError) as caught:
        read_any(parse_document(text, "p.json"))
    lines = str(caught.value).splitlines()
    assert [line.split(":")[1] for line in lines] == ["1", "3", "4"]
    assert "nodes[1].ttl: 'x': expected a whole number of at least 0" in lines[2]


def test_a_pipeline_takes_its_algorithms_from_the_files_beside_it(tmp_path):
    write(tmp_path / "all.json", [ALGORITHM, ALGORITHM | {"name": "other"}])
    (tmp_path / "broken.json").write_text('{"algorithmImage": ')
    write(tmp_path / "wrong.json", {"name": "wrong", "algorithmImage": "x", "mem": "1GB"})
    write(tmp_path / "data.json", {"image": [1, 2]})
    reading = read(write(tmp_path / "p.json", pipeline(node("a"))))
    (job,) = reading.jobs
    assert reading.format == "hkube"
    assert not reading.refusals
    assert job.pipeline == pipeline(node("a"))
    assert [value["name"] for value in job.algorithms] == ["green-alg", "other"]
    (note,) = [note for note in reading.notes if "wrong" in note]
    assert "wrong.json:1:" in note
    assert "is left out, and needed by no node" in note


def test_a_folder_of_definitions_goes_over_what_lies_beside(tmp_path):
    folder = tmp_path / "algorithms"
    folder.mkdir()
    write(tmp_path / "green.json", ALGORITHM)
    own = {
        "tarmac": {"command": ["sh", "x.sh"], "inputs": [{"from": "x.sh"}, {"from": "http://x"}]}
    }
    write(folder / "green.json", ALGORITHM | {"algorithmImage": "new", "options": own})
    reading = read(write(tmp_path / "p.json", pipeline(node("a"))), folders=(folder,))
    (definition,) = reading.jobs[0].algorithms
    assert definition["algorithmImage"] == "new"
    # Its own files are those of its folder.
    sources = [one["from"] for one in definition["options"]["tarmac"]["inputs"]]
    assert sources == [str(folder / "x.sh"), "http://x"]


def test_definitions_that_are_given_with_a_pipeline_are_its_own_and_no_jobs(tmp_path):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    files = [
        write(folder / "green.json", ALGORITHM),
        write(tmp_path / "p.json", pipeline(node("a"))),
    ]
    ((reading, base),) = read_paths(files)
    assert [job.name for job in reading.jobs] == ["p"]
    assert (reading.jobs[0].algorithms, base) == ((ALGORITHM,), tmp_path)
    assert not reading.refusals
    # Alone they are jobs, as they always were.
    ((reading, _),) = read_paths(files[:1])
    assert [job.name for job in reading.jobs] == ["green-alg"]


def test_what_is_not_there_is_refused_at_run_time_with_its_place(tmp_path):
    nodes = [node("a", "@flowInput.x"), node("b", algorithmName="gren-alg"),
             {"nodeName": "c", "kind": "pipeline", "spec": {"name": "inner"}}]  # fmt: skip
    write(tmp_path / "green.json", ALGORITHM)
    reading = read(write(tmp_path / "p.json", pipeline(*nodes)))
    first, second, third = reading.refusals
    assert "p.json:1:" in first
    assert "nodes[1].algorithmName: algorithm gren-alg Not Found" in first
    assert "did you mean 'green-alg'?" in first
    assert "nodes[2].spec.name: pipeline inner Not Found" in second
    assert "nodes[0].input[0]: unable to find flowInput.x" in third


def test_a_definition_that_a_node_needs_and_hkube_would_refuse_is_refused(tmp_path):
    write(tmp_path / "green.json", ALGORITHM | {"mem": "1GB"})
    reading = read(write(tmp_path / "p.json", pipeline(node("a"))))
    (refusal,) = reading.refusals
    assert "green.json:1:" in refusal
    assert "mem: '1GB': memory unit must be one of" in refusal


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"kind": "stream"}, "kind: a streaming pipeline runs in a cluster only"),
        (
            {"triggers": {"pipelines": ["q"]}},
            "triggers.pipelines: in a cluster, results of other pipelines start",
        ),
        ({"triggers": {"cron": {"pattern": "0 * * * *", "enabled": True}}}, "on a schedule"),
        ({"webhooks": {"result": "http://x/y"}}, "webhooks.result: in a cluster, a service calls"),
        ({"nodes": [node("a", kind="debug")]}, "nodes[0].kind: debug: waits for a developer's"),
        ({"options": {"debugOverride": ["a"]}}, "options.debugOverride[0]: debug: waits"),
        (
            {"nodes": [{"nodeName": "d", "kind": "dataSource", "spec": {"name": "x"}}]},
            "nodes[0].kind: dataSource: takes files from a store of the cluster's",
        ),
        ({"nodes": [node("a", "@dataSource.x/y")]}, "@dataSource.x/y: takes files from a store"),
        ({"nodes": [node("a", "$$x")]}, "nodes[0].input[0]: '$$x': $$ is a key of a cluster's"),
        ({"nodes": [node("a", "#[1...9999999]")]}, "more than 1000000 elements"),
    ],
)
def test_what_only_a_cluster_can_do_is_kept_and_refused_with_its_reason(tmp_path, fields, reason):
    write(tmp_path / "green.json", ALGORITHM)
    value = pipeline(node("a")) | fields
    reading = read(write(tmp_path / "p.json", value))
    assert reason in reading.refusals[0]
    written = find_format("hkube").write(reading.jobs, tmp_path)
    assert json.loads(written.text) == value


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "stream"}, "streaming.flows: please specify a stream flow"),
        ({"kind": "stream", "streaming": {"flows": {}}}, "please specify a stream flow"),
        ({"streaming": {"flows": {"x": "a >> b"}}}, "only allowed in stream pipeline"),
        (
            {"kind": "stream", "streaming": {"flows": {"x": "a >> b", "y": "a >> b"}}},
            "please specify a default stream flow",
        ),
        ({"kind": "stream", "streaming": {"flows": {"x": ""}}}, "flows.x: invalid stream flow x"),
        ({"kind": "stream", "streaming": {"flows": {"x": "a|b"}}}, "should have valid flow, exa"),
        ({"kind": "stream", "streaming": {"flows": {"x": "a >> "}}}, "invalid node name after a"),
        ({"kind": "stream", "streaming": {"flows": {"x": "a >> Z"}}}, "invalid node Z in stream"),
        ({"kind": "stream", "streaming": {"flows": {"x": "a >> a"}}}, "relation found a >> a in"),
        (
            {"kind": "stream", "streaming": {"flows": {"x": "a >> b | a >> b"}}},
            "duplicate relation found a >> b in flow x",
        ),
        (
            {
                "kind": "stream",
                "nodes": [node("a", stateType="stateless"), node("b")],
                "streaming": {"flows": {"x": "a >> b"}},
            },
            'entry node "a" cannot be stateless on stream pipeline',
        ),
    ],
)
def test_a_stream_is_refused_in_hkubes_words_too(tmp_path, fields, message):
    write(tmp_path / "green.json", ALGORITHM)
    reading = read(write(tmp_path / "p.json", pipeline(node("a"), node("b")) | fields))
    assert any(message in refusal for refusal in reading.refusals)


def test_a_tuner_that_hkube_takes_and_that_can_draw_nothing_is_kept_and_refused_in_its_line(
    tmp_path,
):
    params = [{"name": "x", "suggest": "discrete_uniform", "low": "1", "high": 0}]
    spec = {"objectivePipeline": "p2", "numberOfTrials": "0x2", "hyperParams": params}
    tuned = pipeline({"nodeName": "t", "kind": "hyperparamsTuner", "spec": spec})
    path = write(tmp_path / "p.json", tuned)
    write(tmp_path / "other.json", {**pipeline(node("a")), "name": "p2"})
    write(tmp_path / "alg.json", ALGORITHM)
    reading = read(path)
    (said,) = reading.refusals
    assert said.startswith(f"{path}:1:")
    assert "nodes[0].spec.hyperParams[0]: x is discrete_uniform, which needs q" in said
    written = find_format("hkube").write(reading.jobs, tmp_path)
    assert json.loads(written.text) == tuned


def test_a_cron_that_is_not_enabled_keeps_nobody_from_running(tmp_path):
    write(tmp_path / "green.json", ALGORITHM)
    value = pipeline(node("a"), triggers={"cron": {"pattern": "*/5 0-6 * jan-mar mon,tue"}})
    assert not read(write(tmp_path / "p.json", value)).refusals


def test_a_stored_pipeline_is_run_by_its_name_with_what_is_different(tmp_path):
    stored = pipeline(node("a", "@flowInput.x"), flowInput={"x": 1, "y": 2}, priority=2)
    write(tmp_path / "stored.json", stored)
    write(tmp_path / "green.json", ALGORITHM)
    request = {"name": "p", "flowInput": {"x": 5}, "options": {"ttl": 60}}
    reading = read(write(tmp_path / "run.json", request))
    (job,) = reading.jobs
    assert not reading.refusals
    # The input is replaced, and not merged.
    assert job.pipeline == stored | request
    assert json.loads(find_format("hkube").write([job], tmp_path).text) == request


def test_a_stored_pipeline_that_is_not_there_is_refused_at_run_time_only(tmp_path):
    request = {"name": "p", "flowInput": {"x": 5}}
    reading = read(write(tmp_path / "run.json", request))
    assert "name: pipeline p Not Found" in reading.refusals[0]
    assert json.loads(find_format("hkube").write(reading.jobs, tmp_path).text) == request


def test_pipelines_that_nodes_name_come_with_their_algorithms(tmp_path):
    write(tmp_path / "inner.json", {"name": "inner", "nodes": [node("a", "@flowInput.x")],
                                    "flowInput": {"x": 1}})  # fmt: skip
    outer = pipeline({"nodeName": "c", "kind": "pipeline", "spec": {"name": "inner"}})
    reading = read(write(tmp_path / "p.json", outer))
    assert "inner.json:1:" in reading.refusals[0]
    assert "algorithm green-alg Not Found" in reading.refusals[0]
    write(tmp_path / "green.json", ALGORITHM)
    reading = read(tmp_path / "p.json")
    assert not reading.refusals
    assert [value["name"] for value in reading.jobs[0].algorithms] == ["inner", "green-alg"]


def test_an_algorithm_is_run_by_its_name_with_its_input(tmp_path):
    write(tmp_path / "green.json", ALGORITHM)
    request = {"name": "green-alg", "input": [{"x": 1}]}
    (job,) = read(write(tmp_path / "run.json", request)).jobs
    (only,) = read_pipeline(job.pipeline).nodes
    assert (only.name, only.algorithm_name, only.input) == ("green-alg", "green-alg", [{"x": 1}])
    assert json.loads(find_format("hkube").write([job], tmp_path).text) == request


def test_an_input_that_refers_to_a_node_is_refused_where_it_stands(tmp_path):
    text = '{"name": "green-alg",\n "input": [1,\n  "@b"]}'
    with pytest.raises(RequestError) as caught:
        read_any(parse_document(text, "run.json"))
    assert str(caught.value).startswith("run.json:3:3: nodes[0].input[1]: node")


def test_a_definition_runs_with_an_input_that_is_given():
    text = json.dumps(ALGORITHM)
    document = with_input(parse_document(text, "alg.json"), [{"x": 1}])
    reading = read_any(document)
    (job,) = reading.jobs
    assert not reading.refusals
    assert job.pipeline["nodes"][0]["input"] == [{"x": 1}]
    assert job.algorithms == (ALGORITHM,)


@pytest.mark.parametrize(
    ("given_input", "task_id"),
    [
        ([{"x": 1}], None),
        ({"input": [{"x": 1}]}, None),
        ({"input": [{"x": 1}], "taskId": "a1"}, "a1"),
        ({"name": "green-alg", "input": [{"x": 1}], "taskId": None}, None),
    ],
)
@pytest.mark.parametrize("asks", [ALGORITHM, {"name": "green-alg", "input": []}])
def test_an_algorithm_takes_its_input_in_each_form(asks, given_input, task_id):
    reading = read_any(with_input(parse_document(json.dumps(asks), "alg.json"), given_input))
    (job,) = reading.jobs
    (node,) = read_pipeline(job.pipeline).nodes
    assert (node.input, node.task_id) == ([{"x": 1}], task_id)
    assert not any("not a field of HKube's" in note for note in reading.notes)


def test_a_task_id_that_names_no_directory_is_refused_where_it_stands():
    text = '{"name": "green-alg",\n "input": [],\n "taskId": "a/b"}'
    with pytest.raises(RequestError, match=r"x.json:3:2: taskId: is 'a/b', which cannot be"):
        read_any(parse_document(text, "x.json"))


def test_a_wrong_definition_with_an_input_is_refused_with_its_own_line():
    text = '{"name": "green-alg",\n "algorithmImage": "x",\n "mem": "1GB"}'
    reading = read_any(with_input(parse_document(text, "alg.json"), []))
    assert reading.refusals[0].startswith("alg.json:3:2: [0].mem: '1GB': memory unit")


@pytest.mark.parametrize(
    ("text", "value", "message"),
    [
        (
            '{"name": "ab", "algorithmImage": "x"}',
            {"x": 1},
            "unknown key of an algorithm's input 'x'",
        ),
        ('{"name": "ab", "algorithmImage": "x"}', {"taskID": "a"}, "did you mean 'taskId'"),
        ('{"name": "ab", "algorithmImage": "x"}', 5, "an algorithm's input is a list"),
        ('{"name": "ab", "algorithmImage": "x"}', {"input": {}}, "input is not a list"),
        ('{"name": "ab", "algorithmImage": "x"}', {"taskId": 5}, "taskId is 5, expected a text"),
        ('{"name": "ab", "algorithmImage": "x"}', {"taskId": "../a"}, "be a directory's name"),
        ('{"name": "ab", "algorithmImage": "x"}', {"taskId": "a" * 300}, "taskId has 300 letters"),
        (
            '{"name": "ab", "algorithmImage": "x"}',
            {"name": "cd"},
            "is for algorithm 'cd', not 'ab'",
        ),
        ('{"name": "p", "nodes": []}', [1], "a pipeline's input, its flowInput, is a mapping"),
        ("{name: x, command: y}", [1], "holds no algorithm and no pipeline of HKube's"),
        ('[{"name": "p", "nodes": []}, {"name": "q", "nodes": []}]', {}, "holds 2 of them"),
    ],
)
def test_an_input_of_the_wrong_form_is_refused(text, value, message):
    with pytest.raises(RequestError, match=message):
        with_input(parse_document(text, "x.json"), value)


def test_a_pipeline_goes_through_a_job_file_unchanged(tmp_path):
    value = pipeline(
        node("a", {"b": [], "c": {}, "d": ["#@flowInput.x"]}, note=1, retry={"policy": "Never"}),
        flowInput={"x": [1, 2.5, None, True, "y: 1"]},
        options={"batchTolerance": "100"},
        triggers={"pipelines": ["q"]},
        modified=123,
    )
    write(tmp_path / "green.json", ALGORITHM)
    (job,) = read(write(tmp_path / "p.json", value)).jobs
    text = find_format("tarmac").write([job], tmp_path).text
    again = read_any(parse_document(text, "job.yaml"))
    assert again.format == "tarmac"
    assert again.jobs[0].algorithms == (ALGORITHM,)
    assert "results of other pipelines start it" in again.refusals[0]
    written = find_format("hkube").write(again.jobs, tmp_path)
    assert json.loads(written.text) == value
    assert written.notes == ["p: left out are 1 definitions, which HKube stores apart"]


def test_the_pipeline_of_a_job_file_is_checked_where_it_stands():
    text = "name: x\npipeline:\n  name: p\n  nodes:\n  - {nodeName: a, algorithmName: a1, ttl: x}\n"
    with pytest.raises(RequestError) as caught:
        read_any(parse_document(text, "job.yaml"))
    assert str(caught.value).startswith("job.yaml:5:38: pipeline.nodes[0].ttl: 'x': expected")


def test_a_job_with_a_pipeline_takes_nothing_of_other_jobs():
    with pytest.raises(RequestError, match="command: not allowed in a job with a pipeline"):
        parse_job("{name: x, command: y, pipeline: {name: p}}")


def test_keys_that_nobody_knows_are_said_with_the_nearest(tmp_path):
    write(tmp_path / "green.json", ALGORITHM)
    value = pipeline(node("a", batchOperations="x"), options={"batchTolerence": 5}, tags=["t"])
    notes = read(write(tmp_path / "p.json", value)).notes
    assert any("without effect off HKube, and kept: tags" in note for note in notes)
    assert any("options.batchTolerence is not a field of HKube's, and is kept; did you mean "
               "'batchTolerance'?" in note for note in notes)  # fmt: skip
    assert any("nodes[0].batchOperations is not a field" in note for note in notes)


SAMPLES = Path(__file__).parents[3] / "shared" / "samples" / "hkube"


@pytest.mark.skipif(not SAMPLES.exists(), reason="the public samples are not beside the repository")
def test_published_pipelines_are_read_and_given_back():
    reading = read(SAMPLES / "pipelines.json")
    assert [job.name for job in reading.jobs][:3] == ["simple", "batch", "for-each"]
    assert len(reading.refusals) == 2
    written = find_format("hkube").write(reading.jobs, SAMPLES)
    assert json.loads(written.text) == json.loads((SAMPLES / "pipelines.json").read_text())


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["@a", "#@a.x", "*@b", "*#@b", "@flowInput", "#[1,2...4]", "$$", "@", "#["]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "x", "ttl", "policy"]), inner, max_size=3)
    ),
    max_leaves=8,
)
KEYS = ["nodeName", "algorithmName", "input", "kind", "spec", "retry", "ttl", "stateType"]
FIELDS = ["name", "kind", "options", "flowInput", "triggers", "webhooks", "streaming", "edges"]
NODES = st.dictionaries(st.sampled_from(KEYS), VALUES) | st.builds(
    node, st.sampled_from(["a", "b"]), VALUES
)


@given(
    st.dictionaries(st.sampled_from(FIELDS), VALUES),
    st.lists(NODES, max_size=3) | VALUES,
    st.booleans(),
)
def test_any_pipeline_is_a_job_or_a_designed_error(fields, nodes, is_named):
    value = fields | ({"name": "p"} if is_named else {}) | {"nodes": nodes}
    try:
        reading = read_any(parse_document(json.dumps(value), "p.json"))
    except RequestError:
        return
    for job in reading.jobs:
        text = find_format("hkube").write([job], Path()).text
        assert json.dumps(json.loads(text)) == json.dumps(json.loads(json.dumps(value)))


@given(
    st.fixed_dictionaries({"name": VALUES}, optional={"input": VALUES, "debug": VALUES})
    | st.dictionaries(st.sampled_from([*FIELDS, "algorithmImage", "options"]), VALUES)
    | st.lists(st.just(ALGORITHM) | VALUES, max_size=3),
    st.none() | VALUES | st.lists(VALUES, max_size=2) | st.dictionaries(st.just("x"), VALUES),
)
def test_any_request_with_any_input_is_a_job_or_a_designed_error(value, given_input):
    try:
        document = with_input(parse_document(json.dumps(value), "p.json"), given_input)
        reading = read_any(document)
    except RequestError:
        return
    for job in reading.jobs:
        assert job.pipeline is not None
        find_format("hkube").write([job], Path())


def test_what_a_program_gets_to_see_is_what_a_definition_says(tmp_path):
    definition = (
        "{name: green-alg, options: {tarmac: {command: [run, 1.10, 0755, true],"
        " environment: {python: 3.10, requirements: [six]},"
        " inputs: [{from: a.py, mode: 0755}]}}}"
    )
    ((reading, _),) = read_paths([_file(tmp_path / "alone.yaml", definition)])
    (job,) = reading.jobs
    for found in (job, read_algorithm(_algorithm_of(tmp_path, definition)).job):
        assert found.command == ("run", "1.10", "0755", "true")
        assert found.environment.python == "3.10"
        assert found.inputs[0].mode == "0755"
    written = json.loads(find_format("hkube").write([job], tmp_path).text)
    assert written == parse_document(definition, "a").value


def _file(path, text):
    path.write_text(text)
    return path


def _algorithm_of(folder, definition):
    """Return a definition as a pipeline's job stores it."""
    (folder / "green.yaml").write_text(definition)
    (job,) = read(write(folder / "p.json", pipeline(node("a")))).jobs
    return job.algorithms[0]


def test_a_definition_that_many_pipelines_of_a_file_have_is_checked_once(tmp_path, monkeypatch):
    seen = []

    def count(document, path, *arguments, **options):
        seen.append(path)
        return read_definition(document, path, *arguments, **options)

    monkeypatch.setattr("tarmac.formats.hkube.pipeline_jobs.read_definition", count)
    pipelines = [{**pipeline(node("a")), "name": f"p{number}"} for number in range(30)]
    reading = read(write(tmp_path / "all.json", [*pipelines, ALGORITHM]))
    assert len(reading.jobs) == 30
    assert seen == [(30,)]


def test_the_command_line_converts_there_and_back(tmp_path):
    value = pipeline(node("a", "@flowInput.x"), flowInput={"x": 1}, webhooks={"result": "http://x"})
    write(tmp_path / "p.json", value)

    def tarmac(*arguments: str) -> subprocess.CompletedProcess[str]:
        return run_python("-m", "tarmac", *arguments, cwd=tmp_path)

    there = tarmac("convert", "p.json")
    assert there.returncode == 0, there.stderr
    assert "cannot be run here: p.json:1:" in there.stderr
    (tmp_path / "job.yaml").write_text(there.stdout)
    back = tarmac("convert", "job.yaml", "--to", "hkube")
    assert json.loads(back.stdout) == value
    run = tarmac("run", "p.json")
    assert run.returncode == 2
    assert "webhooks.result: in a cluster, a service calls it" in run.stderr


def test_of_very_many_unknown_keys_the_others_are_counted(tmp_path):
    write(tmp_path / "green.json", ALGORITHM)
    unknown = {f"zz{number}": 1 for number in range(23)}
    notes = read(write(tmp_path / "p.json", pipeline(node("a", **unknown)))).notes
    assert sum("is not a field of HKube's" in note for note in notes) == 20
    assert any("and 3 more keys are not fields of HKube's, and are kept" in note for note in notes)


def test_a_file_that_cannot_be_run_says_its_first_reason_and_hints_at_the_others(tmp_path):
    write(tmp_path / "green.json", ALGORITHM)
    value = pipeline(node("a", "@dataSource.x/y"), node("b", "@dataSource.x/z"))
    path = write(tmp_path / "p.json", value)
    with pytest.raises(RequestError) as refused:
        read_the_job(path, folders=[tmp_path])
    assert str(refused.value).startswith("cannot be run here: ")
    assert "nodes[0]" in refused.value.message
    assert "nodes[1]" in refused.value.hint


def test_a_job_is_written_with_the_names_that_its_file_has(tmp_path):
    job = parse_job("{name: x, command: y, inputs: [{from: /data, to: data}]}")
    written = find_format("tarmac").write([job], tmp_path)
    assert parse_job(written.text) == job
    assert "from: /data" in written.text
    assert "source" not in written.text
