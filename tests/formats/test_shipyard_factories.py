"""Task factories of Batch Shipyard's, and the defects of the original that are not repeated."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.documents import parse_document
from tarmac.errors import RequestError
from tarmac.formats import read_shipyard
from tarmac.formats.shipyard.factories.template import Template
from tarmac.jobs import plan_tasks


def read(task: dict, **job):
    specification = {"id": "a", "tasks": [{"docker_image": "x", **task}], **job}
    text = json.dumps({"job_specifications": [specification]})
    return read_shipyard([parse_document(text, "jobs.json")])


def commands(factory: dict, command: str = "{}", **task) -> list[tuple[str, ...]]:
    (job,) = read({"task_factory": factory, "command": command, **task}).jobs
    return [tuple(planned.command) for planned in plan_tasks(job, Path())]


def refusal(factory: dict, command: str = "{}", **task) -> str:
    with pytest.raises(RequestError) as caught:
        read({"task_factory": factory, "command": command, **task})
    return str(caught.value)


def sweep(**kinds) -> dict:
    return {"parametric_sweep": kinds}


def test_product_counts_through_ranges_the_last_fastest():
    ranges = [{"start": 0, "stop": 3, "step": 2}, {"start": 5, "stop": 3, "step": -1}]
    found = commands(sweep(product=ranges), "run {0} {1}")
    assert found == [("run", str(a), str(b)) for a in (0, 2) for b in (5, 4)]


@pytest.mark.parametrize(
    ("factory", "rows"),
    [
        (sweep(product_iterables=["ab", ["x", "y"]]), ["a x", "a y", "b x", "b y"]),
        (sweep(zip=["abc", ["x", "y"]]), ["a x", "b y"]),
        (sweep(combinations={"iterable": ["a", "b", "c"], "length": 2}), ["a b", "a c", "b c"]),
        (
            sweep(combinations={"iterable": ["a", "b"], "length": 2, "replacement": True}),
            ["a a", "a b", "b b"],
        ),
        (sweep(permutations={"iterable": ["a", "b"], "length": 2}), ["a b", "b a"]),
        (sweep(permutations={"iterable": ["a", "b"]}), ["a b", "b a"]),
    ],
)
def test_sweeps_over_texts(factory, rows):
    assert [" ".join(found) for found in commands(factory, "{} {}")] == rows


def test_repeat_leaves_the_command_as_it_is():
    assert commands({"repeat": 3}, "echo '{0}'") == [("echo", "{0}")] * 3


DISTRIBUTIONS = {
    "uniform": ({"a": 1, "b": 2}, lambda rng: rng.uniform(1, 2)),
    "triangular": ({"low": 0, "high": 2, "mode": 1}, lambda rng: rng.triangular(0, 2, 1)),
    "beta": ({"alpha": 1, "beta": 2}, lambda rng: rng.betavariate(1, 2)),
    "exponential": ({"lambda": 2}, lambda rng: rng.expovariate(2)),
    "gamma": ({"alpha": 1, "beta": 2}, lambda rng: rng.gammavariate(1, 2)),
    "gauss": ({"mu": 0, "sigma": 1}, lambda rng: rng.gauss(0, 1)),
    "lognormal": ({"mu": 0, "sigma": 1}, lambda rng: rng.lognormvariate(0, 1)),
    "pareto": ({"alpha": 2}, lambda rng: rng.paretovariate(2)),
    "weibull": ({"alpha": 1, "beta": 2}, lambda rng: rng.weibullvariate(1, 2)),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_random_draws_what_batch_shipyard_draws_from_the_same_seed(name):
    parameters, draw = DISTRIBUTIONS[name]
    factory = {"random": {"generate": 3, "seed": 7, "distribution": {name: parameters}}}
    rng = random.Random(7)
    assert commands(factory) == [(str(draw(rng)),) for _ in range(3)]


def test_random_whole_numbers_and_a_missing_seed():
    integer = {"start": 0, "stop": 100, "step": 5}
    rng = random.Random(7)
    found = commands({"random": {"generate": 4, "seed": 7, "integer": integer}})
    assert found == [(str(rng.randrange(0, 100, 5)),) for _ in range(4)]
    task = {"task_factory": {"random": {"generate": 1, "integer": integer}}, "command": "{}"}
    assert any("no seed: 0 is used" in note for note in read(task).notes)
    assert read(task).jobs == read(task).jobs


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        ({}, "task_factory: expected one of custom, file, repeat, random, parametric_sweep"),
        ({"repeat": 0}, "task_factory.repeat: makes no task"),
        ({"repeat": 10**12}, "makes 1,000,000,000,000 tasks, more than 100,000"),
        (
            sweep(combinations={"iterable": ["x"] * 150, "length": 3, "replacement": True}),
            "makes 573,800 tasks, more than 100,000",
        ),
        ({"repeat": 10**30}, "makes far more tasks than 100,000"),
        (sweep(), "expected one of product, product_iterables, combinations, permutations, zip"),
        (sweep(product=[]), "product: makes no task: it is empty"),
        (sweep(product=[{"start": 0, "stop": 0, "step": 1}]), "product: makes no task"),
        (sweep(product=[{"start": 0, "stop": 9, "step": 0}]), "step: 0: expected another"),
        (
            sweep(product=[{"start": 0, "stop": 10**18, "step": 1}] * 2),
            "makes far more tasks than 100,000",
        ),
        (
            sweep(
                product=[
                    {"start": 0, "stop": 10**18, "step": 1},
                    {"start": 0, "stop": 0, "step": 1},
                ]
            ),
            "makes no task",
        ),
        (sweep(zip=[[], ["a"]]), "zip: makes no task"),
        (sweep(combinations={"length": 1}), "iterable is missing or empty"),
        (sweep(combinations={"iterable": ["a"]}), "length is None, expected 1 to 1000"),
        (sweep(combinations={"iterable": ["a"], "length": 2}), "combinations: makes no task"),
        (
            sweep(combinations={"iterable": ["a"] * 448, "length": 2, "replacement": True}),
            "makes 100,576 tasks, more than 100,000",
        ),
        ({"random": {"generate": 1}}, "expected integer, or a distribution: one of uniform"),
        (
            {"random": {"generate": 1, "seed": 1, "distribution": {"uniform": {"a": 1}}}},
            "distribution.uniform: expected a, b",
        ),
        (
            {"random": {"generate": 1, "seed": 1, "integer": {"start": 0, "stop": 0, "step": 1}}},
            "random.integer: nothing can be drawn: empty range",
        ),
        (
            {"random": {"generate": 1, "seed": 1, "distribution": {"exponential": {"lambda": 0}}}},
            "nothing can be drawn",
        ),
        (
            {"repeat": 1, "autogenerated_task_id": {"zfill_width": 10**9}},
            "makes ids of more than 64 characters",
        ),
        ({"file": {"task_filepath": "file_name"}}, "azure_storage is missing"),
    ],
)
def test_factories_that_make_nothing_or_too_much_are_refused(factory, message):
    assert message in refusal(factory)


def test_a_second_kind_is_said_and_the_first_taken_as_in_the_original():
    reading = read({"task_factory": {"repeat": 1, "random": {"generate": 2}}})
    assert any(
        "repeat is taken, as Batch Shipyard does, and not random" in n for n in reading.notes
    )
    assert len(reading.jobs[0].tasks) == 1


def test_a_factorys_tasks_have_ids_of_its_own_and_the_tasks_needs():
    tasks = [
        {"docker_image": "x", "id": "first"},
        {
            "docker_image": "x",
            "depends_on": ["first"],
            "task_factory": {
                "repeat": 2,
                "autogenerated_task_id": {"prefix": "rep-", "zfill_width": 0},
            },
        },
    ]
    (job,) = read({}, tasks=tasks).jobs
    assert [task.name for task in job.tasks] == ["first", "rep-0", "rep-1"]
    assert [task.needs for task in job.tasks] == [(), ("first",), ("first",)]
    assert "makes the ids of its tasks itself" in refusal({"repeat": 1}, id="x")


def test_a_custom_factory_is_never_run_and_what_to_do_is_said(tmp_path, monkeypatch):
    (tmp_path / "generator.py").write_text("open('ran', 'w').write('')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    reading = read({"task_factory": {"custom": {"module": "generator"}}, "command": "{}"})
    (told,) = reading.refusals
    assert "the module 'generator', but a job file runs no code: write the values under" in told
    assert not (tmp_path / "ran").exists()


def file_commands(command: str, storage=(), where=None):
    storage = {
        "storage_account_settings": "s",
        "remote_path": "box/in",
        "include": ["in/*.fa"],
        **dict(storage),
    }
    factory = {"file": {"azure_storage": storage} | ({"task_filepath": where} if where else {})}
    task = {"docker_image": "x", "task_factory": factory, "command": command}
    text = json.dumps({"job_specifications": [{"id": "a", "tasks": [task]}]})
    uris = ["az://box/in/a.fa", "az://box/in/b.txt", "az://box/in/sub/c.fa"]
    return read_shipyard([parse_document(text, "jobs.json")], list_objects=lambda _: uris)


@pytest.mark.parametrize(
    ("where", "to"),
    [
        (None, "in/a.fa"),
        ("file_name", "a.fa"),
        ("file_name_no_extension", "a"),
        ("file_path_with_container", "box/in/a.fa"),
    ],
)
def test_a_file_factory_gives_each_task_its_file(where, to):
    reading = file_commands("x {file_name} {file_path} {file_name_no_extension}", where=where)
    first, second = reading.jobs[0].tasks
    assert first.command == ("x", "a.fa", "in/a.fa", "a")
    assert second.command == ("x", "c.fa", "in/sub/c.fa", "c")
    (given,) = first.inputs
    assert (given.source, given.to) == ("az://box/in/a.fa", to)


def test_a_file_factory_without_files_and_without_a_listing_are_refusals():
    reading = file_commands("x", {"exclude": ["*"]})
    assert "az://box/in has no files that match" in reading.refusals[0]
    assert "file shares" in file_commands("x", {"is_file_share": True}).refusals[0]


# The defects of 3.9.1 that the original's users met.


def test_tasks_of_a_factory_do_not_share_their_options():
    factory = {"task_factory": {"repeat": 2}, "additional_docker_run_options": ["--cpus=2"]}
    (job,) = read(factory).jobs
    assert [task.resources.cpus for task in job.tasks] == [2, 2]
    assert [task.env["AZ_BATCH_TASK_ID"] for task in job.tasks] == ["task-00000", "task-00001"]


def test_two_tasks_may_name_the_same_volume_beside_their_jobs():
    volumes = {name: {"host_path": f"/{name}", "container_path": f"/c/{name}"} for name in "ab"}
    task = {"docker_image": "x", "data_volumes": ["b", "a"]}
    text = json.dumps(
        {
            "global_resources": {"volumes": {"data_volumes": volumes}},
            "job_specifications": [{"id": "j", "data_volumes": ["a"], "tasks": [task, task]}],
        }
    )
    (job,) = read_shipyard([parse_document(text, "all.json")]).jobs
    for made in job.tasks:
        assert [mount.source for mount in made.environment.mounts] == ["/a", "/b"]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("echo ${HOME} {}", "{HOME} names no value, the factory gives numbered values only"),
        ("echo '{\"a\": {}}'", "names no value; write a literal brace twice"),
        ("echo {", "write a literal brace twice"),
        ("echo }", "write a literal brace twice"),
        ("echo {1}", "it asks for value 1, and the factory gives 1 value, from 0"),
        ("echo {} {0}", "{} and {0} cannot be mixed"),
        ("echo {0.__class__}", "{0.__class__} names no value"),
        ("echo {0[0]}", "{0[0]} names no value"),
        ("echo {:9999999}", "is no format of a value"),
        ("echo {:d}", "'a' as {0:d}: Unknown format code 'd'"),
        ("echo {!x}", "{!x} is no form of a value"),
    ],
)
def test_a_brace_that_is_no_value_is_said_with_its_place(command, message):
    text = refusal(sweep(zip=[["a"]]), command)
    assert "jobs.json:1:" in text
    assert "job_specifications[0].tasks[0].command" in text
    assert message in text


def test_braces_written_twice_and_formats_are_as_in_the_original():
    assert commands(sweep(zip=[["a"]]), "echo '{{{0}}}' {0:>3}") == [("echo", "{a}", "a")]
    ranges = sweep(product=[{"start": 7, "stop": 8, "step": 1}])
    assert commands(ranges, "echo {0:03d} '{{}}' '{{{{ x }}}}'") == [
        ("echo", "007", "{}", "{{ x }}")
    ]


def test_documented_arguments_of_a_custom_factory_are_texts_and_refused_otherwise():
    text = refusal({"custom": {"module": "m", "input_args": [1]}})
    assert "input_args[0]: 1: expected a text\n  quote it: '1'" in text


def test_the_documented_spelling_of_an_mpi_runtime_finds_the_valid_one():
    task = {
        "command": "x",
        "multi_instance": {"num_instances": 1, "mpi": {"runtime": "intelmpi_ofa"}},
    }
    with pytest.raises(RequestError) as caught:
        read(task)
    assert "did you mean 'intelmpi-ofa'?" in str(caught.value)


def test_infiniband_of_a_job_is_said_to_have_no_effect():
    notes = read({}, infiniband=True).notes
    assert any(note.startswith("job_specifications: infiniband: without effect") for note in notes)


def test_gpus_of_a_merge_task_are_read_by_both_names():
    merge = {"docker_image": "y", "gpus": 2}
    assert read({}, merge_task=merge).jobs[0].tasks[-1].resources.gpus == 2
    merge = {"docker_image": "y", "gpu": True}
    assert read({}, merge_task=merge).jobs[0].tasks[-1].resources.gpus == 1


def test_auto_scratch_of_recipes_is_taken_in_its_older_form():
    assert any("auto_scratch: without effect" in n for n in read({}, auto_scratch=True).notes)


@given(
    st.lists(st.sampled_from(["{}", "{a}", *"a{}0:!. "]), max_size=12).map("".join),
    st.lists(st.text(max_size=3) | st.integers(), max_size=2),
)
def test_a_template_is_filled_as_str_format_does_or_refused(text, values):
    try:
        filled = Template(text).fill(values, {"a": "b"})
    except ValueError:
        return
    assert filled == text.format(*values, a="b")


def test_named_fields_of_a_template_take_no_numbers():
    assert Template("{name} {} {}").fill([5, 6], {"name": "a"}) == "a 5 6"


@given(st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=3), min_size=1, max_size=3))
def test_a_product_has_every_combination_once(lists):
    rows = [" ".join(row) for row in itertools.product(*lists)]
    found = commands(sweep(product_iterables=lists), " ".join("{}" for _ in lists))
    assert [" ".join(row) for row in found] == rows


def listed(names: list[str], command: str, prefix: str, where: str | None = None):
    storage = {"storage_account_settings": "s", "remote_path": f"box/{prefix}"}
    factory = {"file": {"azure_storage": storage} | ({"task_filepath": where} if where else {})}
    task = {"docker_image": "x", "task_factory": factory, "command": command}
    text = json.dumps({"job_specifications": [{"id": "a", "tasks": [task]}]})
    uris = [f"az://box/{name}" for name in names]
    return read_shipyard(
        [parse_document(text, "jobs.json")],
        list_objects=lambda uri: [one for one in uris if one.startswith(f"{uri}/")],
    )


def test_a_name_without_extension_ends_at_its_first_dot():
    (task,) = listed(["in/a.fastq.gz"], "x {file_name_no_extension}", "in").jobs[0].tasks
    assert task.command == ("x", "a")
    reading = listed(["in/.hidden"], "x", "in", "file_name_no_extension")
    assert "'' is no path below a task's directory" in reading.refusals[0]


def test_files_are_listed_by_what_their_names_begin_with():
    names = ["reads/a", "reads2/b", "other/c", "d"]
    tasks = listed(names, "x {file_path}", "reads").jobs[0].tasks
    assert [task.command[1] for task in tasks] == ["reads/a", "reads2/b"]
    tasks = listed(names, "x {file_path}", "").jobs[0].tasks
    assert [task.command[1] for task in tasks] == names


def test_a_files_address_with_its_signature_is_refused_with_the_reason():
    reading = listed(["in/a"], "curl {url}", "in")
    assert "{url} is a file's address with a signature in it" in reading.refusals[0]
    assert "as {file_path}" in reading.refusals[0]


def test_a_factory_of_instances_keeps_bash():
    task = {
        "multi_instance": {"num_instances": 1, "pre_execution_command": "source rc"},
        "task_factory": {"repeat": 1},
        "command": "train",
    }
    (job,) = read(task).jobs
    assert job.tasks[0].command == ("/bin/bash", "-c", "source rc && train")
