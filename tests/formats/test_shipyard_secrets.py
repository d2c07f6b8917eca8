"""Of Batch Shipyard's credentials, and what else is secret, no message has a part."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from tarmac.errors import RequestError
from tarmac.formats import read_paths

SECRET = "hunter2hunter2"

JOBS = "job_specifications:\n- id: a\n  tasks:\n  - docker_image: x\n"

# In the place of a value, of a name, and where they break the file.
WRONG = [
    f"credentials: {{batch: {{{SECRET}: 1}}}}",
    f"credentials: {{batch: {{account_key: [{SECRET}]}}}}",
    f"credentials: {{storage: {{{SECRET}: {{}}}}}}",
    f"credentials: {{storage: {{{SECRET}: {{account: [1]}}}}}}",
    f"credentials: {{docker_registry: {{{SECRET}: {{passwrd: 1}}}}}}",
    f"credentials: {{docker_registry: {{{SECRET}: {SECRET}}}}}",
    f"credentials: [{SECRET}]",
    f"credentials: {{}}\n{SECRET}: 1",
    f"credentials:\n  batch: {{account_key: *{SECRET}}}",
    f"credentials:\n  batch: {{account_key: !{SECRET} x}}",
    f"credentials:\n  batch: {{account_key: !!int {SECRET}}}",
    f"credentials:\n  batch: {{&{SECRET} account_key: [}}",
    f'"credentials": {{"batch": {{"{SECRET}": 1, "{SECRET}": 2}}}}',
    f"credentials:\n  batch: {{account_key: '{SECRET}}}",
]


def said(*paths: Path) -> str:
    with pytest.raises(RequestError) as caught:
        read_paths(paths)
    return f"{caught.value}"


@pytest.mark.parametrize(
    ("text", "name"), [*itertools.product(WRONG, ["credentials.yaml", "creds.yaml", "my keys.yml"])]
)
def test_credentials_that_are_wrong_are_shown_by_their_place_only(tmp_path, text, name):
    (tmp_path / "jobs.yaml").write_text(JOBS)
    (tmp_path / name).write_text(text)
    message = said(tmp_path / name, tmp_path / "jobs.yaml")
    assert SECRET not in message
    assert f"{name}:" in message


@pytest.mark.parametrize(
    "text", [SECRET, f"[{SECRET}]", f"{{{SECRET}: 1}}", f"batch: {{account_key: {SECRET}}}", "5"]
)
def test_a_file_of_credentials_that_holds_none_is_refused_without_what_it_holds(tmp_path, text):
    (tmp_path / "jobs.yaml").write_text(JOBS)
    (tmp_path / "credentials.yaml").write_text(text)
    for paths in ([tmp_path], [tmp_path / "credentials.yaml", tmp_path / "jobs.yaml"]):
        message = said(*paths)
        assert SECRET not in message
        assert "credentials.yaml:1:1: expected credentials:" in message


@pytest.mark.parametrize("name", ["password", "passphrase", "account_key", "auth_key"])
def test_a_secret_of_another_file_that_is_broken_is_not_shown(tmp_path, name):
    (tmp_path / "pool.yaml").write_text(f"pool_specification:\n  rdp: {{{name}: *{SECRET}}}\n")
    message = said(tmp_path / "pool.yaml")
    assert SECRET not in message
    assert "pool.yaml:2:" in message


def test_what_is_wrong_beside_credentials_is_shown_as_it_is(tmp_path):
    (tmp_path / "all.yaml").write_text(
        JOBS + f"    comand: x\ncredentials: {{batch: {{account_key: {SECRET}, x: 1}}}}\n"
    )
    message = said(tmp_path / "all.yaml")
    assert "job_specifications[0].tasks[0].comand: unknown property" in message
    assert re.search(r"all.yaml:6:\d+: credentials: unknown property", message)


@pytest.mark.parametrize("text", ["[]", "5", "x", "'x: y'"])
@pytest.mark.parametrize("name", ["pool", "config", "credentials"])
def test_a_file_beside_a_jobs_file_that_holds_no_mapping_is_refused(tmp_path, name, text):
    (tmp_path / "jobs.yaml").write_text(JOBS)
    (tmp_path / f"{name}.yaml").write_text(text)
    assert f"{name}.yaml:1:1: expected " in said(tmp_path)
