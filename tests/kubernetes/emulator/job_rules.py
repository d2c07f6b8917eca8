"""Which Jobs the server refuses, beyond their schema.

From ``pkg/apis/batch/validation/validation.go`` of Kubernetes 1.36; each rule names its function.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from .errors import Cause
from .fields import duplicate, invalid_value, invalid_whole, required, too_many, unsupported
from .metadata_rules import label_problem

_MAX_PARALLEL = 100_000  # maxParallelismForIndexedJob
_MAX_FAILED = 100_000  # maxFailedIndexesForIndexedJob
_MANY = 100_000  # completionsSoftLimit
_MAX_OF_MANY = 10_000  # parallelismLimitForHighCompletions, maxFailedIndexesLimitForHighCompletions
_RULES, _CODES, _CONDITIONS = 20, 255, 20  # maxPodFailurePolicyRules and the like
_SIZES = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")


def check_job(job: Mapping[str, Any]) -> Iterator[Cause]:
    """Yield what is wrong with a Job that has its defaults."""
    spec = job["spec"]
    # validateJobSpec, ValidateNonnegativeField
    for name in _SIZES:
        if spec.get(name) is not None and spec[name] < 0:
            yield invalid_value(f"spec.{name}", spec[name], "must be greater than or equal to 0")
    if spec["completionMode"] not in ("Indexed", "NonIndexed"):
        yield unsupported("spec.completionMode", spec["completionMode"], ["NonIndexed", "Indexed"])
    if spec["completionMode"] == "Indexed":
        yield from _indexed(spec)
    elif spec["completionMode"] == "NonIndexed":
        for name in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if spec.get(name) is not None:
                yield invalid_value(f"spec.{name}", spec[name], "requires indexed completion mode")
    yield from _restarts(spec)
    if spec.get("podFailurePolicy") is not None:
        yield from _policy(spec)


def check_selector(spec: Mapping[str, Any]) -> Iterator[Cause]:
    """Yield what is wrong with pods that are found by other labels than the server's own."""
    own = "batch.kubernetes.io/controller-uid"
    labels = spec["template"]["metadata"]["labels"]
    given = spec["selector"].get("matchLabels") or {}
    if spec.get("manualSelector") or given == {own: labels[own]}:
        return
    # The server adds its label to those given.
    whole = {"matchLabels": dict(sorted({**given, own: labels[own]}.items()))}
    yield invalid_value("spec.selector", whole, "`selector` not auto-generated")
    words = "`selector` does not match template `labels`"
    if not given.items() <= labels.items():
        yield invalid_value("spec.template.metadata.labels", dict(sorted(labels.items())), words)


def check_last_name(job: Mapping[str, Any]) -> Iterator[Cause]:
    """Yield what is wrong with the host name of the last pod."""
    # ValidateJob
    spec, name = job["spec"], job["metadata"].get("name", "")
    completions = spec.get("completions")
    if spec["completionMode"] != "Indexed" or not completions or completions < 0:
        return
    last = f"{name}-{completions - 1}"
    if label_problem(last):
        words = f"will not able to create pod with invalid DNS label: {last}"
        yield invalid_value("metadata.name", name, words)


def _indexed(spec: Mapping[str, Any]) -> Iterator[Cause]:
    completions, parallelism = spec.get("completions"), spec["parallelism"]
    per_index, most_failed = spec.get("backoffLimitPerIndex"), spec.get("maxFailedIndexes")
    # validateJobSpec
    if completions is None:
        yield required("spec.completions", "when completion mode is Indexed")
        return
    if parallelism > _MAX_PARALLEL:
        words = f"must be less than or equal to {_MAX_PARALLEL} when completion mode is Indexed"
        yield invalid_value("spec.parallelism", parallelism, words)
    if most_failed is not None:
        if most_failed > completions:
            yield invalid_value(
                "spec.maxFailedIndexes", most_failed, "must be less than or equal to completions"
            )
        if most_failed > _MAX_FAILED:
            words = f"must be less than or equal to {_MAX_FAILED}"
            yield invalid_value("spec.maxFailedIndexes", most_failed, words)
        if per_index is None:
            yield required("spec.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    if per_index is None or completions <= _MANY:
        return
    if most_failed is None:
        words = f"must be specified when completions is above {_MANY}"
        yield required("spec.maxFailedIndexes", words)
    for field, value in (("parallelism", parallelism), ("maxFailedIndexes", most_failed)):
        if value is not None and value > _MAX_OF_MANY:
            words = (
                f"must be less than or equal to {_MAX_OF_MANY} when completions are above {_MANY} "
                "and used with backoff limit per index"
            )
            yield invalid_value(f"spec.{field}", value, words)


def _restarts(spec: Mapping[str, Any]) -> Iterator[Cause]:
    # validateJobSpec
    place = "spec.template.spec.restartPolicy"
    policy = spec["template"]["spec"]["restartPolicy"]
    if policy == "Always":
        yield required(place, 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        yield unsupported(place, policy, ["OnFailure", "Never"])
    elif spec.get("podFailurePolicy") is not None and policy != "Never":
        words = 'only "Never" is supported when podFailurePolicy is specified'
        yield invalid_value(place, policy, words)
    # validatePodReplacementPolicy
    supported = ["Failed"]
    if spec.get("podFailurePolicy") is None:
        supported.append("TerminatingOrFailed")
    if spec["podReplacementPolicy"] not in supported:
        yield unsupported("spec.podReplacementPolicy", spec["podReplacementPolicy"], supported)


def _policy(spec: Mapping[str, Any]) -> Iterator[Cause]:
    # validatePodFailurePolicy
    rules = spec["podFailurePolicy"].get("rules") or []
    pod = spec["template"]["spec"]
    names = {it.get("name") for it in (pod.get("containers") or [])}
    names |= {it.get("name") for it in (pod.get("initContainers") or [])}
    if len(rules) > _RULES:
        yield too_many("spec.podFailurePolicy.rules", len(rules), _RULES)
    for number, rule in enumerate(rules):
        yield from _rule(rule, f"spec.podFailurePolicy.rules[{number}]", spec, names)


def _rule(
    rule: Mapping[str, Any], place: str, spec: Mapping[str, Any], names: set[Any]
) -> Iterator[Cause]:
    # validatePodFailurePolicyRule
    action = rule.get("action", "")
    if not action:
        yield required(f"{place}.action", f"valid values: {list(_ACTIONS)}")
    elif action not in _ACTIONS:
        yield unsupported(f"{place}.action", action, _ACTIONS)
    elif action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
        yield invalid_value(
            f"{place}.action", action, "requires the backoffLimitPerIndex to be set"
        )
    codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions") or []
    if codes and conditions:
        words = "specifying both OnExitCodes and OnPodConditions is not supported"
        yield invalid_whole(place, words)
    if not codes and not conditions:
        words = "specifying one of OnExitCodes and OnPodConditions is required"
        yield invalid_whole(place, words)
    if len(conditions) > _CONDITIONS:
        yield too_many(f"{place}.onPodConditions", len(conditions), _CONDITIONS)
    if codes:
        yield from _exit_codes(codes, f"{place}.onExitCodes", names)


def _exit_codes(codes: Mapping[str, Any], place: str, names: set[Any]) -> Iterator[Cause]:
    # validatePodFailurePolicyRuleOnExitCodes
    values, operator = codes.get("values") or [], codes.get("operator", "")
    if operator not in ("In", "NotIn"):
        yield unsupported(f"{place}.operator", operator, ["In", "NotIn"])
    container = codes.get("containerName")
    if container is not None and container not in names:
        words = "must be one of the container or initContainer names in the pod template"
        yield invalid_value(f"{place}.containerName", container, words)
    if not values:
        yield invalid_value(f"{place}.values", values, "at least one value is required")
    elif len(values) > _CODES:
        yield too_many(f"{place}.values", len(values), _CODES)
    for number, value in enumerate(values):
        if value == 0 and operator == "In":
            words = "must not be 0 for the In operator"
            yield invalid_value(f"{place}.values[{number}]", value, words)
    for number, (one, other) in enumerate(pairwise(values), 1):
        if one == other:
            yield duplicate(f"{place}.values[{number}]", other)
    if values != sorted(values):
        yield invalid_value(f"{place}.values", values, "must be ordered")
