"""What the pages say of the code is compared with the code."""

from __future__ import annotations

import ast
import json
import re
import runpy
import subprocess
import sys

import jsonschema
import pytest
import yaml

from doc_pages import PAGES, ROOT, blocks


def test_the_workload_in_the_docs_is_under_25_lines():
    (block,) = [
        block for block in blocks(ROOT / "docs" / "own-workload.md") if block.file == "my_model.py"
    ]
    assert len(block.text.strip().splitlines()) < 25


def test_the_readme_counts_the_known_failures():
    from tarmac.checks import read_catalogue

    page = (ROOT / "README.md").read_text()
    counted = [int(number) for number in re.findall(r"\[(\d+) known failures\]", page)]
    assert counted == [len(read_catalogue())]


def test_the_page_of_workloads_shows_every_workload():
    from tarmac.workloads import workload_names

    page = (ROOT / "docs" / "workloads.md").read_text()
    assert all(f"`{name}`" in page for name in workload_names())


def variables_read(source: str) -> set[str]:
    """Return the environment variables that a module reads, from ``environ`` or a copy of it."""
    tree = ast.parse(source)
    constants = {
        target.id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    names: set[str] = set()

    def take(node: ast.expr) -> None:
        if isinstance(node, ast.Name):
            node = constants.get(node.id, node)
        for part in ast.walk(node):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                names.update(re.findall(r"\A[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*\Z", part.value))

    def is_environment(node: ast.expr) -> bool:
        return bool(re.search(r"\b(os\.)?environ(ment)?$", ast.unparse(node)))

    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=value, attr="get" | "pop"), args=[first, *_]):
                if is_environment(value):
                    take(first)
            case ast.Subscript(value=value, slice=key) if is_environment(value):
                take(key)
            case ast.Compare(left=left, comparators=[right]) if is_environment(right):
                take(left)
    return names


def test_the_page_of_variables_lists_those_that_the_source_reads():
    page = (ROOT / "docs" / "environment.md").read_text()
    listed = {
        name
        for row in re.findall(r"^\| (`.*?) \|", page, re.MULTILINE)
        for name in re.findall(r"`([A-Z_0-9]+)`", row)
    }
    package = ROOT / "src" / "tarmac"
    # Conformance suites set variables for themselves alone.
    files = [path for path in package.rglob("*.py") if package / "testing" not in path.parents]
    sources = [path.read_text() for path in files]
    read = set().union(*map(variables_read, sources))
    assert not read - listed, "the page lacks them"
    written = "\n".join(sources)
    assert not {name for name in listed if name not in written}, "no source has them"


@pytest.mark.parametrize(("kind", "file"), [("job", "every-key.yaml"), ("study", "study.yaml")])
def test_the_annotated_files_have_every_key_and_obey_their_schema(kind, file):
    page = ROOT / "docs" / "every-key.md"
    (block,) = [block for block in blocks(page) if block.file == file]
    printed = subprocess.run(
        [sys.executable, "-m", "tarmac", "schema", kind], capture_output=True, check=True
    )
    schema = json.loads(printed.stdout)
    jsonschema.Draft202012Validator(schema).validate(yaml.safe_load(block.text))
    text = page.read_text()
    assert not {
        key for key in property_names(schema) if f"{key}:" not in text and f"`{key}`" not in text
    }


def property_names(schema: object) -> set[str]:
    if isinstance(schema, list):
        return set().union(*map(property_names, schema))
    if not isinstance(schema, dict):
        return set()
    own = schema.get("properties", {})
    return set(own).union(*map(property_names, schema.values()))


def test_the_list_of_messages_is_made_from_the_catalogue():
    made = runpy.run_path(str(ROOT / "docs" / "render_messages.py"))
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    assert page == made["render_page"](page), "make it again: python docs/render_messages.py"


def test_every_file_that_the_architecture_names_is_there():
    page = (ROOT / "docs" / "architecture.md").read_text()
    named = set(
        re.findall(r"\b(?:\w+/)+(?:\w+\.(?:py|toml)\b)?", page.partition("## The rooms")[2])
    )
    paths = {name for name in named if name.split("/")[0] in rooms()}
    assert len(paths) > 40
    assert not {name for name in paths if not (ROOT / "src" / "tarmac" / name).exists()}


def rooms() -> set[str]:
    return {path.parent.name for path in (ROOT / "src" / "tarmac").glob("*/__init__.py")}


def test_the_site_lists_every_page():
    configuration = (ROOT / "docs" / "conf.py").read_text()
    pages = (page.relative_to(ROOT).with_suffix("") for page in PAGES if page.name != "README.md")
    assert not [str(page) for page in pages if f'"{page}"' not in configuration]


def test_the_pages_of_clusters_name_every_option_and_every_cause():
    from typing import get_args

    from tarmac.executors import Cause
    from tarmac.executors.ray.options import RayOptions
    from tarmac.executors.slurm.options import SlurmOptions

    pages = ROOT / "docs"
    page = (pages / "cluster-retries.md").read_text()
    options = (pages / "slurm.md").read_text().partition("## Options")[2].partition("## ")[0]
    assert not {name for name in SlurmOptions.model_fields if f"`{name}`" not in options}
    for_ray = (pages / "ray.md").read_text().partition("## Options")[2].partition("## ")[0]
    assert not {name for name in RayOptions.model_fields if f"`{name}`" not in for_ray}
    causes = page.partition("## How an attempt ended")[2].partition("## ")[0]
    assert not {cause for cause in get_args(Cause) if f"`{cause}`" not in causes}
