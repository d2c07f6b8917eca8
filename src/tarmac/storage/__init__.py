"""Files written whole or not at all, wherever they are: here, on a web server, in a store.

Example:
    >>> from tarmac.storage import write_json
    >>> write_json(tmp_path / "run.json", {"status": "running"})
"""

from tarmac.storage._atomic import (
    StorageError,
    atomic_writer,
    read_errors,
    storage_errors,
    write_bytes,
    write_json,
    write_text,
)
from tarmac.storage._download import UnreachableError, download
from tarmac.storage._journal import (
    DamagedLine,
    JournalLines,
    append_lines,
    drop_torn_line,
    read_lines,
)
from tarmac.storage._locations import SCHEMES, Location, without_password
from tarmac.storage._objects import (
    get_object,
    is_object,
    is_object_directory,
    list_objects,
    put_object,
)
from tarmac.storage._records import read_versioned

__all__ = [
    "SCHEMES",
    "DamagedLine",
    "JournalLines",
    "Location",
    "StorageError",
    "UnreachableError",
    "append_lines",
    "atomic_writer",
    "download",
    "drop_torn_line",
    "get_object",
    "is_object",
    "is_object_directory",
    "list_objects",
    "put_object",
    "read_errors",
    "read_lines",
    "read_versioned",
    "storage_errors",
    "without_password",
    "write_bytes",
    "write_json",
    "write_text",
]
