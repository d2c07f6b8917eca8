"""The address and the token of a Ray cluster's jobs interface."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from tarmac.errors import RequestError
from tarmac.files import expanded

# The head's default address: ray start's --dashboard-host, --dashboard-port.
_DEFAULT = "http://127.0.0.1:8265"

# Variables that `ray job submit` reads, in this order.
_VARIABLES = ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS")


def dashboard_address(environment: Mapping[str, str], named: str = "") -> str:
    """Return the URL of a cluster's dashboard.

    Args:
        environment: Environment variables, usually ``os.environ``. ``RAY_API_SERVER_ADDRESS``, or
            else a ``RAY_ADDRESS`` that is a URL, is the address.
        named: URL that overrides the environment; empty for none.

    Raises:
        RequestError: The address is no URL.
    """
    for name in _VARIABLES:
        value = environment.get(name, "")
        # RAY_ADDRESS may also be the port of the head itself.
        if not named and (name != "RAY_ADDRESS" or value.startswith(("http://", "https://"))):
            named = value
    if not named:
        return _DEFAULT
    try:
        parts = urlsplit(named)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_url = False
    # The part before the host may be a password, so the message does not show it.
    if not is_url or "@" in named:
        raise RequestError(
            "the address of Ray's dashboard is not of the form http://HOST:PORT",
            hint=f"Default: {_DEFAULT}",
        )
    return named.rstrip("/")


def read_token(environment: Mapping[str, str]) -> str | None:
    """Return the token for a cluster that requires one; None where none is set.

    Args:
        environment: Environment variables, usually ``os.environ``. The token is ``RAY_AUTH_TOKEN``,
            else in the file ``RAY_AUTH_TOKEN_PATH``, else in ``~/.ray/auth_token``, as for Ray
            itself.

    Raises:
        RequestError: The token's file cannot be read.
    """
    own = environment.get("RAY_AUTH_TOKEN", "").strip()
    if own:
        return own
    named = environment.get("RAY_AUTH_TOKEN_PATH", "")
    path = expanded(named or "~/.ray/auth_token")
    try:
        return path.read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError) as error:
        if not named and isinstance(error, (FileNotFoundError, NotADirectoryError)):
            return None
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8"
        raise RequestError(
            f"{path}: the token for Ray cannot be read: {reason}",
            hint="Name its file by RAY_AUTH_TOKEN_PATH",
        ) from error
