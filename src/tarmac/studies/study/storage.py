"""The storage of a study's trials: a journal in its directory, or a database of Optuna."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import optuna
from optuna.exceptions import StorageInternalError
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend, JournalRedisBackend
from optuna.trial import TrialState

from tarmac.distribution import install_hint
from tarmac.errors import RequestError, TarmacError, first_line, quoted
from tarmac.files import (
    DamagedLine,
    Shape,
    append_lines,
    drop_torn_line,
    open_record,
    parse_line,
    read_errors,
)
from tarmac.studies.ledger import GENERATION, SURVIVORS
from tarmac.studies.study.locks import Locks, short_lock

_CONNECT_S = 10
# SQLAlchemy reads a password up to the first @, slashes included.
_IN_AUTHORITY = re.compile(r"(\w://[^:/@\s]*):[^@\s]*@")
_IN_QUERY = re.compile(r"([?&]\w*password=)[^&\s]*")
_FINISHED = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)


def open_storage(url: str | None, journal: Path, locks: Locks = "kernel") -> BaseStorage:
    """Open the storage of a study's trials.

    Args:
        url: URL of a database, such as ``postgresql://user:word@host/name``; None for the journal.
        journal: File of the journal; created if missing.
        locks: Kind of lock on the journal: ``kernel`` or ``leases``. Default ``kernel``.

    Raises:
        RequestError: Optuna does not support the URL, or its driver is not installed.
        TarmacError: The database cannot be reached, or the journal is damaged and left unchanged.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    if url is None:
        return _open_journal(journal, locks)
    if url.startswith(("redis://", "rediss://")):
        with _database_errors(url):
            return JournalStorage(JournalRedisBackend(url))
    arguments = {}
    if url.startswith(("postgresql", "mysql")):
        arguments = {"connect_args": {"connect_timeout": _CONNECT_S}, "pool_pre_ping": True}
    with _database_errors(url):
        return RDBStorage(_with_driver(url), engine_kwargs=arguments)


def masked(text: str) -> str:
    """Return a text, such as a URL or a command-line word, with database passwords redacted."""
    return _IN_QUERY.sub(r"\1***", _IN_AUTHORITY.sub(r"\1:***@", text))


def has_password(url: str) -> bool:
    """Return whether a URL holds a password, in plain text or redacted by `masked`."""
    return bool(_IN_AUTHORITY.search(url) or _IN_QUERY.search(url))


@contextlib.contextmanager
def loss_of_database(url: str | None, go_on: str) -> Iterator[None]:
    """Explain the errors of a database that is lost during a search.

    Args:
        url: URL of the database; None for a journal.
        go_on: Command line that resumes the search.

    Raises:
        TarmacError: The database was lost.
    """
    if url is None:
        yield
        return
    from sqlalchemy.exc import SQLAlchemyError  # noqa: PLC0415 - slow to import

    try:
        yield
    except (StorageInternalError, SQLAlchemyError) as error:
        cause = error if isinstance(error, SQLAlchemyError) else error.__cause__ or error
        cause = getattr(cause, "orig", None) or cause
        raise TarmacError(
            f"the database {masked(url)} was lost: {first_line(cause)}",
            hint="It keeps finished networks; a resume trains unfinished ones again. "
            f"Resume it when the database is back: {go_on}",
        ) from error


def _with_driver(url: str) -> str:
    """Add PostgreSQL's driver to a URL: SQLAlchemy 2.0 defaults to psycopg2, 2.1 to psycopg."""
    scheme, separator, rest = url.partition("://")
    if scheme in ("postgresql", "postgres"):
        scheme = "postgresql+psycopg"
    return f"{scheme}{separator}{rest}"


class _JournalLock:
    """Our lock on the journal, which ends with its holder, with Optuna's interface.

    Optuna's own lock is a file: a killed process leaves it behind, and others wait 30 s for it.
    """

    def __init__(self, path: Path, locks: Locks) -> None:
        self._lock = short_lock(path, locks)

    def acquire(self) -> bool:
        self._lock.wait()
        return True

    def release(self) -> None:
        self._lock.release()


class _Journal(JournalFileBackend):
    """Optuna's journal with one disk sync per finished trial, instead of one per line.

    The kernel has each line once it is written, so a killed process loses nothing. A power cut may
    lose the lines since the last finished trial; a resumed search writes them again.
    """

    def __init__(self, path: Path, lock: _JournalLock) -> None:
        super().__init__(str(path), lock_obj=lock)  # type: ignore[arg-type]
        self._path = path
        self._own_lock = lock
        # Offset of each entry that was read, and of the next entry.
        self._starts = [0]
        # Number, from 1, of the entry that was read last and that Optuna now applies.
        self.number = 0

    def read_logs(self, log_number_from: int) -> Generator[dict[str, Any], None, None]:
        """Yield the entries of the file from a number on; a damaged entry raises an error."""
        first = min(log_number_from, len(self._starts) - 1)
        with read_errors(self._path), open_record(self._path) as file:
            # The next call reads the entries that others append meanwhile.
            size = os.fstat(file.fileno()).st_size
            file.seek(self._starts[first])
            for number, line in enumerate(file, first):
                end = self._starts[number] + len(line)
                if end > size or not line.endswith(b"\n"):
                    return
                if number + 1 == len(self._starts):
                    self._starts.append(end)
                if number >= log_number_from:
                    self.number = number + 1
                    yield self._entry(number + 1, line[:-1])

    def _entry(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            entry: dict[str, Any] = parse_line(line)
            problem = _problem(entry)
        except ValueError as error:
            problem = str(error)
        if problem is not None:
            raise _damaged_line(self._path, DamagedLine(self._path, number, problem))
        return entry

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Append entries to the file."""
        is_end = any(log.get("state") in _FINISHED for log in logs)
        self._own_lock.acquire()
        try:
            append_lines(self._path, logs, is_durable=is_end)
        finally:
            self._own_lock.release()


def _open_journal(path: Path, locks: Locks) -> JournalStorage:
    lock = _JournalLock(path.with_name(path.name + ".lock"), locks)
    # A study that this user may only read can be opened too.
    if os.access(path.parent, os.W_OK) and os.access(path, os.W_OK):
        lock.acquire()
        try:
            drop_torn_line(path)
        finally:
            lock.release()
    journal = _Journal(path, lock)
    try:
        with read_errors(path):
            return JournalStorage(journal)
    except TarmacError:
        raise
    except Exception as error:
        # Optuna does not validate entries: any exception means that the line is invalid, alone or
        # after the lines before it.
        words = str(error).strip() or "it does not fit those before it"
        line = DamagedLine(path, journal.number, words.splitlines()[0])
        raise _damaged_line(path, line) from error


def _damaged_line(path: Path, line: DamagedLine) -> TarmacError:
    kept = path.with_name(f"{path.name}.damaged")
    return TarmacError(
        str(line),
        hint="The file was not changed. To resume from the lines before it:\n"
        f"cp {quoted(path, kept)}\n"
        f"head -n {line.number - 1} {quoted(kept)} > {quoted(path)}",
    )


_ENTRY = Shape({"op_code": "whole number"})

# Fields that Optuna and the readers of trials rely on, by operation code.
_OF_STUDY, _OF_TRIAL = {"study_id": "whole number"}, {"trial_id": "whole number"}
_ENTRIES = {
    0: Shape({"study_name": "text", "directions": "numbers"}),
    2: Shape(_OF_STUDY | {"user_attr": "object"}),
    3: Shape(_OF_STUDY | {"system_attr": "object"}),
    4: Shape(
        _OF_STUDY,
        {
            "state": "whole number",
            "value": "number or null",
            "values": "numbers or null",
            "distributions": "object",
            "params": "object",
            "user_attrs": "object",
            "system_attrs": "object",
            "intermediate_values": "object",
        },
    ),
    5: Shape(
        _OF_TRIAL | {"param_name": "text", "param_value_internal": "number", "distribution": "text"}
    ),
    6: Shape(_OF_TRIAL | {"state": "whole number", "values": "numbers or null"}),
    7: Shape(_OF_TRIAL | {"step": "whole number", "intermediate_value": "number"}),
    8: Shape(_OF_TRIAL | {"user_attr": "object"}),
    9: Shape(_OF_TRIAL | {"system_attr": "object"}),
}
_ATTRIBUTES = Shape(
    {},
    {
        "attempts": "whole number",
        "epochs": "whole number",
        "error": "text or null",
        "num_parameters": "whole number or null",
        "origin": "text or null",
        "owner": "text or null",
        "reused": "numbers",
        "run": "text or null",
        "same_as": "whole number",
        "seconds": "seconds",
        "together": "whole number or null",
    },
)


def _problem(entry: Any) -> str | None:
    problem = _ENTRY.problem_of(entry)
    if problem is None:
        problem = _ENTRIES.get(entry["op_code"], _ENTRY).problem_of(entry)
    if problem is None and entry["op_code"] in (4, 8):
        problem = _ATTRIBUTES.problem_of(entry.get("user_attrs", entry.get("user_attr", {})))
    if problem is None and entry["op_code"] in (3, 4, 9):
        attributes = entry.get("system_attrs", entry.get("system_attr", {}))
        survivors = {key: "numbers" for key in attributes if key.startswith(SURVIVORS)}
        problem = Shape({}, {GENERATION: "whole number or null"} | survivors).problem_of(attributes)
    return problem


@contextlib.contextmanager
def _database_errors(url: str) -> Iterator[None]:
    from sqlalchemy.exc import ArgumentError, SQLAlchemyError  # noqa: PLC0415 - slow to import

    try:
        yield
    except (ArgumentError, ValueError) as error:
        raise RequestError(
            f"storage is {masked(url)!r}, which is not a database URL: {first_line(error)}",
            hint="For example: --storage postgresql://user:password@host/name",
        ) from error
    except ImportError as error:
        raise RequestError(
            f"the driver of {masked(url)} is not installed: {error}",
            hint=f"For PostgreSQL: {install_hint('postgresql')}; for MySQL: pip install pymysql "
            "and mysql+pymysql://...; for Redis: pip install redis",
        ) from error
    except (SQLAlchemyError, OSError) as error:
        cause = getattr(error, "orig", None) or error
        raise TarmacError(
            f"the database {masked(url)} cannot be reached: {first_line(cause)}",
            hint="Check that it runs and accepts connections from here. Without --storage, a study "
            "is a file.",
        ) from error
