"""Indexes as the status of an Indexed Job writes them: ``1,3-5,7``."""

from __future__ import annotations

from collections.abc import Iterable


def written(indexes: Iterable[int]) -> str:
    """Return indexes in their short form; two neighbours are ``1,2``, three are ``1-3``."""
    parts: list[str] = []
    run: list[int] = []
    for index in [*sorted(indexes), None]:
        if index is not None and (not run or index == run[-1] + 1):
            run.append(index)
            continue
        if len(run) > 2:
            parts.append(f"{run[0]}-{run[-1]}")
        else:
            parts += map(str, run)
        run = [] if index is None else [index]
    return ",".join(parts)


def read(text: str) -> set[int]:
    """Return the indexes that a status names."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found
