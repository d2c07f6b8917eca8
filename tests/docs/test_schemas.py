"""The schemas of files: they are the models', and say of files what reading them says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from tarmac.cli import main
from tarmac.errors import RequestError
from tarmac.jobs import parse_job

jsonschema = pytest.importorskip("jsonschema")

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
BLOCK = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)

STUDIES = ROOT / "src" / "tarmac" / "studies" / "studies"


def validator(kind: str):
    schema = json.loads((REFERENCE / f"{kind}.schema.json").read_text())
    return jsonschema.Draft202012Validator(schema)


def in_docs() -> list[tuple[str, str]]:
    """Return the YAML blocks of the docs, each with a name."""
    pages = sorted((ROOT / "docs").glob("*.md"))
    return [
        (f"{page.name}:{number}", text)
        for page in pages
        for number, text in enumerate(BLOCK.findall(page.read_text()))
    ]


def documents(kind: str) -> list[tuple[str, str]]:
    """Return the files of a kind that the project shows, each with its name."""
    marks = {"job": {"name", "command"}, "study": {"workload", "space"}}[kind]
    folder = {"job": ROOT / "examples", "study": STUDIES}[kind]
    files = [(str(path.relative_to(ROOT)), path.read_text()) for path in folder.rglob("*.yaml")]
    shown = [(name, text) for name, text in in_docs() if marks <= {*(yaml.safe_load(text) or ())}]
    return files + shown


@pytest.mark.parametrize("kind", ["job", "study", "expect", "top"])
def test_the_schema_in_the_docs_is_the_one_that_is_printed(kind, capsys):
    with pytest.raises(SystemExit):
        main(["schema", kind])
    # Versions of pydantic write numbers differently.
    assert json.loads(capsys.readouterr().out) == validator(kind).schema, (
        f"make it again: tarmac schema {kind} > docs/reference/{kind}.schema.json"
    )


@pytest.mark.parametrize("kind", ["job", "study", "expect", "top"])
def test_a_schema_is_valid_and_explains_every_key(kind):
    schema = validator(kind).schema
    assert schema["$schema"] == jsonschema.Draft202012Validator.META_SCHEMA["$schema"]
    jsonschema.Draft202012Validator.check_schema(schema)
    assert "Attributes:" not in json.dumps(schema)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        pytest.param(kind, text, id=f"{kind}-{name}")
        for kind in ("job", "study")
        for name, text in documents(kind)
    ],
)
def test_files_that_the_project_shows_fit_their_schema(kind, text):
    validator(kind).validate(yaml.safe_load(text))


JOBS = """
{name: x, command: echo hello}
{name: x, command: [echo, 1, 0.5, true]}
{name: x, command: a, environment: system, resources: {memory: 4GiB, cpus: 500m, gpus: 0.5}}
{name: x, command: a, environment: {image: ubuntu, mounts: [{source: /a, target: /b}]}}
{name: x, command: a, environment: {requirements: [numpy]}, timeout: 2h30m, retries: 3}
{name: x, command: a, retries: {count: 2, backoff: 90s, exit_codes: [1]}, env: {A: 1, B: text}}
{name: x, tasks: [{name: a, command: a}, {name: b, command: b, needs: [a]}]}
{name: x, command: a, inputs: [{from: data, to: .}], outputs: [{path: out, to: kept}]}
{name: x, command: a, sweep: {grid: {n: [1, 2]}}}
{name: x, command: a, sweep: {random: {count: 3, parameters: {lr: {low: 0.1, high: 1, log: true}}}}}
{name: x, workload: digits-mlp, settings: {hidden: 8}}
"""

WRONG_JOBS = """
{command: echo hello}
{name: x, comand: echo hello}
{name: x, command: {a: 1}}
{name: x, command: a, resources: {gpus: -1}}
{name: x, command: a, resources: {cpu: 1}}
{name: x, command: a, environment: {image: ubuntu, pull: sometimes}}
{name: x, command: a, retries: often}
{name: x, tasks: [{name: a, command: a, need: [b]}]}
[]
"""


@pytest.mark.parametrize("text", JOBS.strip().splitlines())
def test_what_is_read_as_a_job_fits_the_schema(text):
    parse_job(text)
    validator("job").validate(yaml.safe_load(text))


@pytest.mark.parametrize("text", WRONG_JOBS.strip().splitlines())
def test_what_does_not_fit_the_schema_is_not_read_as_a_job(text):
    assert not validator("job").is_valid(yaml.safe_load(text))
    with pytest.raises(RequestError):
        parse_job(text)


STUDY_SPACES = """
{hidden: 8}
{hidden: [8, 16]}
{hidden: 8..64}
{activation: relu}
{dropout: {low: 0, high: 0.5, when: {hidden: 8}}}
{dropout: {choices: [0.1, 0.2], when: {hidden: [8, 16]}}}
"""


@pytest.mark.parametrize("text", STUDY_SPACES.strip().splitlines())
@pytest.mark.parametrize(
    "more", [{}, {"budget": "2h30m"}, {"budget": 90}, {"objective": "val_loss,params"}]
)
def test_what_is_read_as_a_study_fits_the_schema(text, more):
    from tarmac.studies import Request

    study = {"workload": "digits-mlp", "space": yaml.safe_load(text), **more}
    Request.model_validate(study)
    validator("study").validate(study)


@pytest.mark.parametrize(
    "wrong",
    [{"prune": ["halving"]}, {"space": {"hidden": []}}, {"objectives": "params"}, {"budget": [1]}],
    ids=str,
)
def test_what_does_not_fit_the_schema_is_not_read_as_a_study(wrong):
    from pydantic import ValidationError

    from tarmac.studies import Request

    study = {"workload": "digits-mlp", **wrong}
    assert not validator("study").is_valid(study)
    with pytest.raises(ValidationError):
        Request.model_validate(study)
