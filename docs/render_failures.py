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
        "What `tarmac check` knows, in the order in which it looks; made from its catalogue by "
        "`docs/render_failures.py`.\n`tarmac check --explain CODE` prints an entry. "
        "By what you see: [troubleshooting](troubleshooting.md).\n\n"
        "A heading is the code, and stays: a code that is renamed keeps its old name for links, "
        "`--explain` and\n`--skip`. A cause hides what follows from it, so that a check shows "
        "causes alone.\n\n"
        "What `tarmac run` says of tasks [on Slurm](#on-a-slurm-cluster) and\n"
        "[on Kubernetes](#on-kubernetes) is at the end.\n",
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
            parts.append("Found by what is measured and read on the machine.\n")
        hiding = [other.code for other in catalogue.values() if failure.code in other.hides]
        for words, codes in (("Hides", failure.hides), ("Hidden by", hiding)):
            if codes:
                parts.append(f"{words}: " + ", ".join(f"[{c}](#{c})" for c in codes) + "\n")
        if failure.formerly:
            parts.append(f"Formerly: {', '.join(failure.formerly)}\n")
        parts.append(f"Source: <{failure.source}>\n")
    return "\n".join([*parts, render_slurm(), render_kubernetes()]).replace("\n. ", ". ")


def render_slurm() -> str:
    """Return what a Slurm says of jobs, and what Tarmac makes of it."""
    parts = [
        "## On a Slurm cluster\n",
        "How a task ended there, and what follows from it: "
        "[clusters](clusters.md#how-an-attempt-ended).\n",
        "Why a task waits: Slurm's word is in brackets behind ours, in `tarmac ps` and while it "
        "runs.\nA limit of a QOS, an account or a user, such as `QOSMaxCpuPerUserLimit`, is said "
        "likewise.\n",
        "| Slurm's word | what Tarmac says |\n| --- | --- |",
        *(f"| `{word}` | {words} |" for word, words in sorted(REASONS.items())),
        "\nWhat Slurm refuses is told before anything is submitted, in its own words, and with "
        "what to do:\n",
        "| Slurm says | what to do |\n| --- | --- |",
        *(f"| `{readable(pattern.pattern)}` | {advice} |" for pattern, advice in REFUSALS),
    ]
    return "\n".join(parts) + "\n"


def render_kubernetes() -> str:
    """Return what a Kubernetes says of pods, Jobs and requests, and what Tarmac makes of it."""
    waits = [f"| `{word}` | {wait.words} |" for word, wait in kubernetes.WAITS.items()]
    ends = [
        f"| `{word}` | {end.words} | `{end.cause}` | "
        f"{'again, at no cost of retries' if end.is_disturbance else 'failed'} |"
        for word, end in {**kubernetes.DISRUPTIONS, **kubernetes.ENDS}.items()
    ]
    parts = [
        "## On Kubernetes\n",
        "Why a task waits. What can never start fails at once, an image that cannot be pulled "
        "after five minutes:\n",
        "| Kubernetes' word | what it means |\n| --- | --- |",
        *waits,
        "\nHow it ended, where the program itself has not said it:\n",
        "| Kubernetes' word | what it means | cause | then |\n| --- | --- | --- | --- |",
        *ends,
        "\nA Job that has failed as a whole:\n",
        "| Kubernetes' word | what it means |\n| --- | --- |",
        *(f"| `{word}` | {words} |" for word, words in kubernetes.JOB_ENDS.items()),
        "\nWhat it refuses is told in its own words, and with what to do; a right that lacks, with "
        "the Role to apply:\n",
        "| Kubernetes says | what to do |\n| --- | --- |",
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
