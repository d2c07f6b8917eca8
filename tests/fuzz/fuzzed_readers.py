"""What reads text or bytes that others have written, each with samples that are mutated.

A reader takes a file's content and a directory of its own. It returns, or raises `TarmacError` or
what its docstring names: nothing else, whatever the content is. A new reader is one more in the
`READERS` of its kind.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path

from tarmac.errors import TarmacError

Samples = Mapping[str, bytes]


@dataclasses.dataclass(frozen=True)
class Reader:
    """A reader and what it reads.

    Attributes:
        samples: Returns real files by their names.
        read: Takes the content of one and an empty directory.
        share: How many mutants it gets for one of a slow reader.
        raises: What its docstring names beside `TarmacError`.
        wrap: Makes a file of a mutant, such as an archive that has it as its member.
        is_refused: Whether the samples themselves are refused.
    """

    samples: Callable[[], Samples]
    read: Callable[[bytes, Path], object]
    share: int = 4
    raises: tuple[type[Exception], ...] = ()
    wrap: Callable[[bytes], bytes] = bytes
    is_refused: bool = False

    @property
    def allowed(self) -> tuple[type[Exception], ...]:
        """Return the errors that are no faults."""
        return (TarmacError, *self.raises)


def of_file(name: str, read: Callable[[Path], object]) -> Callable[[bytes, Path], object]:
    """Return a reader of content for one that takes a path."""

    def write_and_read(content: bytes, directory: Path) -> object:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return read(path)

    return write_and_read


def of_text(read: Callable[[str], object]) -> Callable[[bytes, Path], object]:
    """Return a reader of content for one that takes text, decoded as programs' output is."""
    return lambda content, _: read(content.decode(errors="replace"))


def all_readers() -> dict[str, Reader]:
    """Return the readers of all kinds, by name."""
    import fuzzed_answers
    import fuzzed_data
    import fuzzed_documents
    import fuzzed_records

    kinds = (fuzzed_documents, fuzzed_records, fuzzed_data, fuzzed_answers)
    return {name: reader for kind in kinds for name, reader in kind.READERS.items()}
