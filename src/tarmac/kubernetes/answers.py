"""The answers of a cluster: objects, refusals and no answer."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, ParamSpec, TypeAlias, TypeVar

from tarmac.errors import TarmacError

P = ParamSpec("P")
T = TypeVar("T")

# The decoded JSON of an API object.
Object: TypeAlias = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class NoAnswer:
    """The lack of a usable answer, which says nothing about any object.

    A rejected login (401) counts as no answer too: running pods go on running.

    Attributes:
        words: Message with the cluster, the request, the problem and the advice.
        since: Time of the first request without an answer, in seconds since 1970.
    """

    words: str
    since: float


@dataclasses.dataclass(frozen=True)
class Refused:
    """A request that the cluster understood and denied.

    Attributes:
        status: HTTP status code, such as 403, 409 or 422.
        reason: Reason in Kubernetes' words, such as ``Forbidden`` or ``AlreadyExists``.
        message: Message of the API server, which may have several lines.
    """

    status: int
    reason: str
    message: str

    @property
    def is_conflict(self) -> bool:
        """Whether the object already exists or has changed meanwhile."""
        return self.status == 409


class Listed(NamedTuple):
    """All objects of a kind at one moment.

    Attributes:
        items: Objects of the list in the server's order.
        resource_version: Version of the list on the server. A watch continues from it.
    """

    items: tuple[Object, ...]
    resource_version: str


class Version(NamedTuple):
    """The version of a cluster's Kubernetes: ``Version(1, 36, "v1.36.2")``."""

    major: int
    minor: int
    text: str


class Right(NamedTuple):
    """A permission in RBAC's terms.

    Attributes:
        verb: RBAC verb, such as ``create``.
        resource: Plural name, with a subresource behind a slash: ``pods/log``.
        group: API group of the resource, such as ``batch``. Empty: the core group.
    """

    verb: str
    resource: str
    group: str = ""


def in_form(read: Callable[P, T]) -> Callable[P, T]:
    """Make a reader of API objects raise a TarmacError for a malformed object.

    A proxy or a webhook between Tarmac and the server may have written the object.
    """

    @functools.wraps(read)
    def reading(*arguments: P.args, **options: P.kwargs) -> T:
        try:
            return read(*arguments, **options)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise TarmacError(
                f"the cluster's answer has no form of Kubernetes': {type(error).__name__}: {error}"
            ) from error

    return reading


@in_form
def name_of(item: Object) -> str:
    """Return an object's name.

    Raises:
        TarmacError: The JSON is not an API object.
    """
    return str(item["metadata"]["name"])
