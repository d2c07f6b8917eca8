"""Check that channels answer, because rattler waits for them without a timeout."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from urllib.parse import urlsplit

from tarmac.errors import TarmacError
from tarmac.files import ANSWER_TIMEOUT_S, CONNECT_TIMEOUT_S, without_password


async def refuse_silent(urls: Iterable[str], where: str) -> None:
    """Raise a TarmacError if a server gives no answer; request one URL per server.

    The requests use the proxies of the process's environment. Any HTTP status counts as an answer.
    Refused connections and unknown hosts are ignored, because rattler reports them at once.

    Args:
        urls: URLs of files. Only the first http(s) URL of each server is requested.
        where: Beginning of the message: the file that names the URLs.

    Raises:
        TarmacError: A server does not answer in time.
    """
    servers: dict[str, str] = {}
    for url in urls:
        if (parts := urlsplit(url)).scheme in ("http", "https"):
            servers.setdefault(parts.netloc, url)
    await asyncio.gather(*(_ask(url, where) for url in servers.values()))


async def _ask(url: str, where: str) -> None:
    import httpx  # noqa: PLC0415 - takes 0.1 s, also for commands that build nothing

    timeout = httpx.Timeout(ANSWER_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
    try:
        async with httpx.AsyncClient(timeout=timeout) as client:
            await client.head(url)
    except (httpx.ConnectTimeout, httpx.ReadTimeout) as error:
        is_connected = isinstance(error, httpx.ReadTimeout)
        limit_s = ANSWER_TIMEOUT_S if is_connected else CONNECT_TIMEOUT_S
        raise TarmacError(
            f"{where}: {without_password(url)} does not answer in {limit_s} s",
            hint="To use a mirror, give its URL as a channel; to use a proxy, set HTTPS_PROXY.",
        ) from error
    except (httpx.HTTPError, httpx.InvalidURL):
        return
