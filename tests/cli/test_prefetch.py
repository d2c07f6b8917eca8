"""What `tarmac train` begins while PyTorch is imported."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from tarmac import TarmacError, data
from tarmac.cli.imports import gc_paused
from tarmac.cli.prefetch import prefetching
from tarmac.workloads import find_workload, workload_names


def test_data_are_read_before_they_are_asked_for():
    with prefetching("digits-mlp", devices="cpu", strategy="auto") as load:
        first = load("digits")
    assert load("digits") is first
    assert first.fingerprint == data.load("digits").fingerprint


def test_other_data_than_those_guessed_are_loaded_all_the_same():
    with prefetching("absent-mlp", devices="cpu", strategy="auto") as load:
        assert load("digits").name == "digits"
    with prefetching(None, devices="cpu", strategy="auto") as load:
        assert load("digits").name == "digits"


def test_damaged_data_are_an_error_of_those_who_want_them(tmp_path, monkeypatch):
    monkeypatch.setenv("TARMAC_DATA", str(tmp_path))
    (tmp_path / "mnist").mkdir()
    for part in ("train", "t10k"):
        for kind in ("images-idx3-ubyte", "labels-idx1-ubyte"):
            (tmp_path / "mnist" / f"{part}-{kind}").write_bytes(b"damaged")
    with prefetching("mnist-mlp", devices="cpu", strategy="auto") as load:
        assert load("digits").name == "digits"
        with pytest.raises(TarmacError, match="damaged"):
            load("mnist")


def test_data_that_are_not_here_are_not_downloaded_ahead(tmp_path, monkeypatch):
    monkeypatch.setenv("TARMAC_DATA", str(tmp_path))
    with prefetching("mnist-mlp", devices="cpu", strategy="auto"):
        pass
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", workload_names())
def test_a_reference_workloads_name_begins_with_its_datas(name):
    dataset = find_workload(name).dataset
    # The data of the first are chosen, and those of the second are made up.
    is_other = name in {"mlp", "table-mlp", "resnet50"} or not isinstance(dataset, str)
    assert is_other or name.partition("-")[0] == dataset


def test_imports_are_left_out_of_collections_and_what_follows_is_not():
    assert gc.isenabled()
    before = gc.get_freeze_count()
    try:
        with gc_paused():
            assert not gc.isenabled()
        assert gc.isenabled()
        assert gc.get_freeze_count() > before
    finally:
        gc.unfreeze()


def test_the_command_reads_data_while_pytorch_is_imported(tmp_path):
    code = """
import sys, threading
from tarmac.cli import prefetch
read = prefetch._read
def seen(name):
    print("reads", name, "torch.nn" in sys.modules, flush=True)
    return read(name)
prefetch._read = seen
from tarmac.cli import main
main([*"train digits-mlp --epochs 1 --device cpu --no-check --output".split(), sys.argv[1]])
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], check=True, capture_output=True, text=True
    )
    assert "reads digits False" in done.stdout
