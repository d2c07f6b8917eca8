"""Downloads: from the first mirror that has the right content, resumed where they broke off."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import httpx

from tarmac.errors import TarmacError
from tarmac.storage import storage_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tarmac.data._base import Progress

__all__ = ["UnreachableError", "download"]

_TIMEOUT = httpx.Timeout(30, connect=10)

# How often one mirror may break off and still be asked to go on.
_MAX_RESUMES = 5


class UnreachableError(TarmacError):
    """No mirror gave the file; ``hint`` says of each what was tried."""


def download(
    urls: Sequence[str],
    target: Path,
    check: Callable[[Path], object],
    progress: Progress | None,
) -> None:
    """Download a file to ``target``, whole and checked, or not at all.

    What has come of it stays beside it as ``.part``, and the next call goes on from there.

    Args:
        urls: Tried in order.
        target: Replaced in one move.
        check: Raises a TarmacError for a file that is not right; it is then downloaded afresh.
        progress: Told about every chunk.

    Raises:
        UnreachableError: No mirror had it, or none had it right.
        StorageError: It could not be written here.
    """
    part = target.with_name(f"{target.name}.part")
    failures = []
    for url in urls:
        # What was left of an earlier download may be of another version of the file.
        for _ in range(2):
            was_partial = part.exists()
            try:
                _receive(url, part, progress)
                check(part)
            except httpx.HTTPError as error:
                failures.append(f"{url}: {_reason(error)}")
                break
            except UnreachableError:
                raise
            except TarmacError as error:
                part.unlink(missing_ok=True)
                if not was_partial:
                    failures.append(f"{url}: {error.message}")
                    break
            else:
                with storage_errors(target):
                    part.replace(target)
                return
        else:
            failures.append(f"{url}: not the right content, also when downloaded afresh")
    raise UnreachableError(f"{target.name} could not be downloaded", hint="\n".join(failures))


def _receive(url: str, part: Path, progress: Progress | None) -> None:
    """Bring ``part`` to the whole length of what is at ``url``."""
    with httpx.Client(timeout=_TIMEOUT, follow_redirects=True) as client:
        for attempt in range(_MAX_RESUMES + 1):
            try:
                _receive_once(client, url, part, progress)
            except httpx.HTTPStatusError:
                raise
            except httpx.TransportError:
                if attempt == _MAX_RESUMES:
                    raise
            else:
                return


def _receive_once(client: httpx.Client, url: str, part: Path, progress: Progress | None) -> None:
    done = part.stat().st_size if part.exists() else 0
    # Compressed files must come as they are: a length and a place in them mean nothing otherwise.
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={done}-"} if done else {})
    with client.stream("GET", url, headers=headers) as response:
        if response.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
            # Nothing is left to send, or the file is another by now; the check will tell.
            return
        response.raise_for_status()
        is_rest = response.status_code == httpx.codes.PARTIAL_CONTENT
        done = done if is_rest else 0
        length = response.headers.get("Content-Length")
        total = done + int(length) if length is not None else None
        with storage_errors(part), part.open("ab" if is_rest else "wb") as file:
            for chunk in response.iter_raw():
                file.write(chunk)
                done += len(chunk)
                if progress is not None:
                    progress(done, total, part.name.removesuffix(".part"))
            file.flush()
            os.fsync(file.fileno())


def _reason(error: httpx.HTTPError) -> str:
    if isinstance(error, httpx.HTTPStatusError):
        return f"HTTP {error.response.status_code} {error.response.reason_phrase}"
    return str(error) or type(error).__name__
