"""What is known of a cluster's nodes, whichever engine runs them, and what that amounts to."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Literal, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

NodeT = TypeVar("NodeT")

# More jobs for a look would be a burden; nodes of a site are of few kinds.
MAX_NODES = 32


@dataclasses.dataclass(frozen=True, kw_only=True)
class NodeFindings:
    """What is known of a node.

    Attributes:
        name: The engine's for it.
        state: ``looked`` at; ``unseen``, as it was looked at and something that counts was not
            seen; or it ``waits``, as no job began there in time; is ``blind``, as one did whose
            answer is not seen here; has ``failed`` to be asked; or stands ``apart``, as these
            options let no task run there.
        words: Why it was not looked at, or what is wrong there.
        alike: Other nodes that the engine says the same of, which were not looked at.
    """

    name: str
    state: Literal["looked", "unseen", "waits", "blind", "failed", "apart"]
    words: Sequence[str] = ()
    alike: Sequence[str] = ()

    @property
    def is_fit(self) -> bool:
        """Whether Tarmac's tasks can run there."""
        return self.state == "looked" and not self.words

    @property
    def is_unfit(self) -> bool:
        """Whether they cannot, as a job there has shown."""
        return self.state == "blind" or (self.state == "looked" and bool(self.words))


def group_alike(
    nodes: Sequence[NodeT],
    most: int,
    *,
    kind: Callable[[NodeT], Hashable],
    is_usable: Callable[[NodeT], bool],
) -> Sequence[Sequence[NodeT]]:
    """Return nodes in groups, of each of which the first is looked at.

    Args:
        nodes: Nodes of the cluster that fit the request.
        most: Where there are more than that, nodes of a kind are a group; at most so many groups.
        kind: What nodes that are alike have in common.
        is_usable: Whether a job can begin there now: one where none can says nothing of others.
    """
    if len(nodes) <= most:
        return [[node] for node in nodes]
    kinds: dict[Hashable, list[NodeT]] = {}
    for node in sorted(nodes, key=lambda node: not is_usable(node)):
        kinds.setdefault(kind(node), []).append(node)
    return [*kinds.values()][:most]


def survey_exit_code(found: Sequence[NodeFindings]) -> int:
    """Return 1 where a node is not fit, 3 where one could not be looked at, else 0.

    Nodes that stand apart are no part of that; that there is no other is no success.
    """
    if any(node.is_unfit for node in found):
        return 1
    counted = [node for node in found if node.state != "apart"]
    return 0 if counted and all(node.is_fit for node in counted) else 3
