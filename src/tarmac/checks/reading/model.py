"""What a log says, as values."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from tarmac.checks.rules.catalogue import Level  # noqa: TC001 - pydantic reads it

_SCHEMA_VERSION = 1


class LogFinding(BaseModel):
    """A failure that a log shows.

    Attributes:
        code: The failure's, in the catalogue.
        level: ``failure``, ``warning`` or ``note``.
        title: In a few words.
        first_line: Where it was seen first; lines count from 1.
        last_line: Where it was seen last.
        count: In how many lines.
        text: The first of them, without secrets and names of persons.
        said: What the line says, in words, where it is a number that says it.
        cause: Cause of the failure, in one sentence.
        fix: Command lines to type, in order.
        source: URL of the page that documents the failure.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    code: str
    level: Level
    title: str
    first_line: int
    last_line: int
    count: int
    text: str
    said: str = ""
    cause: str
    fix: tuple[str, ...]
    source: str


class LogReport(BaseModel):
    """What was found in a log.

    Attributes:
        schema_version: Version of this report's JSON schema.
        name: The file, or ``the standard input``.
        num_lines: Number of lines that were read.
        is_whole: Whether it was read to its end; not where Ctrl-C ended it.
        findings: Failures first; causes stand without their consequences.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int = _SCHEMA_VERSION
    name: str
    num_lines: int
    is_whole: bool = True
    findings: tuple[LogFinding, ...]

    @property
    def ok(self) -> bool:
        """Whether lines were read and nothing was found; notes do not count."""
        return self.num_lines > 0 and all(finding.level == "note" for finding in self.findings)
