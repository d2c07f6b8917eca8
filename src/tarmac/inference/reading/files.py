"""The reader of a file, chosen by its ending."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tarmac.errors import RequestError
from tarmac.inference.parts import Part, Samples
from tarmac.inference.reading.arrays import read_npy, read_npz
from tarmac.inference.reading.images import IMAGES, read_images
from tarmac.inference.reading.json_files import read_json, read_json_lines
from tarmac.inference.reading.tables import read_csv

_READERS = {
    ".csv": read_csv,
    ".json": read_json,
    ".jsonl": read_json_lines,
    ".ndjson": read_json_lines,
    ".npy": read_npy,
    ".npz": read_npz,
    **dict.fromkeys(IMAGES, read_images),
}


def read_samples(path: Path, parts: Sequence[Part], size: int) -> Iterator[Samples]:
    """Read samples from a file, or images from a folder.

    Args:
        path: ``.csv``, ``.json``, ``.jsonl``, ``.npy``, ``.npz``, an image, or a folder of images.
        parts: Expected parts of each sample.
        size: Largest number of samples in a batch.

    Yields:
        Batches of samples, in order, with at least one sample in all.

    Raises:
        RequestError: The file does not exist or has another kind, or samples do not fit. The
            message names the samples or the line.
        TarmacError: The file is damaged.
    """
    if not path.exists():
        raise RequestError(f"{path}: there is no such file")
    reader = read_images if path.is_dir() else _READERS.get(path.suffix.lower())
    if reader is None:
        known = ", ".join(_READERS)
        raise RequestError(
            f"{path}: no samples are read from {path.suffix or 'such'} files",
            hint=f"Use {known}, or a folder of images.",
        )
    empty = True
    for samples in reader(path, parts, size):
        empty = False
        yield samples
    if empty:
        raise RequestError(f"{path} holds no samples")
