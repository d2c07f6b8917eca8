"""What a real server has said to Jobs, kept beside the emulator that has to say the same.

    TARMAC_TEST_KUBECONFIG=FILE python tests/kubernetes/recordings/verdicts.py

asks a real one anew, by dry runs in a namespace of their own, and writes what it says.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import httpx

# Run by itself: it imports what lies beside its directory, and that the modules of all tests.
sys.path += map(str, Path(__file__).resolve().parents[1:3])

from recordings.jobs import recorded_jobs

_FILE = Path(__file__).with_name("verdicts.json")
_QUERY = {"fieldValidation": "Strict", "dryRun": "All"}
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Verdict(NamedTuple):
    """What a server says to an object.

    Attributes:
        code: Of HTTP.
        reason: As in a Status; empty where the object is taken.
        message: Likewise, with UID for each uid.
    """

    code: int
    reason: str
    message: str


def verdicts_of(post: Callable[..., httpx.Response], namespace: str) -> dict[str, Verdict]:
    """Ask a server for its verdicts on all Jobs; return them by the Jobs' names.

    Args:
        post: As of ``httpx.Client``.
        namespace: In which the Jobs would be.
    """
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    return {
        name: _verdict(post(path, json=job, params=_QUERY)) for name, job in recorded_jobs().items()
    }


def kept_verdicts() -> Mapping[str, Verdict]:
    """Return what a real server has said."""
    kept = json.loads(_FILE.read_text(encoding="utf-8"))
    return {name: Verdict(**verdict) for name, verdict in kept["verdicts"].items()}


def _verdict(answer: httpx.Response) -> Verdict:
    said: dict[str, Any] = answer.json()
    message = _UID.sub("UID", said.get("message", ""))
    return Verdict(answer.status_code, said.get("reason", ""), message)


def _record() -> None:
    from emulator.real import VARIABLE, RealCluster

    with tempfile.TemporaryDirectory() as directory:
        real = RealCluster(Path(os.environ[VARIABLE]), Path(directory))
        server = real.admin.get("/version").json()
        verdicts = verdicts_of(real.admin.post, real.namespace)
        real.stop()
    kept = {
        "server": f"{server['major']}.{server['minor']}",
        "verdicts": {name: verdict._asdict() for name, verdict in verdicts.items()},
    }
    _FILE.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    _record()
