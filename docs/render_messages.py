"""Writes the list of messages in troubleshooting.md from the catalogue of failures."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from tarmac.checks import read_catalogue
from tarmac.checks.rules.errors import read_apis
from tarmac.checks.rules.wording import readable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tarmac.checks.rules.catalogue import Failure

PAGE = Path(__file__).parent / "troubleshooting.md"
# Names of CUDA's and HIP's errors, whose words are in the list.
_NAMES = re.compile("|".join(read_apis()[name].names for name in ("cuda", "hip")))
_BEGIN, _END = "<!-- made by render_messages.py -->\n", "<!-- end -->\n"


def render_list() -> str:
    """Return two tables: what drivers and frameworks print, and what a check sees by itself."""
    printed, seen = [], []
    for failure in read_catalogue().values():
        link = f"[{failure.title}](failures.md#{failure.code})"
        printed += [(message, link) for message in listed(failure)]
        if not failure.is_printed:
            seen.append((failure.title, failure.code))
    lines = ["| message | failure |", "| --- | --- |"]
    lines += [
        f"| `{message.replace('|', '/')}` | {link} |"
        for message, link in sorted(printed, key=lambda row: row[0].lower())
    ]
    *titles, last = (api.title for api in read_apis().values())
    lines += [
        "",
        f"`tarmac check --read` knows the errors of {', '.join(titles)} and {last}\n"
        "by number, name and words, also those without a line here: "
        "[most of them](failures.md#cuda-error).",
    ]
    lines += [
        "",
        "No message shows these; `tarmac check` measures them or reads them from the machine:",
        "",
    ]
    lines += [f"- [{title}](failures.md#{code})" for title, code in seen]
    return "\n".join(lines) + "\n"


def listed(failure: Failure) -> Iterator[str]:
    """Yield what is printed of a failure, but for an error's other names, and what says little."""
    messages = [*map(readable, failure.text)] if failure.generic else failure.messages
    for message in dict.fromkeys(messages):
        is_other = message.startswith("HIP error: ") and f"CUDA{message[3:]}" in messages
        if not is_other and not _NAMES.fullmatch(message):
            yield message


def render_page(page: str) -> str:
    """Return the page with its list made anew."""
    before, _, rest = page.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}\n{render_list()}\n{_END}{after}"


if __name__ == "__main__":
    PAGE.write_text(render_page(PAGE.read_text()))
