"""Downloads from the first server with the right content, resumed where they broke off."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from tarmac.errors import TarmacError
from tarmac.files.atomic import replace_file, storage_errors
from tarmac.files.locations import without_password

if TYPE_CHECKING:
    import httpx

    Progress: TypeAlias = Callable[[int, int | None, str], object]

# Timeouts in seconds for each part of an answer, and for a connection.
ANSWER_TIMEOUT_S, CONNECT_TIMEOUT_S = 30, 10

# Maximum number of resumes per server.
_MAX_RESUMES = 5


class UnreachableError(TarmacError):
    """The error of a file that no server provides; ``hint`` has the failure of each server.

    Attributes:
        failures: Text for each failed URL: the URL without its password, and the reason.
    """

    def __init__(self, name: str, failures: Sequence[str]) -> None:
        super().__init__(f"{name} could not be downloaded", hint="\n".join(failures))
        self.failures = tuple(failures)


def download(
    urls: Sequence[str],
    target: Path,
    check: Callable[[Path], object],
    progress: Progress | None = None,
) -> None:
    """Download a file to ``target``, whole and checked, or not at all.

    A partial download stays beside it as ``.part``, and the next call resumes it.

    Args:
        urls: URLs of the file, tried in this order.
        target: File to write, replaced atomically once the content is checked.
        check: Raises a TarmacError for wrong content; the file is then downloaded again.
        progress: Called for every chunk with the bytes received, the total (None if unknown) and
            the file name. Default: none.

    Raises:
        UnreachableError: No server had the file with the right content.
        StorageError: The file could not be written.
    """
    import httpx  # noqa: PLC0415 - takes a tenth of a second; only downloads need it

    part = target.with_name(f"{target.name}.part")
    failures = []
    for url in urls:
        shown = without_password(url)
        # A partial file may be of another version: try again from the start.
        for _ in range(2):
            was_partial = part.exists()
            try:
                _receive(url, part, progress)
                check(part)
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                failures.append(f"{shown}: {_reason(error)}")
                break
            except UnreachableError:
                raise
            except TarmacError as error:
                part.unlink(missing_ok=True)
                if not was_partial:
                    failures.append(f"{shown}: {error.message}")
                    break
            else:
                with storage_errors(target):
                    replace_file(part, target)
                return
        else:
            failures.append(f"{shown}: wrong content, also after a second download")
    raise UnreachableError(target.name, failures)


def _receive(url: str, part: Path, progress: Progress | None) -> None:
    """Download the rest of ``part`` from ``url``, with up to five resumes."""
    import httpx  # noqa: PLC0415 - as above

    version: dict[str, str] = {}
    timeout = httpx.Timeout(ANSWER_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
    with httpx.Client(timeout=timeout, follow_redirects=True) as client:
        for attempt in range(_MAX_RESUMES + 1):
            try:
                _receive_once(client, url, part, version, progress)
            except httpx.TransportError:
                if attempt == _MAX_RESUMES:
                    raise
            else:
                return


def _receive_once(
    client: httpx.Client,
    url: str,
    part: Path,
    version: dict[str, str],
    progress: Progress | None,
) -> None:
    """Request the missing part of a file.

    Args:
        client: HTTP client that sends the request.
        url: URL of the file to download.
        part: File with the bytes received so far. The rest is appended, or all of it replaced,
            as the server answers.
        version: ``If-Range`` header with the file's version; filled in by the first answer.
        progress: Called for every chunk; see `download`.
    """
    done = part.stat().st_size if part.exists() else 0
    # No compression: lengths and positions would not be those of the file.
    headers = {"Accept-Encoding": "identity"}
    if done:
        headers |= {"Range": f"bytes={done}-"} | version
    with client.stream("GET", url, headers=headers) as response:
        if response.status_code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            # The file is complete, or has changed; the check decides.
            return
        response.raise_for_status()
        is_rest = response.status_code == HTTPStatus.PARTIAL_CONTENT
        done = done if is_rest else 0
        tag = response.headers.get("ETag", "")
        # The rest of another version must not follow the beginning of this version (RFC 9110,
        # 13.1.5); a weak tag does not distinguish them.
        version.update({"If-Range": tag} if tag.startswith('"') else {})
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


def _reason(error: httpx.HTTPError | httpx.InvalidURL) -> str:
    import httpx  # noqa: PLC0415 - as above

    if isinstance(error, httpx.HTTPStatusError):
        return f"HTTP {error.response.status_code} {error.response.reason_phrase}"
    return without_password(str(error)) or type(error).__name__
