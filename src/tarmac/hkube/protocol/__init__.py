"""The protocol between HKube's worker and an algorithm: messages, encodings and storage."""

from tarmac.hkube.protocol.address import Link, Storage, read_link, worker_url
from tarmac.hkube.protocol.encodings import decode, encode
from tarmac.hkube.protocol.files import read_made
from tarmac.hkube.protocol.messages import Message, ProtocolError
from tarmac.hkube.protocol.storage import read_stored, stored_bytes
from tarmac.hkube.protocol.values import ENCODINGS, MAX_NESTING, Encoding, dump_value, load_value

__all__ = [
    "ENCODINGS",
    "MAX_NESTING",
    "Encoding",
    "Link",
    "Message",
    "ProtocolError",
    "Storage",
    "decode",
    "dump_value",
    "encode",
    "load_value",
    "read_link",
    "read_made",
    "read_stored",
    "stored_bytes",
    "worker_url",
]
