"""Every command that the README, a page or a help text shows is run.

A command that fails here fails for the reader who types it. `nearest` makes commands short, and
says how those end that need a GPU or a cluster. A new command needs a line there only if its exit
code is not 0.
"""

from __future__ import annotations

import io
import re
import sys

import click
import pytest
from documented import advised_options, documented, hints, unquoted_values
from nearest import (
    BEFORE,
    BEHIND,
    BY_ITS_PAGE,
    ENDINGS,
    ONLY_PARSED,
    SMALLER,
    end_soon,
    expected_end,
    is_mention,
    parse,
    typed,
)
from prepared import write_page

from command_line import commands
from tarmac.errors import TarmacError

COMMANDS = documented()
MENTIONS = [command for command in COMMANDS if is_mention(command)]


def _is_in(table, command) -> bool:
    return any(re.search(pattern, command.line) for pattern in table)


PARSED = [c for c in COMMANDS if c not in MENTIONS and _is_in((*BY_ITS_PAGE, *ONLY_PARSED), c)]
RUN = [command for command in COMMANDS if command not in (*MENTIONS, *PARSED)]


def each(commands):
    names = [f"{command.page}: {command.line}" for command in commands]
    return pytest.mark.parametrize("command", commands, ids=names)


@each(RUN)
def test_a_command_that_is_shown_works(command, prepared, machine, tarmac, monkeypatch):
    write_page(command.page, prepared)
    end_soon(monkeypatch)
    for name, value in command.environment:
        monkeypatch.setenv(name, value)
    log = (prepared / "train.log").read_bytes() if command.is_fed else b""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(log)))
    for pattern, line in BEFORE.items():
        if re.search(pattern, command.line):
            code, out, err = tarmac(*line.split())
            assert code == 0, out + err
    code, out, err = tarmac(*typed(command, prepared, machine))
    if "CPUs, this machine has" in err:
        pytest.skip("a task of the page needs more cores than there are")
    expected_code, words = expected_end(command)
    assert (code, words in out + err) == (expected_code, True), f"{out[-2000:]}\n{err[-2000:]}"


@each(PARSED)
def test_a_command_that_is_run_elsewhere_is_understood(command):
    parse(command)


def test_the_commands_that_messages_advise_have_their_options():
    advised = list(hints())
    wrong = []
    for command in advised:
        try:
            parse(command)
        except (click.NoSuchOption, TarmacError) as error:
            # X is a value that a message puts in.
            if isinstance(error, click.NoSuchOption) or "'X'" not in str(error):
                wrong.append(f"{command.page}: {command.line}: {error}")
        except (click.ClickException, click.exceptions.Exit):
            # What a message puts in for a value, and what a reader has to, is not known here.
            continue
    assert not wrong
    assert len(advised) > 150


# Which commands print the messages of a room, so that a lone option there is one of all of them.
ROOMS = {
    "data/own/": ["tarmac data add"],
    "data/": ["tarmac train", "tarmac search"],
    "formats/": ["tarmac run", "tarmac submit", "tarmac convert"],
    "jobs/": ["tarmac run", "tarmac submit"],
    "executors/kubernetes/demand.py": ["tarmac run", "tarmac submit", "tarmac convert"],
    "studies/views/dashboard.py": ["tarmac search dashboard"],
    "studies/": ["tarmac search"],
    "training/session/scoring.py": ["tarmac eval"],
    "training/shard_directories.py": ["tarmac eval", "tarmac predict", "tarmac export"],
    "training/": ["tarmac train"],
    "kubernetes/manifests.py": ["tarmac cluster init"],
    "server/": ["tarmac serve"],
}
# Options that texts name and that belong to what they write or run, by the file.
NOT_OURS = {
    "formats/shipyard/": "of docker run, as Batch Shipyard's files have them",
    "formats/skypilot/writing.py": "of lines that the file has SkyPilot run",
    "masking/": "of lines of other programs that carry passwords",
    "node/": "of the agent's own line",
    "tasks/cluster_containers.py": "of a script for a node",
    "executors/kubernetes/making.py": "of the agent's own line",
    "slurm/survey.py": "of a script for a node",
    "environments/": "of the engines' and installers' lines",
    "pages/parameters.py": "a variable of CSS",
    "pages/style": "a variable of CSS",
    "checks/probes/": "of a probe's own line",
    "checks/engines.py": "of the engines' own lines",
    "checks/rules/commands.py": "of the programs that it puts together, by a table",
    "machine/obstacles.py": "of pip's line, which it puts together",
}


def _options_by_command() -> dict[str, set[str]]:
    return {
        line: {option for part in command.params for option in (*part.opts, *part.secondary_opts)}
        | {"--help", "--debug", "--version"}
        for line, command, _ in commands()
    }


def test_every_option_that_a_message_names_is_one_of_the_command_that_prints_it():
    by_command = _options_by_command()
    every = set().union(*by_command.values())
    wrong = set()
    advised = [*advised_options()]
    for named in advised:
        if not named.command and any(named.file.startswith(prefix) for prefix in NOT_OURS):
            continue
        room = max((r for r in ROOMS if named.file.startswith(r)), key=len, default=None)
        printing = [named.command] if named.command in by_command else ROOMS.get(room or "", [])
        lacking = [line for line in printing if named.option not in by_command[line]]
        if lacking or named.option not in every:
            wrong.add(f"{named.file}: {named.option} of {lacking or 'any'}: {named.text[:90]}")
    assert not wrong, "\n".join(sorted(wrong))
    assert len(advised) > 300


def test_a_path_in_a_command_that_a_message_advises_is_quoted():
    assert not [*unquoted_values()]


def test_pages_are_run_whole_for_commands_that_are_only_parsed_here():
    nowhere = [c for c in PARSED if _is_in(BY_ITS_PAGE, c) and c.kind != "console"]
    assert not nowhere, "no page runs them: show them in a block of kind console"


@pytest.mark.parametrize(
    "table",
    [
        BEFORE,
        [r[0] for r in BEHIND],
        BY_ITS_PAGE,
        [r[0] for r in ENDINGS],
        ONLY_PARSED,
        [r[0] for r in SMALLER],
    ],
)
def test_every_exception_is_of_a_command_that_is_shown(table):
    unused = [p for p in table if not any(re.search(p, command.line) for command in COMMANDS)]
    assert not unused


def test_hundreds_of_commands_are_collected():
    assert len(RUN) > 300
    assert len(MENTIONS) < 50
