"""What a real server has said to requests of other things than Jobs, for the emulator to say too.

    TARMAC_TEST_KUBECONFIG=FILE python tests/kubernetes/recordings/answers.py

asks a real one anew, in a namespace of their own, and writes what it says.
"""

from __future__ import annotations

import base64
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import httpx

# Run by itself: it imports what lies beside its directory, and that the modules of all tests.
sys.path += map(str, Path(__file__).resolve().parents[1:3])

from test_emulator_jobs import job

from waiting import wait_until

_FILE = Path(__file__).with_name("answers.json")
_WAIT_S = 30.0
_MIB = 2**20


class Request(NamedTuple):
    """Something asked of a server.

    Attributes:
        method: Of HTTP.
        path: ``NS`` stands for the namespace.
        body: None for none.
        query: Of the path.
        user: ``admin``, who may do everything, ``nobody``, who may do nothing, or ``stranger``,
            whom the server does not know.
        shows: The parts of what is made that are compared too.
    """

    method: str
    path: str
    body: Any = None
    query: Mapping[str, str] | None = None
    user: str = "admin"
    shows: tuple[str, ...] = ()


def _thing(kind: str, name: str = "one", version: str = "v1", **parts: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **parts}


def _map(size: int) -> dict[str, Any]:
    return _thing("ConfigMap", data={"a": "x" * (size - 10), "b": "y" * 10})


def _secret(size: int) -> dict[str, Any]:
    return _thing("Secret", data={"a": base64.b64encode(b"x" * size).decode()})


def _eviction(name: str) -> dict[str, Any]:
    return _thing("Eviction", name, "policy/v1")


_JOBS, _PODS = "/apis/batch/v1/namespaces/NS/jobs", "/api/v1/namespaces/NS/pods"
_MAPS, _SECRETS = "/api/v1/namespaces/NS/configmaps", "/api/v1/namespaces/NS/secrets"
_QUOTAS = "/api/v1/namespaces/NS/resourcequotas"
_TRY = {"dryRun": "All"}
_OTHER_UID = "00000000-0000-0000-0000-000000000000"
_BARE = _thing(
    "Job",
    version="batch/v1",
    spec={
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "serviceAccountName": "one",
                "volumes": [
                    {"name": "a", "emptyDir": {}},
                    {"name": "b", "configMap": {"name": "one"}},
                    {"name": "c", "secret": {"secretName": "one"}},
                    {"name": "d", "hostPath": {"path": "/one"}},
                    {
                        "name": "e",
                        "projected": {"sources": [{"serviceAccountToken": {"path": "one"}}]},
                    },
                ],
                "initContainers": [{"name": "before", "image": "one:1"}],
                "containers": [
                    {
                        "name": "main",
                        "image": "one",
                        "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
                        "env": [
                            {
                                "name": "NODE",
                                "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}},
                            }
                        ],
                    }
                ],
            }
        },
    },
)
# In this order: some make what others are about.
REQUESTS = {
    "a ConfigMap that is full": Request("POST", _MAPS, _map(_MIB), _TRY),
    "a ConfigMap that is too large": Request("POST", _MAPS, _map(_MIB + 1), _TRY),
    "bytes that are too many": Request(
        "POST",
        _MAPS,
        _thing("ConfigMap", binaryData={"a": base64.b64encode(bytes(_MIB + 1)).decode()}),
        _TRY,
    ),
    "a key that is none": Request("POST", _MAPS, _thing("ConfigMap", data={"a b": ""}), _TRY),
    "a Secret that is full": Request("POST", _SECRETS, _secret(_MIB), _TRY),
    "a Secret that is too large": Request("POST", _SECRETS, _secret(_MIB + 1), _TRY),
    "a Secret of text that is too long": Request(
        "POST", _SECRETS, _thing("Secret", stringData={"a": "x" * (_MIB + 1)}), _TRY
    ),
    "a body that is too large": Request("POST", _MAPS, _map(4 * _MIB), _TRY),
    "a Job and its defaults": Request("POST", _JOBS, _BARE, _TRY, shows=("spec", "status")),
    "a Job": Request("POST", _JOBS, job("fixed", "true", suspend=True)),
    "made": Request("POST", _MAPS, _thing("ConfigMap")),
    "made again": Request("POST", _MAPS, _thing("ConfigMap")),
    "changed by whom it has left behind": Request(
        "PUT",
        f"{_MAPS}/one",
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "one", "resourceVersion": "1"},
            "data": {"a": "b"},
        },
    ),
    "changed as another": Request(
        "PUT",
        f"{_MAPS}/one",
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "one", "uid": _OTHER_UID},
        },
    ),
    "deleted as another": Request("DELETE", f"{_MAPS}/one", {"preconditions": {"uid": _OTHER_UID}}),
    "a Job that is changed in what is fixed": Request(
        "PATCH", f"{_JOBS}/fixed", {"spec": {"completions": 2, "backoffLimitPerIndex": 3}}
    ),
    "a Job that is not there": Request("GET", f"{_JOBS}/none"),
    "a Secret that is not there": Request("GET", f"{_SECRETS}/none"),
    "a log of a pod that is not there": Request("GET", f"{_PODS}/none/log"),
    "deleted, but not there": Request("DELETE", f"{_PODS}/none"),
    "evicted, but not there": Request("POST", f"{_PODS}/none/eviction", _eviction("none")),
    "changed, but not there": Request("PATCH", f"{_JOBS}/none", {"spec": {"suspend": True}}),
    "in a namespace that is not there": Request(
        "POST", "/api/v1/namespaces/nowhere/configmaps", _thing("ConfigMap")
    ),
    "a kind that is not there": Request("GET", "/api/v1/namespaces/NS/wonders"),
    "a group that is not there": Request("GET", "/apis/example.com/v1/namespaces/NS/wonders"),
    "by a field that is not there": Request(
        "GET", _PODS, query={"fieldSelector": "spec.wonder=one"}
    ),
    "watched from a past that is forgotten": Request(
        "GET", _PODS, query={"watch": "true", "resourceVersion": "1", "timeoutSeconds": "5"}
    ),
    "a stranger": Request("GET", _PODS, user="stranger"),
    "may not list pods": Request("GET", _PODS, user="nobody"),
    "may not watch pods": Request("GET", _PODS, query={"watch": "true"}, user="nobody"),
    "may not read a log": Request("GET", f"{_PODS}/one/log", user="nobody"),
    "may not evict": Request("POST", f"{_PODS}/one/eviction", _eviction("one"), user="nobody"),
    "may not end pods": Request("DELETE", _PODS, user="nobody"),
    "may not list pods of all": Request("GET", "/api/v1/pods", user="nobody"),
    "may not list nodes": Request("GET", "/api/v1/nodes", user="nobody"),
    "may not make a secret": Request("POST", _SECRETS, _thing("Secret"), user="nobody"),
    "may not make a job": Request("POST", _JOBS, job("one", "true"), user="nobody"),
    "may not read a job": Request("GET", f"{_JOBS}/one", user="nobody"),
    "may not change a job": Request("PATCH", f"{_JOBS}/one", {"spec": {}}, user="nobody"),
    "may not write of a job": Request("PATCH", f"{_JOBS}/one/status", {}, user="nobody"),
    "may not end a job": Request("DELETE", f"{_JOBS}/one", user="nobody"),
}


def _asks(**resources: Mapping[str, str]) -> dict[str, Any]:
    return {"container": {"resources": resources}}


# By what a quota has room for: the Job that is made beside it.
QUOTAS: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
    "no pods": ({"pods": "0"}, {}),
    "no pods at all": ({"count/pods": "0"}, {}),
    "one pod": ({"pods": "1"}, {"completions": 2, "parallelism": 2}),
    "one GPU": (
        {"requests.nvidia.com/gpu": "1"},
        _asks(limits={"nvidia.com/gpu": "2"}),
    ),
    "half a core": ({"cpu": "500m"}, _asks(requests={"cpu": "1"})),
    "some memory and cores": (
        {"requests.cpu": "500m", "requests.memory": "1Gi", "limits.memory": "3Gi"},
        _asks(requests={"cpu": "1500m", "memory": "1536Mi"}, limits={"memory": "4Gi"}),
    ),
    "memory that nobody asks for": ({"limits.memory": "1Gi", "requests.cpu": "1"}, {}),
    "no jobs": ({"count/jobs.batch": "0"}, {}),
}

Answer = dict[str, Any]
_KEPT = ("code", "reason", "message", "details")


def answers_of(
    admin: httpx.Client, nobody: httpx.Client, namespace: str
) -> tuple[dict[str, Answer], dict[str, Answer]]:
    """Ask a server all; return what it says to requests, and of Jobs beside quotas.

    Args:
        admin: Who may do everything.
        nobody: A client of a user who may do nothing.
        namespace: In which all is done.
    """
    clients = {"admin": admin, "nobody": nobody, "stranger": nobody}
    answers = {}
    for name, it in REQUESTS.items():
        headers = {"Authorization": "Bearer stranger"} if it.user == "stranger" else {}
        if it.method == "PATCH":
            headers["Content-Type"] = "application/merge-patch+json"
        path = it.path.replace("NS", namespace)
        answer = clients[it.user].request(
            it.method, path, json=it.body, params=it.query, headers=headers
        )
        answers[name] = _answer(answer, namespace, it.shows)
    beside = {
        name: _beside(admin, namespace, hard, change) for name, (hard, change) in QUOTAS.items()
    }
    return answers, beside


def kept_answers() -> tuple[dict[str, Answer], dict[str, Answer]]:
    """Return what a real server has said."""
    kept = json.loads(_FILE.read_text(encoding="utf-8"))
    return kept["answers"], kept["quotas"]


def _beside(
    admin: httpx.Client, namespace: str, hard: Mapping[str, str], change: Mapping[str, Any]
) -> Answer:
    """Return what is said to a Job beside a quota, or of it, once it is not let in."""
    quotas, jobs = (it.replace("NS", namespace) for it in (_QUOTAS, _JOBS))
    quota = _thing("ResourceQuota", "team", spec={"hard": hard})
    admin.post(quotas, json=quota).raise_for_status()
    _until(
        lambda: (
            admin.get(f"{quotas}/team").json().get("status", {}).get("used", {}).keys()
            == hard.keys()
        )
    )
    made = admin.post(jobs, json=job("one", "true", **change))
    said = _answer(made, namespace)
    if made.is_success:
        told: list[str] = []

        def is_told() -> bool:
            events = admin.get(f"/api/v1/namespaces/{namespace}/events").json()["items"]
            told[:] = [
                it["message"]
                for it in events
                if it["reason"] == "FailedCreate"
                and it["involvedObject"]["uid"] == made.json()["metadata"]["uid"]
            ]
            return bool(told)

        _until(is_told)
        said["event"] = _plain(told[0], namespace)
        admin.request("DELETE", f"{jobs}/one", json={"propagationPolicy": "Background"})
        pods = _PODS.replace("NS", namespace)
        _until(lambda: not admin.get(pods).json()["items"])
    admin.request("DELETE", f"{quotas}/team").raise_for_status()
    return said


def _answer(answer: httpx.Response, namespace: str, shows: tuple[str, ...] = ()) -> Answer:
    if not answer.headers.get("Content-Type", "").startswith("application/json"):
        return {"code": answer.status_code, "text": answer.text}
    said: dict[str, Any] = json.loads(answer.text.partition("\n")[0] or "{}")
    if said.get("type") == "ERROR":
        said = said["object"]
    if said.get("kind") != "Status" or (answer.is_success and said["status"] == "Success"):
        said = {"code": answer.status_code} | {part: said[part] for part in shows}
    kept = {key: said[key] for key in (*_KEPT, *shows) if key in said}
    plain: Answer = json.loads(_plain(json.dumps(kept), namespace))
    return plain


def _plain(words: str, namespace: str) -> str:
    """Return words without what is another each time."""
    for what, stands in _OTHER_EACH_TIME.items():
        words = re.sub(what, stands, words)
    return re.sub(rf"(?<![\w-]){namespace}(?![\w-])", "NS", words)


_OTHER_EACH_TIME = {
    r"(?!0{8})[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}": "UID",
    r"system:serviceaccount:[\w-]+:\w+": "USER",
    r"too old resource version: 1 \(\d+\)": "too old resource version: 1 (NUMBER)",
    r"\b(one-\d+)-\w{5}\b": r"\1-POD",
}


def _until(is_so: Callable[[], bool]) -> None:
    wait_until(is_so, "what is to be recorded", seconds=_WAIT_S)


def _record() -> None:
    from emulator.real import VARIABLE, RealCluster

    with tempfile.TemporaryDirectory() as directory:
        real = RealCluster(Path(os.environ[VARIABLE]), Path(directory))
        real.wait_for_account()
        server = real.admin.get("/version").json()
        with real.nobody() as nobody:
            answers, quotas = answers_of(real.admin, nobody, real.namespace)
        real.stop()
    kept = {
        "server": f"{server['major']}.{server['minor']}",
        "answers": answers,
        "quotas": quotas,
    }
    _FILE.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    _record()
