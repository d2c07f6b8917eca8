"""Security contexts that the restricted Pod Security Standard admits, and who its pods run as.

The fields are those of https://kubernetes.io/docs/concepts/security/pod-security-standards/ (1.36).
"""

from __future__ import annotations

import os
from typing import Any

# What distroless images call `nonroot`. No user of a machine has it by default.
NOBODY = "65532:65532"

# Every user may write to /tmp, and a user whom the image does not know has no other home. Without
# a name getpass.getuser() fails for such a user, and with it PyTorch's compiler.
_NAMES = {"HOME": "/tmp", "USER": "tarmac", "LOGNAME": "tarmac"}  # noqa: S108 - the pod's own


def default_user(*, has_volume: bool) -> str:
    """Return uid and gid of pods whose user is not given, ``1000:1000``; empty for the image's.

    Images that say nothing run as root, which the standard refuses. On a volume the pods own files
    together with this machine's user, so they have the same uid; where that is root, they run as
    the image says.

    Args:
        has_volume: Whether the run's directory lies on a volume.
    """
    if os.getuid() != 0:
        return f"{os.getuid()}:{os.getgid()}"
    return "" if has_volume else NOBODY


def pod_context(user: str, *, restricted: bool) -> dict[str, Any]:
    """Return a pod's security context; empty where there is nothing to say.

    Args:
        user: Uid of the containers, with a gid behind a colon; empty for the image's own.
        restricted: Whether the restricted standard is to admit the pod.
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
    """Return the variables of a user whom the image does not know."""
    return [{"name": name, "value": value} for name, value in _NAMES.items()]
