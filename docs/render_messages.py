"""Writes the list of messages in troubleshooting.md from the catalogue of failures."""

from __future__ import annotations

from pathlib import Path

from tarmac.checks import read_catalogue

PAGE = Path(__file__).parent / "troubleshooting.md"
_BEGIN, _END = "<!-- made by render_messages.py -->\n", "<!-- end -->\n"


def render_list() -> str:
    """Return two tables: what drivers and frameworks print, and what a check sees by itself."""
    printed, seen = [], []
    for failure in read_catalogue().values():
        link = f"[{failure.title}](failures.md#{failure.code})"
        printed += [(message, link) for message in failure.messages]
        if not failure.is_printed:
            seen.append((failure.title, failure.code))
    lines = ["| what is printed | what it is |", "| --- | --- |"]
    lines += [
        f"| `{message.replace('|', '/')}` | {link} |"
        for message, link in sorted(printed, key=lambda row: row[0].lower())
    ]
    lines += ["", "Nothing prints these; `tarmac check` measures them or looks at the machine:", ""]
    lines += [f"- [{title}](failures.md#{code})" for title, code in seen]
    return "\n".join(lines) + "\n"


def render_page(page: str) -> str:
    """Return the page with its list made anew."""
    before, _, rest = page.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}\n{render_list()}\n{_END}{after}"


if __name__ == "__main__":
    PAGE.write_text(render_page(PAGE.read_text()))
