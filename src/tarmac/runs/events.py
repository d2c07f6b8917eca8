"""TensorBoard's event files: scalars by step, and the graph of a model.

The package tensorboard takes half a second to import, so this module writes the files itself;
tensorboard is needed only to view them. A file is a sequence of TFRecords (TensorFlow,
tensorflow/core/lib/io/record_writer.h), each an Event (tensorflow/core/util/event.proto).
"""

from __future__ import annotations

import math
import os
import socket
import struct
import time
from pathlib import Path

from tarmac.files import storage_errors

# Fields of the messages Event, SessionLog, Summary and Summary.Value, by number.
_WALL_TIME, _STEP, _FILE_VERSION, _GRAPH, _SUMMARY, _SESSION_LOG = 1, 2, 3, 4, 5, 7
_STATUS, _STATUS_START = 1, 1
_VALUE = 1
_TAG, _SIMPLE_VALUE = 1, 2

# Protocol buffers' wire types (protobuf.dev, "Encoding").
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

_VERSION = b"brain.Event:2"

# Castagnoli's polynomial, bits reversed (RFC 3720, appendix B.4).
_CRC32C_POLYNOMIAL = 0x82F63B78


class EventWriter:
    """A writer of scalars to a new event file; each scalar is written when the call returns.

    Args:
        directory: Directory for the event file, such as a run's.
        first_step: Step from which TensorBoard drops the points of earlier files.

    Raises:
        StorageError: The file cannot be written.
    """

    def __init__(self, directory: Path, *, first_step: int) -> None:
        # TensorBoard reads the files of a directory in the order of their names.
        name = f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}.{os.getpid()}"
        self._path = directory / name
        start = _field(_STATUS, _VARINT, _varint(_STATUS_START))
        with storage_errors(self._path):
            self._file = self._path.open("xb", buffering=0)
            self._write(_field(_FILE_VERSION, _BYTES, _sized(_VERSION)))
            self._write(
                _field(_STEP, _VARINT, _varint(first_step))
                + _field(_SESSION_LOG, _BYTES, _sized(start))
            )

    def scalar(self, tag: str, value: float, step: int) -> None:
        """Write one point.

        Raises:
            StorageError: The point could not be written.
        """
        point = _field(_TAG, _BYTES, _sized(tag.encode())) + _field(
            _SIMPLE_VALUE, _FIXED32, _float32(value)
        )
        summary = _field(_VALUE, _BYTES, _sized(point))
        with storage_errors(self._path):
            self._write(
                _field(_STEP, _VARINT, _varint(step)) + _field(_SUMMARY, _BYTES, _sized(summary))
            )

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, event: bytes) -> None:
        record = _record(event)
        # An almost full disk takes a part; the next write raises the error.
        while record:
            record = record[self._file.write(record) :]


def graph_events(definition: bytes) -> bytes:
    """Return the content of an event file with only a graph.

    Args:
        definition: Serialized GraphDef, a protocol buffer.
    """
    return b"".join(
        _record(_field(field, _BYTES, _sized(value)))
        for field, value in ((_FILE_VERSION, _VERSION), (_GRAPH, definition))
    )


def _record(event: bytes) -> bytes:
    payload = _field(_WALL_TIME, _FIXED64, struct.pack("<d", time.time())) + event
    length = struct.pack("<Q", len(payload))
    return b"".join((length, _masked_crc(length), payload, _masked_crc(payload)))


def _field(number: int, wire_type: int, value: bytes) -> bytes:
    return _varint(number << 3 | wire_type) + value


def _sized(value: bytes) -> bytes:
    return _varint(len(value)) + value


def _float32(value: float) -> bytes:
    try:
        return struct.pack("<f", value)
    except OverflowError:
        return struct.pack("<f", math.copysign(math.inf, value))


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _masked_crc(data: bytes) -> bytes:
    """Return a TFRecord's checksum: CRC-32C, rotated and shifted (record_writer.h, crc32c.h)."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _CRC32C_TABLE[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _crc32c_of_byte(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (_CRC32C_POLYNOMIAL if byte & 1 else 0)
    return byte


_CRC32C_TABLE = tuple(_crc32c_of_byte(byte) for byte in range(256))
