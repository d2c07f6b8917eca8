"""The report of a log and its findings, as values."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from tarmac.checks.rules.catalogue import Level

_SCHEMA_VERSION = 1


class LogFinding(BaseModel):
    """A failure that a log shows.

    Attributes:
        code: Code of the failure in the catalogue.
        level: ``failure``, ``warning`` or ``note``.
        title: Name of the failure in a few words.
        first_line: Number of the first line that shows it, from 1.
        last_line: Number of the last line that shows it, from 1.
        count: Number of lines that show it.
        text: Text of the first line, without secrets and names of persons.
        said: Meaning of a number or a name in the line, in words; empty without one.
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
    """The findings of a log.

    Attributes:
        schema_version: Version of this report's JSON schema.
        name: Name of the file, or ``the standard input``.
        num_lines: Number of lines that were read.
        is_whole: Whether the log was read to its end; False where Ctrl-C ended the reading.
        findings: Findings, failures first; consequences of a found cause are left out.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int = _SCHEMA_VERSION
    name: str
    num_lines: int
    is_whole: bool = True
    findings: tuple[LogFinding, ...]

    @property
    def ok(self) -> bool:
        """Whether lines were read and no failure or warning was found."""
        return self.num_lines > 0 and all(finding.level == "note" for finding in self.findings)
