"""A trained model's mistakes: the confusion matrix, and its most confident mistakes as pictures."""

from __future__ import annotations

import base64
import binascii
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

from markupsafe import Markup

from tarmac.errors import TarmacError
from tarmac.pages.components import message, paragraph
from tarmac.pages.matrix import matrix
from tarmac.pages.numbers import worded
from tarmac.pages.page import Section
from tarmac.runs import PREDICTIONS, Mistake, Predictions, read_predictions
from tarmac.wording import counted

_MAX_PAIRS = 3


def pictures(run: Path) -> Iterator[Section]:
    """Yield the section on a run's mistakes, if the run has predictions.

    Args:
        run: Directory of the training, with ``predictions.json`` if predictions were made.
    """
    if not (run / PREDICTIONS).exists():
        return
    try:
        predictions = read_predictions(run)
    except TarmacError as error:
        yield Section("mistakes", "Mistakes", message("warn", error.message))
        return
    whole = (
        "the test set"
        if predictions.num_samples == predictions.num_test
        else "the first test samples"
    )
    yield Section(
        "mistakes",
        "Mistakes",
        _confusion(predictions) + _gallery(predictions),
        f"Of {whole}: {counted(predictions.num_samples, 'sample')}, predicted again on the CPU.",
    )


def picture(pixels: bytes, shape: tuple[int, ...], most: int = 255) -> str:
    """Return an image as the data URI of a PNG; empty if the bytes do not fit the shape.

    Args:
        pixels: Bytes of the image, channel by channel, row by row.
        shape: ``(rows, columns)`` or ``(channels, rows, columns)``, with 1 or 3 channels.
        most: Byte value that is drawn as white. Default 255.
    """
    channels, rows, columns = {2: (1, *shape), 3: shape}.get(len(shape), (0, 0, 0))
    size = rows * columns
    if channels not in (1, 3) or min(shape) < 1 or len(pixels) != channels * size:
        return ""
    bright = bytes(min(255, value * 255 // max(1, most)) for value in range(256))
    flat = pixels.translate(bright)
    planes = [flat[size * channel : size * (channel + 1)] for channel in range(channels)]
    mixed = bytes(value for pixel in zip(*planes, strict=True) for value in pixel)
    width = columns * channels
    # A PNG row begins with its filter type, 0 for none.
    lines = b"".join(b"\0" + mixed[row * width : (row + 1) * width] for row in range(rows))
    colour = 0 if channels == 1 else 2
    content = b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            _chunk(b"IHDR", struct.pack(">IIBBBBB", columns, rows, 8, colour, 0, 0, 0)),
            _chunk(b"IDAT", zlib.compress(lines, 9)),
            _chunk(b"IEND", b""),
        )
    )
    return "data:image/png;base64," + base64.b64encode(content).decode()


def _chunk(kind: bytes, content: bytes) -> bytes:
    check = struct.pack(">I", zlib.crc32(kind + content))
    return struct.pack(">I", len(content)) + kind + content + check


def _confusion(predictions: Predictions) -> Markup:
    counts = predictions.confusion
    if not counts or any(len(row) != len(counts) for row in counts):
        return Markup("")
    names = [str(number) for number in range(len(counts))]
    totals = [sum(row) or 1 for row in counts]
    # Mistakes are rare beside correct answers, so their shades are relative to the worst mistake.
    wrong = [
        [0 if row == column else value / totals[row] for column, value in enumerate(values)]
        for row, values in enumerate(counts)
    ]
    worst = max((share for shares in wrong for share in shares), default=0.0) or 1.0
    shades = [
        [
            counts[row][row] / totals[row] if row == column else share / worst * 0.7
            for column, share in enumerate(shares)
        ]
        for row, shares in enumerate(wrong)
    ]
    pairs = sorted(
        (
            (value, row, column)
            for row, values in enumerate(counts)
            for column, value in enumerate(values)
            if row != column and value
        ),
        reverse=True,
    )[:_MAX_PAIRS]
    words = ", ".join(f"{row} taken for {column} ({value})" for value, row, column in pairs)
    drawn = matrix(
        "confusion",
        "Classes and predictions",
        counts,
        rows=names,
        columns=names,
        row_label="is",
        column_label="said",
        shades=shades,
        strong=[[row == column for column in range(len(counts))] for row in range(len(counts))],
    )
    return drawn + (paragraph(f"Most often: {words}.") if words else Markup(""))


def _gallery(predictions: Predictions) -> Markup:
    drawn = [_figure(mistake, predictions) for mistake in predictions.mistakes]
    if not drawn:
        return paragraph("None of them was taken for another class.")
    return Markup('<h3>The most confident mistakes</h3><ul class="pictures">{}</ul>').format(
        Markup("").join(drawn)
    )


def _figure(mistake: Mistake, predictions: Predictions) -> Markup:
    try:
        pixels = base64.b64decode(mistake.pixels, validate=True)
    except (binascii.Error, ValueError):
        pixels = b""
    image = picture(pixels, predictions.sample_shape, predictions.most)
    text = f"test sample {mistake.index}: class {mistake.target}, taken for {mistake.predicted}"
    return Markup(
        "<li><figure>{}<figcaption>is <b>{}</b>, predicted <b>{}</b><br><small>{} sure, no. "
        "{}</small>"
        "</figcaption></figure></li>"
    ).format(
        Markup('<img src="{}" alt="{}">').format(image, text) if image else "",
        mistake.target,
        mistake.predicted,
        worded(mistake.confidence, "ratio"),
        f"{mistake.index:,}",
    )
