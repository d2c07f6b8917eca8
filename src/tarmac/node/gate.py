"""Whether a node's GPUs are fit for a task, before its program begins: ``check: quick``.

Tarmac's own interpreter looks at the GPUs that were given and computes on them, as ``tarmac check
--quick`` does: ``python -m tarmac.checks.given_gpus``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tarmac.node.staging import ask_module

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tarmac.node.inbox import Inbox
    from tarmac.node.records import Element

_MODULE = "tarmac.checks.given_gpus"

# A driver that does not answer within this does not answer; a probe has two minutes of its own.
_ANSWERS_WITHIN_S = 300.0


class UnfitGpus(Exception):  # noqa: N818 - says what is so
    """GPUs of this node are not fit to compute on; says why in words."""


class Gate:
    """What an agent has found out of its GPUs; asked once for all attempts of its unit."""

    def __init__(self) -> None:
        self._checked: list[str] = []
        self._failures: list[str] = []

    def check(
        self,
        element: Element,
        gpus: Sequence[str],
        *,
        environment: Mapping[str, str],
        mark: str,
        host: str,
        inbox: Inbox,
    ) -> list[str]:
        """Check GPUs where an attempt asks for it; return what could not be looked at, a line each.

        Args:
            element: Attempt whose `check` setting decides whether to look.
            gpus: UUIDs; names of another kind are pretended ones.
            environment: All variables of who checks, which hide all other GPUs.
            mark: By which a guardian finds what was started.
            host: Name of this node, for messages.
            inbox: What is asked in it ends the check.

        Raises:
            UnfitGpus: One is not fit.
            StageError: Tarmac's interpreter is not on this node.
        """
        if element.check == "off" or not gpus:
            return []
        if not all(name.startswith(("GPU-", "MIG-")) for name in gpus):
            return [f"check: {element.check} looked at nothing: no driver shows GPUs on {host}"]
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
            if inbox.asked is not None:
                return []
            self._failures, unseen = _understand(answer, code, error_line)
            self._checked = [*gpus]
        if self._failures:
            raise UnfitGpus(
                f"a GPU of {host} is not fit: {self._failures[0]}; see tarmac check there"
            )
        return [f"check: {element.check} on {host}: {line}" for line in unseen]


def _understand(answer: bytes, code: int, said: str) -> tuple[list[str], list[str]]:
    try:
        values: dict[str, Any] = json.loads(answer)
        return [*values["failures"]], [*values["unseen"]]
    except (ValueError, TypeError, KeyError, RecursionError):
        # No answer is no good news.
        words = f"its check ended with exit code {code}" + (f": {said}" if said else "")
        return [words], []
