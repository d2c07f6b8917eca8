"""File ownership: no file that another user may have written is run unless the user names it.

Root is trusted, because root can do everything already; so is the user who called ``sudo``. The
rule is that of git's ``safe.directory``.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pwd
import stat
import sys
from collections.abc import Iterable
from pathlib import Path

from tarmac.errors import RequestError, quoted
from tarmac.wording import in_one_line

TRUSTED_USERS = "TARMAC_TRUSTED_USERS"


def foreign_owner(*paths: Path) -> str | None:
    """Return the first untrusted owner of paths; None where all owners are trusted.

    Args:
        paths: Files and directories. Links are followed; missing paths have no owner.
    """
    trusted = _trusted_ids()
    for path in paths:
        with contextlib.suppress(OSError):
            owner = path.stat().st_uid
            if owner not in trusted:
                return _name_of(owner)
    return None


def refuse_foreign(record: Path, *files: Path, what: str, again: str) -> None:
    """Refuse to run the content of a record or its files where another user owns any of them.

    Args:
        record: Path of the record of a run or a study.
        files: Code files that the record names.
        what: Description of the code that would run.
        again: Description of the alternative.

    Raises:
        RequestError: Another user owns the record, a file, or the directory of one.
    """
    for path in (record, *files):
        real = Path(os.path.realpath(path))
        owner = foreign_owner(real, real.parent)
        if owner is not None:
            raise RequestError(
                f"{path} belongs to {owner}, and {what} would run as you",
                hint=f"Read it first. If you trust it, {again}\n"
                f"To trust all that {owner} owns: export {TRUSTED_USERS}={owner}",
            )


def refuse_foreign_python(reference: str, record: Path, *, again: str) -> None:
    """Refuse to run a workload's file that a record names; see `refuse_foreign`.

    Args:
        reference: Workload as the record names it. An installed workload is named without a file.
        record: Path of the record of a run or a study.
        again: Command line that names the file.
    """
    if (file := _python_of(reference)) is not None:
        words = f"the Python of {reference}"
        refuse_foreign(record, file, what=words, again=f"name it: {again}")


def refuse_going_on(record: Path, *, is_named: bool, again: str) -> None:
    """Refuse to write into another user's run or study, whose links may lead elsewhere.

    Args:
        record: Record of the run or study: ``run.json`` or ``study.json``.
        is_named: Whether the user named the workload, and so knows the owner. The directory must
            then have no links.
        again: Command line that names the workload.

    Raises:
        RequestError: The run or study belongs to another user.
    """
    owner = foreign_owner(record, record.parent)
    if owner is None:
        return
    if not is_named:
        raise RequestError(
            f"{record} belongs to {owner}, who could redirect files that you write beside it",
            hint=f"Use a copy: {quoted('cp', '-rL', record.parent, 'MINE')}\n"
            f"If you trust it, name what it trains: {again}\n"
            f"To trust all that {owner} owns: export {TRUSTED_USERS}={owner}",
        )
    for folder, folders, files in os.walk(record.parent):
        for name in (*folders, *files):
            path = Path(folder, name)
            if path.is_symlink():
                raise RequestError(
                    f"{path} is a link, in a directory that belongs to {owner}, who could "
                    "redirect files that you write there",
                    hint=f"Use a copy: {quoted('cp', '-rL', record.parent, 'MINE')}",
                )


def refuse_foreign_build(path: Path, *, what: str) -> None:
    """Refuse to run a shared build that another user owns.

    Args:
        path: Path of the build, which may be missing.
        what: Description of the code that would run.

    Raises:
        RequestError: Another user owns the build or its directory.
    """
    owner = foreign_owner(path, path.parent)
    if owner is not None:
        raise RequestError(
            f"{path} belongs to {owner}, and {what} would run as you",
            hint="Build it in a directory of your own: XDG_CACHE_HOME, or a cluster's store\n"
            f"To trust all that {owner} owns: export {TRUSTED_USERS}={owner}",
        )


def foreign_python_owner(reference: str, record: Path) -> str | None:
    """Return another user who owns the Python file that a record names, or the record; else None.

    Args:
        reference: Workload as the record names it: a name or ``FILE.py:ATTRIBUTE``.
        record: Path of the record of a run or a study.
    """
    if (file := _python_of(reference)) is None:
        return None
    real = [Path(os.path.realpath(path)) for path in (record, file)]
    return foreign_owner(*real, *(path.parent for path in real))


def _python_of(reference: str) -> Path | None:
    file = reference.rpartition(":")[0]
    return Path(file) if file.endswith(".py") else None


def first_own(records: Iterable[Path]) -> Path | None:
    """Return the first record that no other user owns; note skipped records on stderr.

    Args:
        records: Paths of records, the newest first.
    """
    for record in records:
        owner = foreign_owner(record, record.parent)
        if owner is None:
            return record
        _note(f"latest skips {record.parent}, which belongs to {owner}")
    return None


def passes_over(path: Path) -> bool:
    """Whether an import must skip another user's file in a shared directory; note it on stderr.

    Args:
        path: File or package that is imported by name, without a path from the user.
    """
    owner = foreign_owner(path)
    if owner is None or not path.parent.stat().st_mode & stat.S_IWOTH:
        return False
    _note(f"imports skip {path}, which belongs to {owner}")
    return True


def trust_in_this_user() -> dict[str, str]:
    """Return the variables that make Tarmac's processes elsewhere trust this user's files.

    A container may run these processes as another user.
    """
    names = os.environ.get(TRUSTED_USERS, "").replace(",", " ").split()
    if os.geteuid():
        names.append(str(os.geteuid()))
    return {TRUSTED_USERS: ",".join(dict.fromkeys(names))} if names else {}


@functools.cache
def _note(text: str) -> None:
    """Write a note once: a command may look up the latest run several times."""
    sys.stderr.write(f"note: {in_one_line(text)}\n")


def _trusted_ids() -> set[int]:
    trusted = {0, os.geteuid()}
    names = os.environ.get(TRUSTED_USERS, "").replace(",", " ").split()
    if not os.geteuid():
        # Only a root process can have SUDO_UID from sudo.
        names.append(os.environ.get("SUDO_UID", ""))
    for name in names:
        with contextlib.suppress(KeyError):
            trusted.add(int(name) if name.isdecimal() else pwd.getpwnam(name).pw_uid)
    return trusted


def _name_of(user_id: int) -> str:
    try:
        return pwd.getpwuid(user_id).pw_name
    except KeyError:
        return str(user_id)
