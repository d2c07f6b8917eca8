"""Files written whole or not at all, wherever they are: here, on a web server, in a store.

Example:
    >>> from tarmac.files import write_json
    >>> write_json(tmp_path / "run.json", {"status": "running"})
"""

from tarmac.files.atomic import (
    StorageError,
    atomic_writer,
    read_errors,
    storage_errors,
    write_bytes,
    write_json,
    write_text,
)
from tarmac.files.journal import (
    DamagedLine,
    JournalLines,
    append_lines,
    drop_torn_line,
    read_lines,
)
from tarmac.files.locations import SCHEMES, Location, without_password
from tarmac.files.locks import (
    OwnerLock,
    is_owned,
    lock_descriptor,
    remove_unowned,
    unlock_descriptor,
)
from tarmac.files.objects import (
    get_object,
    is_object,
    is_object_directory,
    list_objects,
    put_object,
)
from tarmac.files.records import read_versioned
from tarmac.files.web import UnreachableError, download

__all__ = [
    "SCHEMES",
    "DamagedLine",
    "JournalLines",
    "Location",
    "OwnerLock",
    "StorageError",
    "UnreachableError",
    "append_lines",
    "atomic_writer",
    "download",
    "drop_torn_line",
    "get_object",
    "is_object",
    "is_object_directory",
    "is_owned",
    "list_objects",
    "lock_descriptor",
    "put_object",
    "read_errors",
    "read_lines",
    "read_versioned",
    "remove_unowned",
    "storage_errors",
    "unlock_descriptor",
    "without_password",
    "write_bytes",
    "write_json",
    "write_text",
]
