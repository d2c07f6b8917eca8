"""Writes failures.md from the catalogue, and the schemas of JSON from the reports' models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from tarmac import kubernetes
from tarmac.checks import LogReport, Report, read_catalogue
from tarmac.checks.rules.wording import readable
from tarmac.slurm import REASONS, REFUSALS

if TYPE_CHECKING:
    from pydantic import BaseModel

HERE = Path(__file__).parent
_LEVELS = {"failure": "does not work", "warning": "works badly", "note": "worth knowing"}


def render_page() -> str:
    """Return the page of all failures."""
    parts = [
        "# Failures\n",
        "All failures that `tarmac check` knows, in the order of its checks. "
        "`docs/render_failures.py` makes this page.\n`tarmac check --explain CODE` prints an "
        "entry. To search by message: [troubleshooting](troubleshooting.md).\n\n"
        "Each heading is a stable code: a renamed code keeps its old name for links, `--explain` "
        "and `--skip`.\nA cause hides its consequences, so a check shows only causes.\n\n"
        "Reasons of tasks [on Slurm](#on-a-slurm-cluster) and [on Kubernetes](#on-kubernetes) are "
        "at the end.\n",
    ]
    catalogue = read_catalogue()
    for failure in catalogue.values():
        parts += [f'<a id="{old}"></a>\n' for old in failure.formerly]
        parts.append(f"## {failure.code}\n")
        parts.append(
            f"**{failure.title[0].upper()}{failure.title[1:]}** ({_LEVELS[failure.level]})"
        )
        parts.append(
            f". {failure.general_cause}\n\n```text\n" + "\n".join(failure.general_fix) + "\n```\n"
        )
        if failure.in_container:
            lines = "\n".join(failure.general_fix_in_container)
            parts.append(f"In a container:\n\n```text\n{lines}\n```\n")
        if failure.is_printed:
            seen = ", ".join(f"`{message}`" for message in failure.messages)
            parts.append(f"Printed as: {seen}\n")
        if failure.rule:
            parts.append("A check measures it or reads it from the machine.\n")
        hiding = [other.code for other in catalogue.values() if failure.code in other.hides]
        for words, codes in (("Hides", failure.hides), ("Hidden by", hiding)):
            if codes:
                parts.append(f"{words}: " + ", ".join(f"[{c}](#{c})" for c in codes) + "\n")
        if failure.formerly:
            parts.append(f"Formerly: {', '.join(failure.formerly)}\n")
        parts.append(f"Source: <{failure.source}>\n")
    return "\n".join([*parts, render_slurm(), render_kubernetes()]).replace("\n. ", ". ")


def render_slurm() -> str:
    """Return the tables of Slurm's reasons and refusals, with Tarmac's explanations."""
    parts = [
        "## On a Slurm cluster\n",
        "How a task ends there: [retries on a cluster](cluster-retries.md#how-an-attempt-ended).\n",
        "Why a task waits: `tarmac ps` and a running job show Tarmac's text, with Slurm's reason "
        "in brackets.\nLimits of a QOS, an account or a user, such as `QOSMaxCpuPerUserLimit`, "
        "have the same form.\n",
        "| Slurm's reason | Tarmac's text |\n| --- | --- |",
        *(f"| `{word}` | {words} |" for word, words in sorted(REASONS.items())),
        "\nTarmac shows a refusal of Slurm before it submits anything, with what to do:\n",
        "| Slurm prints | what to do |\n| --- | --- |",
        *(f"| `{readable(pattern.pattern)}` | {advice} |" for pattern, advice in REFUSALS),
    ]
    return "\n".join(parts) + "\n"


def render_kubernetes() -> str:
    """Return the tables of Kubernetes' reasons and refusals, with Tarmac's explanations."""
    waits = [f"| `{word}` | {wait.words} |" for word, wait in kubernetes.WAITS.items()]
    ends = [
        f"| `{word}` | {end.words} | `{end.cause}` | "
        f"{'retry that does not count' if end.is_disturbance else 'failed'} |"
        for word, end in {**kubernetes.DISRUPTIONS, **kubernetes.ENDS}.items()
    ]
    parts = [
        "## On Kubernetes\n",
        "Why a task waits. A task that can never start fails at once; a task whose image cannot "
        "be pulled fails after five minutes:\n",
        "| Kubernetes' reason | what it means |\n| --- | --- |",
        *waits,
        "\nHow a task ended, if the program itself did not record it:\n",
        "| Kubernetes' reason | what it means | cause | then |\n| --- | --- | --- | --- |",
        *ends,
        "\nA Job that failed as a whole:\n",
        "| Kubernetes' reason | what it means |\n| --- | --- |",
        *(f"| `{word}` | {words} |" for word, words in kubernetes.JOB_ENDS.items()),
        "\nTarmac shows a refusal of Kubernetes with what to do; for a missing permission, with "
        "the Role to apply:\n",
        "| Kubernetes prints | what to do |\n| --- | --- |",
        *(
            f"| `{readable(pattern.pattern)}` | {advice} |"
            for pattern, advice in kubernetes.REFUSALS
        ),
    ]
    return "\n".join(parts) + "\n"


def render_schema() -> str:
    """Return the JSON Schema of ``tarmac check --json``."""
    added = {"ok": {"type": "boolean"}, "exit_code": {"enum": [0, 1, 3]}}
    return _schema_of(Report, "tarmac check --json", added)


def render_log_schema() -> str:
    """Return the JSON Schema of ``tarmac check --read FILE --json``."""
    return _schema_of(LogReport, "tarmac check --read FILE --json", {"ok": {"type": "boolean"}})


def _schema_of(model: type[BaseModel], title: str, added: dict[str, object]) -> str:
    schema = model.model_json_schema()
    schema["properties"] = added | schema["properties"]
    schema["required"] = [*added, *schema["required"]]
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = title
    return json.dumps(schema, indent=2) + "\n"


if __name__ == "__main__":
    (HERE / "failures.md").write_text(render_page())
    (HERE / "check-report.schema.json").write_text(render_schema())
    (HERE / "check-read.schema.json").write_text(render_log_schema())
