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
from tarmac.files.fields import Fields
from tarmac.files.journal import (
    DamagedLine,
    JournalLines,
    append_lines,
    drop_torn_line,
    read_lines,
)
from tarmac.files.lease import (
    BEAT_S,
    Holder,
    Lease,
    LeaseWatch,
    Lock,
    is_held,
    open_lock,
    read_lease,
    taking_turns,
)
from tarmac.files.locations import SCHEMES, Location, without_password
from tarmac.files.locks import (
    OwnerLock,
    is_owned,
    lock_descriptor,
    remove_unowned,
    unlock_descriptor,
)
from tarmac.files.mounts import is_network, network_type
from tarmac.files.objects import (
    get_object,
    is_object,
    is_object_directory,
    list_objects,
    put_object,
)
from tarmac.files.private import make_private
from tarmac.files.readings import Readings
from tarmac.files.records import read_versioned
from tarmac.files.web import UnreachableError, download

__all__ = [
    "BEAT_S",
    "SCHEMES",
    "DamagedLine",
    "Fields",
    "Holder",
    "JournalLines",
    "Lease",
    "LeaseWatch",
    "Location",
    "Lock",
    "OwnerLock",
    "Readings",
    "StorageError",
    "UnreachableError",
    "append_lines",
    "atomic_writer",
    "download",
    "drop_torn_line",
    "get_object",
    "is_held",
    "is_network",
    "is_object",
    "is_object_directory",
    "is_owned",
    "list_objects",
    "lock_descriptor",
    "make_private",
    "network_type",
    "open_lock",
    "put_object",
    "read_errors",
    "read_lease",
    "read_lines",
    "read_versioned",
    "remove_unowned",
    "storage_errors",
    "taking_turns",
    "unlock_descriptor",
    "without_password",
    "write_bytes",
    "write_json",
    "write_text",
]
