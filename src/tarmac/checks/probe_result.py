"""The result that a probe writes: whether it is valid, and the outcome that it means."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tarmac.files import parse_json
from tarmac.masking import without_known

if TYPE_CHECKING:
    from tarmac.checks.evidence import Outcome

# Keys of each entry of ``placements``.
_PLACEMENT = {"device", "operation", "ran_on"}


def read_result(path: Path) -> tuple[dict[str, Any], str]:
    """Return a probe's result, and in words why it is not valid; one of the two is empty."""
    try:
        written = parse_json(path.read_text(encoding="utf-8"))
    except OSError:
        return {}, "it wrote no result"
    except ValueError:
        return {}, "its result is not JSON"
    if not isinstance(written, dict):
        return {}, "its result is not a JSON object"
    return (
        (written, "")
        if is_result(written)
        else ({}, "its result does not have the form of a probe's result")
    )


def is_result(written: dict[str, Any]) -> bool:
    """Return whether the fields of a result that other code reads have a probe's types."""
    devices = written.get("devices", [])
    placements = written.get("placements", [])
    return (
        isinstance(devices, list)
        and all(
            isinstance(device, dict) and {"name", "kind"} <= device.keys() for device in devices
        )
        and isinstance(placements, list)
        and all(isinstance(row, dict) and row.keys() >= _PLACEMENT for row in placements)
        and isinstance(written.get("notes", []), list)
        and all(
            isinstance(written.get(key) or {}, dict)
            for key in ("error", "build", "all_reduce", "python", "companions")
        )
    )


def last_error(printed: str) -> str:
    """Return the printed line that most likely explains a missing result, after ``": "``."""
    lines = [line.strip() for line in printed.splitlines()]
    errors = [line for line in lines if "rror" in line]
    message = (errors or [line for line in lines if line] or [""])[-1]
    return f": {without_known(message)[:300]}" if message else ""


def judge_result(
    written: Mapping[str, Any], flaw: str, code: int, words: str
) -> tuple[Outcome, str]:
    """Return the outcome and its detail, for a probe whose process has ended by itself.

    Args:
        written: Result of the probe, from `read_result`.
        flaw: Reason why there is no result; empty where there is one.
        code: Exit code of the probe's process.
        words: Last error that the probe printed; empty where there is a result.
    """
    stage, error = written.get("stage"), written.get("error")
    all_reduce = written.get("all_reduce") or {}
    if flaw:
        return "no result", f"{flaw} and ended with exit code {code}{words}"
    if written.get("absent"):
        return "not installed", ""
    if all_reduce.get("problem") == "hung":
        return "hung", str(all_reduce["detail"])
    if error is None:
        is_whole = stage == "done"
        return ("done", "") if is_whole else ("no result", f"it ended during {stage}")
    first = (str(error.get("message", "")).strip().splitlines() or [""])[0]
    during = "" if stage == "import" else f" during {stage}"
    return "failed", f"{error.get('type')}{during}: {first}"
