"""Reading job files: what they may say, and how a mistake is shown."""

from __future__ import annotations

import contextlib
import json
import textwrap

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from yaml_numbers import YAML_NUMBERS, YAML_TEXTS

from tarmac.documents import (
    change_document,
    dump_document,
    parse_bytes,
    parse_cpus,
    parse_document,
    parse_seconds,
)
from tarmac.errors import RequestError
from tarmac.jobs.reader import parse_job, read_job
from tarmac.tasks.model import Container, Job, SystemEnvironment, TaskSpec, Venv
from tarmac.tasks.placeholders import escape, fill
from tarmac.tasks.plan import plan_tasks

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


def test_options_of_executors_that_are_not_here_are_left_to_them():
    job = parse_job("{name: x, command: [echo], options: {nebula: {size: 3}}}")
    assert job.options == {"nebula": {"size": 3}}


def test_json_is_yaml_too(tmp_path):
    path = tmp_path / "job.json"
    path.write_text('{"name": "x", "command": ["echo", "hi"]}')
    (task,) = plan_tasks(read_job(path), tmp_path)
    assert task.command == ("echo", "hi")


@pytest.mark.parametrize(
    ("gpus", "given", "chosen"),
    [
        (0, ["numpy-cu==1"], "numpy==1"),
        (1, ["numpy-cu==1"], "numpy-cu==1"),
        (0.5, ["numpy-{{ kind }}==1"], "numpy-cu==1"),
        (1, [], "numpy==1"),
    ],
)
def test_a_task_that_asks_for_gpus_has_the_requirements_for_them(tmp_path, gpus, given, chosen):
    environment = {"requirements": ["numpy==1"], "gpu_requirements": given}
    job = {"name": "x", "command": ["true"], "environment": environment}
    sweep = {"grid": {"kind": ["cu"]}}
    spec = job | {"resources": {"gpus": gpus}, "sweep": sweep}
    (task,) = plan_tasks(Job.model_validate(spec), tmp_path)
    assert isinstance(task.environment, Venv)
    assert task.environment.requirements == (chosen,)
    assert task.environment.is_for_gpus is (chosen != "numpy==1")


def test_a_workload_becomes_a_line_of_tarmac_train(tmp_path):
    job = parse_job(
        "{name: x, workload: digits-mlp, settings: {hidden: '{{ h }}'}, sweep: {grid: {h: [8]}}}"
    )
    (task,) = plan_tasks(job, tmp_path)
    assert task.command[1:4] == ("-P", "-m", "tarmac")
    assert task.train_words == ("digits-mlp", "--set", "hidden=8")


def test_settings_that_every_training_has_become_its_options(tmp_path):
    job = parse_job(
        "{name: x, workload: digits-mlp, settings: {epochs: 2, hidden: 64, seed: 1, "
        "batch_size: 32, learning_rate: '{{ rate }}'}, sweep: {grid: {rate: [0.1]}}}"
    )
    (task,) = plan_tasks(job, tmp_path)
    expected = "--epochs 2 --set hidden=64 --seed 1 --batch-size 32 --lr 0.1"
    assert task.train_words[1:] == tuple(expected.split())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: x\ncommand: [a\n", "job.yaml:3:1: "),
        ("name: x\nname: y\n", "job.yaml:2:1: 'name' appears twice"),
        ("", "job.yaml: is empty"),
        ("name: x\ncomand: echo\n", "job.yaml:2:1: comand: unknown key\n  did you mean 'command'?"),
        ("name: x\n", "job.yaml:1:1: expected one of command and workload"),
        ("command: echo\n", "job.yaml:1:1: name: is missing"),
        (
            "name: x\ncommand: echo\noptions: {slurm: {partiton: gpu}}\n",
            "job.yaml:3:19: options.slurm.partiton: unknown key\n  did you mean 'partition'?",
        ),
        (
            "name: x\ntasks:\n- {name: a, command: b, options: {slurm: {sbatch: [--array=1-3]}}}\n",
            "job.yaml:3:43: tasks[0].options.slurm.sbatch: --array is set by Tarmac itself",
        ),
        (
            "name: x\ncommand: echo\noptions: {slrm: {partition: gpu}}\n",
            "job.yaml:3:11: options.slrm: unknown executor\n  did you mean 'slurm'?",
        ),
        (
            "name: x\ncommand: echo\nresources: {memory: lots}\n",
            "job.yaml:3:13: resources.memory: 'lots': expected an amount of memory",
        ),
        (
            "name: x\ntasks:\n  - name: a\n    command: b\n    resources:\n      gpu: 1\n",
            "job.yaml:6:7: tasks[0].resources.gpu: unknown key\n  did you mean 'gpus'?",
        ),
        # The names that fields have in Python are no second names in files.
        (
            "name: x\ncommand: cat h\ninputs: [{source: /etc/hosts, from: /etc/hostname, to: h}]\n",
            "job.yaml:3:11: inputs[0].source: unknown key",
        ),
        (
            "name: x\ncommand: echo\nsweep: {listed: [{lr: 1}], list: [{lr: 2}]}\n",
            "job.yaml:3:9: sweep.listed: unknown key\n  did you mean 'list'?",
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
        ('name: x\ncommand: echo\nenv: {A: "a\\0b"}', "has a zero byte, which cannot be passed"),
        ('name: x\ncommand: [echo, "\\0"]', "has a zero byte, which cannot be passed"),
        ("name: x\ncommand: echo\nenv: {1A: b}", "'1A' is not a name for an environment variable"),
        (
            "name: x\ncommand: echo\nenvironment: {requirements: [six], build_env: {1A: b}}",
            "'1A' is not a name for an environment variable",
        ),
        (
            "name: x\ncommand: echo\nenvironment: {images: y}",
            "expected system, or a mapping with image, requirements, path, file, prefix or kind",
        ),
        (
            "name: x\ncommand: echo\nsweep: {zip: {a: [1], b: [1, 2]}}",
            "different lengths: a 1, b 2",
        ),
        ("name: x\ncommand: echo\nsweep: {grid: {a: []}}", "expected a list of at least one value"),
        ("name: x\ncommand: echo\nsweep: {grid: {a: [1, ~]}}", "null is not a value; for the word"),
        ("name: x\ncommand: echo\nsweep: {list: [{a: 1}, {a: null}]}", "null is not a value"),
        (
            "name: x\ncommand: echo\nsweep: {grid: {a: [1]}, list: [{a: 2}]}",
            "'a' gets its values twice",
        ),
        ("a: &a [*a]", "nested too deeply, or within itself"),
        (
            "x: !!python/object:os.system {}",
            "could not determine a constructor|the tag|unknown key",
        ),
        ("[1, 2]", "job.yaml:1:1: is not a job, expected keys and their values"),
        ("5", "job.yaml:1:1: is not a job, expected keys and their values"),
        ("null", "job.yaml:1:1: is not a job, expected keys and their values"),
        ("a: x\nb: \x00", "job.yaml:2:4: the character #x0000 cannot be in a text"),
        ("a: \x07", "job.yaml:1:4: the character #x0007 cannot be in a text"),
        ("%YAML 1.3\n---\na: b", "job.yaml: version minor part"),
        ("a: 0x_", "job.yaml:1:4: '0x_' is not a number, a text needs quotes"),
        (f"a: 0x{'f' * 4000}", "has 4,002 digits, a text needs quotes"),
        (f"a: 0b{'1' * 20000}", "has 20,002 digits, a text needs quotes"),
        (f"a: {'9' * 5000}", "has 5,000 digits, a text needs quotes"),
        (f"%YAML 1.1\n---\na: {'1:' * 4000}59", "has 8,002 digits, a text needs quotes"),
        ("name: 5\ncommand: x", "job.yaml:1:1: name: 5: expected a text"),
        ("name: x\ntasks: 7", "job.yaml:2:1: tasks: 7: expected a list"),
        ("name: x\ncommand: {a: b}", "job.yaml:2:1: command: expected a list or a text"),
        ("name: x\nresources: 5", "job.yaml:2:1: resources: 5: expected keys and their values"),
        ("name: x\npriority: 1.5", "job.yaml:2:1: priority: 1.5: expected a whole number"),
        ("name: x\nconcurrency: 0", "job.yaml:2:1: concurrency: 0: expected at least 1"),
        (
            "name: x\nenvironment: {kind: y}",
            "job.yaml:2:1: environment: 'y' is not known, expected 'system', 'venv', 'project', "
            "'conda', 'container'",
        ),
        (
            "name: x\nenvironment: {image: y, pull: maybe}",
            "environment.pull: 'maybe': expected 'missing', 'always' or 'never'",
        ),
        (
            'name: x\ncommand: y\ninputs:\n  - {from: "https://["}',
            "job.yaml:4:6: inputs[0].from: 'https://[': is not a URL: Invalid IPv6 URL",
        ),
        ("a: &a {<<: *a}", "nested too deeply, or within itself"),
        ("a: {<<: {[b]: 1}}", "job.yaml:1:10: a key is a list or a mapping"),
        ("name: a\ncommand: {{ n }}", "A text that begins with a brace needs quotes"),
    ],
)
def test_a_mistake_is_shown_where_it_is(text, said):
    found = message(text)
    assert any(part in found for part in said.split("|")), found


def test_several_mistakes_come_together_in_the_order_of_the_file():
    lines = message("name: x\ncomand: a\nresources: {cpus: -1, gpuss: 2}\n").splitlines()
    places = [line.split(": ")[0].strip() for line in lines if "job.yaml" in line]
    assert places == ["job.yaml:2:1", "job.yaml:3:13", "job.yaml:3:23"]


def test_aliases_of_aliases_do_not_fill_the_memory(monkeypatch):
    monkeypatch.setattr("tarmac.documents.parsing.MAX_VALUES", 10_000)
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    assert "more than 10,000 values" in message("\n".join(lines))


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


def test_an_order_with_an_unknown_task_names_the_nearest(tmp_path):
    tasks = [{"name": "fetch", "command": "x"}, {"name": "b", "command": "x", "needs": ["fetc"]}]
    with pytest.raises(RequestError) as caught:
        [*plan_tasks(Job.model_validate({"name": "x", "tasks": tasks}), tmp_path)]
    assert caught.value.hint == "Did you mean 'fetch'?"


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
    with pytest.raises(RequestError, match="x:1:7: an unpaired surrogate"):
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


@pytest.mark.parametrize(
    "sweep",
    [
        "{grid: {a: [1, 1, 2]}}",
        "{list: [{a: 1}, {a: 1}, {a: 2}]}",
        "{random: {count: 9, seed: 0, parameters: {a: [1, 2]}}}",
    ],
)
def test_tasks_of_equal_values_have_names_of_their_own(sweep, tmp_path):
    tasks = plan_tasks(
        parse_job(f"{{name: x, command: 'echo {{{{ a }}}}', sweep: {sweep}}}"), tmp_path
    )
    names = [task.name for task in tasks]
    assert len(set(names)) == len(names)


def test_tasks_of_a_sweep_share_what_has_no_placeholder(tmp_path):
    one, other = plan_tasks(
        parse_job(
            "{name: x, command: [run], env: {SEED: '{{ repeat }}'}, sweep: {repeat: 2}, "
            "environment: {image: debian, workdir: ''}, inputs: [{from: /a}]}"
        ),
        tmp_path,
    )
    for shared in ("command", "environment", "inputs", "outputs"):
        assert getattr(one, shared) is getattr(other, shared)
    assert (one.env, other.env) == ({"SEED": "0"}, {"SEED": "1"})


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
    document = parse_document("a: 2026-11-21\nb: 12:00:00\nc: 0x10\nd: yes\ne: True", "x")
    assert document.value == {"a": "2026-11-21", "b": "12:00:00", "c": 16, "d": "yes", "e": True}
    assert document.texts == {("c",): "0x10", ("e",): "True"}


@pytest.mark.parametrize(("written", "value"), YAML_NUMBERS)
def test_numbers_are_read_as_yaml_1_2_says(written, value):
    document = parse_document(f"a: {written}\nb: [{written}]", "x")
    # Not a number differs from itself, and zero has two signs.
    assert repr(document.value) == repr({"a": value, "b": [value]})
    assert document.texts == {("a",): written, ("b", 0): written}


@pytest.mark.parametrize("written", YAML_TEXTS)
def test_what_only_looks_like_a_number_is_a_text(written):
    document = parse_document(f"a: {written}", "x")
    assert document.value == {"a": written.strip("'\"")}
    assert not document.texts


@pytest.mark.parametrize("written", [*YAML_TEXTS, *(text for text, _ in YAML_NUMBERS)])
def test_a_text_that_looks_like_a_number_is_written_so_that_it_stays_a_text(written):
    value = {"a": written.strip("'\""), "b": "./x", "c": 1e-5}
    text = dump_document(value)
    assert parse_document(text, "x").value == value
    assert yaml.safe_load(text) == value
    assert "b: ./x\n" in text


def test_a_url_with_a_question_mark_may_be_in_flow_style():
    text = "{blob_source: https://h/p?sv=1&sig=a%2B, b: =, c: [x?y, z]}"
    assert parse_document(text, "x").value == {
        "blob_source": "https://h/p?sv=1&sig=a%2B",
        "b": "=",
        "c": ["x?y", "z"],
    }


def test_merges_of_merges_are_gathered_once():
    lines = ["a0: &a0 {k0: 1}"]
    lines += [
        f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}, *a{n - 1}], k{n}: 1}}" for n in range(1, 40)
    ]
    value = parse_document("\n".join(lines), "x").value
    assert value["a39"] == {f"k{n}": 1 for n in range(40)}


def test_very_many_merges_are_refused(monkeypatch):
    monkeypatch.setattr("tarmac.documents.parsing.MAX_VALUES", 1000)
    # Each hides what it merges, so that few values come of many merges.
    keys = ", ".join(f"k{n}: 1" for n in range(10))
    lines = [f"m{n}: &m{n} {{{keys}}}" for n in range(20)]
    merges = ", ".join(f"*m{n}" for n in range(20))
    lines += [f"a{n}: {{<<: [{merges}]}}" for n in range(10)]
    assert "more than 1,000 values, by merges of merges" in message("\n".join(lines))


def test_what_is_merged_is_not_over_what_is_there():
    text = "b: &b {x: 1, y: 1}\nc: &c {y: 2, z: 2}\na: {<<: [*b, *c], x: 0}"
    assert parse_document(text, "x").value["a"] == {"x": 0, "y": 1, "z": 2}


def test_of_very_many_mistakes_the_first_are_shown():
    lines = message("name: x\n" + "\n".join(f"key{n}: 1" for n in range(5000))).splitlines()
    assert lines[0] == "job.yaml:2:1: key0: unknown key"
    assert lines[-1].startswith("and 4,98")
    assert len(lines) < 50


def test_a_program_gets_to_see_what_the_file_says(tmp_path):
    job = parse_job(
        textwrap.dedent(
            """
            name: x
            command: [echo, 1.10, 0755, 1e-3, True, "{{ v }}", "{{ lr }}", "{{ z }}"]
            env: {V: 1.10, M: 0755, T: 12:30, F: yes, B: true, A: 12:00:00, H: 0x1F}
            inputs: [{from: /x, mode: 0755}]
            sweep:
              grid: {v: [3.10]}
              list: [{lr: 1e-4}]
              random: {count: 1, parameters: {z: [010]}}
            environment: {python: 3.10, requirements: [a], build_env: {V: 1.0}}
            """
        )
    )
    (task,) = plan_tasks(job, tmp_path)
    assert task.command == ("echo", "1.10", "0755", "1e-3", "True", "3.10", "1e-4", "010")
    assert task.env == {
        "V": "1.10",
        "M": "0755",
        "T": "12:30",
        "F": "yes",
        "B": "true",
        "A": "12:00:00",
        "H": "0x1F",
    }
    assert task.inputs[0].mode == "0755"
    assert isinstance(task.environment, Venv)
    assert (task.environment.python, task.environment.build_env) == ("3.10", {"V": "1.0"})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "name: x\ntasks:\n  - {name: a, command: b}\n  - {name: a, command: b}",
            "job.yaml:4:6: tasks[1].name: two tasks have the name 'a'",
        ),
        (
            "name: x\ncommand: b\nafter_all: {name: x, command: b}",
            "job.yaml:3:13: after_all.name: two tasks have the name 'x'",
        ),
        (
            "name: x\ntasks:\n  - {name: train, command: b}\n"
            "  - {name: trial, command: b, needs: [trian]}",
            "job.yaml:4:39: tasks[1].needs[0]: unknown task that 'trial' needs: 'trian'\n"
            "Did you mean 'train'?",
        ),
        (
            "name: x\ntasks:\n  - {name: train, command: b, needs: [trian]}",
            "job.yaml:3:39: tasks[0].needs[0]: unknown task that 'train' needs: 'trian'",
        ),
        (
            "name: x\ntasks:\n  - {name: a, command: b, needs: [b]}\n"
            "  - {name: b, command: b, needs: [a]}",
            "job.yaml:3:35: tasks[0].needs[0]: tasks need each other: a -> b -> a",
        ),
        (
            "name: x\ncommand:\n  - echo\n  - '{{ lrr }}'\nsweep: {grid: {lr: [1]}}",
            "job.yaml:4:6: command[1]: {{ lrr }} has no value\nDid you mean 'lr'?",
        ),
        (
            "name: x\nenv: {A: '{{ lr }}'}\ntasks:\n  - {name: a, command: b}",
            "job.yaml:2:11: env.A: {{ lr }} has no value\nThere are: job.name",
        ),
        (
            "name: x\ncommand: b\ninputs: [{from: '{{ x }}'}]",
            "job.yaml:3:18: inputs[0].from: {{ x }} has no value",
        ),
        (
            "name: x\ncommand: b\nsweep: {repeat: 1000000000}",
            "job.yaml:3:1: sweep: makes 1,000,000,000 tasks, expected at most 1,000,000 in a job",
        ),
        (
            "name: x\ncommand: b\nsweep: {random: {count: 1000000000, parameters: {a: [1]}}}",
            "job.yaml:3:1: sweep: makes 1,000,000,000 tasks",
        ),
        (
            "name: x\ncommand: b\nsweep: {grid: {"
            + ", ".join(f"p{n}: [1, 2, 3, 4]" for n in range(10))
            + "}}",
            "job.yaml:3:1: sweep: makes 1,048,576 tasks",
        ),
        (
            "name: x\ntasks:\n  - {name: a, command: b, sweep: {repeat: 600000}}\n"
            "  - {name: b, command: b, sweep: {repeat: 600000}}",
            "job.yaml:4:27: tasks[1].sweep: makes 1,200,000 tasks",
        ),
    ],
)
def test_a_mistake_in_a_job_as_a_whole_is_shown_where_it_is(text, said):
    assert said in message(text)


def test_several_mistakes_in_a_job_as_a_whole_come_together():
    said = message(
        "name: x\ntasks:\n  - {name: a, command: '{{ b }}', needs: [c]}\n"
        "  - {name: a, command: '{{ d }}'}"
    )
    assert [line.split(": ")[0] for line in said.splitlines() if line.startswith("job.yaml")] == [
        "job.yaml:3:25",
        "job.yaml:3:43",
        "job.yaml:4:6",
        "job.yaml:4:25",
    ]


def test_a_variable_of_the_jobs_that_every_task_sets_itself_needs_no_value(tmp_path):
    job = parse_job(
        "{name: x, env: {A: '{{ lr }}'}, tasks: [{name: a, command: b, env: {A: c}},"
        " {name: b, command: b, sweep: {grid: {lr: [1]}}}]}"
    )
    assert [task.env for task in plan_tasks(job, tmp_path)] == [{"A": "c"}, {"A": "1"}]


def test_a_sweep_over_too_many_files_is_refused_before_it_is_expanded(tmp_path):
    for number in range(11):
        (tmp_path / f"{number}.txt").touch()
    job = parse_job(
        "{name: x, command: 'echo {{ f }}', sweep: {files: {f: '*.txt'}, repeat: 100000}}"
    )
    with pytest.raises(RequestError, match="files makes 1,100,000 tasks"):
        next(plan_tasks(job, tmp_path))


def test_a_directory_whose_name_is_a_pattern_is_taken_as_it_is(tmp_path):
    directory = tmp_path / "a[1]*"
    directory.mkdir()
    (directory / "x.txt").touch()
    job = parse_job("{name: x, command: 'echo {{ f }}', sweep: {files: {f: '*.txt'}}}")
    (task,) = plan_tasks(job, directory)
    assert task.parameters == {"f": str(directory / "x.txt")}


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("a.b", "2", {"a": {"b": 2}, "l": [{"x": 1.5}, 3]}),
        ("l.0.x", "2", {"a": {"b": 0.1}, "l": [{"x": 2}, 3]}),
        ("l.1", "[4]", {"a": {"b": 0.1}, "l": [{"x": 1.5}, [4]]}),
        ("n.m", "", {"a": {"b": 0.1}, "l": [{"x": 1.5}, 3], "n": {"m": ""}}),
    ],
)
def test_a_value_is_changed_wherever_it_is(key, text, value):
    document = parse_document("{a: {b: 0.10}, l: [{x: 1.50}, 3]}", "x")
    assert change_document(document, key, text).value == value
    assert document.value == {"a": {"b": 0.1}, "l": [{"x": 1.5}, 3]}


def test_a_changed_value_is_seen_as_it_was_given(tmp_path):
    document = parse_document("{name: x, command: b, env: {V: 1.10, W: 1.20}}", "x")
    changed = change_document(change_document(document, "env.V", "2.50"), "env.W", "{a: 1}")
    assert changed.texts == {("env", "V"): "2.50", ("env", "W", "a"): "1"}


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("l.2", "l.2: l has 2 parts, expected one's number from 0, not '2'"),
        ("l.-1", "l.-1: l has 2 parts, expected one's number from 0, not '-1'"),
        ("l.x.y", "l.x.y: l has 2 parts, expected one's number from 0, not 'x'"),
        ("a.b.c", "a.b.c: c is in no mapping and no list"),
    ],
)
def test_a_key_that_leads_nowhere_is_refused(key, said):
    document = parse_document("{a: {b: 1}, l: [1, 2]}", "x")
    with pytest.raises(RequestError) as caught:
        change_document(document, key, "5")
    assert caught.value.message == said


@pytest.mark.parametrize(
    "environment",
    [SystemEnvironment(), Venv(requirements=("a",)), Container(image="b", pull="never")],
)
def test_a_job_made_in_python_is_the_same_once_written_and_read(environment):
    task = TaskSpec(name="a", command="b", environment=environment)
    job = Job(name="x", environment=environment, tasks=(task,))
    written = job.model_dump(mode="json", by_alias=True, exclude_unset=True)
    assert Job.model_validate(written) == job
    assert written["environment"]["kind"] == environment.kind
