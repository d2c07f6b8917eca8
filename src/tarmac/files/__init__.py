"""Files written whole or not at all: on local disks, in object stores, from web servers.

Example:
    >>> from tarmac.files import write_json
    >>> write_json(tmp_path / "run.json", {"status": "running"})
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tarmac.lazy import lazy_names

if TYPE_CHECKING:
    from tarmac.files.archives import tarfile as tarfile
    from tarmac.files.atomic import StorageError as StorageError
    from tarmac.files.atomic import atomic_writer as atomic_writer
    from tarmac.files.atomic import make_directories as make_directories
    from tarmac.files.atomic import new_directory as new_directory
    from tarmac.files.atomic import open_record as open_record
    from tarmac.files.atomic import open_regular as open_regular
    from tarmac.files.atomic import output_errors as output_errors
    from tarmac.files.atomic import read_errors as read_errors
    from tarmac.files.atomic import read_regular as read_regular
    from tarmac.files.atomic import replace_directory as replace_directory
    from tarmac.files.atomic import replace_file as replace_file
    from tarmac.files.atomic import storage_errors as storage_errors
    from tarmac.files.atomic import sync_directory as sync_directory
    from tarmac.files.atomic import write_bytes as write_bytes
    from tarmac.files.atomic import write_json as write_json
    from tarmac.files.atomic import write_text as write_text
    from tarmac.files.fields import Fields as Fields
    from tarmac.files.fields import moment_after as moment_after
    from tarmac.files.holders import HEARTBEAT_INTERVAL_S as HEARTBEAT_INTERVAL_S
    from tarmac.files.holders import Holder as Holder
    from tarmac.files.holders import LeaseWatch as LeaseWatch
    from tarmac.files.holders import read_lease as read_lease
    from tarmac.files.hosts_locks import Lock as Lock
    from tarmac.files.hosts_locks import is_held as is_held
    from tarmac.files.hosts_locks import lease_file as lease_file
    from tarmac.files.hosts_locks import open_lock as open_lock
    from tarmac.files.hosts_locks import read_holder as read_holder
    from tarmac.files.hosts_locks import taking_turns as taking_turns
    from tarmac.files.journal import DamagedLine as DamagedLine
    from tarmac.files.journal import JournalLines as JournalLines
    from tarmac.files.journal import append_lines as append_lines
    from tarmac.files.journal import drop_torn_line as drop_torn_line
    from tarmac.files.journal import journal_text as journal_text
    from tarmac.files.journal import parse_line as parse_line
    from tarmac.files.journal import read_lines as read_lines
    from tarmac.files.lease import Lease as Lease
    from tarmac.files.leftovers import abandoned as abandoned
    from tarmac.files.leftovers import remove_abandoned as remove_abandoned
    from tarmac.files.leftovers import remove_tree as remove_tree
    from tarmac.files.leftovers import scratch_directory as scratch_directory
    from tarmac.files.leftovers import temporary_directory as temporary_directory
    from tarmac.files.leftovers import temporary_path as temporary_path
    from tarmac.files.locations import SCHEMES as SCHEMES
    from tarmac.files.locations import Location as Location
    from tarmac.files.locations import expanded as expanded
    from tarmac.files.locations import placed as placed
    from tarmac.files.locations import without_password as without_password
    from tarmac.files.locks import OwnerLock as OwnerLock
    from tarmac.files.locks import is_owned as is_owned
    from tarmac.files.locks import lock_descriptor as lock_descriptor
    from tarmac.files.locks import remove_unowned as remove_unowned
    from tarmac.files.locks import unlock_descriptor as unlock_descriptor
    from tarmac.files.log_ends import masked_end as masked_end
    from tarmac.files.mounts import is_network as is_network
    from tarmac.files.mounts import network_type as network_type
    from tarmac.files.objects import delete_object as delete_object
    from tarmac.files.objects import get_object as get_object
    from tarmac.files.objects import is_object as is_object
    from tarmac.files.objects import is_object_directory as is_object_directory
    from tarmac.files.objects import list_objects as list_objects
    from tarmac.files.objects import put_object as put_object
    from tarmac.files.objects import read_object as read_object
    from tarmac.files.objects import write_object as write_object
    from tarmac.files.ownership import TRUSTED_USERS as TRUSTED_USERS
    from tarmac.files.ownership import first_own as first_own
    from tarmac.files.ownership import foreign_owner as foreign_owner
    from tarmac.files.ownership import foreign_python_owner as foreign_python_owner
    from tarmac.files.ownership import passes_over as passes_over
    from tarmac.files.ownership import refuse_foreign as refuse_foreign
    from tarmac.files.ownership import refuse_foreign_build as refuse_foreign_build
    from tarmac.files.ownership import refuse_foreign_python as refuse_foreign_python
    from tarmac.files.ownership import refuse_going_on as refuse_going_on
    from tarmac.files.ownership import trust_in_this_user as trust_in_this_user
    from tarmac.files.parsing import Shape as Shape
    from tarmac.files.parsing import parse_json as parse_json
    from tarmac.files.private import make_private as make_private
    from tarmac.files.programs import job_lines as job_lines
    from tarmac.files.programs import job_name as job_name
    from tarmac.files.readings import Readings as Readings
    from tarmac.files.records import Moment as Moment
    from tarmac.files.records import damaged_record as damaged_record
    from tarmac.files.records import read_versioned as read_versioned
    from tarmac.files.records import validated as validated
    from tarmac.files.web import ANSWER_TIMEOUT_S as ANSWER_TIMEOUT_S
    from tarmac.files.web import CONNECT_TIMEOUT_S as CONNECT_TIMEOUT_S
    from tarmac.files.web import UnreachableError as UnreachableError
    from tarmac.files.web import download as download
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
