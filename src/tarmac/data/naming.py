"""Names of the parts of a sample: inputs, targets and weights."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tarmac.errors import RequestError

# One name, several names, or None.
Names = str | tuple[str, ...] | None

_MAX_PARTS = 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class Naming:
    """The parts of a sample or a batch that are inputs, targets and weights.

    A pair is inputs and targets, a triple has weights too, and any other value is inputs. The parts
    of a dictionary are selected by name; without names all of them are inputs.

    Attributes:
        inputs: For dictionaries: one name gives one array, several give a dictionary of arrays.
            None: all parts without another use.
        targets: For dictionaries: one name or several, as for ``inputs``. None: no targets.
        weights: For dictionaries: one name. None: no weights.
    """

    inputs: Names = None
    targets: Names = None
    weights: str | None = None

    def take_apart(self, item: Any) -> tuple[Any, Any, Any]:
        """Return inputs, targets and weights of a sample or a batch; the last two may be None.

        Raises:
            RequestError: The dictionary lacks a name, or a tuple has not 1 to 3 parts.
        """
        if isinstance(item, tuple | list):
            if not 1 <= len(item) <= _MAX_PARTS:
                raise RequestError(
                    f"a sample has {len(item)} parts, expected inputs, targets and weights at most",
                    hint="Return a dictionary, and name its parts: samples_from(..., targets=...).",
                )
            inputs, targets, weights = (*item, None, None)[:_MAX_PARTS]
            return inputs, targets, weights
        if isinstance(item, Mapping):
            return self._of_mapping(item)
        return item, None, None

    def leaves(self, item: Any) -> dict[str, Any]:
        """Return all parts by their names in `Split.columns`."""
        leaves: dict[str, Any] = {}
        parts = zip(("inputs", "targets", "weights"), self.take_apart(item), strict=True)
        for name, part in parts:
            if part is None:
                continue
            if isinstance(part, Mapping):
                leaves |= {f"{name}.{key}": value for key, value in part.items()}
            else:
                leaves[name] = part
        return leaves

    def _of_mapping(self, item: Mapping[str, Any]) -> tuple[Any, Any, Any]:
        taken: set[str] = set()
        for names in (self.inputs, self.targets, self.weights):
            taken |= set(_listed(names))
        missing = sorted(taken - set(item))
        if missing:
            raise RequestError(
                f"a sample has no part {missing[0]!r}; it has {', '.join(map(str, item))}"
            )
        inputs = self.inputs
        if inputs is None:
            inputs = tuple(name for name in item if name not in taken)
        weights = None if self.weights is None else item[self.weights]
        return _picked(item, inputs), _picked(item, self.targets), weights


def _listed(names: Names) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else names or ()


def _picked(item: Mapping[str, Any], names: Names) -> Any:
    if names is None:
        return None
    return item[names] if isinstance(names, str) else {name: item[name] for name in names}
