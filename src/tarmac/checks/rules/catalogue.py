"""The catalogue of failures, as data: the files in ``failures/`` beside this one.

An entry says what keeps a GPU from being used, or from being used well: evidence, cause, what to
type, and who says so. `Failure` has its fields.
"""

from __future__ import annotations

import functools
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict

from tarmac.errors import unknown_name

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Failure", "Level", "find_failure", "read_catalogue"]

Level = Literal["failure", "warning", "note"]

# From the machine to what runs on it, as findings are shown. A failure's rule is in the module of
# the same name.
_FILES = (
    "driver",
    "kernel",
    "hardware",
    "frameworks",
    "speed",
    "results",
    "soak",
    "containers",
    "cluster",
    "ranks",
)


class Failure(BaseModel):
    """Something that keeps a GPU from being used, or from being used well.

    Attributes:
        code: Its stable name.
        level: How bad it is: something does not work, works badly, or is worth knowing.
        title: In a few words.
        cause: In one sentence; ``{evidence}`` stands for what was seen.
        fix: What to type.
        source: Who says so.
        text: Patterns of what drivers and frameworks print.
        rule: Whether facts that are no text are looked at too.
        hides: Codes of consequences.
        own: Whether it is of one framework's installation, and hides only what that one suffers.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    code: str
    level: Level
    title: str
    cause: str
    fix: tuple[str, ...]
    source: str
    text: tuple[str, ...] = ()
    rule: bool = False
    hides: tuple[str, ...] = ()
    own: bool = False

    @property
    def general_cause(self) -> str:
        """The cause, without the place for what was seen."""
        return self.cause.replace(": {evidence}", "").replace("{evidence}", "...")

    @property
    def general_fix(self) -> tuple[str, ...]:
        """What to type on a machine of today, where a check names what suits its own."""
        today = {"cuda_index": "cu130", "arch_index": "cu130", "jax_extra": "cuda13"}
        return tuple(
            re.sub(r"\{(\w+)\}", lambda match: today.get(match[1], match[1].upper()), line)
            for line in self.fix
        )

    def find_in(self, text: str) -> str | None:
        """Return the line of a text that a pattern matches."""
        for pattern in self.text:
            match = re.search(pattern, text)
            if match:
                start = text.rfind("\n", 0, match.end() - 1) + 1
                stop = text.find("\n", match.end())
                return text[start : None if stop < 0 else stop].strip()
        return None


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


def find_failure(code: str) -> Failure:
    """Return a failure by its code.

    Raises:
        RequestError: There is none; the nearest name is said.
    """
    catalogue = read_catalogue()
    if code not in catalogue:
        raise unknown_name("code", code, {key: failure.title for key, failure in catalogue.items()})
    return catalogue[code]
