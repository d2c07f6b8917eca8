"""What a cluster answers, and what is no answer."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, ParamSpec, TypeAlias, TypeVar

from tarmac.errors import TarmacError

P = ParamSpec("P")
T = TypeVar("T")

# An object of the API as its JSON.
Object: TypeAlias = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Silence:
    """No answer that can be understood: says nothing about any object.

    A login that is no longer accepted (401) is one as well: what runs goes on running.

    Attributes:
        words: What was asked of whom, what came of it, and what to do.
        since: When the cluster last fell silent, in seconds since 1970.
    """

    words: str
    since: float


@dataclasses.dataclass(frozen=True)
class Refused:
    """The cluster has understood, and says no.

    Attributes:
        status: HTTP status code, such as 403, 409 or 422.
        reason: Kubernetes' own word: ``Forbidden``, ``AlreadyExists``, ``Invalid``.
        message: Message of the API server, which may have several lines.
    """

    status: int
    reason: str
    message: str

    @property
    def is_conflict(self) -> bool:
        """Whether an object of that name is there already, or has changed meanwhile."""
        return self.status == 409


class Listed(NamedTuple):
    """All objects of a kind at one moment.

    Attributes:
        items: In the server's order.
        resource_version: Version of the list on the server. A watch continues from it.
    """

    items: tuple[Object, ...]
    resource_version: str


class Version(NamedTuple):
    """Which Kubernetes it is: ``Version(1, 36, "v1.36.2")``."""

    major: int
    minor: int
    text: str


class Right(NamedTuple):
    """Something that one may or may not do.

    Attributes:
        verb: As RBAC calls it: ``create``.
        resource: In the plural, with a subresource behind a slash: ``pods/log``.
        group: API group of the resource, such as ``batch``. Empty: the core group.
    """

    verb: str
    resource: str
    group: str = ""


def in_form(read: Callable[P, T]) -> Callable[P, T]:
    """Make a reader of the API's objects raise a TarmacError for one that has another form.

    Whatever stands between, such as a proxy or a webhook, may have written it.
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
        TarmacError: It has no form of an object.
    """
    return str(item["metadata"]["name"])
