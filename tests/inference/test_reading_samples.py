"""Samples from files: what is read, and what is said of what does not fit."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tarmac import RequestError, TarmacError
from tarmac.inference import read_samples
from tarmac.inference.parts import Part

GREY = (Part("", (2, 2), np.dtype(np.uint8)),)
ROW = (Part("", (3,), np.dtype(np.float32)),)
PAIR = (Part("words", (2,), np.dtype(np.uint16)), Part("age", (), np.dtype(np.float32)))


def read(path, parts, size=2):
    found = [*read_samples(path, parts, size)]
    assert all(0 < len(samples) <= size for samples in found)
    return {
        name: np.concatenate([samples.columns[name] for samples in found])
        for name in found[0].columns
    }


@pytest.mark.parametrize("header", ["", "a,b,c,d\n"])
def test_a_table_is_read_with_names_or_without(tmp_path, header):
    path = tmp_path / "x.csv"
    path.write_text(f"{header}0,1,2,3\n\n255,0,0,9\n1,1,1,1\n")
    found = read(path, GREY)[""]
    assert found.dtype == np.uint8
    assert found.tolist() == [[[0, 1], [2, 3]], [[255, 0], [0, 9]], [[1, 1], [1, 1]]]


def test_columns_of_several_parts_stand_in_any_order(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("age,words.1,words.0\n0.5,7,65535\n")
    found = read(path, PAIR)
    assert found["words"].tolist() == [[65535, 7]]
    assert found["age"].tolist() == [0.5]


@pytest.mark.parametrize(
    ("text", "parts", "said"),
    [
        ("1,2,3\n", GREY, "x.csv:1: 3 columns, expected 4: a value for each of uint8 [2, 2]"),
        ("a,b,c\n1,2,3\n1,2\n", ROW, "x.csv:3: 2 columns, expected 3"),
        ("1,2,3\n1,blue,3\n", ROW, "x.csv:2: column 2 is 'blue', expected a number"),
        ("1,2,3\n1,,3\n", ROW, "x.csv:2: column 2 is '', expected a number"),
        ("1,2,3\n1,nan,3\n", ROW, "x.csv:2: a value is not finite"),
        ("1,2,3,256\n", GREY, "x.csv:1: 1 to 256, expected uint8, whole numbers from 0 to 255"),
        ("1,2,3,0.5\n", GREY, "x.csv:1: 0.5 to 3, expected uint8"),
        ("1,2,3,-1\n", GREY, "x.csv:1: -1 to 3, expected uint8"),
        ("1,2,3\n", PAIR, "x.csv:1: no line of names"),
        ("age,words.0\n", PAIR, "x.csv:1: columns do not fit; missing: words.1"),
        ("age,words.0,words.1,target\n", PAIR, "not in the model: target"),
        ("", ROW, "x.csv holds no samples"),
        ("a,b,c\n", ROW, "x.csv holds no samples"),
    ],
)
def test_what_is_wrong_with_a_table_is_said_with_its_line(tmp_path, text, parts, said):
    path = tmp_path / "x.csv"
    path.write_text(text)
    with pytest.raises(RequestError) as caught:
        read(path, parts)
    assert said in caught.value.message


def test_text_that_is_no_text_is_refused(tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes(b"1,2,3\n\xff\xfe,1,2\n")
    with pytest.raises(RequestError, match="not UTF-8"):
        read(path, ROW)


def test_json_is_read_as_a_list_and_line_by_line(tmp_path):
    samples = [
        {"words": [1, 2], "age": 3},
        {"words": [4, 5], "age": 0.25},
        {"words": [6, 7], "age": 1},
    ]
    (tmp_path / "x.json").write_text(json.dumps(samples))
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(s) + "\n" for s in samples))
    for name in ("x.json", "x.jsonl"):
        found = read(tmp_path / name, PAIR)
        assert found["words"].dtype == np.uint16
        assert found["words"].tolist() == [[1, 2], [4, 5], [6, 7]]
        assert found["age"].tolist() == [3, 0.25, 1]


@pytest.mark.parametrize(
    ("name", "text", "parts", "said"),
    [
        ("x.jsonl", "[1, 2, 3]\n[1, 2]\n", ROW, "x.jsonl:2: shape [2], expected [3]"),
        ("x.jsonl", "[1, 2, 3]\n[1, 2,\n", ROW, "x.jsonl:2:"),
        ("x.jsonl", '["a", 2, 3]\n', ROW, "x.jsonl:1: 'a' is not a number, expected float32 [3]"),
        ("x.jsonl", '[0, 1, "x"]\n', ROW, "x.jsonl:1: 'x' is not a number"),
        ("x.jsonl", "[[0, 1], [null, 2]]\n", GREY, "x.jsonl:1: None is not a number"),
        ("x.jsonl", "[[1, 2], [3]]\n", GREY, "x.jsonl:1: lists of different lengths"),
        ("x.jsonl", "[1, 2, 3]\n", PAIR, "x.jsonl:1: a list, expected an object with words, age"),
        ("x.jsonl", '{"age": 1}\n', PAIR, "x.jsonl:1: missing: words"),
        ("x.jsonl", '{"words": [1, 99999], "age": 1}\n', PAIR, "x.jsonl:1: words: 1 to 99999"),
        ("x.json", "[\n[1, 2, 3],\n[1, 2]\n]", ROW, "x.json:3: sample 1 (from 0): shape [2]"),
        ("x.json", '{"a": 1}', ROW, "x.json:1: an object, expected a list of samples"),
        ("x.json", "[1,\n", ROW, "x.json:2:1:"),
        ("x.json", "[]", ROW, "x.json holds no samples"),
    ],
)
def test_what_is_wrong_with_json_is_said_with_its_line(tmp_path, name, text, parts, said):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(RequestError) as caught:
        read(path, parts)
    assert said in caught.value.message


def test_arrays_are_read_whole_and_one_by_one(tmp_path):
    images = np.arange(12, dtype=np.int64).reshape(3, 2, 2)
    np.save(tmp_path / "x.npy", images)
    np.save(tmp_path / "one.npy", images[0])
    np.savez(tmp_path / "x.npz", inputs=images, targets=np.arange(3))
    for name in ("x.npy", "x.npz"):
        assert read(tmp_path / name, GREY)[""].tolist() == images.tolist()
    assert read(tmp_path / "one.npy", GREY)[""].tolist() == images[:1].tolist()
    np.savez(tmp_path / "pair.npz", words=np.ones((3, 2), np.uint16), age=np.zeros(3))
    assert read(tmp_path / "pair.npz", PAIR)["words"].shape == (3, 2)


@pytest.mark.parametrize(
    ("arrays", "parts", "said"),
    [
        ({"inputs": np.zeros((3, 4))}, GREY, "shape [3, 4], expected [num_samples, 2, 2]"),
        ({"inputs": np.full((3, 2, 2), 0.5)}, GREY, "samples 0 to 1: 0.5, expected uint8"),
        ({"a": np.zeros(1), "b": np.zeros(1)}, ROW, "holds a, b; which are the samples?"),
        ({"a": np.zeros(1), "age": np.zeros(1)}, PAIR, "holds a, age, expected age, words"),
        ({"words": np.zeros((2, 2)), "age": np.zeros(3)}, PAIR, "parts of different lengths"),
        ({"inputs": np.array([{}])}, ROW, "holds objects"),
        ({"inputs": np.array(["a"])}, ROW, "shape [1], expected"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(tmp_path, arrays, parts, said):
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(RequestError) as caught:
        read(tmp_path / "x.npz", parts)
    assert said in caught.value.message


@pytest.mark.parametrize("name", ["x.npy", "x.npz"])
def test_a_file_that_is_no_arrays_is_named(tmp_path, name):
    (tmp_path / name).write_bytes(b"no array at all")
    with pytest.raises(TarmacError, match=name):
        read(tmp_path / name, ROW)


def test_images_are_brought_to_the_models_size(tmp_path):
    pillow = pytest.importorskip("PIL.Image", reason="needs pip install 'tarmac-gpu[images]'")
    pillow.fromarray(np.full((4, 8, 3), 200, np.uint8)).save(tmp_path / "b.png")
    pillow.fromarray(np.full((2, 2), 7, np.uint8)).save(tmp_path / "a.png")
    (tmp_path / "notes.txt").write_text("no image")
    (samples,) = read_samples(tmp_path, GREY, 8)
    assert samples.columns[""].tolist() == [[[7, 7], [7, 7]], [[200, 200], [200, 200]]]
    assert samples.files == (str(tmp_path / "a.png"), str(tmp_path / "b.png"))
    colours = (Part("", (3, 2, 2), np.dtype(np.uint8)),)
    (samples,) = read_samples(tmp_path / "b.png", colours, 8)
    assert samples.columns[""].shape == (1, 3, 2, 2)


def test_images_that_cannot_be_are_named(tmp_path):
    pytest.importorskip("PIL.Image", reason="needs pip install 'tarmac-gpu[images]'")
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n and no more")
    with pytest.raises(TarmacError, match=r"broken\.png"):
        read(tmp_path / "broken.png", GREY)
    with pytest.raises(RequestError, match=r"takes no images: a sample is float32 \[3\]"):
        read(tmp_path / "broken.png", ROW)
    (tmp_path / "empty").mkdir()
    with pytest.raises(RequestError, match="holds no samples"):
        read(tmp_path / "empty", GREY)


def test_other_files_are_refused(tmp_path):
    with pytest.raises(RequestError, match="there is no such file"):
        read(tmp_path / "absent.csv", ROW)
    (tmp_path / "x.xlsx").write_bytes(b"")
    with pytest.raises(RequestError, match=r"no samples are read from \.xlsx files"):
        read(tmp_path / "x.xlsx", ROW)
