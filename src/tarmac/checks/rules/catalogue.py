"""The catalogue of failures, read from the files in ``failures/`` in this folder.

An entry describes a failure that keeps a GPU from being used, or from being used well: evidence,
cause, commands to type, and source. `Failure` has its fields.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from tarmac.checks.rules.commands import general_commands
from tarmac.checks.rules.errors import printed_forms
from tarmac.checks.rules.wording import readable
from tarmac.errors import unknown_name

Level = Literal["failure", "warning", "note"]

# The order in which findings are shown.
LEVELS: tuple[Level, ...] = ("failure", "warning", "note")

# In the order in which findings are shown: from the machine to the programs on it. The rules of a
# file's failures are in the module of the same name.
_FILES = (
    "driver",
    "kernel",
    "hardware",
    "links",
    "amd",
    "frameworks",
    "speed",
    "results",
    "soak",
    "containers",
    "cluster",
    "ranks",
    "jobs",
    "programs",
)


class Failure(BaseModel):
    """A failure that keeps a GPU from being used, or from being used well.

    Attributes:
        code: Stable name of the failure, such as ``fabric-manager``.
        level: Severity: ``failure`` does not work, ``warning`` works badly, ``note`` is worth
            knowing.
        title: Name of the failure in a few words.
        cause: Cause in one sentence; ``{evidence}`` is the placeholder for the evidence.
        fix: Command lines to type, in order.
        in_container: Command lines to type, or whom to tell, in a container, which cannot repair
            its host; empty where ``fix`` applies there too.
        source: URL of the page that documents the failure.
        text: Patterns of the messages of drivers and frameworks, ignoring case. Patterns of the
            errors of CUDA and other APIs are in ``errors.toml``.
        ends_by: Patterns of messages which show that the failure is over, such as a wait's end.
        rule: Whether a rule also looks for the failure in facts that are no text.
        hides: Codes of the failures that are its consequences.
        own: Whether it belongs to one framework's installation, and hides only that framework's
            failures.
        generic: Whether it is less specific than any other failure that the same text shows.
        consequence: Whether it only reports that another failure ended a process; left out where
            that failure was found.
        beside: Code of the failure whose reason it is; it counts only where that failure was seen.
        ended: Whether its texts mean that a program was ended, whatever its level on a machine.
        needs_gpu: Whether its texts mean nothing on a machine without a GPU, where a framework on
            the CPU prints them too.
        harmless: Whether its texts show no problem, but users ask about them; reported for a log
            that is read, and never by a check.
        formerly: Earlier codes of the failure.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    code: str
    level: Level
    title: str
    cause: str
    fix: tuple[str, ...]
    in_container: tuple[str, ...] = ()
    source: str
    text: tuple[str, ...] = ()
    ends_by: tuple[str, ...] = ()
    rule: bool = False
    hides: tuple[str, ...] = ()
    own: bool = False
    generic: bool = False
    consequence: bool = False
    beside: str = ""
    ended: bool = False
    needs_gpu: bool = False
    harmless: bool = False
    formerly: tuple[str, ...] = ()

    @property
    def general_cause(self) -> str:
        """The cause, without the placeholder for the evidence."""
        return self.cause.replace(": {evidence}", "").replace("{evidence}", "...")

    @property
    def is_printed(self) -> bool:
        """Whether a printed text can show the failure."""
        return bool(self.messages)

    @property
    def messages(self) -> tuple[str, ...]:
        """The printed messages that show the failure, as readable text."""
        return tuple(dict.fromkeys([*map(readable, self.text), *printed_forms(self.code)]))

    @property
    def general_fix(self) -> tuple[str, ...]:
        """The commands for a current machine without known facts; a check has those for its own."""
        return general_commands(self.fix)

    @property
    def general_fix_in_container(self) -> tuple[str, ...]:
        """The commands in a container; empty where they are those of `general_fix`."""
        return general_commands(self.in_container)


@functools.cache
def read_catalogue() -> Mapping[str, Failure]:
    """Return all failures by code, in the catalogue's order."""
    folder = Path(__file__).with_name("failures")
    texts = ((folder / f"{name}.toml").read_text(encoding="utf-8") for name in _FILES)
    return {
        code: Failure(code=code, **fields)
        for text in texts
        for code, fields in tomllib.loads(text).items()
    }


def tells_reason(failure: Failure, codes: Collection[str]) -> bool:
    """Return whether a failure counts as the reason of another, which has no better reason.

    Args:
        failure: Failure to judge; without ``beside`` it always counts.
        codes: Codes of all failures that were seen.
    """
    causes = (code for code in codes if failure.beside in read_catalogue()[code].hides)
    is_seen = failure.beside in codes
    return not failure.beside or (is_seen and all(code == failure.code for code in causes))


def find_failure(code: str) -> Failure:
    """Return a failure by its code, or by an earlier code of it.

    Raises:
        RequestError: No failure has this code; the message has the nearest one.
    """
    catalogue = read_catalogue()
    renamed = {old: failure for failure in catalogue.values() for old in failure.formerly}
    failure = catalogue.get(code, renamed.get(code))
    if failure is None:
        raise unknown_name("code", code, {key: entry.title for key, entry in catalogue.items()})
    return failure
