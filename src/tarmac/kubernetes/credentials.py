"""The token and certificates of a login: from the kubeconfig, a file or an exec plug-in.

Python's ssl loads private keys from files only. Inline keys of a kubeconfig reach OpenSSL through
an anonymous file in memory (memfd).
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import datetime
import json
import os
import shutil
import ssl
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tarmac.errors import RequestError
from tarmac.files import expanded, parse_json

if TYPE_CHECKING:
    from tarmac.kubernetes.kubeconfig import Login, Place

_EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")

# A plug-in may call a remote server. A plug-in that waits for user input would never end.
_EXEC_S = 45

# Kubernetes renews a token file before the token expires; client-go rereads it after a minute.
TOKEN_FILE_S = 60.0


@dataclasses.dataclass(frozen=True, repr=False)
class Credentials:
    """The credentials that a request sends.

    Attributes:
        header: Value of the ``Authorization`` header. None: no header.
        certificate: Client certificate and its key, both in PEM. None: no certificate.
        expires: Time of expiry, in seconds since 1970. None: not known.
    """

    header: str | None = None
    certificate: tuple[bytes, bytes] | None = None
    expires: float | None = None


def read_credentials(place: Place, environ: Mapping[str, str], now: float) -> Credentials:
    """Read the credentials of a login; run its exec plug-in if it has one.

    Raises:
        RequestError: A file is missing, the plug-in fails, or the login method is not supported.
    """
    login = place.login
    if login is None:
        return Credentials()
    fields = login.fields
    certificate = _pair(login)
    if fields.get("tokenFile"):
        # client-go prefers the file too if a login has both.
        token = _read_file(login, "tokenFile").decode().strip()
        return Credentials(f"Bearer {token}", certificate, now + TOKEN_FILE_S)
    if fields.get("token"):
        return Credentials(f"Bearer {fields['token']}", certificate)
    if fields.get("username"):
        both = f"{fields['username']}:{fields.get('password', '')}".encode()
        return Credentials("Basic " + base64.b64encode(both).decode(), certificate)
    if fields.get("exec"):
        return _run_plugin(place, login, fields["exec"], environ)
    if fields.get("auth-provider"):
        raise RequestError(
            f"user {login.name!r} of {login.file} logs in by an auth-provider, which Kubernetes "
            "no longer supports",
            hint="Let your cluster's command write the kubeconfig again; it then names an exec "
            "plug-in.",
        )
    return Credentials(None, certificate)


def tls_of(place: Place, credentials: Credentials) -> ssl.SSLContext:
    """Return a TLS context with the cluster's authority and the client certificate.

    Raises:
        RequestError: A certificate or a key is missing or broken.
    """
    cluster, where = place.cluster, f"the cluster's entry of {place.file}"
    context = ssl.create_default_context()
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif authority := _data(cluster, "certificate-authority", place.file, where):
        # The kubeconfig's authority replaces the authorities of this machine, as in kubectl.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            context.load_verify_locations(cadata=authority.decode("ascii"))
        except (ssl.SSLError, UnicodeDecodeError):
            raise RequestError(
                f"certificate-authority of {where} is no certificate in PEM"
            ) from None
    if credentials.certificate:
        _load_pair(context, credentials.certificate, place)
    return context


def _load_pair(context: ssl.SSLContext, pair: tuple[bytes, bytes], place: Place) -> None:
    # OpenSSL loads the pair from a path only; a memfd keeps the key off the disk.
    with os.fdopen(os.memfd_create("pair"), "wb") as both:
        both.write(pair[0].rstrip() + b"\n" + pair[1])
        both.flush()
        try:
            context.load_cert_chain(f"/proc/self/fd/{both.fileno()}")
        except ssl.SSLError as error:
            login = place.login
            raise RequestError(
                f"the client certificate of user {login.name if login else ''!r} and its key do "
                f"not fit together or are broken ({error.reason})",
                hint="Fetch the kubeconfig again.",
            ) from None


def _pair(login: Login) -> tuple[bytes, bytes] | None:
    where = f"user {login.name!r} of {login.file}"
    certificate = _data(login.fields, "client-certificate", login.file, where)
    if not certificate:
        return None
    key = _data(login.fields, "client-key", login.file, where)
    if not key:
        raise RequestError(f"{where} has a client-certificate without a client-key")
    return certificate, key


def _data(fields: Mapping[str, Any], key: str, file: Path, where: str) -> bytes | None:
    if inline := fields.get(f"{key}-data"):
        try:
            return base64.b64decode(str(inline), validate=True)
        except binascii.Error:
            raise RequestError(f"{key}-data of {where} is not base64") from None
    if not fields.get(key):
        return None
    path = file.parent / expanded(str(fields[key]))
    try:
        return path.read_bytes()
    except OSError as error:
        raise RequestError(f"{key} of {where} cannot be read: {path}: {error.strerror}") from None


def _read_file(login: Login, key: str) -> bytes:
    path = login.file.parent / expanded(str(login.fields[key]))
    try:
        return path.read_bytes()
    except OSError as error:
        raise RequestError(
            f"{key} of user {login.name!r} of {login.file} cannot be read: {path}: {error.strerror}"
        ) from None


def _run_plugin(
    place: Place, login: Login, entry: Mapping[str, Any], environ: Mapping[str, str]
) -> Credentials:
    version, named = str(entry.get("apiVersion") or ""), str(entry.get("command") or "")
    where = f"user {login.name!r} of {login.file}"
    if version not in _EXEC_VERSIONS:
        raise RequestError(
            f"the plug-in {named!r} of {where} speaks {version or 'no version'}, expected "
            + " or ".join(_EXEC_VERSIONS),
            hint="Update it, and let it write the kubeconfig again.",
        )
    if entry.get("interactiveMode") == "Always":
        raise RequestError(
            f"the plug-in {named!r} of {where} needs an interactive login",
            hint="Log in by its own command first, or use a login with a token.",
        )
    # A command with a slash is relative to the kubeconfig's directory (client-go, exec.go).
    command = str(login.file.parent / named) if "/" in named else shutil.which(named)
    if command is None or not os.access(command, os.X_OK):
        raise RequestError(
            f"{where} logs in by {named!r}, which is not installed here",
            hint=str(entry.get("installHint") or f"Install {named}.").strip(),
        )
    spec: dict[str, Any] = {"interactive": False}
    if entry.get("provideClusterInfo"):
        authority = _data(place.cluster, "certificate-authority", place.file, where)
        spec["cluster"] = {"server": place.server} | (
            {"certificate-authority-data": base64.b64encode(authority).decode()}
            if authority
            else {}
        )
    variables = {str(item["name"]): str(item["value"]) for item in entry.get("env") or []}
    request = {"apiVersion": version, "kind": "ExecCredential", "spec": spec}
    try:
        ended = subprocess.run(
            [command, *map(str, entry.get("args") or [])],
            env={**environ, **variables, "KUBERNETES_EXEC_INFO": json.dumps(request)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_EXEC_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise RequestError(
            f"{named!r}, by which {where} logs in, did not end in {_EXEC_S} s"
        ) from None
    except OSError as error:
        raise RequestError(f"{named!r} of {where} cannot be run: {error.strerror}") from None
    stderr = "\n".join(ended.stderr.decode(errors="replace").strip().splitlines()[-5:])
    if ended.returncode != 0:
        raise RequestError(
            f"{named!r}, by which {where} logs in, ended with {ended.returncode}",
            hint=stderr or "It printed nothing; run it by hand.",
        )
    try:
        status = parse_json(ended.stdout)["status"]
        return _given(status)
    except (ValueError, KeyError, TypeError, AttributeError):
        # The message does not quote the output: it may contain part of a token.
        raise RequestError(
            f"{named!r}, by which {where} logs in, printed no ExecCredential with a status",
            hint=stderr or "Run it by hand.",
        ) from None


def _given(status: Mapping[str, Any]) -> Credentials:
    certificate, key = status.get("clientCertificateData"), status.get("clientKeyData")
    if not status.get("token") and not (certificate and key):
        raise ValueError("neither token nor certificate")
    expires = None
    if text := status.get("expirationTimestamp"):
        expires = datetime.datetime.fromisoformat(text).timestamp()
    return Credentials(
        f"Bearer {status['token']}" if status.get("token") else None,
        (certificate.encode(), key.encode()) if certificate and key else None,
        expires,
    )
