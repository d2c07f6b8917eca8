"""The colours of a run's status."""

from __future__ import annotations

from collections.abc import Mapping

STATES: Mapping[str, str] = {
    "completed": "ok",
    "succeeded": "ok",
    "running": "busy",
    "queued": "busy",
    "detached": "busy",
    "interrupted": "warn",
    "cancelled": "warn",
    "failed": "bad",
}
