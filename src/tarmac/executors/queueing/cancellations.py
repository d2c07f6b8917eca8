"""Ends attempts on request, with fences and through the engine."""

from __future__ import annotations

import time
from typing import Any

from tarmac.executors.queueing.calls import Call
from tarmac.executors.queueing.engine import Engine, Silent
from tarmac.executors.queueing.fences import fence_at_work, fence_unbegun
from tarmac.executors.queueing.held import SubmittedAttempt, SubmittedChunk
from tarmac.executors.queueing.ledger import Ledger

_AGAIN_S = 5.0


class Cancellations:
    """Ends attempts of chunks: unbegun ones by a fence, running ones through the engine.

    Args:
        ledger: Attempts and chunks in hand; gets the end of those that have not begun.
        engine: Engine that cancels the units.
    """

    def __init__(self, ledger: Ledger, engine: Engine) -> None:
        self._ledger = ledger
        self._engine = engine
        self._wanted: list[tuple[SubmittedChunk, int | None]] = []
        self._at = 0.0
        self.ended_at = 0.0

    def times(self) -> list[float]:
        """Return when the next step may be due, by the monotonic clock."""
        return [self._at]

    def end(self, chunk: SubmittedChunk, flight: SubmittedAttempt) -> None:
        """End an attempt of a chunk, for its `end_reason`."""
        index = flight.index
        if fence_unbegun(flight.attempt, chunk.record.nonce):
            self.end_unit(chunk, index)
            self._ledger.interrupt(flight, flight.evidence.end_reason, chunk)
            return
        if not chunk.is_last_of_unit(index):
            fence_at_work(flight.attempt, flight.evidence.end_reason)
        self.end_unit(chunk, index)

    def end_chunk(self, chunk: SubmittedChunk) -> None:
        """End all attempts of a chunk."""
        self._wanted.append((chunk, None))

    def end_unit(self, chunk: SubmittedChunk, index: int) -> None:
        """End the unit of an element, unless other attempts of the unit are left."""
        if chunk.is_last_of_unit(index):
            self._wanted.append((chunk, chunk.unit_of(index).unit))

    def catch_up(self, chunk: SubmittedChunk) -> None:
        """End the attempts that were asked to end while their chunk was being submitted."""
        requested = [flight for flight in chunk.flights.values() if flight.evidence.end_reason]
        if len(requested) == len(chunk.flights):
            self.end_chunk(chunk)
            return
        for flight in requested:
            self.end(chunk, flight)

    def call(self, now: float) -> Call[Any] | None:
        """Return the call that cancels units which the engine is known to have; None for none."""
        ready = [entry for entry in self._wanted if _is_known(*entry)]
        if not ready or now < self._at:
            return None
        self._wanted = [entry for entry in self._wanted if not _is_known(*entry)]
        chunks = [chunk.record for chunk, unit in ready if unit is None]
        units = [(chunk.record, unit) for chunk, unit in ready if unit is not None]

        def hear(answer: Silent | None) -> None:
            if answer is None:
                self.ended_at = time.monotonic()
                return
            self._ledger.on_no_answer(answer)
            self._wanted += ready
            self._at = time.monotonic() + _AGAIN_S

        return Call(lambda: self._engine.cancel(units, chunks), hear)


def _is_known(chunk: SubmittedChunk, unit: int | None) -> bool:
    """Return whether the engine can cancel: a submitted chunk, or a unit of a known job."""
    return chunk.is_submitted and (unit is None or bool(chunk.record.job))
