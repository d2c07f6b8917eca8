"""A real cluster in the emulator's place, of whoever names its kubeconfig.

``TARMAC_TEST_KUBECONFIG=FILE pytest tests/kubernetes`` runs the tests that need no knob of the
emulator against it, in a namespace that is made for each test and deleted after it. What needs a
volume is left out, as this machine would have to mount it too: the conformance suite among it.
"""

from __future__ import annotations

import base64
import secrets
import ssl
import tempfile
from pathlib import Path
from typing import Any, NoReturn

import httpx
import pytest
import yaml

VARIABLE = "TARMAC_TEST_KUBECONFIG"


class RealCluster:
    """The part of ``Emulator`` that any cluster has.

    Attributes:
        kubeconfig: A file that names the test's namespace.
        url: Of the API.
        namespace: Made for the test.
        admin: A client with the rights that the given kubeconfig has.
    """

    def __init__(self, given: Path, directory: Path) -> None:
        config = yaml.safe_load(given.read_text(encoding="utf-8"))
        context = _named(config, "context", config["current-context"])
        place = _named(config, "cluster", context["cluster"])
        user = _named(config, "user", context["user"])
        self.url: str = place["server"]
        self.admin = httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {user['token']}"} if "token" in user else {},
            verify=_trust(place, user, directory) if self.url.startswith("https") else True,
            trust_env=False,
            timeout=60,
        )
        self.namespace = f"tarmac-test-{secrets.token_hex(4)}"
        namespace = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": self.namespace},
        }
        self.admin.post("/api/v1/namespaces", json=namespace).raise_for_status()
        context["namespace"] = self.namespace
        self.kubeconfig = directory / "kubeconfig"
        self.kubeconfig.touch(0o600)
        self.kubeconfig.write_text(yaml.safe_dump(config), encoding="utf-8")

    def stop(self) -> None:
        """Take the namespace away, with all in it."""
        self.admin.delete(f"/api/v1/namespaces/{self.namespace}").raise_for_status()
        self.admin.close()

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        pytest.skip(f"'{name}' is a knob of the emulator, and {VARIABLE} names a real cluster")


def _named(config: dict[str, Any], kind: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(it[kind] for it in config[f"{kind}s"] if it["name"] == name)
    return found


def _trust(place: dict[str, Any], user: dict[str, Any], directory: Path) -> ssl.SSLContext:
    data = place.get("certificate-authority-data")
    context = ssl.create_default_context(
        cafile=place.get("certificate-authority"),
        cadata=base64.b64decode(data).decode() if data else None,
    )
    if "client-certificate-data" in user:
        with tempfile.NamedTemporaryFile(dir=directory) as both:
            for part in ("client-certificate-data", "client-key-data"):
                both.write(base64.b64decode(user[part]) + b"\n")
            both.flush()
            context.load_cert_chain(both.name)
    elif "client-certificate" in user:
        context.load_cert_chain(user["client-certificate"], user["client-key"])
    return context
