"""Reading job files: what they may say, and how a mistake is shown."""

from __future__ import annotations

import contextlib
import json
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.errors import RequestError
from tarmac.jobs._document import parse_document
from tarmac.jobs._job import Job
from tarmac.jobs._placeholders import escape, fill
from tarmac.jobs._plan import plan_tasks
from tarmac.jobs._quantities import parse_bytes, parse_cpus, parse_seconds
from tarmac.jobs._read import parse_job, read_job

WHOLE = """
name: mnist
environment: {python: "3.11", requirements: [torch==2.13.0]}
resources: {cpus: 2, memory: 4GiB, gpus: 1}
env: {SEED: 1, DEBUG: true}
secrets:
  TOKEN: {env: MY_TOKEN}
timeout: 2h
retries: 2
tasks:
  - name: fetch
    command: [curl, -O, "https://example.org/x"]
    resources: {cpus: 500m}
    outputs: [{path: x, to: /data, when: always}]
  - name: train
    needs: [fetch]
    command: python train.py --lr {{ lr }} --seed {{ seed }}
    env: {SEED: "{{ seed }}"}
    inputs: [{from: /data/x, to: data/x}]
    sweep: {grid: {lr: [0.1, 0.01], seed: [0, 1, 2]}}
after_all:
  name: report
  command: [echo, done]
"""


def message(text: str) -> str:
    with pytest.raises(RequestError) as caught:
        parse_job(textwrap.dedent(text), "job.yaml")
    return str(caught.value)


def test_a_job_is_read_and_expanded(tmp_path):
    job = parse_job(WHOLE)
    tasks = [*plan_tasks(job, tmp_path)]
    assert [task.name for task in tasks][:3] == [
        "fetch",
        "train[lr=0.1,seed=0]",
        "train[lr=0.1,seed=1]",
    ]
    assert len(tasks) == 8
    fetch, train, *_, report = tasks
    assert fetch.resources.cpus == 0.5
    assert fetch.resources.memory is None
    assert fetch.timeout_s == 7200
    assert train.resources.memory == 4 * 2**30
    assert train.command == ("sh", "-c", "python train.py --lr 0.1 --seed 0")
    assert train.env == {"SEED": "0", "DEBUG": "true"}
    assert str(train.secrets["TOKEN"]) == "(secret: variable MY_TOKEN)"
    assert train.needs == ("fetch",)
    assert report.is_last
    assert report.retries.count == 2


def test_json_is_yaml_too(tmp_path):
    path = tmp_path / "job.json"
    path.write_text('{"name": "x", "command": ["echo", "hi"]}')
    (task,) = plan_tasks(read_job(path), tmp_path)
    assert task.command == ("echo", "hi")


def test_a_workload_becomes_a_line_of_tarmac_train(tmp_path):
    job = parse_job(
        "{name: x, workload: digits-mlp, settings: {hidden: '{{ h }}'}, sweep: {grid: {h: [8]}}}"
    )
    (task,) = plan_tasks(job, tmp_path)
    assert task.command[1:] == ("-m", "tarmac", "train", "digits-mlp", "--set", "hidden=8")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: x\ncommand: [a\n", "job.yaml:3:1: "),
        ("name: x\nname: y\n", "job.yaml:2:1: 'name' is there twice"),
        ("", "job.yaml: is empty"),
        ("name: x\ncomand: echo\n", "job.yaml:2:1: comand: unknown key\n  did you mean 'command'?"),
        ("name: x\n", "job.yaml:1:1: expected one of command and workload"),
        ("command: echo\n", "job.yaml:1:1: name: is missing"),
        (
            "name: x\ncommand: echo\nresources: {memory: lots}\n",
            "job.yaml:3:13: resources.memory: 'lots': expected an amount of memory",
        ),
        (
            "name: x\ntasks:\n  - name: a\n    command: b\n    resources:\n      gpu: 1\n",
            "job.yaml:6:7: tasks[0].resources.gpu: unknown key\n  did you mean 'gpus'?",
        ),
        ("name: x\ncommand: echo\nresources: {gpus: 1.5}", "expected a whole number of GPUs"),
        ("name: a/b\ncommand: echo", "job.yaml:1:1: name: 'a/b': a name has letters"),
        (
            'name: x\ncommand: [a]\ninputs: [{from: "run:../x"}]\n',
            "run:../x leads out of the run's directory",
        ),
        (
            "name: x\ncommand: echo\noutputs: [{path: ../x, to: /y}]",
            "path below the task's directory",
        ),
        (
            "name: x\ncommand: echo\noutputs: [{path: /etc, to: /y}]",
            "path below the task's directory",
        ),
        ("name: x\ncommand: echo\nsecrets: {A: {env: B, file: C}}", "expected one of env, file"),
        ("name: x\ncommand: echo\nenv: {1A: b}", "'1A' is no name of an environment variable"),
        (
            "name: x\ncommand: echo\nenvironment: {images: y}",
            "expected system, or a mapping with image",
        ),
        (
            "name: x\ncommand: echo\nsweep: {zip: {a: [1], b: [1, 2]}}",
            "different lengths: a 1, b 2",
        ),
        ("name: x\ncommand: echo\nsweep: {grid: {a: []}}", "expected a list of at least one value"),
        (
            "name: x\ncommand: echo\nsweep: {grid: {a: [1]}, list: [{a: 2}]}",
            "'a' gets its values twice",
        ),
        ("a: &a [*a]", "nested too deeply, or within itself"),
        (
            "x: !!python/object:os.system {}",
            "could not determine a constructor|the tag|unknown key",
        ),
        ("[1, 2]", "job.yaml:1:1: "),
    ],
)
def test_a_mistake_is_shown_where_it_is(text, said):
    found = message(text)
    assert any(part in found for part in said.split("|")), found


def test_several_mistakes_come_together_in_the_order_of_the_file():
    lines = message("name: x\ncomand: a\nresources: {cpus: -1, gpuss: 2}\n").splitlines()
    places = [line.split(": ")[0].strip() for line in lines if "job.yaml" in line]
    assert places == ["job.yaml:2:1", "job.yaml:3:13", "job.yaml:3:23"]


def test_aliases_of_aliases_do_not_fill_the_memory():
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    assert "more than 1,000,000 values" in message("\n".join(lines))


@pytest.mark.parametrize(
    ("needs", "said"),
    [
        ({"a": ["b"], "b": ["a"]}, "tasks need each other: a -> b -> a"),
        ({"a": ["a"]}, "tasks need each other: a -> a"),
        ({"a": ["c"], "b": []}, "unknown task that 'a' needs: 'c'"),
    ],
)
def test_an_order_that_cannot_be_is_refused(tmp_path, needs, said):
    tasks = [{"name": name, "command": "x", "needs": other} for name, other in needs.items()]
    job = Job.model_validate({"name": "x", "tasks": tasks})
    with pytest.raises(RequestError, match=said):
        [*plan_tasks(job, tmp_path)]


def test_placeholders_leave_other_braces_alone():
    text = 'awk \'{print $1}\' ${HOME} {"a": {"b": 1}} {{.Values.x}} {{ lr }} {{lr}}'
    assert fill(text, {"lr": 0.1}).endswith("{{.Values.x}} 0.1 0.1")
    with pytest.raises(RequestError, match=r"\{\{ lrr \}\} has no value") as caught:
        fill("{{ lrr }}", {"lr": 1})
    assert caught.value.hint == "Did you mean 'lr'?"


@given(st.text(alphabet="{} 'ab.", max_size=24))
def test_an_escaped_text_has_no_placeholders_and_is_filled_as_it_was(text):
    assert fill(escape(text), {}) == text


def test_braces_may_be_written_as_a_placeholder():
    assert fill("{{ '{{' }} a }} {{ a }}", {"a": 1}) == "{{ a }} 1"


def test_characters_beyond_16_bits_are_read_from_json():
    assert parse_document(json.dumps({"a": "\U0001f6eb"}), "x").value == {"a": "\U0001f6eb"}
    with pytest.raises(RequestError, match="x:1:7: half of a character is there"):
        parse_document('{"a": "\\ud800"}', "x")


def test_a_placeholder_cannot_lead_out_of_the_directory(tmp_path):
    job = parse_job(
        "{name: x, command: y, outputs: [{path: 'a/{{ p }}', to: /x}], "
        "sweep: {grid: {p: ['../..']}}}"
    )
    with pytest.raises(RequestError, match="below the task's directory"):
        [*plan_tasks(job, tmp_path)]


def test_every_kind_of_sweep(tmp_path):
    for name in ("b.txt", "a.txt"):
        (tmp_path / name).touch()
    job = parse_job(
        "{name: x, command: 'echo {{ a }} {{ b }} {{ f }} {{ repeat }}', "
        "sweep: {grid: {a: [1, 2]}, zip: {b: [3, 4], c: [5, 6]}, files: {f: '*.txt'}, repeat: 2}}"
    )
    tasks = [*plan_tasks(job, tmp_path)]
    assert len(tasks) == 2 * 2 * 2 * 2
    assert job.sweep is not None
    assert job.sweep.size({"f": ["a", "b"]}) == 16
    assert tasks[1].command[-1] == f"echo 1 3 {tmp_path / 'a.txt'} 1"


def test_a_random_sweep_follows_its_seed(tmp_path):
    text = (
        "{name: x, command: 'echo {{ lr }} {{ n }} {{ o }}', sweep: {random: {count: 20, "
        "seed: SEED, parameters: {lr: {low: 1.0e-5, high: 0.1, log: true}, "
        "n: {low: 1, high: 4, integer: true}, o: [adam, sgd]}}}}"
    )

    def commands(seed: int) -> list[str]:
        job = parse_job(text.replace("SEED", str(seed)))
        return [task.command[-1] for task in plan_tasks(job, tmp_path)]

    assert commands(1) == commands(1)
    assert commands(1) != commands(2)
    for command in commands(1):
        _, lr, n, o = command.split()
        assert 1e-5 <= float(lr) <= 0.1
        assert n in "1234"
        assert o in ("adam", "sgd")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4GiB", 4 * 2**30),
        ("4Gi", 4 * 2**30),
        ("4GB", 4e9),
        ("4G", 4e9),
        ("512Mi", 2**29),
        (1024, 1024),
        ("1.5k", 1500),
        ("7", 7),
        ("7b", 7),
    ],
)
def test_amounts_of_memory(text, value):
    assert parse_bytes(text) == value


@pytest.mark.parametrize(("text", "value"), [(2, 2), ("0.5", 0.5), ("500m", 0.5), (0.25, 0.25)])
def test_numbers_of_cpus(text, value):
    assert parse_cpus(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (90, 90),
        ("90", 90),
        ("90s", 90),
        ("2h30m", 9000),
        ("12:00:00", 43200),
        ("1.12:00:00", 129600),
        ("1d 2h", 93600),
        ("250ms", 0.25),
    ],
)
def test_lengths_of_time(text, value):
    assert parse_seconds(text) == value


@pytest.mark.parametrize(
    "value", ["", "x", "4XB", "-1", 0, -1, None, True, [], "1e3", "nan", "inf"]
)
def test_what_is_no_amount_is_refused(value):
    for parse in (parse_bytes, parse_cpus):
        with pytest.raises(ValueError, match="expected"):
            parse(value)


@given(st.text())
def test_any_text_is_a_job_or_a_designed_error(text):
    with contextlib.suppress(RequestError):
        parse_job(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from([*Job.model_fields, "kind", "image", "x"]), inner, max_size=4
        )
    ),
    max_leaves=20,
)


@given(JSON)
def test_any_document_is_a_job_or_a_designed_error(value):
    with contextlib.suppress(RequestError):
        parse_job(json.dumps(value))


def test_dates_and_clocks_stay_what_they_are():
    document = parse_document("a: 2026-11-21\nb: 12:00:00\nc: 0x10\nd: yes", "x")
    assert document.value == {"a": "2026-11-21", "b": 43200, "c": 16, "d": True}
    assert document.texts["b",] == "12:00:00"
