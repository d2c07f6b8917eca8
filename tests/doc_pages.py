"""The project's pages, and what is in them: blocks, headings and links."""

from __future__ import annotations

import dataclasses
import functools
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
_TOP = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
PAGES = [
    *(ROOT / name for name in _TOP),
    *(ROOT / name / "README.md" for name in ("examples", "bench")),
    *sorted((ROOT / "docs").glob("*.md")),
]
DOCS = ROOT / "docs"
# The changelog is about what was; the other pages speak of the project's own tools.
FOR_USERS = [page for page in PAGES if page.parent == DOCS or page == ROOT / "README.md"]
PACKAGE = ROOT / "src" / "tarmac"
SOURCES = [path for path in PACKAGE.rglob("*.py") if PACKAGE / "testing" not in path.parents]
_FENCE = re.compile(
    r"(?:^<!-- file: (?P<named>\S+) -->\n\n?)?^```(?P<kind>\w+)\n(?P<text>.*?)^```$"
    r"(?:\n+<!-- output -->\n\n?```text\n(?P<output>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)
_FIRST_LINE = re.compile(r"# (\S+\.(?:py|yaml|toml|sh))\n")
_ANY_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?://|mailto:)([^)\s]+)\)")
_SPAN = re.compile(r"`([^`]+)`")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        kind: The word behind the fence: ``console``, ``yaml``.
        text: What it holds.
        file: The file that it shows, by its first line or by a comment before the block.
        output: What its commands print, as the page shows it; see `is_printed`.
    """

    kind: str
    text: str
    file: str | None
    output: str | None = None


def blocks(page: Path) -> list[Block]:
    found = []
    for match in _FENCE.finditer(page.read_text()):
        first = _FIRST_LINE.match(match["text"])
        file = match["named"] or (first[1] if first else None)
        found.append(Block(match["kind"], match["text"], file, match["output"]))
    return found


def is_printed(shown: str, printed: str) -> bool:
    """Return whether a page's output is what a command printed, but for what varies.

    A number stands for any number. ``...`` stands for anything in a line, and for any lines where
    a line has nothing else. Blanks at the ends of lines do not count.
    """
    lines = []
    for line in shown.splitlines():
        if line.strip() == "...":
            lines.append(r"(?:.*\n)*")
            continue
        parts = _VARIES.split(line.rstrip())
        lines.append("".join(_pattern_of(part) for part in parts) + r"[ \t]*\n")
    return re.fullmatch("".join(lines), printed.rstrip("\n") + "\n") is not None


_VARIES = re.compile(r"(\.\.\.|[0-9][0-9.,]*| +)")


def _pattern_of(part: str) -> str:
    if part == "...":
        return ".*"
    if part[:1].isdecimal():
        return r"[0-9][0-9.,]*"
    # Columns are as wide as what is in them.
    return r"[ ]+" if part.isspace() else re.escape(part)


def links(page: Path) -> list[str]:
    return _LINK.findall(_ANY_FENCE.sub("", page.read_text()))


@functools.cache
def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and the site make them."""
    found: set[str] = set()
    for heading in _HEADING.findall(_ANY_FENCE.sub("", page.read_text())):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", words).strip().replace(" ", "-")
        found.add(next(s for s in (slug, *(f"{slug}-{n}" for n in range(1, 99))) if s not in found))
    return found


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


def spans(page: Path) -> list[str]:
    """Return the code spans of a page, each on one line."""
    return [" ".join(span.split()) for span in _SPAN.findall(_ANY_FENCE.sub("", page.read_text()))]


def in_code(text: str) -> list[str]:
    """Return the code spans of a line, such as a table's cell."""
    return _SPAN.findall(text)


def section(page: Path, heading: str) -> str:
    """Return the text below a heading, up to the next one of its level or above."""
    text = page.read_text()
    # A comment in a block is no heading.
    hidden = _ANY_FENCE.sub(lambda match: " " * len(match[0]), text)
    start = re.search(rf"^{re.escape(heading)}$", hidden, re.MULTILINE)
    assert start is not None, f"{page_id(page)} has no heading {heading!r}"
    level = len(heading.partition(" ")[0])
    end = re.compile(rf"^#{{1,{level}}} ", re.MULTILINE).search(hidden, start.end())
    return text[start.end() : end.start() if end else None]


def rows(text: str) -> list[list[str]]:
    """Return the cells of the tables' rows in a text, without the lines below their heads."""
    lines = [line for line in text.splitlines() if re.match(r"\| ", line)]
    cells = [[cell.strip() for cell in line.strip()[1:-1].split("|")] for line in lines]
    return [row for row in cells if set(row[0]) != {"-"}]
