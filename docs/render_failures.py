"""Writes failures.md from the catalogue, and check-report.schema.json from the report's model."""

from __future__ import annotations

import json
from pathlib import Path

from tarmac.checks import Report, read_catalogue

HERE = Path(__file__).parent
_LEVELS = {"failure": "does not work", "warning": "works badly", "note": "worth knowing"}


def render_page() -> str:
    """Return the page of all failures."""
    parts = [
        "# Failures\n",
        "What `tarmac check` knows, in the order in which it looks; made from its catalogue by "
        "`docs/render_failures.py`.\n`tarmac check --explain CODE` prints an entry. "
        "By what you see: [troubleshooting](troubleshooting.md).\n",
    ]
    for failure in read_catalogue().values():
        parts.append(f"## {failure.code}\n")
        parts.append(
            f"**{failure.title[0].upper()}{failure.title[1:]}** ({_LEVELS[failure.level]})"
        )
        parts.append(
            f". {failure.general_cause}\n\n```text\n" + "\n".join(failure.general_fix) + "\n```\n"
        )
        if failure.text:
            seen = ", ".join(f"`{pattern}`" for pattern in failure.text)
            parts.append(f"Seen as: {seen}\n")
        parts.append(f"Source: <{failure.source}>\n")
    return "\n".join(parts).replace("\n. ", ". ")


def render_schema() -> str:
    """Return the JSON Schema of ``tarmac check --json``."""
    schema = Report.model_json_schema()
    added = {"ok": {"type": "boolean"}, "exit_code": {"enum": [0, 1, 3]}}
    schema["properties"] = added | schema["properties"]
    schema["required"] = [*added, *schema["required"]]
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "tarmac check --json"
    return json.dumps(schema, indent=2) + "\n"


if __name__ == "__main__":
    (HERE / "failures.md").write_text(render_page())
    (HERE / "check-report.schema.json").write_text(render_schema())
