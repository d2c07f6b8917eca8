"""Every property of the published schemas is known, and files are checked by them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tarmac import formats
from tarmac.documents import parse_document
from tarmac.errors import RequestError
from tarmac.formats import read_shipyard
from tarmac.formats.shipyard.reading.properties import all_properties

SCHEMAS = Path(__file__).parents[3] / "shared" / "samples" / "batch-shipyard" / "schemas"


@pytest.mark.skipif(not SCHEMAS.exists(), reason="the public schemas are not beside the repository")
@pytest.mark.parametrize("name", ["config", "credentials", "pool", "jobs"])
def test_every_property_of_the_published_schemas_is_accounted_for(name):
    schema = yaml.safe_load((SCHEMAS / f"{name}.yaml").read_text())
    count = walk(schema, all_properties()[name], name)
    assert count > 60


def walk(schema, found, path) -> int:
    """Compare a schema with what is known; return how many properties there are."""
    assert found is not None, f"{path} is not known"
    assert not found.is_old, f"{path} is known as one of before 3.0"
    kind = schema.get("type", "seq" if "sequence" in schema else None)
    if kind == "map":
        assert found.kind == "map", path
        count = 0
        for key, part in schema["mapping"].items():
            child = found.wildcard if key.startswith("regex;") else found.children.get(key)
            count += 1 + walk(part, child, f"{path}.{key}")
            if not key.startswith("regex;"):
                # The schema does not require what merging may bring; a jobs file alone will do.
                required = part.get("required", False)
                assert child.required == required or path.count(".") == 0, f"{path}.{key}"
        return count
    if kind == "seq":
        assert found.kind == "list", path
        pairs = zip(schema["sequence"], found.items, strict=True)
        return sum(walk(part, item, f"{path}[]") for part, item in pairs)
    # Variables of a merge task are texts in the schema, and texts or numbers everywhere else.
    wider = {"str": ("secret", "text"), "text": ("secret",)}
    assert found.kind == kind or found.kind in wider.get(kind, ()), path
    assert sorted(schema.get("enum", ())) == sorted(found.choices), path
    limits = schema.get("range", {})
    assert found.low == limits.get("min", float("-inf")), path
    assert found.high == limits.get("max", float("inf")), path
    return 0


def test_every_property_without_a_reason_is_read_somewhere():
    package = Path(formats.__file__).parent / "shipyard"
    source = "".join(path.read_text() for path in package.rglob("*.py"))
    unread = {name for file in all_properties().values() for name in honoured(file, source)}
    assert unread == set()


def honoured(found, source, name: str = "") -> list[str]:
    """Return the names that are said to be honoured, and that no module names."""
    parts = [*found.children.items(), *((name, item) for item in found.items)]
    if found.wildcard is not None:
        parts.append((name, found.wildcard))
    if parts:
        return [lost for key, part in parts for lost in honoured(part, source, key)]
    return [] if found.reason or found.kind == "any" or f'"{name}"' in source else [name]


def check(text: str) -> str:
    with pytest.raises(RequestError) as caught:
        read_shipyard([parse_document(text, "jobs.yaml")])
    return str(caught.value)


TASK = "job_specifications:\n- id: a\n  tasks:\n  - docker_image: x\n"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("comand: x", "5:5: job_specifications[0].tasks[0].comand: unknown property"),
        ("comand: x", "did you mean 'command'?"),
        ("command: 1", "command: 1: expected a text\n  quote it: '1'"),
        ("command: true", "command: true: expected a text\n  quote it: 'true'"),
        ("gpus: true", "gpus: true: expected a text or a number\n  write all, disable, a number"),
        ("max_wall_time: 3600", "3600: expected a text\n  write it as [d.]HH:mm:ss"),
        ("comand: x\n    singularity_image: y", "both are given"),
        ("resource_files: [{file_path: a, file_mode: 7}]", "blob_source is missing"),
        ("depends_on: a", "depends_on: 'a': expected a list"),
        ("depends_on: [1]", "depends_on[0]: 1: expected a text"),
        ("depends_on: [null]", "depends_on[0]: is empty"),
        ("depends_on: [null, 1]", "depends_on[1]: 1: expected a text"),
        ("max_task_retries: '1'", "max_task_retries: '1': expected a whole number"),
        ("environment_variables: [a]", "environment_variables: expected names and their values"),
        ("environment_variables: {A: true}", "A: true: expected a text or a number"),
        ("default_working_dir: bach", "'bach': expected one of batch, container"),
        ("default_working_dir: bach", "did you mean 'batch'?"),
        ("resource_files: [{file_path: a}]", "resource_files[0]: blob_source is missing"),
        ("infiniband: maybe", "'maybe': expected true or false"),
        ("infiniband: 'yes'", "'yes': expected true or false"),
    ],
)
def test_what_the_schema_refuses_is_refused_where_it_stands(line, message):
    assert message in check(f"{TASK}    {line}\n")


def test_several_problems_come_together_in_the_order_of_the_file():
    text = check(f"{TASK}    gpus: [1]\n    comand: x\n    priority: 1\n  priorty: 2\n")
    lines = [line for line in text.splitlines() if line.startswith("jobs.yaml")]
    assert [line.split(":")[1] for line in lines] == ["5", "6", "7", "8"]


def test_a_wrong_part_is_not_also_said_to_be_missing():
    text = check("job_specifications:\n- id: a\n  tasks:\n  - docker_image: 5\n")
    assert text.count("jobs.yaml") == 1


@pytest.mark.parametrize(
    ("pool", "message"),
    [
        ("vm_count: {dedicated: -1}", "dedicated: -1: expected at least 0"),
        ("max_tasks_per_node: 0", "max_tasks_per_node: 0: expected at least 1"),
        (
            "autoscale: {scenario: {name: workday, required_sample_percentage: 101}}",
            "101: expected 0..100",
        ),
        ("vm_size: null", "vm_size is missing"),
    ],
)
def test_bounds_hold(pool, message):
    base = {"vm_size": "vm_size: a", "vm_count": "vm_count: {dedicated: 1}"}
    base.pop(pool.split(":")[0], None)
    lines = ["id: p", "vm_configuration: {}", pool, *base.values()]
    body = "".join(f"  {line}\n" for line in lines)
    assert message in check(f"pool_specification:\n{body}{TASK}")


def test_numbers_and_words_are_read_by_yaml_1_2():
    text = TASK + "    environment_variables: {A: yes, B: 012, C: 1_000, D: 1e3, E: 0o14}\n"
    (job,) = read_shipyard([parse_document(text, "jobs.yaml")]).jobs
    env = job.tasks[0].env
    assert [env[name] for name in "ABC"] == ["yes", "12", "1000"]
