"""Security contexts for the restricted Pod Security Standard, and the user of the pods.

The fields are those of https://kubernetes.io/docs/concepts/security/pod-security-standards/ (1.36).
"""

from __future__ import annotations

import os
from typing import Any

# The `nonroot` user of distroless images. No user of a machine has this uid by default.
NOBODY = "65532:65532"

# A user that the image does not know has no home; every user may write to /tmp. Without a name
# getpass.getuser() fails for such a user, and so does PyTorch's compiler.
_NAMES = {"HOME": "/tmp", "USER": "tarmac", "LOGNAME": "tarmac"}  # noqa: S108 - the pod's own


def default_user(*, has_volume: bool) -> str:
    """Return the default uid and gid of pods, such as ``1000:1000``; empty: the image's user.

    Images without a user run as root, which the standard refuses. On a volume, the pods and this
    machine's user share files, so they have the same uid. If this machine's user is root, the pods
    run as the image's user.

    Args:
        has_volume: Whether the run's directory is on a volume.
    """
    if os.getuid() != 0:
        return f"{os.getuid()}:{os.getgid()}"
    return "" if has_volume else NOBODY


def pod_context(user: str, *, restricted: bool) -> dict[str, Any]:
    """Return a pod's security context, which may be empty.

    Args:
        user: Uid of the containers, or ``UID:GID``. Empty: the image's user.
        restricted: Whether the pod must comply with the restricted standard.
    """
    uid, _, gid = user.partition(":")
    context: dict[str, Any] = {}
    if restricted:
        context = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    if uid:
        context["runAsUser"] = int(uid)
    if gid:
        context["runAsGroup"] = int(gid)
    return context


def container_context(*, restricted: bool) -> dict[str, Any]:
    """Return a container's security context; see `pod_context`."""
    return {
        "allowPrivilegeEscalation": False,
        **({"capabilities": {"drop": ["ALL"]}} if restricted else {}),
    }


def home_variables() -> list[dict[str, str]]:
    """Return the home and name variables of a user that the image does not know."""
    return [{"name": name, "value": value} for name, value in _NAMES.items()]
