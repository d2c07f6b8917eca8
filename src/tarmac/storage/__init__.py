"""Files written whole or not at all.

Example:
    >>> from tarmac.storage import write_json
    >>> write_json(tmp_path / "run.json", {"status": "running"})
"""

from tarmac.storage._atomic import (
    StorageError,
    atomic_writer,
    storage_errors,
    write_bytes,
    write_json,
    write_text,
)
from tarmac.storage._objects import (
    SCHEMES,
    get_object,
    is_object,
    is_object_directory,
    list_objects,
    put_object,
)
from tarmac.storage._records import read_versioned

__all__ = [
    "SCHEMES",
    "StorageError",
    "atomic_writer",
    "get_object",
    "is_object",
    "is_object_directory",
    "list_objects",
    "put_object",
    "read_versioned",
    "storage_errors",
    "write_bytes",
    "write_json",
    "write_text",
]
