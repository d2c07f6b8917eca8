"""Messages as frames of a websocket: text for JSON, binary for MessagePack and BSON.

Example:
    >>> encode(Message("start", {}), "json")
    '{"command":"start","data":{}}'
    >>> decode('{"command": "started"}', "json").command
    'started'
"""

from __future__ import annotations

from typing import Any

from tarmac.hkube.protocol.messages import Message, ProtocolError
from tarmac.hkube.protocol.values import Encoding, dump_value, load_value


def encode(message: Message, encoding: Encoding) -> str | bytes:
    """Return a message as a frame.

    Raises:
        ProtocolError: The encoding cannot carry a value of the message.
    """
    fields: dict[str, Any] = {"command": message.command, "data": message.data}
    if message.error is not None:
        fields["error"] = dict(message.error)
    try:
        return dump_value(fields, encoding)
    except ProtocolError as error:
        raise ProtocolError(f"{message.command!r} cannot be sent: {error.message}") from error


def decode(frame: str | bytes, encoding: Encoding) -> Message:
    """Read an untrusted frame.

    An ``error`` that is no object becomes the ``message`` of an error object.

    Raises:
        ProtocolError: The frame is no message.
    """
    try:
        fields = load_value(frame, encoding)
    except ProtocolError as error:
        raise ProtocolError(f"a frame is not a message: {error.message}") from error
    if not isinstance(fields, dict):
        raise ProtocolError(f"a frame is not a message: it is a {type(fields).__name__}, no object")
    command = fields.get("command")
    if not isinstance(command, str):
        raise ProtocolError("a frame is not a message: its 'command' is not a text")
    fault = fields.get("error")
    if fault is not None and not isinstance(fault, dict):
        fault = {"message": str(fault)}
    return Message(command, fields.get("data"), fault)
