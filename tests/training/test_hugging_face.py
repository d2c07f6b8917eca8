"""Datasets of Hugging Face's `datasets`, from disk or as a stream, as a workload's splits."""

from __future__ import annotations

from typing import Any

import datasets
import loader_cases
import pytest
from loader_cases import INPUTS, TARGETS

from tarmac import TarmacError
from tarmac.data import Split, samples_from
from tarmac.runs import Run
from tarmac.training import train


def table() -> datasets.Dataset:
    columns = {"id": list(range(len(INPUTS))), "inputs": INPUTS.tolist()}
    features = datasets.Features(
        {
            "id": datasets.Value("int64"),
            "inputs": datasets.List(datasets.Value("float32"), length=INPUTS.shape[1]),
            "target": datasets.Value("float32"),
        }
    )
    return datasets.Dataset.from_dict({**columns, "target": TARGETS.tolist()}, features=features)


def taken(source: Any, **options: Any) -> Any:
    return samples_from(source, inputs="inputs", targets="target", **options)


def trained(tmp_path: Any, make: Any) -> Run:
    workload = loader_cases.workload(make)
    return train(workload, devices="cpu", output=tmp_path, score_test=False)


@pytest.fixture
def as_arrays(tmp_path):
    return trained(tmp_path, lambda: Split(INPUTS, TARGETS)).model.read_bytes()


@pytest.mark.parametrize("form", [None, "numpy", "torch"])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_one_on_disk_trains_as_its_arrays_do(tmp_path, as_arrays, form, num_workers):
    table().save_to_disk(tmp_path / "table")
    source = datasets.load_from_disk(tmp_path / "table").with_format(form)
    run = trained(tmp_path, lambda: taken(source, num_workers=num_workers))
    assert run.model.read_bytes() == as_arrays


def test_a_stream_of_one_is_a_stream(tmp_path):
    stream = table().to_iterable_dataset(num_shards=2)
    run = trained(tmp_path, lambda: taken(stream, num_samples=len(INPUTS)))
    assert run.model.exists()


def test_a_column_that_is_not_there_is_named(tmp_path):
    with pytest.raises(TarmacError, match=r"'words'.* id, inputs, target"):
        trained(tmp_path, lambda: samples_from(table(), inputs="words", targets="target"))
