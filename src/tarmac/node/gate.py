"""The check of a node's GPUs before a task's program starts: ``check: quick``.

Tarmac's own interpreter inspects the assigned GPUs and computes on them, as ``tarmac check
--quick`` does: ``python -m tarmac.checks.given_gpus``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tarmac.node.records import AttemptSpec
from tarmac.node.staging import ask_module

if TYPE_CHECKING:
    from tarmac.node.inbox import Inbox

_MODULE = "tarmac.checks.given_gpus"

# Bound on a driver that hangs; a probe has its own limit of two minutes.
_ANSWERS_WITHIN_S = 300.0


class UnfitGpus(Exception):  # noqa: N818 - named after the condition
    """A GPU of this node is unfit for computing; the message says why."""


class Gate:
    """The GPU check of an agent, run once for all attempts of its unit."""

    def __init__(self) -> None:
        self._checked: list[str] = []
        self._failures: list[str] = []

    def check(
        self,
        element: AttemptSpec,
        gpus: Sequence[str],
        *,
        environment: Mapping[str, str],
        mark: str,
        host: str,
        inbox: Inbox,
    ) -> list[str]:
        """Check GPUs if an attempt asks for it; return a line for each part that was not checked.

        Args:
            element: Attempt whose `check` setting decides whether to check.
            gpus: UUIDs of the GPUs; other names are of pretended GPUs.
            environment: All variables of the checking process, which hide all other GPUs.
            mark: Mark by which a guardian finds the processes of this agent.
            host: Name of this node, for messages.
            inbox: Inbox whose requests end the check.

        Raises:
            UnfitGpus: A GPU is unfit, or the check gives no answer.
            StageError: Tarmac's interpreter is not on this node.
        """
        if element.check == "off" or not gpus:
            return []
        if not all(name.startswith(("GPU-", "MIG-")) for name in gpus):
            return [f"check: {element.check} checked nothing: no driver shows GPUs on {host}"]
        unseen: list[str] = []
        if self._checked != [*gpus]:
            answer, code, error_line = ask_module(
                element,
                [_MODULE, *gpus],
                "",
                what=f"asks for check: {element.check}",
                environment=environment,
                mark=mark,
                host=host,
                inbox=inbox,
                timeout_s=_ANSWERS_WITHIN_S,
            )
            if inbox.request is not None:
                return []
            self._failures, unseen = _understand(answer, code, error_line)
            self._checked = [*gpus]
        if self._failures:
            raise UnfitGpus(
                f"a GPU of {host} is not fit: {self._failures[0]}; see tarmac check there"
            )
        return [f"check: {element.check} on {host}: {line}" for line in unseen]


def _understand(answer: bytes, code: int, error_line: str) -> tuple[list[str], list[str]]:
    try:
        values: dict[str, Any] = json.loads(answer)
        return [*values["failures"]], [*values["unseen"]]
    except (ValueError, TypeError, KeyError, RecursionError):
        # A check without an answer counts as a failure.
        words = f"its check ended with exit code {code}" + (f": {error_line}" if error_line else "")
        return [words], []
