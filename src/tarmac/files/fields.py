"""Access to unchecked JSON objects: a missing field, or one of another type, is None.

Example:
    >>> from tarmac.files import Fields
    >>> record = Fields.of({"status": "running", "epochs": "many", "device": {"uuid": "GPU-1"}})
    >>> record.text("status"), record.whole("epochs"), record.inner("device").text("uuid")
    ('running', None, 'GPU-1')
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment_after(seconds: float, since: datetime = _EPOCH) -> datetime | None:
    """Return the time some seconds after another; None outside the supported years.

    Args:
        seconds: Number from a record, or a file's time, which its owner may set to anything.
        since: Start time. Default: 1970, as for a file's time.
    """
    try:
        return since + timedelta(seconds=seconds)
    except (OverflowError, ValueError):
        return None


@dataclasses.dataclass(frozen=True)
class Fields:
    """The fields of a JSON object, read by type.

    Attributes:
        values: Values as they were read, by name.
    """

    values: Mapping[str, Any]

    @classmethod
    def of(cls, value: object) -> Fields:
        """Return the fields of a value; empty for a value that is no object."""
        return cls(value if isinstance(value, dict) else {})

    def __bool__(self) -> bool:
        return bool(self.values)

    def text(self, key: str) -> str | None:
        """Return a field's text, else None."""
        value = self.values.get(key)
        return value if isinstance(value, str) else None

    def number(self, key: str) -> float | None:
        """Return a field's finite number, else None."""
        value = self.values.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        try:
            return float(value) if math.isfinite(value) else None
        except OverflowError:
            return None

    def whole(self, key: str) -> int | None:
        """Return a field's whole number, else None."""
        value = self.number(key)
        return int(value) if value is not None and value.is_integer() else None

    def moment(self, key: str) -> datetime | None:
        """Return a field's time, written in ISO 8601, in UTC; else None."""
        try:
            moment = datetime.fromisoformat(self.text(key) or "")
            return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        except (ValueError, OverflowError):
            return None

    def inner(self, key: str) -> Fields:
        """Return the fields of a field's object; empty without an object."""
        return Fields.of(self.values.get(key))

    def inners(self, key: str) -> tuple[Fields, ...]:
        """Return the fields of each object in a field's list; empty without a list."""
        value = self.values.get(key)
        return tuple(map(Fields.of, value)) if isinstance(value, list) else ()
