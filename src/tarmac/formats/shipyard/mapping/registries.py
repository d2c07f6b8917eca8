"""Logins of registries. Only names and Key Vault secret IDs are read, never a password."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tarmac.errors import quoted
from tarmac.formats.shipyard.report import Report

_HUB = "hub"


class Registries:
    """The registries in the credentials.

    Args:
        configuration: Complete configuration, already checked.
        report: Receives notes on how to give a login.
    """

    def __init__(self, configuration: Mapping[str, Any], report: Report) -> None:
        credentials = configuration.get("credentials") or {}
        self._known = credentials.get("docker_registry") or {}
        self._report = report

    def login(self, image: str) -> dict[str, str] | None:
        """Return the fields of the `Secret` with an image's login, or None for no login."""
        server = next((name for name in self._known if _is_from(image, name)), None)
        if server is None:
            return None
        path = ("credentials", "docker_registry", server)
        vault_id = (self._known[server] or {}).get("password_keyvault_secret_id")
        if server == _HUB:
            self._report.note(
                path,
                "the login is not taken, and public images need none; for others: docker login",
            )
            return None
        name = vault_id or f"{server}/login"
        self._report.note(
            path,
            "the password is not taken; say where USER:PASSWORD is by "
            f"tarmac run --secret {quoted(name)}=env:VARIABLE, or =file:PATH",
        )
        return {"vault_id": vault_id} if vault_id else {"name": server, "key": "login"}


def _is_from(image: str, server: str) -> bool:
    first, separator, _ = image.partition("/")
    is_host = bool(separator) and ("." in first or ":" in first or first == "localhost")
    return first == server if is_host else server == _HUB
