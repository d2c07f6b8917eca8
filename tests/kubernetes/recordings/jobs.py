"""Jobs whose verdicts are recorded: right ones, and one for each way in which one may be wrong."""

from __future__ import annotations

from typing import Any

from test_emulator_jobs import job

_IN_3: dict[str, Any] = {"operator": "In", "values": [3]}
_VOLUME = {"name": "v", "emptyDir": {}}


def _rule(**rule: Any) -> dict[str, Any]:
    return {"podFailurePolicy": {"rules": [{"action": "Ignore"} | rule]}}


def _variable(**variable: Any) -> dict[str, Any]:
    return {"container": {"env": [{"name": "A"} | variable]}}


def _resources(**resources: Any) -> dict[str, Any]:
    return {"container": {"resources": resources}}


def _pod(**pod: Any) -> dict[str, Any]:
    return {"pod": pod}


def _container(**container: Any) -> dict[str, Any]:
    return {"container": container}


_WRONG: dict[str, dict[str, Any]] = {
    "right": {},
    "no completions": {"completions": None},
    "too parallel": {"parallelism": 100_001},
    "many completions": {"completions": 200_000, "maxFailedIndexes": 20_000},
    "replaced while it ends": {"podReplacementPolicy": "TerminatingOrFailed"},
    "more may fail than there are": {"maxFailedIndexes": 2},
    "failed indexes without a limit of each": {"backoffLimitPerIndex": None},
    "restarted always": _pod(restartPolicy="Always"),
    "restarted on failure": _pod(restartPolicy="OnFailure"),
    "no containers": _pod(containers=[]),
    "containers that are no list": _pod(containers={"a": 1}),
    "no image": _container(image=""),
    "a number for an image": _container(image=5),
    "an object for a command": _container(command={"a": 1}),
    "a mount of nothing": _container(volumeMounts=[{"name": "x", "mountPath": "/x"}]),
    "a GPU asked for without a limit": _resources(requests={"nvidia.com/gpu": "1"}),
    "half a GPU": _resources(limits={"nvidia.com/gpu": "0.5"}),
    "no quantity": _resources(limits={"memory": "1 GB"}),
    "less than nothing": _resources(limits={"memory": "-1"}),
    "more asked for than allowed": _resources(requests={"cpu": "2"}, limits={"cpu": "1"}),
    "exit code 0": _rule(action="FailJob", onExitCodes={"operator": "In", "values": [0]}),
    "exit codes in no order": _rule(onExitCodes={"operator": "In", "values": [3, 2]}),
    "an exit code twice": _rule(onExitCodes={"operator": "In", "values": [3, 3]}),
    "no exit codes": _rule(onExitCodes={"operator": "In", "values": []}),
    "exit codes of nobody": _rule(onExitCodes=_IN_3 | {"containerName": "other"}),
    "an unknown operator": _rule(onExitCodes=_IN_3 | {"operator": "Is"}),
    "an unknown action": _rule(action="Ignor", onExitCodes=_IN_3),
    "a rule on nothing": _rule(),
    "a rule on both": _rule(
        onExitCodes=_IN_3, onPodConditions=[{"type": "DisruptionTarget", "status": "True"}]
    ),
    "an index that fails without a limit of each": _rule(action="FailIndex", onExitCodes=_IN_3)
    | {"backoffLimitPerIndex": None, "maxFailedIndexes": None},
    "no name of a variable": {"container": {"env": [{"name": "a=b", "value": "x"}]}},
    "a value from two": _variable(
        value="x", valueFrom={"fieldRef": {"fieldPath": "metadata.name"}}
    ),
    "an unknown field of the pod": _variable(
        valueFrom={"fieldRef": {"fieldPath": "metadata.nome"}}
    ),
    "no key of a secret": _variable(valueFrom={"secretKeyRef": {"name": "S_x", "key": "a b"}}),
    "no name of a container": _container(name="Task_1"),
    "a mount nowhere": _pod(volumes=[_VOLUME])
    | _container(volumeMounts=[{"name": "v", "mountPath": ""}]),
    "two mounts at one place": _pod(volumes=[_VOLUME])
    | _container(volumeMounts=[{"name": "v", "mountPath": "/a"}] * 2),
    "two volumes of one name": _pod(volumes=[_VOLUME] * 2),
    "a volume of two kinds": _pod(volumes=[_VOLUME | {"hostPath": {"path": "/x"}}]),
    "no name of a volume": _pod(volumes=[_VOLUME | {"name": "V_"}]),
    "fewer completions than none": {"completions": -1},
    "less parallel than none": {"parallelism": -1},
    "a deadline before the start": {"activeDeadlineSeconds": -1},
    "kept less than no time": {"ttlSecondsAfterFinished": -1},
    "fewer failures than none": {"backoffLimitPerIndex": -1},
    "a selector": {"selector": {"matchLabels": {"a": "b"}}},
    "less than no grace": _pod(terminationGracePeriodSeconds=-1),
    "tolerates a value that exists": _pod(
        tolerations=[{"key": "a", "operator": "Exists", "value": "b"}]
    ),
    "tolerates an unknown effect": _pod(
        tolerations=[{"key": "a", "operator": "Exists", "effect": "NoExecut"}]
    ),
    "no subdomain": _pod(subdomain="A_b"),
    "no label of a node": _pod(nodeSelector={"a b": "c"}),
    "an unknown pull policy": _container(imagePullPolicy="Sometimes"),
    "no service account": _pod(serviceAccountName="A b"),
    "an unknown mode": {"completionMode": "Indexd"},
    "text for a number": {"completions": "3"},
    "a number for a truth": {"suspend": 3},
    "a list for an object": {"template": []},
    "unknown fields": {"completion": 3} | _container(comand=[]),
}
_NAMED: dict[str, dict[str, Any]] = {
    "no name": {},
    "a name of capitals": {"name": "One"},
    "a name that is too long": {"name": "j" * 64},
    "no value of a label": {"name": "one", "labels": {"a": "b c"}},
    "no label": {"name": "one", "labels": {"a b": "c"}},
    "no annotation": {"name": "one", "annotations": {"a b": "c"}},
    "another namespace": {"name": "one", "namespace": "elsewhere"},
}


def recorded_jobs() -> dict[str, dict[str, Any]]:
    """Return the Jobs by what they are called in the recording."""
    most = {"maxFailedIndexes": 1}
    jobs = {name: job("one", "true", **(most | change)) for name, change in _WRONG.items()}
    for name, metadata in _NAMED.items():
        jobs[name] = job("one", "true", **most) | {"metadata": metadata}
    jobs["room for the last index"] = job("j" * 60, "true", completions=100, **most)
    jobs["no room for the last index"] = job("j" * 61, "true", completions=1000, **most)
    return jobs
