"""Values on pages are the code's: exit codes, defaults, tables of options, engines, workloads."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from command_line import commands, options
from doc_pages import DOCS, FOR_USERS, in_code, page_id, rows, section
from tarmac.cli.entry import root
from tarmac.errors import TarmacError

if TYPE_CHECKING:
    import click

OPTIONS = options()
each_page = pytest.mark.parametrize("page", FOR_USERS, ids=page_id)


def codes() -> dict[str, str]:
    return {row[0]: row[1] for row in rows(section(DOCS / "exit-codes.md", "## The codes"))[1:]}


def test_the_exit_codes_on_the_page_are_those_of_the_source():
    from tarmac.checks import Report
    from tarmac.ranks import FOUND_HUNG, LOST_PEERS
    from tarmac.studies import AGAIN

    kinds = [TarmacError, *TarmacError.__subclasses__()]
    checks = re.findall(r"\d+", str(Report.exit_code.fget.__annotations__["return"]))
    known = {0, *(kind.exit_code for kind in kinds), *map(int, checks)}
    known |= {FOUND_HUNG, LOST_PEERS, AGAIN}
    assert {int(code) for code in codes()} == known


@each_page
def test_every_exit_code_that_a_page_names_is_on_that_list(page):
    named = re.findall(r"\bexits? with (?:code )?(\d+)\b", page.read_text())
    assert not set(named) - codes().keys()


def test_the_help_names_the_exit_code_of_no_answer():
    assert " 3 " in (root.epilog or "")


SIZES = {"%": 0.01, "s": 1, "min": 60, "h": 3600}


def defaults_on(page: Path) -> list[tuple[str, str, str]]:
    """Return what `--option` (default VALUE) and `--option`, default VALUE say, with the unit."""
    return re.findall(
        r"`(--[a-z][\w-]*)(?: [A-Z]+)?`(?: \(|, )default `?([\w.:%-]*\w)`?(?: (%|(?:s|min|h)\b))?",
        " ".join(page.read_text().split()),
    )


def test_pages_have_what_the_other_tests_look_for():
    assert sum(len(defaults_on(page)) for page in FOR_USERS) > 15
    assert sum(len(tables_of_values(page)) for page in FOR_USERS) > 4


@each_page
def test_every_default_that_a_page_gives_for_an_option_is_the_options(page):
    for name, value, unit in defaults_on(page):
        defaults = {shown(option) for option in OPTIONS[name]}
        expected = str(float(value) * SIZES[unit]) if unit else value
        assert expected in defaults or as_number(expected) in defaults, (name, value, defaults)


def shown(option: click.Option) -> str:
    default = option.default
    if isinstance(default, str | int | float) and not isinstance(default, bool):
        return as_number(str(default))
    return as_number(str(option.show_default))


def as_number(text: str) -> str:
    try:
        return f"{float(text):g}"
    except ValueError:
        return text


def test_the_defaults_in_the_help_of_a_search_are_those_of_a_request():
    from tarmac.studies import Request

    (search,) = [command for line, command, _ in commands() if line == "tarmac search"]
    checked = 0
    for option in search.params:
        field = Request.model_fields.get(str(option.name))
        text = getattr(option, "show_default", None)
        if field is not None and isinstance(text, str) and re.fullmatch(r"[\d.]+|none", text):
            default = field.default if field.default is not None else text
            assert as_number(str(default)) == as_number(text), option.name
            checked += 1
    assert checked > 5


@pytest.mark.parametrize("engine", ["slurm", "kubernetes", "ray"])
def test_the_tables_of_an_engines_options_have_its_defaults(engine):
    from tarmac.jobs import find_executor

    fields = find_executor(engine).options.model_fields
    text = section(DOCS / f"{engine}.md", "## Options")
    assert not {name for name in fields if f"`{name}`" not in text}
    checked = 0
    for row in rows(text):
        (value,) = re.findall(r"Default `?([\w./~-]*\w)`?\.", row[1])[:1] or [None]
        for name in in_code(row[0]):
            if name in fields and value is not None:
                assert str(fields[name].default).removesuffix(".0").lower() == value.lower(), name
                checked += 1
    assert checked


def engines() -> dict[str, dict[str, str]]:
    """Return what the table of engines says: by its row, then by engine."""
    text = section(DOCS / "engines.md", "## What differs")
    head, *lines = rows(text)
    names = in_code(" ".join(head))
    return {row[0]: dict(zip(names, row[1:], strict=True)) for row in lines}


def test_the_table_of_engines_is_what_the_executors_say():
    from tarmac.environments import engines as programs
    from tarmac.jobs import executor_names, find_executor
    from tarmac.slurm import job_variables

    (on,) = [option for option in OPTIONS["--on"] if "nodes" in str(option.help)]
    clusters = on.type._own
    table = engines()
    assert set(table["needs"]) == set(executor_names())
    for name in executor_names():
        kind = find_executor(name)
        fields = kind.options.model_fields if kind.options else {}
        goes_on = table["Ctrl-C, or a runner that is killed"][name].partition(";")[0]
        assert (goes_on in ("tasks go on", "as on Slurm")) == kind.outlives
        assert (table["secrets of its own, `{name: N, key: K}`"][name] != "no") == kind.has_secrets
        assert table["a check of GPUs before a task"][name].startswith("`check: quick`") == (
            "check" in fields
        )
        assert table["`pending_limit`"][name].startswith("yes") == ("pending_limit" in fields)
        assert (table["the runner of `submit`"][name] == "a process of this machine") == (
            kind.runners is None
        )
        assert table["`tarmac check --on`"][name].startswith("yes") == (name in clusters)
    assert table["`image` runs under"]["local"] == " or ".join(
        name.title() for name in programs._PACKAGES
    )
    everything = dict.fromkeys(("HOME", "LANG", "LOGNAME", "PATH", "SHELL", "USER", "LC_ALL"), "")
    kept = job_variables(everything).keys()
    assert set(in_code(table["variables of the user's shell"]["slurm"])) == kept
    for page, heading in (
        ("security.md", "## Whose environment a task sees"),
        ("environment.md", "## On a cluster"),
    ):
        assert not {name for name in kept if f"`{name}`" not in section(DOCS / page, heading)}


def test_the_table_of_run_json_has_every_field_and_its_version():
    from tarmac.runs import SCHEMA_VERSION, RunRecord

    text = section(DOCS / "runs.md", "## run.json")
    assert f"`schema_version` is {SCHEMA_VERSION};" in text
    named = {name for row in rows(text) for name in in_code(row[0])}
    assert named == RunRecord.model_fields.keys() - {"schema_version"}


def test_the_page_of_checkpoints_lists_what_a_resume_may_change():
    from tarmac.cli.train_checks import RESUME_OPTIONS

    (train,) = [command for line, command, _ in commands() if line == "tarmac train"]
    allowed = {option.opts[0] for option in train.params if option.name in RESUME_OPTIONS}
    table = rows(section(DOCS / "checkpoints.md", "## Stop and resume"))
    listed = {name for row in table for name in in_code(row[0])}
    assert listed == {name for name in allowed if name.startswith("--")} - {"--list", "--resume"}


def test_the_page_of_searches_lists_what_a_resume_may_change():
    from tarmac.studies.request import CHANGEABLE

    text = section(DOCS / "search.md", "## Stop and resume")
    (sentence,) = re.findall(r"With `--resume` you may change ([^.]*)\.", " ".join(text.split()))
    assert set(in_code(sentence)) == {f"--{name}" for name in CHANGEABLE}


@each_page
def test_a_table_of_an_options_values_has_all_of_them_and_no_others(page):
    for name, values in tables_of_values(page):
        known = set().union(*(names_of(option) for option in OPTIONS[name]))
        assert known - values <= {"auto"}, name
        # Names of what packages provide, devices and numbers are values too.
        assert values <= known or not known, name


def tables_of_values(page: Path) -> list[tuple[str, set[str]]]:
    """Return each table whose head is an option: its name, and the values in its first column."""
    tables: list[tuple[str, set[str]]] = []
    for block in re.split(r"\n\n", page.read_text()):
        head, *lines = rows(block) or [[""]]
        if re.fullmatch(r"`--[\w-]+`", head[0]):
            tables.append((head[0].strip("`"), {n for row in lines for n in in_code(row[0])}))
    return tables


def names_of(option: click.Option) -> set[str]:
    return set(getattr(option.type, "_own", None) or getattr(option.type, "choices", ()))


def test_the_table_of_workloads_has_their_recipes_and_expectations():
    from tarmac.workloads import find_workload

    checked = 0
    for row in rows((DOCS / "workloads.md").read_text()):
        name = row[0].strip("`")
        if len(row) != 5 or not row[0].startswith("`"):
            continue
        workload = find_workload(name)
        for epochs, batch_size in re.findall(r"(\d+) epochs of ([\d,]+)", row[3]):
            recipe = (workload.recipe.epochs, workload.recipe.batch_size)
            assert recipe == (int(epochs), int(batch_size.replace(",", ""))), name
            checked += 1
        for word, value in re.findall(r"at (least|most) ([\d.]*\d)", row[4]):
            assert float(value) == getattr(workload.expectation, f"at_{word}"), name
            checked += 1
    assert checked > 15


def test_the_page_of_metrics_has_each_by_its_name():
    pytest.importorskip("prometheus_client")
    from datetime import UTC, datetime

    from tarmac.monitor.metrics import families_of
    from tarmac.monitor.snapshot import Snapshot

    endings = {"counter": "_total", "info": "_info"}
    nothing = Snapshot(at=datetime.now(UTC), hosts=())
    served = {family.name + endings.get(family.type, "") for family in families_of(nothing, {})}
    shown = set()
    for row in rows((DOCS / "metrics.md").read_text()):
        names = [name.partition("{")[0] for name in in_code(row[0])]
        if names and names[0].startswith("tarmac_"):
            start = re.match(r"tarmac_[a-z]+", names[0])[0]
            shown |= {name if name.startswith("tarmac_") else start + name for name in names}
    assert shown == served


def test_the_page_of_hkube_has_every_option_of_an_input():
    from tarmac.hkube.serving.request import OPTIONS as OF_INPUT

    table = rows(section(DOCS / "hkube-serve.md", "# Serve a workload in HKube"))
    named = {name for row in table for name in in_code(row[0])}
    assert OF_INPUT.keys() <= named
