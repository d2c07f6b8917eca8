"""What a path of the API asks for."""

from __future__ import annotations

from typing import NamedTuple

from .errors import NoSuchPageError, no_such_path
from .kinds import BY_PLURAL, Kind

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get"}


class Target(NamedTuple):
    """What a request is about.

    Attributes:
        kind: Of the objects.
        namespace: Empty for all, and where the kind has none.
        name: Empty for a collection.
        subresource: ``status``, ``log``, … or empty.
    """

    kind: Kind
    namespace: str
    name: str
    subresource: str

    @property
    def resource(self) -> str:
        """As RBAC names it: ``pods/log``."""
        return "/".join(filter(None, (self.kind.plural, self.subresource)))

    def verb(self, method: str, is_watch: bool) -> str:
        """Return what a request does, as RBAC names it."""
        if method == "GET" and not self.name:
            return "watch" if is_watch else "list"
        if method == "DELETE" and not self.name:
            return "deletecollection"
        return _VERBS.get(method, method.lower())


def target(path: str) -> Target:
    """Return what a path names.

    Raises:
        ApiError: 404.
        NoSuchPageError: Nothing of its group is there.
    """
    parts = [part for part in path.split("/") if part]
    if parts[:2] == ["api", "v1"]:
        group, rest = "", parts[2:]
    elif parts[:1] == ["apis"] and len(parts) > 2:
        group, rest = parts[1], parts[3:]
        if (group, parts[2]) not in {(kind.group, kind.version) for kind in BY_PLURAL.values()}:
            raise NoSuchPageError
    else:
        raise NoSuchPageError
    namespace = ""
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    kind = BY_PLURAL.get((group, rest[0] if rest else ""))
    if kind is None or len(rest) > 3:
        raise no_such_path()
    if namespace and not kind.is_namespaced:
        raise no_such_path()
    name, subresource = [*rest[1:], "", ""][:2]
    if subresource and subresource not in kind.subresources:
        raise no_such_path()
    return Target(kind, namespace, name, subresource)
