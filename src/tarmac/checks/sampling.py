"""Reads GPUs while a probe has its turn to measure, in a thread."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING

from tarmac.checks.under_load import UnderLoad, summarise
from tarmac.machine import Asker, NoAnswerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tarmac.machine import LoadReader, LoadSample

_EVERY_S = 0.1

# How long the last look may take: a driver that has begun to hang says no more.
_PATIENCE_S = 20.0


@contextlib.contextmanager
def sampling(
    readers: Mapping[int, LoadReader], is_measuring: Callable[[], bool]
) -> Iterator[Callable[[], tuple[UnderLoad, ...]]]:
    """Read GPUs every tenth of a second for as long as a probe measures.

    Args:
        readers: Reader of each GPU, by the GPU's index.
        is_measuring: Tells whether a probe has its turn now.

    Yields:
        What ends it and returns what was read of each GPU that computed meanwhile.
    """
    stop = threading.Event()
    reading = Asker(_read)
    reading.ask(readers, is_measuring, stop)
    started = time.monotonic()

    def finish() -> tuple[UnderLoad, ...]:
        stop.set()
        try:
            return reading.answer(time.monotonic() - started + _PATIENCE_S)
        except NoAnswerError:
            return ()

    try:
        yield finish
    finally:
        stop.set()
        reading.close()


def _read(
    readers: Mapping[int, LoadReader], is_measuring: Callable[[], bool], stop: threading.Event
) -> tuple[UnderLoad, ...]:
    started = time.monotonic()
    before = {index: reader.counters() for index, reader in readers.items()}
    samples: dict[int, list[LoadSample]] = {index: [] for index in readers}
    while readers and not stop.wait(_EVERY_S):
        if not is_measuring():
            continue
        for index, reader in readers.items():
            # While one GPU is measured the others may be idle, which says nothing of them.
            sample = reader.sample()
            # Nor does one say anything that a probe's turn has ended in the midst of.
            if sample is not None and is_measuring():
                samples[index].append(sample)
    return tuple(
        summarise(
            index,
            samples[index],
            before[index],
            reader.counters(),
            time.monotonic() - started,
        )
        for index, reader in readers.items()
        if samples[index]
    )
