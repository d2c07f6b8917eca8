"""The data that a study's networks train on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tarmac import data
from tarmac.data import Dataset

if TYPE_CHECKING:
    from tarmac.training import Setting
    from tarmac.workloads import Workload


def load_dataset(workload: Workload, settings: Mapping[str, Setting]) -> Dataset:
    """Load the dataset that the setting ``dataset`` names, else the workload's own.

    Raises:
        RequestError: There is no such dataset.
        TarmacError: The dataset cannot be loaded.
    """
    name = settings.get("dataset", workload.dataset)
    return name() if callable(name) else data.load(str(name))
