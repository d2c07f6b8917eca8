"""One's own model and data, from the first try to the export."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from prepared import write_page


@pytest.fixture
def own() -> Path:
    """Write the page's workload, and return its file."""
    write_page("docs/own-workload.md", Path.cwd())
    return Path("my_model.py")


TRAIN = ("train", "my_model.py:workload", "--epochs", "2", "--no-check")


def test_a_model_of_ones_own_is_mended_trained_used_and_exported(tarmac, own):
    right = own.read_text()
    own.write_text(right.replace("nn.Linear(64, hidden)", "nn.Linear(32, hidden)"))
    code, _, err = tarmac(*TRAIN)
    assert (code, "shapes cannot be multiplied" in err) == (2, True), err
    own.write_text(right)
    code, out, _ = tarmac(*TRAIN)
    assert (code, "my-digits: 4,810 parameters" in out) == (0, True)
    np.savetxt("samples.csv", np.zeros((3, 64), int), "%d", ",")
    code, _, _ = tarmac("predict", "latest", "samples.csv", "--output", "classes.csv")
    assert (code, len(Path("classes.csv").read_text().splitlines())) == (0, 4)
    code, out, _ = tarmac("export", "latest", "--to", "torch", "--output", "model.pt2")
    assert (code, Path("model.pt2").exists()) == (0, True)
    code, out, _ = tarmac(*TRAIN, "--init-from", "latest")
    assert code == 0
    code, out, _ = tarmac("train", "--from-checkpoint", "latest", "--epochs", "3", "--no-check")
    assert (code, "epoch 3/3" in out) == (0, True)


@pytest.mark.parametrize(
    ("workload", "answer"),
    [
        ("my_model.py:wrokload", "did you mean 'workload'?\n  Valid: workload"),
        ("my_modell.py:workload", "workload file 'my_modell.py' does not exist"),
        ("my_model.py", "Name the workload in it too: my_model.py:workload"),
    ],
)
def test_a_workload_that_is_not_there_is_answered_with_what_is_wrong(tarmac, own, workload, answer):
    code, _, err = tarmac("train", workload)
    assert (code, answer in err) == (2, True)


def test_an_error_of_ones_own_file_is_shown_with_its_line(tarmac, own):
    text = own.read_text() + "\n1 / 0\n"
    own.write_text(text)
    code, _, err = tarmac(*TRAIN)
    line = len(text.splitlines())
    assert (code, err) == (1, f"error: my_model.py:{line}: ZeroDivisionError: division by zero\n")


def test_samples_of_another_size_are_refused_before_they_are_scored(tarmac, own):
    tarmac(*TRAIN)
    np.savetxt("samples.csv", np.zeros((3, 63), int), "%d", ",")
    code, _, err = tarmac("predict", "latest", "samples.csv")
    assert (code, "samples.csv:1: 63 columns, expected 64" in err) == (2, True), err


def test_a_table_is_added_and_trained_on_by_its_name(tarmac):
    pytest.importorskip("pyarrow", reason="needs pip install 'tarmac-gpu[tables]'")
    rows = [f"{i},{i % 7},{i * 2},{'big' if i % 7 > 3 else 'small'}" for i in range(60)]
    Path("boxes.csv").write_text("\n".join(("id,a,b,size", *rows)))
    add = ("data", "add", "boxes", "--from", "boxes.csv", "--drop", "id")
    code, _, err = tarmac(*add, "--target", "sise")
    assert (code, "size" in err) == (2, True)
    assert tarmac(*add, "--target", "size")[0] == 0
    assert "boxes" in tarmac("data", "list")[1]
    code, out, _ = tarmac(
        *("train", "mlp", "--set", "dataset=boxes", "--set", "neurons=8"),
        *("--epochs", "1", "--no-check"),
    )
    assert (code, "samples of boxes" in out) == (0, True)


def test_a_folder_of_images_is_trained_on_and_a_photo_is_asked_about(tarmac):
    images = pytest.importorskip("PIL.Image", reason="needs pip install 'tarmac-gpu[images]'")
    for kind, value in (("day", 230), ("night", 20)):
        for number in range(6):
            path = Path("sky") / kind / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            images.fromarray(np.full((16, 16), value + number, np.uint8)).save(path)
    assert tarmac("data", "add", "sky", "--from", "sky", "--size", "8x8")[0] == 0
    words = ("train", "mlp", "--set", "dataset=sky", "--set", "neurons=8", "--no-check")
    assert tarmac(*words, "--epochs", "3")[0] == 0
    code, out, _ = tarmac("predict", "latest", "sky/night/0.png")
    assert code == 0
    assert json.loads(out)["label"] in ("day", "night")
