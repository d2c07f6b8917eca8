"""Build a space's networks before a search starts, to refuse values that no network can have.

A network is built and called once, which takes milliseconds: a small one on the CPU, a large one on
PyTorch's meta device, with shapes but without values. If that fails, a trial of the real network
decides: only its error is the user's.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from tarmac.data import Dataset
from tarmac.errors import RequestError
from tarmac.studies.errors import FieldError
from tarmac.studies.evaluation.stacked.network import configure
from tarmac.studies.space import Numbers, Space, seeded
from tarmac.training import Setting, build_model, call_model, first_samples, show_setting, try_model
from tarmac.workloads import Workload

# A value may not fit the defaults of other parameters, as attention heads fit only some widths.
_NUM_DRAWS = 4

# The first layer called on the meta device imports sympy and TorchDynamo, which takes longer than
# to import PyTorch. To build and call a network of this size takes some 10 ms.
_MAX_SMALL_PARAMETERS = 1_000_000


def check_corners(
    space: Space, workload: Workload, dataset: Dataset, settings: Mapping[str, Setting]
) -> None:
    """Raise a FieldError for a value of a space that no network can have.

    Args:
        space: Space whose choices and ends of ranges are tried: first with the defaults of the
            other parameters, then with a few random draws.
        workload: Workload of the networks.
        dataset: Dataset that the workload trains on.
        settings: Settings of all networks.
    """
    # Models may print and warn, which would break a command's JSON output.
    with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for corner in space.corners():
            first: RequestError | None = None
            for values in _networks(space, corner):
                error = _why_impossible(workload, dataset, {**settings, **values})
                first = first or error
                if error is None:
                    break
            else:
                assert first is not None
                ((name, value),) = corner.items()
                raise _refusal(space, name, value, first)


def _networks(space: Space, corner: Mapping[str, Setting]) -> Iterator[dict[str, Setting]]:
    yield dict(corner)
    rng = seeded("corners", space.key(corner))
    ((name, _),) = corner.items()
    for _ in range(_NUM_DRAWS):
        drawn = space.complete(corner, rng)
        if name in drawn and len(drawn) > 1:
            yield drawn


def _why_impossible(
    workload: Workload, dataset: Dataset, settings: Mapping[str, Setting]
) -> RequestError | None:
    """Return the error of a network that cannot be built for its data; None if it can."""
    try:
        changed, arguments = configure(workload, dataset, settings)
        with torch.random.fork_rng(devices=[]):
            _, inputs, _ = first_samples(changed, dataset)
            device = "cpu" if _is_small(changed, arguments) else "meta"
            # A model that fails here, e.g. for want of values, is tried with all checks below.
            with contextlib.suppress(Exception), torch.no_grad(), torch.device(device):
                call_model(build_model(changed, arguments, seed=0).eval(), _on(device, inputs))
                return None
            try_model(changed, arguments, dataset)
    except RequestError as error:
        return error
    return None


def _is_small(workload: Workload, arguments: Mapping[str, Setting]) -> bool:
    """Return whether a network can be built without values and has few parameters."""
    with contextlib.suppress(Exception), torch.device("meta"):
        parameters = build_model(workload, arguments, seed=0).parameters()
        return sum(parameter.numel() for parameter in parameters) <= _MAX_SMALL_PARAMETERS
    return False


def _on(device: str, inputs: Any) -> Any:
    if isinstance(inputs, dict):
        return {name: value.to(device) for name, value in inputs.items()}
    return inputs.to(device)


def _refusal(space: Space, name: str, value: Setting, error: RequestError) -> FieldError:
    is_end = isinstance(space.parameters[name], Numbers)
    what = "ends at" if is_end else "has"
    return FieldError(
        ("space", name),
        f"{name} {what} {show_setting(value)}, which no network can have: {error.message}",
        hint="Name another range." if is_end else "Leave it out.",
    )
