"""GPU types as people write them, such as ``a100``, and the makers' and sites' names that match."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable

# Name of fake GPUs, which match any type.
_PRETENDED = "fake"


def is_of_type(name: str, gpu_type: str) -> bool:
    """Return whether a GPU's name matches a type.

    Each word of the type must be a word of the name, or several adjacent words joined. Case and
    separators do not count.

    Example:
        >>> is_of_type("NVIDIA A100-SXM4-80GB", "a100-80gb"), is_of_type("NVIDIA A100", "a10")
        (True, False)
        >>> is_of_type("NVIDIA GeForce RTX 4090", "rtx4090")
        True
    """
    words = _words(name)
    joined = {
        "".join(words[first:last])
        for first, last in itertools.combinations(range(len(words) + 1), 2)
    }
    return name == _PRETENDED or joined >= {*_words(gpu_type)}


def fitting_names(names: Iterable[str], gpu_type: str) -> list[str]:
    """Return the names that match a type, sorted; only equal names if there are any."""
    fitting = sorted({name for name in names if is_of_type(name, gpu_type)})
    same = [name for name in fitting if _words(name) == _words(gpu_type)]
    return same or fitting


def _words(name: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", name.lower())
