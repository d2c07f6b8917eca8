"""Who asks, and what they may: bearer tokens and roles."""

from __future__ import annotations

import secrets
from typing import NamedTuple

from .errors import ApiError, unauthorized


class Rule(NamedTuple):
    """What somebody may not do.

    Attributes:
        verb: ``*`` for all.
        resource: With its subresource: ``pods/log``; ``*`` for all.
        group: Of the API.
    """

    verb: str
    resource: str
    group: str = ""


class Access:
    """The tokens that are good now, and what the test's user may not do.

    Attributes:
        user: Of the token that tests use.
        denied: What the user may not do.
    """

    user = "system:serviceaccount:default:runner"
    admin = "system:admin"

    def __init__(self) -> None:
        self.token = secrets.token_urlsafe(24)
        self.admin_token = secrets.token_urlsafe(24)
        self.denied: set[Rule] = set()

    def rotate(self) -> str:
        """Make the test's token bad, and return the one that is good instead."""
        self.token = secrets.token_urlsafe(24)
        return self.token

    def deny(self, verb: str, resource: str, group: str = "") -> None:
        """Forbid the test's user something: ``deny("create", "jobs", "batch")``."""
        self.denied.add(Rule(verb, resource, group))

    def who(self, header: str) -> str:
        """Return the user of an ``Authorization`` header.

        Raises:
            ApiError: 401.
        """
        token = header.removeprefix("Bearer ").strip()
        if secrets.compare_digest(token, self.admin_token):
            return self.admin
        if secrets.compare_digest(token, self.token):
            return self.user
        raise unauthorized()

    def may(self, user: str, verb: str, resource: str, group: str) -> bool:
        """Whether a user may do something."""
        return user == self.admin or not any(
            rule.verb in ("*", verb) and rule.resource in ("*", resource) and rule.group == group
            for rule in self.denied
        )

    def check(
        self, user: str, verb: str, resource: str, group: str, *, namespace: str, name: str
    ) -> None:
        """Refuse what a user may not do.

        Raises:
            ApiError: 403, in the words of apiserver's responsewriters.
        """
        if self.may(user, verb, resource, group):
            return
        plural = resource.partition("/")[0]
        qualified = f"{plural}.{group}" if group else plural
        scope = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
        subject = f'{qualified} "{name}"' if name else qualified
        raise ApiError(
            403,
            f'{subject} is forbidden: User "{user}" cannot {verb} resource "{resource}" in API '
            f'group "{group}" {scope}',
            details={"kind": plural}
            | ({"name": name} if name else {})
            | ({"group": group} if group else {}),
        )
