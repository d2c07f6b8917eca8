"""Help: every command has it, and it says all there is to know."""

from __future__ import annotations

import dataclasses
import inspect
import os
import subprocess
import sys
import typing

import pytest

from command_line import commands
from tarmac.cli import choices

COMMANDS = commands()
each_command = pytest.mark.parametrize(
    ("line", "command", "context"), COMMANDS, ids=[line for line, _, _ in COMMANDS]
)


def test_commands_within_commands_are_looked_at_too():
    lines = {line for line, _, _ in COMMANDS}
    assert {"tarmac", "tarmac search", "tarmac search best", "tarmac env rm"} <= lines


@each_command
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_every_command_has_help_and_examples(tarmac, line, command, context, flag):
    code, out, err = tarmac(*line.split()[1:], flag)
    assert (code, err) == (0, "")
    assert out.startswith(f"Usage: {line} ")
    examples = out.partition("\nExamples:\n")[2].splitlines()
    assert examples, "there are no examples"
    assert all(len(shown) <= 100 for shown in out.splitlines())


@each_command
def test_summaries_of_commands_are_whole(line, command, context):
    shown = " ".join(command.get_help(context).split())
    for inner_line, inner, _ in COMMANDS:
        if inner_line.rpartition(" ")[0] == line:
            sentence = " ".join((inner.help or "").partition("\n\n")[0].split())
            assert f"{inner_line.rpartition(' ')[2]} {sentence}" in shown


@each_command
def test_every_argument_and_option_is_explained(line, command, context):
    unexplained = [
        parameter.name
        for parameter in command.get_params(context)
        if not getattr(parameter, "help", None)
    ]
    assert unexplained == []


@each_command
def test_no_value_is_called_by_its_type(line, command, context):
    types = ("INTEGER", "FLOAT", "TEXT", "RANGE")
    usages = [parameter.make_metavar(context) for parameter in command.get_params(context)]
    assert [usage for usage in usages if any(name in usage for name in types)] == []


@each_command
def test_examples_name_options_that_there_are(line, command, context):
    by_line = {name: inner for name, inner, _ in COMMANDS}
    for shown in command.get_help(context).partition("\nExamples:\n")[2].splitlines():
        words = shown.split("  ")[1].split() if shown.startswith("  tarmac") else []
        called = max(
            (name for name in by_line if shown.strip().startswith(name)), key=len, default=""
        )
        if not words or not called:
            continue
        flags = {flag for parameter in by_line[called].params for flag in parameter.opts}
        assert {word for word in words if word.startswith("--") and word != "--"} <= flags


def test_commands_and_options_stand_under_headings(tarmac):
    out = tarmac("--help")[1]
    titles = ["Check:", "Train and search:", "Jobs:", "Housekeeping:", "Options:", "Examples:"]
    assert [row for row in out.splitlines() if row in titles] == titles
    assert "\nDevices and speed:\n" in tarmac("train", "--help")[1]


def test_choices_are_shown_as_choices(tarmac):
    out = tarmac("train", "--help")[1]
    assert "--precision [auto|fp32|tf32|bf16|fp16|fp64]" in out
    assert "--strategy [auto|single|ddp|fsdp|towers]" in out
    code, _, err = tarmac("train", "digits-mlp", "--precision", "fp8")
    assert (code, err) == (
        2,
        "error: unknown --precision 'fp8'\n  Valid: auto, bf16, fp16, fp32, fp64, tf32\n",
    )


def test_choices_are_what_the_rooms_take():
    from tarmac.checks import FRAMEWORKS
    from tarmac.inference import FORMATS
    from tarmac.jobs import RunnerPlace, executor_names
    from tarmac.jobs.task_status import State
    from tarmac.runs.training import TRAINING
    from tarmac.studies import method_names, pruning_rule_names
    from tarmac.studies.objectives import COSTS
    from tarmac.studies.study.kind import SEARCH
    from tarmac.trackers import TRACKERS
    from tarmac.training import strategy_names
    from tarmac.training.plan import ArrayFeed, Precision

    assert tuple(FRAMEWORKS) == choices.FRAMEWORKS
    assert executor_names() == choices.EXECUTORS
    assert ("val_accuracy", "val_loss", *COSTS) == choices.OBJECTIVES
    assert method_names() == choices.METHODS
    assert pruning_rule_names() == choices.PRUNING_RULES
    assert ("auto", *strategy_names()) == choices.STRATEGIES
    assert tuple(TRACKERS) == choices.TRACKERS
    assert tuple(FORMATS) == choices.EXPORTS
    assert typing.get_args(RunnerPlace) == choices.RUNNER_PLACES
    assert ("auto", *typing.get_args(Precision)) == choices.PRECISIONS
    assert ("auto", *typing.get_args(ArrayFeed)) == choices.FEEDS
    settled = TRAINING.settled | SEARCH.settled
    assert {*typing.get_args(State)} - {"skipped"} | settled == {*choices.STATUSES}


def test_every_field_of_a_run_request_is_an_option_and_an_argument():
    from tarmac import verbs
    from tarmac.cli.commands.run import command, submit
    from tarmac.jobs import RunRequest

    fields = {field.name for field in dataclasses.fields(RunRequest)}
    for each in (command, submit):
        assert fields <= {parameter.name for parameter in each.params}
    # `tarmac.submit` has no keep_going: a script can check itself whether its first tasks fail.
    assert fields - {"keep_going"} <= inspect.signature(verbs.submit).parameters.keys()


def test_what_packages_provide_is_a_choice_too(tmp_path):
    made = tmp_path / "provider-1.dist-info"
    made.mkdir()
    (made / "METADATA").write_text("Metadata-Version: 2.1\nName: provider\nVersion: 1\n")
    (made / "entry_points.txt").write_text("[tarmac.strategies]\nzeppelin = provider:spec\n")
    done = subprocess.run(
        [sys.executable, "-m", "tarmac", "train", "--help"],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "--strategy [auto|single|ddp|fsdp|towers|zeppelin]" in done.stdout


def test_the_checks_help_names_the_frameworks_and_what_may_be_required(tarmac):
    out = " ".join(tarmac("check", "--help")[1].split())
    assert "torch, tensorflow, keras, jax, mxnet, chainer, horovod" in out
    for name in ("gpus", "cpus", "gpu_memory", "memory", "shm", "driver", "cuda", ">=", "=="):
        assert name in out.partition("--require WHAT")[2].partition("Output:")[0]


def test_defaults_in_words_stand_without_brackets(tarmac):
    out = tarmac("search", "--help")[1]
    assert "[default: evolve]" in out
    assert "[default: (" not in out


def test_a_search_shows_its_commands_and_still_searches_a_workload_of_such_a_name(tarmac, tmp_path):
    out = tarmac("search", "--help")[1]
    assert "Usage: tarmac search [OPTIONS] [WORKLOAD|STUDY] | COMMAND\n" in out
    assert "\n  best       Print the network that a study found" in out
    code, _, err = tarmac("search", "--", "list")
    assert (code, err.splitlines()[0].startswith("error: unknown workload 'list'")) == (2, True)
    assert tarmac("search", "list")[0] == 0
