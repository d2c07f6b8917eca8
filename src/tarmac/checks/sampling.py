"""Reads GPUs in a thread while a probe has its turn to measure."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from tarmac.checks.under_load import UnderLoad, summarise
from tarmac.machine import Asker, NoAnswerError

if TYPE_CHECKING:
    from tarmac.machine import LoadReader, LoadSample

_EVERY_S = 0.1

# Limit of the last reading, in seconds: a driver that hangs gives no answer.
_PATIENCE_S = 20.0


@contextlib.contextmanager
def sampling(
    readers: Mapping[int, LoadReader], is_measuring: Callable[[], bool]
) -> Iterator[Callable[[], tuple[UnderLoad, ...]]]:
    """Read GPUs every tenth of a second while a probe measures.

    Args:
        readers: Reader of each GPU, by the GPU's index.
        is_measuring: Returns whether a probe has its turn now.

    Yields:
        A function that stops the readings and returns those of each GPU that computed meanwhile.
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
            # While one GPU is measured the others may be idle, which is no result for them.
            sample = reader.sample()
            # A sample during which a probe's turn has ended is no result either.
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
