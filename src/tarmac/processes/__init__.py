"""Processes that Tarmac starts: with all that they start, watched, and ended as a whole."""

from tarmac.processes.serving import Conversation, serve
from tarmac.processes.workers import LOOK_EVERY_S, Worker

__all__ = ["LOOK_EVERY_S", "Conversation", "Worker", "serve"]
