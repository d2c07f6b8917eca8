"""Standard output and standard error of the command line, which may end or fill at any moment.

A command that reports fails when its output is lost, because the output is its result. A command
that works goes on: a run is worth more than the terminal that watched it.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, TextIO

from tarmac.errors import TarmacError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class _Output(io.BufferedWriter):
    """A writer to a descriptor, which leads to ``/dev/null`` once it takes no more.

    Errors are caught above the buffer. A raw file of ours could be interrupted after the kernel's
    write, and the buffer would then write the same bytes again.

    Args:
        title: Name of the stream in the message: ``standard output``.
        descriptor: Number of the open file.
        is_needed: Whether the loss raises: BrokenPipeError if the reader has closed the pipe, else
            TarmacError.
    """

    def __init__(self, title: str, descriptor: int, *, is_needed: bool) -> None:
        super().__init__(io.FileIO(descriptor, "wb", closefd=False))
        self.is_needed = is_needed
        self._title = title

    def write(self, content: ReadableBuffer, /) -> int:
        try:
            return super().write(content)
        except BlockingIOError:
            raise
        except OSError as error:
            self._lose(error)
            return memoryview(content).nbytes

    def flush(self) -> None:
        try:
            super().flush()
        except BlockingIOError:
            raise
        except OSError as error:
            self._lose(error)

    def _lose(self, error: OSError) -> None:
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)
        super().flush()
        reason = os.strerror(error.errno or 0)
        if self.is_needed and isinstance(error, BrokenPipeError):
            raise error
        if self.is_needed:
            raise TarmacError(f"{self._title} cannot be written: {reason}") from error
        if not isinstance(error, BrokenPipeError):
            sys.stderr.write(f"warning: {self._title} cannot be written: {reason}\n")


@contextlib.contextmanager
def guarded_output() -> Iterator[None]:
    """Print through `_Output` in the context, also characters that the locale cannot encode."""
    _open_closed_streams()
    before = sys.stdout, sys.stderr
    sys.stdout = _guarded("standard output", sys.stdout, is_needed=True)
    sys.stderr = _guarded("standard error", sys.stderr, is_needed=False)
    own = sys.stdout, sys.stderr
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        for file in own:
            # The rest of the output belongs to an error that was already reported.
            with contextlib.suppress(OSError, TarmacError, AttributeError):
                file.flush()


def flush_output() -> None:
    """Write the buffered part of standard output.

    Raises:
        TarmacError: Standard output takes no more.
    """
    if sys.stdout is not None:
        sys.stdout.flush()


@contextlib.contextmanager
def outlives_output(*, unless: bool = False) -> Iterator[None]:
    """Go on without standard output if it is lost in the context.

    Args:
        unless: Whether the output is a requested result, as with ``--json``. Then its loss raises.
    """
    output = getattr(sys.stdout, "buffer", None)
    if unless or not isinstance(output, _Output):
        yield
        return
    output.is_needed = False
    try:
        yield
    finally:
        output.is_needed = True


def _open_closed_streams() -> None:
    """Open ``/dev/null`` in the place of standard streams that were closed, as by ``>&-``.

    Otherwise the next file to be opened would get the stream's number, and the printed text.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            # The kernel gives the lowest free number, which is this stream's.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
        if getattr(sys, name) is None:
            mode = "w" if number else "r"
            file = io.FileIO(number, mode, closefd=False)
            buffer = io.BufferedWriter(file) if number else io.BufferedReader(file)
            setattr(sys, name, io.TextIOWrapper(buffer, encoding="utf-8"))


def _guarded(title: str, file: TextIO, *, is_needed: bool) -> TextIO:
    if not isinstance(file, io.TextIOWrapper):
        return file
    try:
        file.flush()
        output = _Output(title, file.fileno(), is_needed=is_needed)
    except OSError:
        # A stream of a test's own has no descriptor.
        file.reconfigure(errors="backslashreplace")
        return file
    return io.TextIOWrapper(
        output,
        encoding=file.encoding,
        errors="backslashreplace",
        line_buffering=file.line_buffering,
        write_through=file.write_through,
    )
