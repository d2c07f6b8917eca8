"""Locate published datasets on disk, and parse them to arrays."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import platformdirs

from tarmac.data.base import Dataset, Split
from tarmac.data.cifar import parse_binary_batch, parse_python_batch
from tarmac.data.files import find, read_checked
from tarmac.data.idx import parse_idx
from tarmac.data.included import INCLUDED
from tarmac.data.own import own_names
from tarmac.data.sources import SOURCES, DataFile, Source
from tarmac.data.text import Text, cut_text, parse_text
from tarmac.errors import RequestError, unknown_name


def data_root() -> Path:
    """Return the directory of the datasets: ``TARMAC_DATA``, else in the user's cache directory."""
    root = os.environ.get("TARMAC_DATA")
    return Path(root) if root else platformdirs.user_cache_path("tarmac") / "data"


def place(name: str, root: Path | None) -> tuple[Source, Path]:
    """Return a downloadable dataset's source and its directory, or raise a RequestError."""
    if name in INCLUDED:
        raise RequestError(f"{name} comes with Tarmac: there is nothing to fetch or add")
    if name not in SOURCES:
        summaries = dict.fromkeys(INCLUDED, "embedded") | {n: s.summary for n, s in SOURCES.items()}
        summaries |= dict.fromkeys(own_names(root or data_root()), "your own")
        raise unknown_name("dataset", name, summaries)
    return SOURCES[name], (root or data_root()) / name


def whole_layout(source: Source, directory: Path) -> tuple[DataFile, ...] | None:
    """Return the first layout whose files all exist, or None."""
    for layout in source.layouts:
        if all(find(source, file, [directory]) for file in layout):
            return layout
    return None


def parse(source: Source, layout: Sequence[DataFile], directory: Path) -> Dataset:
    """Read, check and parse a whole layout; raise a TarmacError for any damaged file."""
    if source.kind == "text":
        (length,) = source.sample_shape
        return read_text(source, directory).windows(source.name, length)
    arrays = []
    for file in layout:
        path = find(source, file, [directory])
        assert path is not None, "a whole layout was asked for"
        arrays.append(parse_file(source, file, path))
    if source.kind == "idx":
        (train_x,), (train_y,), (test_x,), (test_y,) = arrays
        splits = [Split(train_x, train_y.astype(np.int64)), Split(test_x, test_y.astype(np.int64))]
    else:
        splits = [
            Split(np.concatenate([b[0] for b in part]), np.concatenate([b[1] for b in part]))
            for part in (arrays[:-1], arrays[-1:])
        ]
    return Dataset(name=source.name, train=splits[0], test=splits[1], num_classes=10)


def read_text(source: Source, directory: Path) -> Text:
    """Read and check a text dataset; raise a TarmacError if it is damaged."""
    (file,) = source.layouts[0]
    path = find(source, file, [directory])
    assert path is not None, "a whole layout was asked for"
    ((content,),) = (parse_file(source, file, path),)
    return cut_text(content)


def parse_file(
    source: Source, file: DataFile, path: Path, *, compressed: bool | None = None
) -> tuple[np.ndarray, ...]:
    """Read, check and parse one file; by default the suffix ``.gz`` means compressed."""
    if compressed is None:
        compressed = path.suffix == ".gz"
    content = read_checked(file, path, compressed=compressed)
    if source.kind == "text":
        return (parse_text(content, str(path)),)
    if source.kind == "idx":
        return (parse_idx(content, str(path), 3 if "images" in file.name else 1),)
    if file.name.endswith(".bin"):
        return parse_binary_batch(content, str(path))
    return parse_python_batch(content, str(path))
