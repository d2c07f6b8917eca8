"""Tables, arrays and folders of images become datasets, or are refused with the place."""

from __future__ import annotations

import errno
import gzip
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from killed import killed_at
from tarmac import RequestError, TarmacError, data
from tarmac.cli import main
from tarmac.data import TableColumns, Taking
from tarmac.data.own.store import staging, write_column
from tarmac.files import StorageError

HOUSES = """\
id,rooms,area,old,price
1,3,70.5,true,100.5
2,4,90,false,150
3,2,40,true,60
4,5,120,false,210
"""
FLOWERS = "length,width,kind\n1.5,2,rose\n2.5,1,tulip\n3.5,2,rose\n4.5,3,lily\n5.5,3,lily\n"


@pytest.fixture
def root(tmp_path, monkeypatch):
    directory = tmp_path / "däta dir"
    monkeypatch.setenv("TARMAC_DATA", str(directory))
    return directory


def written(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def image(path, size=(4, 3), colour=(255, 0, 0), mode="RGB", **saved):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, colour).save(path, **saved)
    return path


def everything(split):
    return np.concatenate([split.train.inputs, split.test.inputs])


def test_a_table_of_values(tmp_path, root):
    path = written(tmp_path / "houses.csv", HOUSES)
    taking = Taking(columns=TableColumns(targets=("price",), dropped=("id",)), test_share=0.25)
    record = data.take_over("houses", path, taking, root)
    loaded = data.load("houses")
    assert (record.features, record.classes) == (("rooms", "area", "old"), None)
    assert (loaded.features, loaded.classes) == (("rooms", "area", "old"), ())
    assert loaded.num_classes is None
    assert (len(loaded.train), len(loaded.test)) == (3, 1)
    assert loaded.train.inputs.dtype == loaded.train.targets.dtype == np.float32
    rows = {tuple(row) for row in everything(loaded).tolist()}
    assert rows == {(3, 70.5, 1), (4, 90, 0), (2, 40, 1), (5, 120, 0)}
    assert isinstance(loaded.train.inputs, np.memmap)


def test_a_table_of_classes_and_one_of_its_test_samples(tmp_path, root):
    path = written(tmp_path / "flowers.csv", FLOWERS)
    test = written(tmp_path / "test.csv", "length,width,kind\n9,9,tulip\n")
    taking = Taking(test=test, columns=TableColumns(targets=("kind",)))
    assert data.take_over("flowers", path, taking, root).classes == ("lily", "rose", "tulip")
    loaded = data.load("flowers")
    assert (loaded.num_classes, loaded.classes) == (3, ("lily", "rose", "tulip"))
    assert loaded.train.targets.tolist() == [1, 2, 1, 0, 0]
    assert loaded.test.targets.tolist() == [2]


def test_a_table_of_test_samples_with_other_columns_is_refused(tmp_path, root):
    path = written(tmp_path / "flowers.csv", FLOWERS)
    test = written(tmp_path / "test.csv", "length,height,kind\n9,9,tulip\n")
    taking = Taking(test=test, columns=TableColumns(targets=("kind",)))
    with pytest.raises(TarmacError, match=r"test\.csv and .* differ in columns: height, width"):
        data.take_over("flowers", path, taking, root)


def test_columns_are_in_the_order_of_the_training_samples_wherever_the_test_has_them(
    tmp_path, root
):
    path = written(tmp_path / "flowers.csv", "length,kind,width\n1,a,2\n3,b,4\n")
    test = written(tmp_path / "test.csv", "width,length,kind\n6,5,b\n")
    taking = Taking(test=test, columns=TableColumns(targets=("kind",)))
    data.take_over("flowers", path, taking, root)
    loaded = data.load("flowers")
    assert loaded.features == ("length", "width")
    assert loaded.train.inputs.tolist() == [[1, 2], [3, 4]]
    assert loaded.test.inputs.tolist() == [[5, 6]]


def test_whole_numbers_are_classes_unless_they_are_values(tmp_path, root):
    path = written(tmp_path / "t.csv", "x,y,w\n1,7,1\n2,9,0.5\n3,7,2\n")
    columns = TableColumns(targets=("y",), weights="w")
    assert data.take_over("a", path, Taking(columns=columns), root).classes == ("7", "9")
    columns = TableColumns(targets=("y",), weights="w", as_values=True)
    data.take_over("b", path, Taking(columns=columns), root)
    loaded = data.load("b")
    assert sorted([*loaded.train.targets.tolist(), *loaded.test.targets.tolist()]) == [7, 7, 9]
    assert loaded.train.weights.dtype == np.float32


def test_parquet_gives_what_csv_does(tmp_path, root):
    from pyarrow import csv, parquet

    path = written(tmp_path / "houses.csv", HOUSES)
    parquet.write_table(csv.read_csv(path), tmp_path / "houses.parquet")
    taking = Taking(columns=TableColumns(targets=("price", "area")))
    data.take_over("a", path, taking, root)
    data.take_over("b", tmp_path / "houses.parquet", taking, root)
    assert data.load("a").train.targets.shape == (3, 2)
    assert data.load("a").fingerprint == data.load("b").fingerprint


@pytest.mark.parametrize(
    ("content", "columns", "said"),
    [
        ("x,y\n1,2\n3\n", TableColumns(), ":3: 1 values, expected 2"),
        ("x,y\n1,2\n,3\n", TableColumns(), "row 2, column 'x': no value"),
        ("x,y\n1,2\nnan,3\n", TableColumns(), "row 2, column 'x': no value"),
        ("x,y\n1,2\ninf,3\n", TableColumns(), "row 2, column 'x': inf, expected a finite number"),
        (
            "x,y\na,2\nb,3\n",
            TableColumns(),
            "row 1, column 'x': string such as 'a', expected numbers",
        ),
        ("x,y\n1,2\nthree,3\n", TableColumns(), "row 2, column 'x': string such as 'three'"),
        ("1,2,0\n3,4,1\n", TableColumns(), ":1: the first row holds numbers"),
        ("x,y\n1,1e39\n", TableColumns(), "column 'y': 1e+39, expected a finite number of float32"),
        ("x,y\n1,2\n", TableColumns(targets=("y",), weights="y"), "column 'y' is named 2 times"),
        ("x,y\n1,a\n2,\n", TableColumns(targets=("y",)), None),
        ("x,y\n", TableColumns(), "no row below its head"),
        ("", TableColumns(), "cannot be read: Empty CSV file"),
        ("x,x\n1,2\n", TableColumns(), "several columns 'x'"),
        ("x,y\n1,2\n3,4\n", TableColumns(targets=("z",)), "unknown column 'z'"),
        ("x,y\n1,2\n3,4\n", TableColumns(targets=("x", "y")), "no column left"),
        ("x,y\n1,2\n3,-4\n", TableColumns(weights="y"), "row 2, column 'y': a weight below 0"),
        ("x,y\n1,2\n", TableColumns(), "1 sample, expected at least 2"),
    ],
)
def test_a_table_that_cannot_be_one_is_refused_with_its_place(
    tmp_path, root, content, columns, said
):
    path = written(tmp_path / "t.csv", content)
    if said is None:
        # An empty text is a class of its own, as Arrow reads it.
        assert data.take_over("t", path, Taking(columns=columns), root).classes == ("", "a")
        return
    with pytest.raises(TarmacError) as caught:
        data.take_over("t", path, Taking(columns=columns), root)
    assert said in caught.value.message
    assert not list(root.iterdir())


@pytest.mark.parametrize("names", [("x_train", "y_train", "x_test", "y_test"), None])
def test_an_archive_of_arrays(tmp_path, root, names):
    inputs, targets = np.arange(40.0).reshape(10, 4), np.arange(10) % 3
    path = tmp_path / "a.npz"
    if names is None:
        np.savez(path, inputs=inputs, targets=targets)
    else:
        parts = (inputs[:7], targets[:7, None], inputs[7:], targets[7:, None])
        np.savez(path, **dict(zip(names, parts, strict=True)))
    assert data.take_over("a", path, Taking(test_share=0.3), root).classes == ("0", "1", "2")
    loaded = data.load("a")
    assert (len(loaded.train), len(loaded.test), loaded.num_classes) == (7, 3, 3)
    assert loaded.train.inputs.dtype == np.float32
    assert loaded.train.targets.shape == (7,)


@pytest.mark.parametrize(
    ("dtype", "kept"),
    [
        ("bool", "uint8"),
        ("uint8", "uint8"),
        ("int16", "int32"),
        ("uint16", "int32"),
        ("uint32", "int64"),
        ("uint64", "int64"),
    ],
)
def test_whole_numbers_of_an_archive_are_the_same_in_a_type_that_models_take(
    tmp_path, root, dtype, kept
):
    most = 1 if dtype == "bool" else min(np.iinfo(dtype).max, np.iinfo("int64").max)
    inputs = np.array([[0], [1], [most], [most]], dtype)
    np.savez(tmp_path / "a.npz", inputs=inputs, targets=[0.5, 1.5, 2.5, 3.5])
    data.take_over("a", tmp_path / "a.npz", Taking(test_share=0.25), root)
    values = everything(data.load("a"))
    assert values.dtype == kept
    assert sorted(map(int, values[:, 0])) == [0, 1, most, most]


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"a": [1, 2]}, "a is not a name of an array known here"),
        ({"inputs": [1.0, np.nan, 2]}, "holds nan at sample 1"),
        ({"inputs": [[1], [2]], "targets": [1]}, "2 inputs, 1 targets of all"),
        ({"inputs": [1, 2], "targets": [0, -1]}, "holds class -1 at sample 1"),
        ({"inputs": ["a", "b"]}, "expected numbers"),
        ({"targets": [1, 2]}, "has no inputs"),
        ({"x_test": [1, 2]}, "has samples of test"),
        ({"inputs": 5}, "is one number"),
        ({"inputs": np.array([{}, {}], dtype=object)}, "inputs cannot be read"),
    ],
)
def test_an_archive_that_cannot_be_one_is_refused(tmp_path, root, arrays, said):
    path = tmp_path / "a.npz"
    np.savez(path, **arrays)
    with pytest.raises(TarmacError) as caught:
        data.take_over("a", path, Taking(), root)
    assert said in caught.value.message
    assert not list(root.iterdir())


def test_a_folder_of_images(tmp_path, root):
    for number in range(4):
        image(tmp_path / "f" / "rose" / f"{number}.png", colour=(number, 0, 0))
        image(tmp_path / "f" / "tulip" / "deeper" / f"{number}.PNG", colour=(0, number, 0))
    written(tmp_path / "f" / "rose" / "notes.txt", "not an image")
    record = data.take_over("f", tmp_path / "f", Taking(test_share=0.25), root)
    assert (record.classes, record.sample_shape) == (("rose", "tulip"), (3, 3, 4))
    loaded = data.load("f")
    assert (loaded.train.targets.tolist(), loaded.test.targets.tolist()) == (
        [0] * 3 + [1] * 3,
        [0, 1],
    )
    seen = {(int(one[0, 0, 0]), int(one[1, 0, 0])) for one in everything(loaded)}
    assert seen == {(n, 0) for n in range(4)} | {(0, n) for n in range(4)}


def test_folders_that_say_which_images_are_scored(tmp_path, root):
    for part in ("train", "val"):
        for name in ("a", "b"):
            image(tmp_path / "f" / part / name / f"{part}.png")
    data.take_over("f", tmp_path / "f", Taking(grey=True), root)
    loaded = data.load("f")
    assert (len(loaded.train), len(loaded.test)) == (2, 2)
    assert loaded.sample_shape == (3, 4)


def test_a_folder_of_images_that_is_neither_trained_on_nor_scored_is_named(tmp_path, root, capsys):
    for part in ("train", "val", "test"):
        image(tmp_path / "f" / part / "a" / "1.png")
    record = data.take_over("f", tmp_path / "f", Taking(), root)
    assert record.left_out == (str(tmp_path / "f" / "val"),)
    with pytest.raises(SystemExit, match="0"):
        main(("data", "add", "f", "--replace", "--from", str(tmp_path / "f")))
    words = f"left out: {tmp_path / 'f' / 'val'} (choose the test samples with --test "
    assert words in capsys.readouterr().err
    # However it is named, what was asked for is not left out.
    asked = tmp_path / "f" / "train" / ".." / "val"
    record = data.take_over("f", tmp_path / "f", Taking(test=asked, replace=True), root)
    assert record.left_out == (str(tmp_path / "f" / "test"),)


def test_images_of_several_sizes_need_one_and_a_camera_held_upright_is_seen(tmp_path, root):
    exif = Image.Exif()
    exif[0x0112] = 6
    for name, size in (("a", (8, 4)), ("b", (8, 6))):
        image(tmp_path / "f" / "x" / f"{name}.png", size=size)
    with pytest.raises(
        RequestError, match=r"(a.png is 8x4|b.png is 8x6) and .*/[ab].png is 8x[46]"
    ):
        data.take_over("f", tmp_path / "f", Taking(), root)
    assert data.take_over("f", tmp_path / "f", Taking(size=(5, 5)), root).sample_shape == (3, 5, 5)
    image(tmp_path / "g" / "x" / "a.png", size=(8, 4), exif=exif)
    image(tmp_path / "g" / "x" / "b.png", size=(4, 8))
    assert data.take_over("g", tmp_path / "g", Taking(), root).sample_shape == (3, 8, 4)


def test_a_broken_image_is_named_and_nothing_is_stored(tmp_path, root):
    whole = image(tmp_path / "f" / "x" / "a.png", size=(64, 64))
    broken = tmp_path / "f" / "x" / "b.png"
    broken.write_bytes(whole.read_bytes()[:-40])
    with pytest.raises(TarmacError, match=r"b\.png is not a readable image"):
        data.take_over("f", tmp_path / "f", Taking(), root)
    broken.write_bytes(b"text")
    with pytest.raises(TarmacError, match=r"b\.png is not an image that Pillow can read"):
        data.take_over("f", tmp_path / "f", Taking(), root)
    image(broken, size=(64, 64), mode="I;16", colour=900)
    with pytest.raises(TarmacError, match="more than 8 bits"):
        data.take_over("f", tmp_path / "f", Taking(), root)
    assert not list(root.iterdir())


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()])
def test_a_dataset_whose_replacement_fails_at_the_last_moment_stays(
    tmp_path, root, monkeypatch, error
):
    path, replace = tmp_path / "a.npz", Path.replace
    np.savez(path, inputs=np.ones((4, 2)))
    data.take_over("a", path, Taking(), root)
    np.savez(path, inputs=np.zeros((4, 2)))

    def fail(source, target):
        if target == root / "a":
            raise error
        return replace(source, target)

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises((TarmacError, KeyboardInterrupt)):
        data.take_over("a", path, Taking(replace=True), root)
    assert everything(data.load("a")).sum() == 8
    assert [entry.name for entry in root.iterdir()] == ["a"]


def test_a_name_is_taken_once_unless_it_is_replaced(tmp_path, root):
    path = tmp_path / "a.npz"
    np.savez(path, inputs=np.zeros((4, 2)))
    data.take_over("a", path, Taking(), root)
    np.savez(path, inputs=np.ones((6, 2)))
    with pytest.raises(RequestError, match="already exists") as caught:
        data.take_over("a", path, Taking(), root)
    assert "--replace" in caught.value.hint
    data.take_over("a", path, Taking(replace=True), root)
    assert everything(data.load("a")).sum() == 12
    for name in ("mnist", "digits", "../a", "", ".a", "a/b", "x" * 65):
        with pytest.raises(RequestError):
            data.take_over(name, path, Taking(), root)
    (root / "other").mkdir()
    with pytest.raises(RequestError):
        data.take_over("other", path, Taking(replace=True), root)
    assert sorted(path.name for path in root.iterdir()) == ["a", "other"]


def test_options_that_the_form_has_no_use_for_are_refused(tmp_path, root):
    path = tmp_path / "a.npz"
    np.savez(path, inputs=np.zeros((4, 2)))
    for taking in (
        Taking(size=(2, 2)),
        Taking(grey=True),
        Taking(test=path),
        Taking(columns=TableColumns(targets=("x",))),
        Taking(columns=TableColumns(dropped=("x",))),
    ):
        with pytest.raises(RequestError, match=r"is only for .*a\.npz is not"):
            data.take_over("a", path, taking, root)
    with pytest.raises(RequestError, match="not in a supported format"):
        data.take_over("a", written(tmp_path / "a.xlsx", ""), Taking(), root)
    with pytest.raises(RequestError, match="there is no"):
        data.take_over("a", tmp_path / "nothing.csv", Taking(), root)


def test_a_damaged_dataset_is_listed_and_verified_as_such(tmp_path, root):
    path = tmp_path / "a.npz"
    np.savez(path, inputs=np.zeros((4, 2)))
    for name in ("a", "b", "c"):
        data.take_over(name, path, Taking(), root)
    (root / "a" / "dataset.json").write_text("{")
    (root / "b" / "train.inputs.npy").write_bytes(b"")
    np.save(root / "c" / "test.inputs.npy", np.zeros((3, 2)))
    states = {status.name: status.state for status in data.describe()}
    assert (states["a"], states["b"]) == ("damaged", "present")
    assert [[s.ok for s in data.verify(name)] for name in ("a", "b", "c")] == [[False]] * 3
    with pytest.raises(TarmacError, match="expected 1 sample"):
        data.load("c")
    record = json.loads((root / "b" / "dataset.json").read_text())
    (root / "b" / "dataset.json").write_text(json.dumps(record | {"schema_version": 2}))
    with pytest.raises(RequestError, match="newer Tarmac"):
        data.load("b")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.tsv", b"x\ty\n1\t2\n3\t4\n"),
        ("t.CSV", b"x;y\n1;2\n3;4\n"),
        ("t.csv.gz", gzip.compress(b"x,y\n1,2\n3,4\n", mtime=0)),
    ],
)
def test_tables_with_other_separators_and_compressed_ones(tmp_path, root, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    data.take_over("t", path, Taking(), root)
    assert {tuple(row) for row in everything(data.load("t")).tolist()} == {(1, 2), (3, 4)}


def test_whole_numbers_that_no_float_holds_exactly_are_taken(tmp_path, root):
    path = written(tmp_path / "t.csv", f"x\n{2**60 + 1}\n{2**60 + 3}\n")
    data.take_over("t", path, Taking(), root)
    assert everything(data.load("t")).tolist() == [[2.0**60], [2.0**60]]


def test_a_table_in_another_encoding_is_refused_with_its_line(tmp_path, root):
    path = tmp_path / "t.csv"
    path.write_bytes("x,y\n1,a\n2,é\n".encode("latin-1"))
    with pytest.raises(TarmacError, match=r"t.csv:3: byte 0xe9 is not UTF-8"):
        data.take_over("t", path, Taking(), root)
    assert not list(root.iterdir())


def test_a_number_that_can_be_no_class_takes_no_memory(tmp_path, root):
    np.savez(tmp_path / "a.npz", inputs=np.zeros((3, 2)), targets=np.array([0, 1, 2**40]))
    with pytest.raises(TarmacError, match=r"class 1099511627776 at sample 2"):
        data.take_over("a", tmp_path / "a.npz", Taking(), root)


def test_train_alone_is_no_class(tmp_path, root):
    for kind in ("a", "b"):
        for number in range(2):
            image(tmp_path / "in" / "train" / kind / f"{number}.png")
    assert data.take_over("x", tmp_path / "in", Taking(), root).classes == ("a", "b")


def test_what_a_killed_process_has_left_is_removed_wherever_it_was_killed(tmp_path, root):
    path = written(tmp_path / "houses.csv", HOUSES)
    data.take_over("kept", path, Taking(), root)
    number = 0
    while killed_at(
        number := number + 1, lambda: data.take_over("kept", path, Taking(replace=True), root)
    ):
        # Nobody has to add anything first.
        assert "kept" in [status.name for status in data.describe(root)]
        data.load("kept")
        data.take_over(f"new-{number}", path, Taking(), root)
        assert {child.name for child in root.iterdir()} == {"kept", f"new-{number}"}
        data.load("kept")
        shutil.rmtree(root / f"new-{number}")
    assert number > 10


def test_a_column_that_does_not_fit_at_its_files_close_is_refused_in_words(tmp_path):
    full = Path("/dev/full")
    with pytest.raises(StorageError, match="no space left to write /dev/full"):
        write_column(full, (3,), np.dtype(np.float32), [np.zeros(3, np.float32)])


def test_a_dataset_that_is_being_taken_over_is_left_alone(tmp_path, root):
    path = written(tmp_path / "houses.csv", HOUSES)
    with staging(root) as staged:
        data.take_over("other", path, Taking(), root)
        assert staged.is_dir()
    assert {child.name for child in root.iterdir()} == {"other"}


def test_no_room_is_told_before_anything_is_decoded(tmp_path, root):
    for number in range(3):
        image(tmp_path / "in" / "a" / f"{number}.png")
    with pytest.raises(TarmacError, match=r"no space left to write train.inputs.npy"):
        data.take_over("x", tmp_path / "in", Taking(size=(10_000_000, 10_000_000)), root)
    assert not list(root.iterdir())
