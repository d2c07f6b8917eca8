"""What a real server's watches have said of the stories, kept for the emulator to agree with.

    TARMAC_TEST_KUBECONFIG=FILE python tests/kubernetes/recordings/streams.py

tells them to a real one anew, each in a namespace of its own, and writes what it says.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

# Run by itself: it imports what lies beside its directory, and that the modules of all tests.
sys.path += map(str, Path(__file__).resolve().parents[1:3])

from recordings.stories import STORIES, Event, Teller

_FILE = Path(__file__).with_name("streams.json")
# Jobs and pods in turn: twice as long as the Job controller gathers what it has to say. A pod whose
# node is not there is taken away after 40 s, which stories may not last.
_QUIET_S = 1
_KINDS = ("jobs", "pods")

# By step, and in it by kind, what the watch has said.
Stream = list[dict[str, list[Event]]]


def kept_streams() -> Mapping[str, Stream]:
    """Return what a real server has said, by story."""
    kept = json.loads(_FILE.read_text(encoding="utf-8"))
    return {
        name: [
            {kind: [(it[0], it[1]) for it in events] for kind, events in step.items()}
            for step in stream
        ]
        for name, stream in kept["streams"].items()
    }


def _record() -> None:
    from emulator.real import VARIABLE, RealCluster

    streams: dict[str, Stream] = {}
    server = {}
    for name, story in STORIES.items():
        with tempfile.TemporaryDirectory() as directory:
            real = RealCluster(Path(os.environ[VARIABLE]), Path(directory))
            real.wait_for_account()
            server = real.admin.get("/version").json()
            teller = Teller(real.admin, real.namespace, story)
            streams[name] = []
            for step in story.steps:
                teller.do(step)
                said: dict[str, list[Event]] = {kind: [] for kind in _KINDS}
                while True:
                    new = {kind: list(teller.hear(kind, _QUIET_S)) for kind in _KINDS}
                    if not any(new.values()):
                        break
                    for kind, events in new.items():
                        said[kind] += events
                streams[name].append(said)
            real.stop()
    kept = {"server": f"{server['major']}.{server['minor']}", "streams": streams}
    _FILE.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    _record()
