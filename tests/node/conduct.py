"""Conducts a chunk's only element, and waits for its nodes no longer than 15 s: AGENT SPEC."""

import os
import sys
from pathlib import Path

from tarmac.node.conductor import conduct
from tarmac.node.inbox import Inbox
from tarmac.node.records import Chunk

sys.argv = sys.argv[1:]
element = Chunk(Path(sys.argv[1])).element(0)
Path(element.directory).mkdir(parents=True)
ending = conduct(
    element,
    ["--part", sys.argv[1], "0"],
    os.environ,
    Inbox(signals_all=True),
    lambda gpus: None,
    mark="x",
    meet_within_s=15.0,
)
sys.stdout.write(f"{ending.outcome} {ending.cause}: {ending.reason}\n")
