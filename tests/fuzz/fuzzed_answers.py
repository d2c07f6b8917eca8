"""Readers of what other programs answer: Slurm, Kubernetes, Ray, HKube; and logs."""

from __future__ import annotations

import functools
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fuzzed_readers import Reader, Samples, of_text

from tarmac.checks.kernel_log import read_event
from tarmac.checks.reading.read import read_log
from tarmac.hkube.protocol.address import read_link
from tarmac.hkube.protocol.encodings import decode, encode
from tarmac.hkube.protocol.messages import Message
from tarmac.hkube.serving.request import Defaults, read_request
from tarmac.kubernetes.answers import Refused
from tarmac.kubernetes.cluster import Cluster
from tarmac.kubernetes.connection import Connection
from tarmac.kubernetes.events import explain_creation, explain_event
from tarmac.kubernetes.kubeconfig import Place
from tarmac.kubernetes.nodes import read_node
from tarmac.kubernetes.pods import explain_pod
from tarmac.kubernetes.refusals import explain_refusal
from tarmac.kubernetes.survey import read_answer
from tarmac.kubernetes.watch import Watch
from tarmac.ray import RayJobs
from tarmac.server.site import Address
from tarmac.slurm import answers as slurm

_TESTS = Path(__file__).parents[1]

_QUEUE = b"""\
a notice
tarmac|JOBID|NAME|STATE|NODELIST|REASON
tarmac|80_[0-2,7,10-14:2%3]|tarmac-1|PENDING||Priority
tarmac|80_3|tarmac-1|RUNNING|n1|None
tarmac|81|tarmac-2|COMPLETING|n[1-2]|None
"""
_ACCOUNTING = b"""\
JobID|State|ExitCode|NodeList|MaxRSS|End|Partition|Timelimit|Elapsed
80_0|PREEMPTED|0:15|n1||2026-11-22T09:00:00|main|1-00:30:00|00:10:00
80_0.batch|CANCELLED|0:15|n1|10K|2026-11-22T09:00:00|||00:10:00
80_1.batch|OUT_OF_MEMORY|0:125|n1|4096K|2026-11-22T10:00:00|||00:10:00
80_[3-4]|CANCELLED by 1002|0:0|None assigned||2026-11-22T10:00:00|main|1-00:30:00|00:10:00
81|RUNNING|0:0|n[1-2]||Unknown|main|UNLIMITED|00:10:00
"""
_NODES = b"""\
tarmac|NODELIST|PARTITION|STATE|CPUS|MEMORY|TIMELIMIT|AVAIL_FEATURES|GRES|REASON
tarmac|n1|gpu*|IDLE|64|1000000|1-00:00:00|a100,ib|gpu:a100:4(S:0-1)|none
tarmac|n2|gpu*|DRAINED*|64|1000000|1-00:00:00|(null)|(null)|fan | broken
"""
_JOBS = b"""\
JobId=82 ArrayJobId=80 ArrayTaskId=1 JobName=tarmac-1 JobState=NODE_FAIL Reason=NodeDown \
ExitCode=1:0 EndTime=2026-11-22T10:00:00 NodeList=n1 Comment=JobState=x
JobId=80 ArrayJobId=80 ArrayTaskId=2-9%2 JobName=tarmac-1 JobState=PENDING ExitCode=0:0
JobId=90 JobName=other JobState=RUNNING ExitCode=0:0 NodeList=n2
"""
_LIMITS = b"""\
JobRequeue = 0
MaxArraySize = 11
KillWait = 30 sec
SLURM_VERSION = 24.05.1
AccountingStorageType = accounting_storage/slurmdbd
"""

_POD: dict[str, Any] = {
    "metadata": {"name": "p-0", "resourceVersion": "7", "labels": {"a": "b"}},
    "spec": {"nodeName": "n1", "containers": [{"name": "main", "image": "i"}]},
    "status": {
        "phase": "Pending",
        "conditions": [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": "0/2 nodes are available: 2 Insufficient nvidia.com/gpu.",
            }
        ],
        "initContainerStatuses": [
            {"name": "check", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}
        ],
        "containerStatuses": [
            {
                "name": "main",
                "restartCount": 1,
                "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}},
                "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
            }
        ],
    },
}
_ENDED = _POD | {
    "status": {
        "phase": "Failed",
        "reason": "Evicted",
        "message": "The node was low on resource: memory.",
        "containerStatuses": [
            {
                "name": "main",
                "state": {"terminated": {"exitCode": 1, "reason": "Error", "message": "x"}},
            }
        ],
    }
}
_NODE = {
    "metadata": {"name": "n1", "labels": {"nvidia.com/gpu.product": "H100", "gpu": "a"}},
    "spec": {
        "unschedulable": True,
        "taints": [{"key": "nvidia.com/gpu", "value": "1", "effect": "NoSchedule"}],
    },
    "status": {
        "allocatable": {"cpu": "31500m", "memory": "123456Ki", "nvidia.com/gpu": "8"},
        "capacity": {"cpu": "32", "memory": "128Gi", "nvidia.com/gpu": "8"},
        "conditions": [{"type": "Ready", "status": "Unknown", "message": "no heartbeat"}],
    },
}
_EVENT = {
    "reason": "FailedCreate",
    "message": 'pods "a" is forbidden: exceeded quota: team, requested: requests.nvidia.com/gpu=1, '
    "used: requests.nvidia.com/gpu=8, limited: requests.nvidia.com/gpu=8",
    "involvedObject": {"name": "p-0"},
    "count": 3,
}
_REFUSAL = {
    "kind": "Status",
    "status": "Failure",
    "reason": "Forbidden",
    "message": 'pods is forbidden: User "u" cannot list resource "pods" in API group "" in the '
    'namespace "team"',
    "details": {"kind": "pods", "causes": [{"reason": "x", "field": "spec"}]},
    "code": 403,
}


def _listed(*items: Any) -> bytes:
    return json.dumps({"metadata": {"resourceVersion": "9"}, "items": items}).encode()


def _stream() -> bytes:
    bookmark = {"metadata": {"resourceVersion": "11"}}
    events = [
        ("ADDED", _POD),
        ("MODIFIED", _ENDED),
        ("BOOKMARK", bookmark),
        ("DELETED", _POD),
        ("ERROR", {"code": 410}),
    ]
    return b"".join(
        json.dumps({"type": kind, "object": item}).encode() + b"\n" for kind, item in events
    )


class _Server:
    """Answers every request of a client with the same bytes."""

    def __init__(self) -> None:
        self.status, self.content = 200, b""
        self.is_asked: Callable[[], object] = lambda: None

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.is_asked()
        return httpx.Response(self.status, content=self.content, request=request)


@functools.cache
def _server() -> tuple[_Server, Connection]:
    server = _Server()
    place = Place("mine", "http://127.0.0.1:1", "team", {}, Path("config"), None, "mine")
    client = functools.partial(httpx.Client, transport=httpx.MockTransport(server))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(httpx, "Client", client)
        return server, Connection(place, {}, 0)


def _asked(look: Callable[[Cluster], object], status: int = 200) -> Callable[[bytes, Path], object]:
    def read(content: bytes, _: Path) -> object:
        server, connection = _server()
        server.status, server.content, server.is_asked = status, content, lambda: None
        return look(Cluster(connection))

    return read


def _items(cluster: Cluster, kind: str) -> Iterator[Any]:
    listed = cluster.list(kind)
    yield from getattr(listed, "items", ())


def _look_at_pods(cluster: Cluster) -> None:
    for pod in _items(cluster, "Pod"):
        explain_pod(pod)


def _look_at_nodes(cluster: Cluster) -> None:
    for node in _items(cluster, "Node"):
        read_node(node)


def _look_at_events(cluster: Cluster) -> None:
    events = [*_items(cluster, "Event")]
    for event in events:
        explain_event(event)
    explain_creation(events)
    explain_pod(_POD, events=events)


def _look_at_refusal(cluster: Cluster) -> None:
    answer = cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}})
    if isinstance(answer, Refused):
        explain_refusal(answer, "team")
    cluster.version()
    cluster.get("Pod", "a")


def _follow(content: bytes, _: Path) -> None:
    """Follow a watch to its end, in this thread, as its own thread does."""
    server, connection = _server()
    listed = Cluster(connection)
    server.status, server.content, server.is_asked = 200, _listed(_POD), lambda: None
    watch = Watch(
        connection,
        "/api/v1/pods",
        "",
        list_all=lambda: listed.list("Pod"),
        keep=explain_pod,
    )
    asked = 0

    def serve() -> None:
        nonlocal asked
        asked += 1
        if asked == 2:
            server.content = content
            watch._stopping.set()

    server.is_asked = serve
    watch._run()
    watch.look()


def _ray(content: bytes, _: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for status in (200, 500):
            answer = httpx.Response(status, content=content)
            patch.setattr(httpx, "request", lambda *_, answer=answer, **__: answer)
            jobs = RayJobs("http://127.0.0.1:1")
            jobs.__dict__["_trusted"] = None
            jobs.version()
            jobs.look("tarmac-1")
            jobs.stop("tarmac-1")


def _decode(encoding: Any) -> Reader:
    message = Message("initialize", {"input": [{"a": 1, "b": [b"x", None, 1.5]}], "jobId": "j"})
    if encoding == "json":
        message = Message("initialize", {"input": [{"a": 1}], "jobId": "j"}, {"message": "x"})

    def samples() -> Samples:
        frame = encode(message, encoding)
        return {encoding: frame if isinstance(frame, bytes) else frame.encode()}

    def read(content: bytes, _: Path) -> None:
        frame: str | bytes = content
        if encoding == "json":
            frame = content.decode(errors="replace")
        decode(frame, encoding)

    return Reader(samples, read)


_DEFAULTS = Defaults(output="runs")


def _read_request(content: bytes, _: Path) -> None:
    try:
        data = json.loads(content)
    except (ValueError, RecursionError):
        return
    read_request(data, _DEFAULTS)


def _logs() -> Samples:
    paths = sorted((_TESTS / "checks" / "logs" / "clean").glob("*.log"))
    samples = {path.name: path.read_bytes()[:4000] for path in paths}
    samples["oom.log"] = (
        b"Traceback (most recent call last):\n"
        b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
        b"[rank1]: RuntimeError: NCCL error in: x.cpp:1970, unhandled system error\n"
        b'{"log":"slurmstepd: error: Detected 1 oom_kill event\\n","stream":"stderr"}\n'
        b"\x1b[31mCUDA error: an illegal memory access was encountered\x1b[0m\r 10%|#\r\n"
    )
    return samples


_KERNEL = b"""\
[ 12.5] NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, GPU has fallen off the bus.
[ 13.5] NVRM: Xid (PCI:0000:3b:00 GPU-I:05): 94, Contained: SM error. RST: No
[ 14.5] amdgpu 0000:03:00.0: amdgpu: GPU reset begin!
[ 15.5] Out of memory: Killed process 4242 (python) total-vm:1kB, anon-rss:2kB
"""


def _read_kernel_log(text: str) -> None:
    for line in text.splitlines():
        read_event(line)


READERS = {
    "squeue": Reader(lambda: {"squeue": _QUEUE}, of_text(slurm.read_queue)),
    "sacct": Reader(lambda: {"sacct": _ACCOUNTING}, of_text(slurm.read_accounting)),
    "sinfo": Reader(lambda: {"sinfo": _NODES}, of_text(slurm.read_nodes)),
    "scontrol show job": Reader(lambda: {"jobs": _JOBS}, of_text(slurm.read_jobs)),
    "scontrol show config": Reader(lambda: {"config": _LIMITS}, of_text(slurm.read_limits)),
    "scontrol show hostnames": Reader(
        lambda: {"names": b"n1\nn2\nn3\n"}, of_text(slurm.read_hostnames)
    ),
    "sbatch": Reader(lambda: {"sbatch": b"hello\n80;main\n"}, of_text(slurm.read_job_number)),
    "pods": Reader(lambda: {"pods": _listed(_POD, _ENDED)}, _asked(_look_at_pods)),
    "nodes": Reader(lambda: {"nodes": _listed(_NODE)}, _asked(_look_at_nodes)),
    "events": Reader(lambda: {"events": _listed(_EVENT)}, _asked(_look_at_events)),
    "refusals": Reader(
        lambda: {"status": json.dumps(_REFUSAL).encode()}, _asked(_look_at_refusal, 403)
    ),
    "answers of pods": Reader(
        lambda: {
            "message": b'{"failures": ["a"], "unseen": [], "python": "3.12", "tarmac": "0.2"}'
        },
        of_text(lambda text: read_answer(read_node(_NODE), text)),
    ),
    "watches": Reader(lambda: {"stream": _stream()}, _follow, share=1),
    "Ray": Reader(
        lambda: {
            "job": json.dumps(
                {
                    "status": "FAILED",
                    "message": "Job failed, last available logs",
                    "driver_exit_code": 1,
                    "ray_version": "2.60.0",
                    "stopped": True,
                }
            ).encode()
        },
        _ray,
    ),
    "frames of JSON": _decode("json"),
    "frames of MessagePack": _decode("msgpack"),
    "frames of BSON": _decode("bson"),
    "links of algorithms": Reader(
        lambda: {"target": b"/ws?storage=v3&encoding=msgpack&x=%20"}, of_text(read_link)
    ),
    "addresses of pages": Reader(
        lambda: {"address": b"/compare?run=a%20b&run=\xff&sort=-created"},
        lambda content, _: Address.parse(*content.partition(b"?")[::2]),
    ),
    "requests of algorithms": Reader(
        lambda: {
            "request": json.dumps(
                {
                    "input": [{"epochs": 2, "lr": 0.1, "hidden": 8, "seed": 1}],
                    "jobId": "j",
                    "taskId": "t",
                }
            ).encode()
        },
        _read_request,
    ),
    "logs": Reader(_logs, lambda content, _: read_log(io.BytesIO(content)), share=1),
    "the kernel's log": Reader(lambda: {"dmesg": _KERNEL}, of_text(_read_kernel_log)),
}
