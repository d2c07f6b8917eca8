"""The cluster and the login, from kubeconfig files or from the pod of this process.

Several files are merged as in kubectl: the first file that has an entry of a name wins. Errors name
files and give advice, but never quote a value.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tarmac.errors import RequestError, unknown_name
from tarmac.files import expanded

# Where a pod finds its service account: kubernetes.io, "Accessing the Kubernetes API from a Pod".
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclasses.dataclass(frozen=True, repr=False)
class Login:
    """A user's entry of a kubeconfig.

    Attributes:
        name: Name of the entry in the kubeconfig.
        file: Kubeconfig of the entry. Paths in the entry are relative to its directory.
        fields: Content of the entry, such as ``token`` or ``exec``.
    """

    name: str
    file: Path
    fields: Mapping[str, Any]


class NoKubeconfigError(RequestError):
    """No kubeconfig exists here, and the user named none."""


@dataclasses.dataclass(frozen=True, repr=False)
class Place:
    """A cluster, a namespace and a login.

    Attributes:
        title: Name for messages: the context and the server.
        server: URL of the server, without a trailing slash.
        namespace: Namespace of the objects. Default ``default``.
        cluster: Fields of the cluster's entry, such as certificates and proxy.
        file: Kubeconfig that has the cluster's entry.
        login: User's entry to log in with. None: an anonymous login.
        context: Context in the kubeconfig. Empty in a pod: its server URL is not valid outside.
    """

    title: str
    server: str
    namespace: str
    cluster: Mapping[str, Any]
    file: Path
    login: Login | None
    context: str = ""


class _Named(NamedTuple):
    file: Path
    fields: Mapping[str, Any]


def find_place(
    environ: Mapping[str, str],
    *,
    kubeconfig: Path | None = None,
    context: str | None = None,
    namespace: str | None = None,
    service_account: Path = SERVICE_ACCOUNT,
) -> Place:
    """Find the cluster as kubectl does.

    The order is: the ``kubeconfig`` argument, KUBECONFIG, ~/.kube/config, the pod's own cluster.

    Raises:
        NoKubeconfigError: There is no kubeconfig, and the argument names none.
        RequestError: The file is missing or unreadable, or refers to a missing entry.
    """
    files = _files(environ, kubeconfig)
    present = [file for file in files if file.is_file()]
    if not present:
        if kubeconfig is None and (place := in_cluster(environ, namespace, service_account)):
            return place
        looked = ", ".join(map(str, files))
        kind = NoKubeconfigError if kubeconfig is None else RequestError
        raise kind(
            f"no kubeconfig: {looked} is not there",
            hint="Name one by KUBECONFIG=FILE, or copy the one that your cluster gave you to "
            "~/.kube/config;\n`kubectl config view` shows the one that kubectl uses.",
        )
    contexts: dict[str, _Named] = {}
    clusters: dict[str, _Named] = {}
    users: dict[str, _Named] = {}
    current = ""
    for file in present:
        read = _read(file)
        current = current or str(read.get("current-context") or "")
        for into, key, inner in (
            (contexts, "contexts", "context"),
            (clusters, "clusters", "cluster"),
            (users, "users", "user"),
        ):
            for name, fields in _entries(read, key, inner, file):
                into.setdefault(name, _Named(file, fields))
    where = ", ".join(map(str, present))
    name = context or current
    if not name:
        raise RequestError(
            f"{where} names no current context",
            hint="Choose one: kubectl config use-context NAME\n"
            f"There are: {', '.join(sorted(contexts)) or 'none'}",
        )
    if name not in contexts:
        raise unknown_name(
            f"context of {where}", name, {key: _server(clusters, contexts[key]) for key in contexts}
        )
    chosen = contexts[name].fields
    cluster = _entry(clusters, "cluster", chosen, name, where)
    server = str(cluster.fields.get("server") or "").rstrip("/")
    if not server.startswith(("https://", "http://")):
        raise RequestError(
            f"cluster {chosen.get('cluster')!r} of {cluster.file} has no server, expected "
            "https://HOST:PORT"
        )
    login = None
    if chosen.get("user"):
        user = _entry(users, "user", chosen, name, where)
        login = Login(str(chosen["user"]), user.file, user.fields)
    return Place(
        title=f"{name} ({server})",
        server=server,
        namespace=namespace or str(chosen.get("namespace") or "default"),
        cluster=cluster.fields,
        file=cluster.file,
        login=login,
        context=name,
    )


def in_cluster(
    environ: Mapping[str, str], namespace: str | None, directory: Path = SERVICE_ACCOUNT
) -> Place | None:
    """Return the cluster of the pod that this process runs in; None outside a pod."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT")
    token = directory / "token"
    if not host or not port or not token.is_file():
        return None
    own = directory / "namespace"
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    return Place(
        title=f"this pod's cluster ({server})",
        server=server,
        namespace=namespace or (own.read_text().strip() if own.is_file() else "default"),
        cluster={"certificate-authority": str(directory / "ca.crt")},
        file=token,
        login=Login("service account", token, {"tokenFile": str(token)}),
    )


def read_login(login: Login) -> Login:
    """Read a login again from its file; return it unchanged if the file no longer has it.

    Raises:
        RequestError: The file cannot be read.
    """
    for name, fields in _entries(_read(login.file), "users", "user", login.file):
        if name == login.name:
            return dataclasses.replace(login, fields=fields)
    return login


def _files(environ: Mapping[str, str], kubeconfig: Path | None) -> Sequence[Path]:
    if kubeconfig is not None:
        return [expanded(kubeconfig)]
    named = [Path(part) for part in environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    return named or [Path(environ.get("HOME") or Path.home()) / ".kube" / "config"]


def _read(file: Path) -> Mapping[str, Any]:
    try:
        read = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise RequestError(f"{file} cannot be read: {error.strerror}") from None
    except yaml.MarkedYAMLError as error:
        # The error's text quotes lines of the file, which may contain a token.
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise RequestError(f"{file}, line {line}: {error.problem or 'no YAML'}") from None
    except (yaml.YAMLError, ValueError, RecursionError):
        raise RequestError(f"{file} is not YAML in UTF-8") from None
    if read is None:
        return {}
    if not isinstance(read, dict):
        raise RequestError(f"{file} is not a kubeconfig, expected apiVersion: v1, kind: Config")
    return read


def _entries(
    read: Mapping[str, Any], key: str, inner: str, file: Path
) -> list[tuple[str, Mapping[str, Any]]]:
    entries = read.get(key) or []
    if not isinstance(entries, list) or not all(
        isinstance(entry, dict) and isinstance(entry.get(inner) or {}, dict) for entry in entries
    ):
        raise RequestError(f"{file}: {key} is not a list of name and {inner}")
    return [(str(entry.get("name") or ""), entry.get(inner) or {}) for entry in entries]


def _entry(
    entries: Mapping[str, _Named], kind: str, chosen: Mapping[str, Any], context: str, where: str
) -> _Named:
    name = str(chosen.get(kind) or "")
    if name not in entries:
        raise RequestError(
            f"context {context!r} names the {kind} {name!r}, which is not in {where}",
            hint=f"There are: {', '.join(sorted(entries)) or 'none'}",
        )
    return entries[name]


def _server(clusters: Mapping[str, _Named], context: _Named) -> str:
    cluster = clusters.get(str(context.fields.get("cluster")))
    return str(cluster.fields.get("server") or "") if cluster else ""
