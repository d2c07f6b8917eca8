"""Explanations of a cluster's refusals, with advice."""

from __future__ import annotations

import re
from typing import NamedTuple

from tarmac.kubernetes.answers import Refused, Right
from tarmac.kubernetes.events import explain_quota
from tarmac.kubernetes.manifests import cluster_role_for, role_for


class Explained(NamedTuple):
    """The explanation of a refusal for users.

    Attributes:
        words: Explanation of the refusal, in one line.
        hint: Advice for the user, which may hold a manifest to apply.
    """

    words: str
    hint: str


# The patterns match messages of Kubernetes' apiserver and admission plug-ins, 1.20 to 1.36.
REFUSALS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE | re.DOTALL), advice)
    for pattern, advice in (
        (
            r"exceeded quota",
            "Ask for less, wait until others end, or let an administrator raise the quota: "
            "`kubectl describe quota`.",
        ),
        (
            r"failed quota: .* must specify",
            "The namespace has a quota for it: write `cpus` and `memory` into the job file.",
        ),
        (
            r"namespaces? .*not found",
            "Choose another `namespace`; `kubectl get namespaces` lists them.",
        ),
        (
            r"being terminated",
            "The namespace is being deleted: choose another `namespace`.",
        ),
        (
            r"admission webhook .* denied the request",
            "A policy of the cluster refuses it; ask an administrator of the cluster for the "
            "policy.",
        ),
        (
            r"failed calling webhook",
            "A policy's own server does not answer: tell an administrator of the cluster, and "
            "try again.",
        ),
        (
            r"violates PodSecurity",
            "The namespace admits only pods of a stricter profile: leave "
            "`options.kubernetes.pod_security` at `restricted`, set `environment.user` to another "
            "than root, use no host paths, or choose another `namespace`.",
        ),
        (
            r"(?:maximum|minimum) \S+ usage per (?:container|pod)",
            "A limit range of the namespace bounds what one pod asks for: `kubectl describe "
            "limitrange`.",
        ),
        (
            r"serviceaccount .*not found|error looking up service account",
            "Create the service account, or name another one.",
        ),
        (
            r"no PriorityClass with name",
            "Choose another priority class; `kubectl get priorityclasses` lists them.",
        ),
        (
            r"unknown field|strict decoding error",
            "This Kubernetes is too old for a field that Tarmac uses: 1.29 or newer is needed.",
        ),
        (
            r"could not find the requested resource",
            "The cluster does not have what is asked for: is it installed, is it new enough?",
        ),
        (
            r"is forbidden: User .* cannot",
            "Let an administrator give the right: `tarmac cluster init kubernetes` prints a Role.",
        ),
        (
            r"request entity too large|limit is 3145728|Request is too large",
            "Pass large values as files on a volume, and not in the job file.",
        ),
    )
)

_FORBIDDEN = re.compile(
    r'is forbidden: User "(?P<user>[^"]*)" cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)" in '
    r'API group "(?P<group>[^"]*)"'
)


def explain_refusal(refused: Refused, namespace: str) -> Explained:
    """Return the explanation of a refusal; for a missing right, the hint has a Role to apply.

    Args:
        refused: Refusal as the API server answered it.
        namespace: Namespace of the refused request.
    """
    words = explain_quota(refused.message) or " ".join(refused.message.split())
    if right := lacking_right(refused):
        match = _FORBIDDEN.search(refused.message)
        user = match["user"] if match else "you"
        if "at the cluster scope" in refused.message:
            return Explained(
                f"{user} may not {right.verb} {right.resource}, which are in no namespace",
                "Let an administrator apply this:\n" + cluster_role_for((right,), user),
            )
        return Explained(
            f"{user} may not {right.verb} {right.resource} in namespace {namespace}",
            "Let an administrator apply this:\n" + role_for((right,), namespace, user),
        )
    advice = next((advice for pattern, advice in REFUSALS if pattern.search(refused.message)), "")
    return Explained(words, advice or f"Kubernetes' reason: {refused.reason or refused.status}.")


def lacking_right(refused: Refused) -> Right | None:
    """Return the missing right of a refusal; None if the refusal has another reason."""
    match = _FORBIDDEN.search(refused.message) if refused.status == 403 else None
    return Right(match["verb"], match["resource"], match["group"]) if match else None
