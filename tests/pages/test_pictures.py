import base64
import json
import struct
import zlib

import pytest
from made_runs import make_run
from reading import check_page, texts

from tarmac.pages import report
from tarmac.pages.pictures import picture


def decoded(uri):
    """Return a PNG's size, its kind of colour and its pixels, read by its own rules."""
    content = base64.b64decode(uri.removeprefix("data:image/png;base64,"))
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    chunks, place = {}, 8
    while place < len(content):
        (size,) = struct.unpack_from(">I", content, place)
        kind, data = content[place + 4 : place + 8], content[place + 8 : place + 8 + size]
        (check,) = struct.unpack_from(">I", content, place + 8 + size)
        assert check == zlib.crc32(kind + data)
        chunks[kind] = data
        place += 12 + size
    columns, rows, depth, colour, *_ = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert depth == 8
    width = columns * (3 if colour == 2 else 1)
    lines = zlib.decompress(chunks[b"IDAT"])
    assert all(lines[row * (width + 1)] == 0 for row in range(rows))
    return (columns, rows), [
        lines[row * (width + 1) + 1 : (row + 1) * (width + 1)] for row in range(rows)
    ]


def test_a_grey_image_is_a_png():
    assert decoded(picture(bytes(range(6)), (2, 3), 5)) == (
        (3, 2),
        [bytes([0, 51, 102]), bytes([153, 204, 255])],
    )


def test_an_image_of_channels_has_its_colours_side_by_side():
    red, green, blue = bytes([1, 2]), bytes([3, 4]), bytes([5, 6])
    size, rows = decoded(picture(red + green + blue, (3, 1, 2)))
    assert size == (2, 1)
    assert rows == [bytes([1, 3, 5, 2, 4, 6])]


@pytest.mark.parametrize(
    ("pixels", "shape"), [(b"", (2, 2)), (b"12345", (2, 2)), (b"12", (2, 1, 1)), (b"", (0, 0))]
)
def test_what_is_no_image_is_none(pixels, shape):
    assert picture(pixels, shape) == ""


def write_predictions(run, **changes):
    content = {
        "schema_version": 1,
        "num_samples": 5,
        "num_test": 5,
        "confusion": [[2, 1], [0, 2]],
        "sample_shape": [1, 2],
        "most": 16,
        "mistakes": [
            {"index": 3, "target": 0, "predicted": 1, "confidence": 0.75, "pixels": "AAE="}
        ],
    }
    (run.path / "predictions.json").write_text(json.dumps(content | changes))


def test_mistakes_are_shown_with_what_they_are_in_words(tmp_path):
    run = make_run(tmp_path)
    write_predictions(run)
    elements = check_page(report([run.path]))
    (image,) = [e for e in elements if e.name == "img"]
    assert image.attributes["alt"] == "test sample 3: class 0, taken for 1"
    assert image.attributes["src"].startswith("data:image/png;base64,")
    assert "Most often: 0 taken for 1 (1)." in texts(elements, "p")


@pytest.mark.parametrize(
    "changes",
    [
        {"mistakes": []},
        {"confusion": []},
        {"mistakes": [{"index": 1, "target": 0, "predicted": 1, "confidence": 1, "pixels": "?"}]},
        {"sample_shape": [7, 7]},
        {"sample_shape": [1]},
        {"sample_shape": []},
        {"sample_shape": [-1, -2]},
        {"confusion": [[1], [2, 3]]},
        {"num_samples": 3},
        {"schema_version": 99},
        {"confusion": "x"},
    ],
)
def test_predictions_of_any_kind_leave_the_page_whole(tmp_path, changes):
    run = make_run(tmp_path)
    write_predictions(run, **changes)
    assert "Mistakes" in texts(check_page(report([run.path])), "h2")
