"""Load a workload's dataset, and hold its validation samples out."""

from __future__ import annotations

import dataclasses

from tarmac import data
from tarmac.data import Dataset
from tarmac.errors import RequestError
from tarmac.training.planning.options import Options
from tarmac.workloads import Workload


def load_dataset(workload: Workload, load: data.Loader, progress: data.Progress | None) -> Dataset:
    """Load the dataset that a workload names, or call the function that makes it.

    Raises:
        RequestError: The workload's dataset is neither, or its function returns something else.
        TarmacError: The data cannot be loaded or are damaged.
    """
    if isinstance(workload.dataset, str):
        return load(workload.dataset, progress=progress)
    if not callable(workload.dataset):
        raise RequestError(
            f"the dataset of {workload.name} is a {type(workload.dataset).__name__}, expected a "
            "name, or a function that returns a tarmac.data.Dataset"
        )
    dataset = workload.dataset()
    if not isinstance(dataset, data.Dataset):
        raise RequestError(
            f"the dataset of {workload.name} returns a {type(dataset).__name__}, expected a "
            "tarmac.data.Dataset",
            hint="return Dataset(name, Split(inputs, targets), Split(test_inputs, test_targets))",
        )
    return dataset


def in_steps(dataset: Dataset, batch_size: int) -> Dataset:
    """Return a dataset whose streams have a length, from ``steps_per_epoch`` where that is set."""
    train = dataset.train
    if isinstance(train, data.Loaded) and train.loading.steps_per_epoch is not None:
        dataset = dataclasses.replace(dataset, train=train.with_steps(batch_size))
    for part, split in dataset.parts().items():
        if part != "train" and isinstance(split, data.Loaded) and split.loading.steps_per_epoch:
            raise RequestError(
                f"dataset {dataset.name!r}: steps_per_epoch is given for {part}, which has no "
                "epochs",
                hint="Give its number of samples: num_samples=N.",
            )
    for part, split in dataset.parts().items():
        try:
            len(split)
        except RequestError as error:
            raise RequestError(
                f"dataset {dataset.name!r}: {part} is {error.message}", hint=error.hint
            ) from error
    return dataset


def hold_out(options: Options, dataset: Dataset) -> data.HoldOut:
    """Divide the training samples into samples to train on and samples to validate on.

    Raises:
        RequestError: The dataset cannot be divided as the options say, or patience has no
            validation samples to watch.
    """
    held = data.hold_out(
        dataset,
        validation_size=options.validation_size,
        train_size=options.train_size,
        split=options.validation_split,
        seed=options.split_seed,
    )
    if options.patience is not None and not len(held.validation):
        size = data.default_validation_size(len(dataset.train))
        raise RequestError(
            f"patience is {options.patience}, but there is no validation to watch",
            hint=f"Hold samples out: --validation-size {size}",
        )
    return held
