"""The messages between worker and algorithm.

Source: kube-HPC/hkube at 261d3d06, core/worker/lib/algorithm-communication/consts/messages.js.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tarmac.errors import TarmacError


class ProtocolError(TarmacError):
    """A frame is no message of the protocol, or the message is not allowed now."""


@dataclasses.dataclass(frozen=True, slots=True)
class Message:
    """A message of the worker or of the algorithm.

    Attributes:
        command: Name of the message: ``initialize``, ``done``, ...
        data: Payload of plain values: None, bool, int, float, str, bytes, list, dict.
        error: Error with ``code``, ``message`` and ``details``, as in ``errorMessage``. Default:
            none.
    """

    command: str
    data: Any = None
    error: Mapping[str, Any] | None = None
