"""Executors whose attempts wait in an engine's queue and outlive the runner there.

`QueueingExecutor` handles chunks, windows, evidence and timeouts for all engines; an `Engine`
runs the commands of one engine.
"""

from tarmac.executors.queueing.chunks import ChunkFiles, ChunkRecord, job_label, run_code
from tarmac.executors.queueing.clusters import ClusterId
from tarmac.executors.queueing.elsewhere import (
    note_runner_cluster,
    refuse_other_cluster,
    runner_elsewhere,
)
from tarmac.executors.queueing.engine import (
    Accepted,
    Ending,
    Engine,
    Full,
    Refused,
    Shown,
    Silent,
    Terms,
    TooLarge,
    UnitName,
)
from tarmac.executors.queueing.executor import QueueingExecutor
from tarmac.executors.queueing.preparation import Preparation
from tarmac.executors.queueing.submissions import chunk_size
from tarmac.executors.queueing.verdict import Patience

__all__ = [
    "Accepted",
    "ChunkFiles",
    "ChunkRecord",
    "ClusterId",
    "Ending",
    "Engine",
    "Full",
    "Patience",
    "Preparation",
    "QueueingExecutor",
    "Refused",
    "Shown",
    "Silent",
    "Terms",
    "TooLarge",
    "UnitName",
    "chunk_size",
    "job_label",
    "note_runner_cluster",
    "refuse_other_cluster",
    "run_code",
    "runner_elsewhere",
]
