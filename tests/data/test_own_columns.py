"""Columns of a user's table: categories, missing values, lists of names, and what looks wrong."""

from __future__ import annotations

import io

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from tarmac import RequestError, TarmacError, data
from tarmac.data import TableColumns, Taking
from tarmac.data.own.parts import Part, note_on_values, targets_of
from tarmac.data.own.table_values import filled

HOUSES = "Id,Street,Area,Lot,Price\n" + "".join(
    f"{n},{('Pave', 'Grvl', '')[n % 3]},{n * 7 % 11},{'' if n % 4 == 1 else n},{1000 + n}\n"
    for n in range(1, 41)
)


@pytest.fixture
def root(tmp_path):
    return tmp_path / "datasets"


@pytest.fixture
def houses(tmp_path):
    path = tmp_path / "houses.csv"
    path.write_text(HOUSES)
    return path


def taken(path, root, *, replace=True, test=None, **columns):
    taking = Taking(columns=TableColumns(**columns), replace=replace, test=test)
    record = data.take_over("own", path, taking, root)
    from tarmac.data.own import load_own

    return record, load_own("own", root)


@pytest.mark.parametrize(
    "dropped", [("Id,Street,Lot",), ("Id, Street", "Lot"), ("Id", "Street,Lot")]
)
def test_a_list_of_columns_may_be_one_text_or_several(houses, root, dropped):
    record, _ = taken(houses, root, targets=("Price",), as_values=True, dropped=dropped)
    assert record.features == ("Area",)


def test_a_column_whose_name_has_a_comma_is_taken_whole(tmp_path, root):
    path = tmp_path / "t.csv"
    path.write_text('"a,b",a,b,y\n1,2,3,0\n3,2,1,1\n')
    assert taken(path, root, targets=("y",), dropped=("a,b",))[0].features == ("a", "b")


def test_categories_become_a_column_each_and_a_row_without_one_has_none(houses, root):
    record, loaded = taken(
        houses,
        root,
        targets=("Price",),
        as_values=True,
        categorical=("Street",),
        dropped=("Id,Lot",),
    )
    assert record.features == ("Street=", "Street=Grvl", "Street=Pave", "Area")
    assert set(map(tuple, loaded.train.inputs[:, :3])) == {(1, 0, 0), (0, 1, 0), (0, 0, 1)}


@pytest.mark.parametrize("fill", ["median", "mean", "-1", "0.5"])
def test_missing_numbers_are_filled_by_what_is_trained_on(houses, root, fill):
    _, loaded = taken(
        houses, root, targets=("Price",), as_values=True, dropped=("Id,Street",), fill=fill
    )
    ids = [(split.targets - 1000).astype(int) for split in (loaded.train, loaded.test)]
    known = [n for n in ids[0] if n % 4 != 1]
    expected = {"median": np.median, "mean": np.mean}.get(fill, lambda _: float(fill))(known)
    for numbers, split in zip(ids, (loaded.train, loaded.test), strict=True):
        lots = split.inputs[:, 1]
        assert lots == pytest.approx([expected if n % 4 == 1 else n for n in numbers])


def test_all_columns_that_cannot_be_inputs_are_named_at_once(houses, root):
    with pytest.raises(TarmacError) as caught:
        taken(houses, root, targets=("Price",), as_values=True)
    said = str(caught.value)
    assert "2 columns are no numbers in every row" in said
    assert "row 1, column 'Street': string such as 'Grvl'" in said
    assert "row 1, column 'Lot': no value, nor in 9 others" in said
    for way in ("--categorical Street", "--fill median", "--drop Street,Lot"):
        assert way in said


def with_texts(path, **columns):
    """Write a table of 20 rows: the columns, numbers and values."""
    numbers = {"x": np.arange(20) + 0.5, "y": np.arange(20) * 0.25}
    texts = {name: pyarrow.array(values * 4, pyarrow.string()) for name, values in columns.items()}
    parquet.write_table(pyarrow.table({**texts, **numbers}), path)
    return path


def test_the_category_none_is_not_that_of_rows_without_a_value(tmp_path, root):
    path = with_texts(tmp_path / "t.parquet", wall=["None", None, "brick", None, "None"])
    record, loaded = taken(path, root, targets=("y",), categorical=("wall",))
    assert record.features == ("wall=None", "wall=brick", "x")
    inputs = np.concatenate([loaded.train.inputs, loaded.test.inputs])
    assert inputs[:, :2].sum(axis=0).tolist() == [8, 4]


def test_of_names_with_commas_each_way_says_its_own_option_again(tmp_path, root):
    path = with_texts(tmp_path / "t.parquet", **{"a,b": ["u"] * 5, "c d": ["v"] * 5})
    with pytest.raises(TarmacError) as caught:
        taken(path, root, targets=("y",))
    assert "--categorical a,b --categorical 'c d'\n" in caught.value.hint
    assert caught.value.hint.endswith("--drop a,b --drop 'c d'")


def test_categories_of_which_no_row_has_any_are_no_inputs(tmp_path, root):
    path = with_texts(tmp_path / "t.parquet", empty=[None] * 5)
    with pytest.raises(RequestError, match="has no column left for the inputs"):
        taken(path, root, targets=("y",), dropped=("x",), categorical=("empty",))


def test_arrays_without_samples_are_an_error_in_words(tmp_path, root):
    inputs = {f"{part}_inputs": np.zeros((0, 2)) for part in ("train", "test")}
    targets = {f"{part}_targets": np.zeros(0) for part in ("train", "test")}
    np.savez(tmp_path / "t.npz", **inputs, **targets)
    with pytest.raises(RequestError, match="train has no samples"):
        taken(tmp_path / "t.npz", root)


@pytest.mark.parametrize("fill", ["nan", "most", ""])
def test_a_fill_that_is_no_number_is_refused(fill):
    with pytest.raises(RequestError, match="expected median, mean or a number"):
        TableColumns(fill=fill)


def test_a_column_without_any_value_cannot_be_filled_by_its_median(tmp_path, root):
    path = tmp_path / "t.csv"
    path.write_text("a,b,y\n" + "1,,0\n2,,1\n" * 5)
    with pytest.raises(TarmacError, match="column 'b': no value in any row"):
        taken(path, root, targets=("y",), fill="median")
    parts = [Part(inputs=np.array([[1.0, value]], np.float32)) for value in (np.nan, 2)]
    with pytest.raises(TarmacError, match="column 'b' has no value in the rows"):
        filled(parts, "mean", ("a", "b"), path)


def numbered(path, count, value=lambda n: n):
    path.write_text("x,y\n" + "".join(f"{n * 37 % 101},{value(n)}\n" for n in range(count)))
    return path


def test_a_target_of_as_many_whole_numbers_as_rows_is_no_class(tmp_path, root):
    path = numbered(tmp_path / "t.csv", 60)
    with pytest.raises(RequestError) as caught:
        taken(path, root, targets=("y",))
    assert "60 different whole numbers in 60 samples" in str(caught.value)
    assert "--values" in str(caught.value)
    assert taken(path, root, targets=("y",), as_classes=True)[1].num_classes == 60
    with pytest.raises(RequestError, match="60 different texts in 60 samples"):
        taken(numbered(path, 60, lambda n: f"name{n}"), root, targets=("y",))


def test_many_classes_are_noted_and_few_are_not(tmp_path, root):
    path = tmp_path / "t.csv"
    record, _ = taken(numbered(path, 300, lambda n: n % 30), root, targets=("y",))
    assert "30 different whole numbers in 300 samples were taken as classes" in record.notes[0]
    assert taken(numbered(path, 300, lambda n: n % 10), root, targets=("y",))[0].notes == ()
    record, _ = taken(numbered(path, 12), root, targets=("y",))
    assert "12 different whole numbers in 12 samples were taken as classes" in record.notes[0]
    assert taken(numbered(path, 12, lambda n: n % 3), root, targets=("y",))[0].notes == ()


def test_labels_written_as_floats_are_noted_and_taken_as_classes_when_told(tmp_path, root):
    path = numbered(tmp_path / "t.csv", 20, lambda n: f"{n % 2}.0")
    record, loaded = taken(path, root, targets=("y",))
    assert loaded.num_classes is None
    assert "--classes takes them as classes" in record.notes[0]
    record, loaded = taken(path, root, targets=("y",), as_classes=True)
    assert (record.classes, record.notes) == (("0", "1"), ())
    with pytest.raises(TarmacError, match=r"holds 0\.5, which is no class"):
        taken(numbered(path, 20, lambda n: n / 2), root, targets=("y",), as_classes=True)


def test_targets_of_arrays_are_judged_as_those_of_tables(tmp_path, root):
    with pytest.raises(RequestError, match="90 different whole numbers in 90 samples"):
        targets_of(np.arange(90), "t", as_values=False)
    assert targets_of(np.array([1.0, 0.0]), "t", as_values=False, as_classes=True)[1] == 2
    assert note_on_values(np.array([0.0, 1.0] * 9), "t")
    assert not note_on_values(np.array([0.0, 1.5] * 9), "t")
    path = tmp_path / "t.npz"
    np.savez(path, inputs=np.ones((9, 2)), targets=np.array([0.0, 1, 0, 1, 0, 1, 0, 1, 0]))
    assert "--classes" in taken(path, root)[0].notes[0]
    assert taken(path, root, as_classes=True)[1].num_classes == 2


@pytest.mark.parametrize(("head", "first"), [("", 0), ("id", 1)])
def test_a_column_that_counts_the_rows_is_noted(tmp_path, root, head, first):
    path = tmp_path / "t.csv"
    path.write_text(f"{head},a,y\n" + "".join(f"{n + first},{n % 3},{n % 2}\n" for n in range(9)))
    record, _ = taken(path, root, targets=("y",))
    assert "counts the rows" in record.notes[0]
    assert f"--drop {head or chr(39) * 2}" in record.notes[0]
    assert taken(path, root, targets=("y",), dropped=(head,))[0].notes == ()


def test_scoring_what_is_trained_on_is_noted(tmp_path, root):
    path = numbered(tmp_path / "t.csv", 20, lambda n: n % 2)
    record, _ = taken(path, root, test=path, targets=("y",))
    assert "the samples to score are those that are trained on" in record.notes[0]


def test_what_is_no_image_of_a_class_is_left_out_and_named(tmp_path, root):
    image = pytest.importorskip("PIL.Image")
    bytes_of = io.BytesIO()
    image.new("RGB", (2, 2)).save(bytes_of, "png")
    for name in ("a/1.png", "a/2.png", "b/1.png", "b/2.png", "loose.png", "c/notes.txt"):
        path = tmp_path / "images" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes_of.getvalue())
    for name in ("a/._1.png", "a/.cache/x.png", "__MACOSX/a/._1.png", "._loose.png"):
        path = tmp_path / "images" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"no image")
    record = data.take_over("own", tmp_path / "images", Taking(), root)
    assert record.classes == ("a", "b")
    assert [note.partition(", because ")[0] for note in record.notes if "score" not in note] == [
        f"left out: {tmp_path / 'images/c'}",
        f"left out: loose.png in {tmp_path / 'images'}",
    ]
