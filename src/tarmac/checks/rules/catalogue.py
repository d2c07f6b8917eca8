"""The catalogue of failures, as data: the files in ``failures/`` beside this one.

An entry says what keeps a GPU from being used, or from being used well: evidence, cause, what to
type, and who says so. `Failure` has its fields.
"""

from __future__ import annotations

import functools
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict

from tarmac.checks.rules.commands import general_commands
from tarmac.checks.rules.errors import printed_forms
from tarmac.checks.rules.wording import readable
from tarmac.errors import unknown_name

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

Level = Literal["failure", "warning", "note"]

# In the order in which findings are shown.
LEVELS: tuple[Level, ...] = ("failure", "warning", "note")

# From the machine to what runs on it, as findings are shown. A failure's rule is in the module of
# the same name, where one has a rule.
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
    """Something that keeps a GPU from being used, or from being used well.

    Attributes:
        code: Stable name of the failure, such as ``fabric-manager``.
        level: How bad it is: something does not work, works badly, or is worth knowing.
        title: In a few words.
        cause: In one sentence; ``{evidence}`` stands for what was seen.
        fix: Command lines to type, in order.
        in_container: What to type, or whom to tell, in a container, which cannot mend its host;
            where it is empty, ``fix`` does.
        source: URL of the page that documents the failure.
        text: Patterns of what drivers and frameworks print, without regard to case. What shows the
            errors of CUDA and its like is in ``errors.toml``.
        ends_by: Patterns of what shows that it is over, as a wait is.
        rule: Whether facts that are no text are looked at too.
        hides: Codes of the failures that are its consequences.
        own: Whether it is of one framework's installation, and hides only what that one suffers.
        generic: Whether it says less than any other failure that the same text shows.
        consequence: Whether it only tells that another failure ended a process: left out where that
            one was found.
        beside: The code of a failure beside which alone it counts: what tells that one's reason.
        ended: Whether its texts tell that a program was ended, whatever its level on a machine.
        needs_gpu: Whether its texts say nothing where no GPU is: a framework that computes on the
            CPU there prints them too.
        harmless: Whether its texts say nothing that is wrong, and are asked about all the same: it
            is told of a log that is read, and by no check.
        formerly: Codes that it had.
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
        """The cause, without the place for what was seen."""
        return self.cause.replace(": {evidence}", "").replace("{evidence}", "...")

    @property
    def is_printed(self) -> bool:
        """Whether a text shows it."""
        return bool(self.messages)

    @property
    def messages(self) -> tuple[str, ...]:
        """What is printed, as somebody meets it."""
        return tuple(dict.fromkeys([*map(readable, self.text), *printed_forms(self.code)]))

    @property
    def general_fix(self) -> tuple[str, ...]:
        """What to type on a machine of today, where a check names what suits its own."""
        return general_commands(self.fix)

    @property
    def general_fix_in_container(self) -> tuple[str, ...]:
        """Likewise in a container; empty where it is the same."""
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
    """Tell whether a failure counts that tells another one's reason: the other lacks a better one.

    Args:
        failure: Any; where it has no ``beside``, it counts.
        codes: All failures that were seen.
    """
    causes = (code for code in codes if failure.beside in read_catalogue()[code].hides)
    is_seen = failure.beside in codes
    return not failure.beside or (is_seen and all(code == failure.code for code in causes))


def find_failure(code: str) -> Failure:
    """Return a failure by its code, or by one that it had.

    Raises:
        RequestError: There is none; the nearest name is said.
    """
    catalogue = read_catalogue()
    renamed = {old: failure for failure in catalogue.values() for old in failure.formerly}
    failure = catalogue.get(code, renamed.get(code))
    if failure is None:
        raise unknown_name("code", code, {key: entry.title for key, entry in catalogue.items()})
    return failure
