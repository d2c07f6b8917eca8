"""The findings about a cluster's nodes, for any engine, and their exit code."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Sequence
from typing import Literal, TypeVar

NodeT = TypeVar("NodeT")

# More probe jobs would burden the cluster; the nodes of a site are of few kinds.
MAX_NODES = 32


@dataclasses.dataclass(frozen=True, kw_only=True)
class NodeFindings:
    """The findings about a node.

    Attributes:
        name: Engine's name for the node.
        state: ``looked``: probed; ``unseen``: probed, but a required check has no result;
            ``waits``: no job started there in time; ``blind``: a job started, but its answer is
            not visible here; ``failed``: the query failed; ``apart``: these options let no task
            run there.
        words: Reasons why it was not probed, or its problems.
        alike: Other nodes that the engine describes the same, which were not probed.
    """

    name: str
    state: Literal["looked", "unseen", "waits", "blind", "failed", "apart"]
    words: Sequence[str] = ()
    alike: Sequence[str] = ()

    @property
    def is_fit(self) -> bool:
        """Whether Tarmac's tasks can run on the node."""
        return self.state == "looked" and not self.words

    @property
    def is_unfit(self) -> bool:
        """Whether a job on the node has shown that tasks cannot run there."""
        return self.state == "blind" or (self.state == "looked" and bool(self.words))


def group_alike(
    nodes: Sequence[NodeT],
    most: int,
    *,
    kind: Callable[[NodeT], Hashable],
    is_usable: Callable[[NodeT], bool],
) -> Sequence[Sequence[NodeT]]:
    """Return the nodes in groups; the first node of each group is probed.

    Args:
        nodes: Nodes of the cluster that fit the request.
        most: Maximum number of groups; if there are more nodes, all nodes of a kind are a group.
        kind: Returns the properties that alike nodes share.
        is_usable: Returns whether a job can start on a node now; usable nodes come first, because
            a probe elsewhere says nothing about the group.
    """
    if len(nodes) <= most:
        return [[node] for node in nodes]
    kinds: dict[Hashable, list[NodeT]] = {}
    for node in sorted(nodes, key=lambda node: not is_usable(node)):
        kinds.setdefault(kind(node), []).append(node)
    return [*kinds.values()][:most]


def survey_exit_code(findings: Sequence[NodeFindings]) -> int:
    """Return 1 if a node is unfit, 3 if a node could not be probed, else 0.

    Nodes that are ``apart`` do not count; without any other node the result is 3.
    """
    if any(node.is_unfit for node in findings):
        return 1
    counted = [node for node in findings if node.state != "apart"]
    return 0 if counted and all(node.is_fit for node in counted) else 3
