"""Files written whole or not at all, wherever they are: here, on a web server, in a store.

Example:
    >>> from tarmac.files import write_json
    >>> write_json(tmp_path / "run.json", {"status": "running"})
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tarmac.files.archives import tarfile
    from tarmac.files.atomic import (
        StorageError,
        atomic_writer,
        make_directories,
        new_directory,
        open_record,
        open_regular,
        output_errors,
        read_errors,
        read_regular,
        replace_directory,
        replace_file,
        storage_errors,
        sync_directory,
        write_bytes,
        write_json,
        write_text,
    )
    from tarmac.files.fields import Fields, moment_after
    from tarmac.files.holders import BEAT_S, Holder, LeaseWatch, read_lease
    from tarmac.files.hosts_locks import (
        Lock,
        is_held,
        lease_file,
        open_lock,
        read_holder,
        taking_turns,
    )
    from tarmac.files.journal import (
        DamagedLine,
        JournalLines,
        append_lines,
        drop_torn_line,
        journal_text,
        parse_line,
        read_lines,
    )
    from tarmac.files.lease import Lease
    from tarmac.files.leftovers import (
        abandoned,
        remove_abandoned,
        remove_tree,
        temporary_directory,
        temporary_path,
    )
    from tarmac.files.locations import SCHEMES, Location, expanded, without_password
    from tarmac.files.locks import (
        OwnerLock,
        is_owned,
        lock_descriptor,
        remove_unowned,
        unlock_descriptor,
    )
    from tarmac.files.log_ends import masked_end
    from tarmac.files.mounts import is_network, network_type
    from tarmac.files.objects import (
        delete_object,
        get_object,
        is_object,
        is_object_directory,
        list_objects,
        put_object,
        read_object,
        write_object,
    )
    from tarmac.files.ownership import (
        TRUSTED_USERS,
        first_own,
        foreign_owner,
        foreign_python_owner,
        passes_over,
        refuse_foreign,
        refuse_foreign_build,
        refuse_foreign_python,
        trust_in_this_user,
    )
    from tarmac.files.parsing import Shape, parse_json
    from tarmac.files.private import make_private
    from tarmac.files.programs import job_lines, job_name
    from tarmac.files.readings import Readings
    from tarmac.files.records import Moment, read_versioned, validated
    from tarmac.files.web import UnreachableError, download

__all__ = [
    "BEAT_S",
    "SCHEMES",
    "TRUSTED_USERS",
    "DamagedLine",
    "Fields",
    "Holder",
    "JournalLines",
    "Lease",
    "LeaseWatch",
    "Location",
    "Lock",
    "Moment",
    "OwnerLock",
    "Readings",
    "Shape",
    "StorageError",
    "UnreachableError",
    "abandoned",
    "append_lines",
    "atomic_writer",
    "delete_object",
    "download",
    "drop_torn_line",
    "expanded",
    "first_own",
    "foreign_owner",
    "foreign_python_owner",
    "get_object",
    "is_held",
    "is_network",
    "is_object",
    "is_object_directory",
    "is_owned",
    "job_lines",
    "job_name",
    "journal_text",
    "lease_file",
    "list_objects",
    "lock_descriptor",
    "make_directories",
    "make_private",
    "masked_end",
    "moment_after",
    "network_type",
    "new_directory",
    "open_lock",
    "open_record",
    "open_regular",
    "output_errors",
    "parse_json",
    "parse_line",
    "passes_over",
    "put_object",
    "read_errors",
    "read_holder",
    "read_lease",
    "read_lines",
    "read_object",
    "read_regular",
    "read_versioned",
    "refuse_foreign",
    "refuse_foreign_build",
    "refuse_foreign_python",
    "remove_abandoned",
    "remove_tree",
    "remove_unowned",
    "replace_directory",
    "replace_file",
    "storage_errors",
    "sync_directory",
    "taking_turns",
    "tarfile",
    "temporary_directory",
    "temporary_path",
    "trust_in_this_user",
    "unlock_descriptor",
    "validated",
    "without_password",
    "write_bytes",
    "write_json",
    "write_object",
    "write_text",
]

# Where a name is at home.
_MODULES = {
    "BEAT_S": "holders",
    "SCHEMES": "locations",
    "DamagedLine": "journal",
    "Fields": "fields",
    "moment_after": "fields",
    "Holder": "holders",
    "JournalLines": "journal",
    "Lease": "lease",
    "LeaseWatch": "holders",
    "Location": "locations",
    "Lock": "hosts_locks",
    "Moment": "records",
    "OwnerLock": "locks",
    "Readings": "readings",
    "Shape": "parsing",
    "StorageError": "atomic",
    "UnreachableError": "web",
    "abandoned": "leftovers",
    "append_lines": "journal",
    "remove_abandoned": "leftovers",
    "remove_tree": "leftovers",
    "temporary_directory": "leftovers",
    "temporary_path": "leftovers",
    "atomic_writer": "atomic",
    "make_directories": "atomic",
    "replace_file": "atomic",
    "sync_directory": "atomic",
    "delete_object": "objects",
    "download": "web",
    "drop_torn_line": "journal",
    "journal_text": "journal",
    "parse_line": "journal",
    "get_object": "objects",
    "is_held": "hosts_locks",
    "job_lines": "programs",
    "job_name": "programs",
    "lease_file": "hosts_locks",
    "read_holder": "hosts_locks",
    "is_network": "mounts",
    "is_object": "objects",
    "is_object_directory": "objects",
    "is_owned": "locks",
    "list_objects": "objects",
    "lock_descriptor": "locks",
    "make_private": "private",
    "masked_end": "log_ends",
    "network_type": "mounts",
    "open_lock": "hosts_locks",
    "parse_json": "parsing",
    "put_object": "objects",
    "read_object": "objects",
    "new_directory": "atomic",
    "open_record": "atomic",
    "open_regular": "atomic",
    "output_errors": "atomic",
    "read_errors": "atomic",
    "read_regular": "atomic",
    "read_lease": "holders",
    "read_lines": "journal",
    "read_versioned": "records",
    "remove_unowned": "locks",
    "replace_directory": "atomic",
    "storage_errors": "atomic",
    "tarfile": "archives",
    "taking_turns": "hosts_locks",
    "unlock_descriptor": "locks",
    "validated": "records",
    "without_password": "locations",
    "write_bytes": "atomic",
    "write_json": "atomic",
    "write_object": "objects",
    "write_text": "atomic",
    "TRUSTED_USERS": "ownership",
    "expanded": "locations",
    "first_own": "ownership",
    "foreign_owner": "ownership",
    "foreign_python_owner": "ownership",
    "passes_over": "ownership",
    "refuse_foreign": "ownership",
    "refuse_foreign_build": "ownership",
    "refuse_foreign_python": "ownership",
    "trust_in_this_user": "ownership",
}


def __getattr__(name: str) -> object:
    """Import a module when a name of it is first used: one picture needs few of them."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
