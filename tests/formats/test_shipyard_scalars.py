"""Numbers, dates and other scalars without quotes, as YAML 1.2 and Batch Shipyard read them."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tarmac.documents import change_document, dump_document, parse_document
from tarmac.errors import RequestError
from tarmac.formats import read_paths, read_shipyard
from tarmac.jobs import plan_tasks


def read(text: str):
    return read_shipyard([parse_document(text, "jobs.yaml")])


def read_scalar(text: str):
    return parse_document(f"[{text}]", "x").value[0]


def task_of(text: str):
    (task,) = plan_tasks(read(text).jobs[0], Path())
    return task


def with_variable(value: str) -> str:
    return (
        "job_specifications:\n- id: j\n  tasks:\n  - docker_image: b\n"
        f"    environment_variables:\n      V: {value}\n"
    )


# As ruamel.yaml, Batch Shipyard's parser, reads them, and Python shows them.
READ = {
    ".5": "0.5",
    "-.5": "-0.5",
    "+.01": "0.01",
    ".5e+1": "5.0",
    ".5e1": ".5e1",
    "5.": "5.0",
    "1e-3": "0.001",
    "1E3": "1000.0",
    "1_000": "1000",
    "1_0.5": "10.5",
    "0o17": "15",
    "-0o17": "-15",
    "0b11": "3",
    "0x1F": "31",
    "09": "9",
    "0755": "755",
    "+1": "1",
    "-0": "0",
    ".inf": "inf",
    "-.INF": "-inf",
    ".nan": "nan",
    "12:00:00": "12:00:00",
    "190:20:30": "190:20:30",
    "yes": "yes",
    "on": "on",
    "1.2.3": "1.2.3",
    "0b2": "0b2",
    "_1": "_1",
}


@pytest.mark.parametrize(("text", "value"), READ.items())
def test_a_variable_is_what_batch_shipyard_reads(text, value):
    assert task_of(with_variable(text)).env["V"] == value


@pytest.mark.parametrize("text", READ)
def test_a_quoted_number_stays_as_it_is_written(text):
    for quoted in (f"'{text}'", f'"{text}"', f"!!str {text}", f"|-\n        {text}"):
        reading = read(with_variable(quoted))
        assert reading.jobs[0].tasks[0].env["V"] == text, quoted


def test_a_random_factory_draws_between_fractions_without_a_zero():
    text = (
        "job_specifications: [{id: j, tasks: [{docker_image: b, command: '{}', task_factory: "
        "{random: {generate: 9, seed: 1, distribution: {uniform: {a: .5, b: .75}}}}}]}]"
    )
    drawn = [float(task.command[0]) for task in plan_tasks(read(text).jobs[0], Path())]
    assert all(0.5 <= number <= 0.75 for number in drawn)


@pytest.mark.parametrize("text", ["08", "1e3", "0o17", "2001-02-03", "2001-02-03 04:05:06"])
def test_a_number_or_a_date_is_no_id(text):
    with pytest.raises(RequestError) as caught:
        read(f"job_specifications: [{{id: {text}, tasks: [{{docker_image: x}}]}}]")
    assert "jobs.yaml:1:23: job_specifications[0].id: " in str(caught.value)
    assert "quote it: " in str(caught.value)


@pytest.mark.parametrize("text", ["0x" + "f" * 5000, "0b" + "1" * 20000])
def test_a_number_of_thousands_of_digits_is_refused_with_its_place_and_without_its_digits(text):
    with pytest.raises(RequestError) as caught:
        read_shipyard([parse_document(with_variable(text), "jobs.yaml")])
    assert str(caught.value).startswith("jobs.yaml:6:10: ")
    assert text[:200] not in str(caught.value)


def test_a_number_that_is_none_is_refused_without_an_endless_bound():
    text = (
        "job_specifications: [{id: j, tasks: [{docker_image: b, command: '{}', task_factory: "
        "{random: {generate: 9, distribution: {uniform: {a: .nan, b: 1}}}}}]}]"
    )
    with pytest.raises(RequestError) as caught:
        read(text)
    assert "nan: expected a number" in str(caught.value)


@pytest.mark.parametrize(("value", "gpus"), [("2", 2), ("disable", 0), ("0o2", 2)])
def test_a_value_that_is_changed_is_not_read_again_from_the_file(tmp_path, value, gpus):
    (tmp_path / "jobs.yaml").write_text(
        "job_specifications:\n- id: j\n  tasks:\n  - docker_image: b\n    gpus: 4\n"
    )

    def change(document):
        return change_document(document, "job_specifications.0.tasks.0.gpus", value)

    ((reading, _),) = read_paths([tmp_path / "jobs.yaml"], change=change)
    assert reading.jobs[0].tasks[0].resources.gpus == gpus


@pytest.mark.parametrize(
    "text", [*READ, "null", "~", "", "no", "=", "<<", "2001-02-03", "- x", "#"]
)
def test_a_text_that_either_version_of_yaml_takes_for_something_else_is_quoted(text):
    written = dump_document([text])
    assert yaml.safe_load(written) == [text]
    plain = written.removeprefix("- ").rstrip("\n")
    assert plain.startswith(("'", '"')) or read_scalar(plain) == plain


@given(st.text("0123456789.eE+-_xob:~", max_size=6))
def test_any_text_of_a_numbers_characters_is_a_text_again_by_both_versions(text):
    written = dump_document([text])
    assert yaml.safe_load(written) == [text]
    plain = written.removeprefix("- ").rstrip("\n")
    assert plain.startswith(("'", '"')) or read_scalar(plain) == plain


@given(st.floats(allow_nan=False) | st.integers(-(10**18), 10**18))
def test_any_number_is_the_same_after_it_is_written(number):
    found = read_scalar(dump_document([number]).removeprefix("- ").rstrip("\n"))
    assert found == number
    assert math.copysign(1, found) == math.copysign(1, number)
