"""What a kubelet does with one pod, from the first look to the last."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from ..quantities import amount
from ..store import now
from .client import Client
from .containers import Ended, Mount, Process, Program
from .groups import MemoryGroup
from .images import PLAIN, TOOLS, image_trouble, plain_tools
from .volumes import ConfigError, MountError, Volumes, expanded, interpreter_path

# Waits between looks at what is not there yet: the kubelet's are 10 s and more.
_AGAIN_S = 0.1


class Host(Protocol):
    """The node that a pod is on."""

    name: str
    directory: Path
    claims: Path
    api_variables: Mapping[str, str]
    entrypoints: Mapping[str, list[str]]
    is_silent: bool

    def take(self, uid: str, spec: Mapping[str, Any]) -> Mapping[str, str] | str: ...
    def give_back(self, uid: str) -> None: ...
    def hosts_file(self, pod: Mapping[str, Any], ip: str) -> Path: ...
    def account_mounts(self, spec: Mapping[str, Any]) -> list[Mount]: ...


class PodWorker:
    """Runs one pod, in a thread.

    Attributes:
        pod: As it was last seen.
        thread: In which it is run.
    """

    def __init__(self, host: Host, client: Client, pod: dict[str, Any]) -> None:
        self._host = host
        self._client = client
        self.pod = pod
        metadata = pod["metadata"]
        self._uid = metadata["uid"]
        self._path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        self._directory = host.directory / self._uid
        self._volumes = Volumes(client, pod, self._directory / "volumes", host.claims)
        digest = hashlib.sha256(self._uid.encode()).digest()
        self.ip = f"127.{64 + digest[0] % 128}.{digest[1]}.{1 + digest[2] % 254}"
        self.processes: dict[str, Process] = {}
        self._states: dict[str, dict[str, Any]] = {}
        self._deleting = threading.Event()
        self._grace_s = 30.0
        self._is_killed = False
        self._restarts: dict[str, int] = {}
        self._devices: Mapping[str, str] = {}
        self._started = now()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def see(self, pod: dict[str, Any]) -> None:
        """Take in what became of the pod."""
        self.pod = pod
        if "deletionTimestamp" in pod["metadata"] and not self._deleting.is_set():
            self._grace_s = float(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
            self._deleting.set()
            threading.Thread(target=self._end, daemon=True).start()

    def vanish(self) -> None:
        """End all at once, as when the machine loses power: nobody is told."""
        self._is_killed = True
        self._deleting.set()
        for process in list(self.processes.values()):
            process.kill()
        self._volumes.remove()

    def evict(self, message: str) -> None:
        """Fail it as a node does that is short of what it uses, without DisruptionTarget."""
        self._evicted = message
        self._grace_s = 0.0
        self._end()

    def log_state(self, container: str) -> Process | str:
        """Return a container's process, or why it has none."""
        process = self.processes.get(container)
        if process is not None:
            return process
        waiting = self._states.get(container, {}).get("waiting", {})
        reason = waiting.get("reason", "PodInitializing")
        words = waiting.get("message")
        name = self.pod["metadata"]["name"]
        base = f'container "{container}" in pod "{name}" is waiting to start: '
        if reason in _PULL:
            return base + "trying and failing to pull image"
        return base + (words or reason)

    def _end(self) -> None:
        main = [it["name"] for it in self.pod["spec"]["containers"]]
        ends = [
            threading.Thread(target=process.end, args=(self._grace_s,))
            for name, process in list(self.processes.items())
            if name in main
        ]
        for end in ends:
            end.start()
        for end in ends:
            end.join()
        for process in list(self.processes.values()):
            process.end(min(self._grace_s, 2.0))

    def _run(self) -> None:
        with contextlib.suppress(_OverError):
            self._admit()
            self._prepare()
            sidecars = self._initialise()
            self._main()
            for name in reversed(sidecars):
                self.processes[name].end(self._grace_s)
                self._states[name] = _terminated(self.processes[name].wait() or _unknown())
        self._finish()

    def _admit(self) -> None:
        devices = self._host.take(self._uid, self.pod["spec"])
        if isinstance(devices, str):
            reason, _, message = devices.partition(": ")
            self._patch(
                {"phase": "Failed", "reason": reason, "message": message, "startTime": now()}
            )
            raise _OverError
        self._devices = devices

    def _prepare(self) -> None:
        every = [*(self.pod["spec"].get("initContainers") or ()), *self.pod["spec"]["containers"]]
        for container in every:
            first = (
                "PodInitializing" if self.pod["spec"].get("initContainers") else "ContainerCreating"
            )
            self._states[container["name"]] = {"waiting": {"reason": first}}
        self._patch({"phase": "Pending", "startTime": self._started, "hostIP": "127.0.0.1"})
        while True:
            try:
                return self._volumes.make()
            except MountError as error:
                self._tell("FailedMount", str(error))
                self._pause()

    def _initialise(self) -> list[str]:
        """Run what comes before; return the names of those that stay beside."""
        sidecars: list[str] = []
        for container in self.pod["spec"].get("initContainers") or ():
            name = container["name"]
            while True:
                process = self._start(container)
                if container.get("restartPolicy") == "Always":
                    sidecars.append(name)
                    self._patch({"phase": "Pending"})
                    break
                ended = self._wait(name, process)
                if ended.code == 0:
                    self._patch({"phase": "Pending"})
                    break
                if self._deleting.is_set() or self.pod["spec"]["restartPolicy"] == "Never":
                    for other in sidecars:
                        self.processes[other].end(2.0)
                    self._over("Failed")
                self._restarts[name] = self._restarts.get(name, 0) + 1
                self._pause()
        return sidecars

    def _main(self) -> None:
        started = [(it, self._start(it)) for it in self.pod["spec"]["containers"]]
        self._patch({"phase": "Running"})
        codes = []
        for container, first in started:
            process = first
            while True:
                ended = self._wait(container["name"], process)
                policy = self.pod["spec"]["restartPolicy"]
                is_again = policy == "Always" or (policy == "OnFailure" and ended.code != 0)
                if not is_again or self._deleting.is_set():
                    break
                self._restarts[container["name"]] = self._restarts.get(container["name"], 0) + 1
                self._pause()
                process = self._start(container)
                self._patch({"phase": "Running"})
            codes.append(ended.code)
            if len(codes) < len(started):
                self._patch({"phase": "Running"})
        self._phase = "Failed" if any(codes) else "Succeeded"

    def _wait(self, name: str, process: Process) -> Ended:
        ended = process.wait() or _unknown()
        self._states[name] = _terminated(ended)
        return ended

    def _start(self, container: dict[str, Any]) -> Process:
        """Start a container, once all it needs is there."""
        name = container["name"]
        while True:
            if self._deleting.is_set():
                self._over("Failed")
            trouble = image_trouble(
                container["image"], self._host.entrypoints, self._states.get(name, {})
            )
            if trouble is None:
                try:
                    program = self._program(container)
                    break
                except ConfigError as error:
                    trouble = ("CreateContainerConfigError", str(error))
                except _NoCommandError as error:
                    trouble = ("CreateContainerError", str(error))
            waiting = {"waiting": {"reason": trouble[0], "message": trouble[1]}}
            if self._states.get(name) != waiting:
                self._states[name] = waiting
                self._patch({"phase": "Pending"})
                self._tell("Failed", trouble[1])
            self._pause()
        limit = (container.get("resources") or {}).get("limits", {}).get("memory")
        group = MemoryGroup(f"emulator-{self._uid}-{name}", int(amount(limit)) if limit else None)
        attempt = self._restarts.get(name, 0)
        process = Process(self._directory / f"{name}-{attempt}", program, group)
        self.processes[name] = process
        if not process.error:
            self._states[name] = {"running": {"startedAt": process.started}}
        if self._deleting.is_set():
            process.end(self._grace_s)
        return process

    def _program(self, container: dict[str, Any]) -> Program:
        pod = self.pod
        metadata, spec = pod["metadata"], pod["spec"]
        hostname = spec.get("hostname") or metadata["name"]
        fields = {
            "status.podIP": self.ip,
            "status.hostIP": "127.0.0.1",
            "spec.nodeName": self._host.name,
            "metadata.uid": self._uid,
        }
        own = self._volumes.environment(container, fields)
        arguments = [
            *(container.get("command") or self._host.entrypoints.get(container["image"]) or ()),
            *(container.get("args") or ()),
        ]
        if not arguments:
            raise _NoCommandError(
                "failed to generate container spec: failed to generate spec: no command specified"
            )
        given = {"PATH": interpreter_path(), "HOSTNAME": hostname, "HOME": "/root"}
        given |= self._host.api_variables
        if any(
            "nvidia.com/" in it for it in (container.get("resources") or {}).get("limits") or ()
        ):
            given |= self._devices
        mounts = [*self._volumes.mounts(container)]
        if container["image"].startswith(PLAIN):
            mounts.append(Mount(plain_tools(self._directory / "tools"), TOOLS))
            given["PATH"] = TOOLS
        security = (spec.get("securityContext") or {}) | (container.get("securityContext") or {})
        log = container["terminationMessagePath"]
        return Program(
            [expanded(it, own) for it in arguments],
            given | own,
            container.get("workingDir") or "/",
            [
                *mounts,
                *self._host.account_mounts(spec),
                Mount(self._host.hosts_file(pod, self.ip), "/etc/hosts"),
                Mount(Path("termination-log"), log),
            ],
            hostname,
            security.get("runAsUser"),
            security.get("runAsGroup", 0) if security.get("runAsUser") is not None else None,
        )

    def _over(self, phase: str) -> None:
        self._phase = phase
        raise _OverError

    _phase = "Failed"
    _evicted = ""

    def _pause(self) -> None:
        if self._deleting.wait(_AGAIN_S):
            self._over("Failed")

    def _finish(self) -> None:
        if self._is_killed:
            return
        for name, process in self.processes.items():
            if (ended := process.ended) is not None:
                self._states[name] = _terminated(ended)
        # First: once the scheduler knows that the pod is over, it sends the next.
        self._host.give_back(self._uid)
        if self._evicted:
            self._patch({"phase": "Failed", "reason": "Evicted", "message": self._evicted})
        elif "reason" not in self._last:
            self._patch({"phase": self._phase})
        self._volumes.remove()
        self._deleting.wait()
        if not self._is_killed:
            self._client.delete(self._path, self._uid)

    _last: Mapping[str, Any] = {}

    def _patch(self, status: dict[str, Any]) -> None:
        """Say how the pod is, as a kubelet does."""
        if self._is_killed or self._host.is_silent:
            return
        self._last = status
        spec, phase = self.pod["spec"], status["phase"]
        is_over = phase in ("Succeeded", "Failed")
        if "reason" not in status:
            status["containerStatuses"] = [self._container(it) for it in spec["containers"]]
            if spec.get("initContainers"):
                status["initContainerStatuses"] = [
                    self._container(it) for it in spec["initContainers"]
                ]
            status |= {"podIP": self.ip, "podIPs": [{"ip": self.ip}]}
        is_ready = phase == "Running"
        is_begun = is_ready or phase == "Succeeded" or not spec.get("initContainers")
        ready = {"reason": "PodCompleted"} if phase == "Succeeded" else {}
        why = ready or ({"reason": "ContainersNotReady"} if not is_ready else {})
        if is_over or "reason" not in status:
            status["conditions"] = [
                {"type": kind, "status": str(is_so), "lastTransitionTime": now(), **more}
                for kind, is_so, more in (
                    ("Initialized", is_begun, {}),
                    ("ContainersReady", is_ready, why),
                    ("Ready", is_ready, why),
                )
            ]
        self._client.patch(
            f"{self._path}/status", {"metadata": {"uid": self._uid}, "status": status}
        )

    def _container(self, container: Mapping[str, Any]) -> dict[str, Any]:
        name = container["name"]
        state = self._states[name]
        is_running = "running" in state
        return {
            "name": name,
            "image": container["image"],
            "imageID": "",
            "ready": is_running or state.get("terminated", {}).get("exitCode") == 0,
            "started": is_running,
            "restartCount": self._restarts.get(name, 0),
            "state": state,
            "lastState": {},
        }

    def _tell(self, reason: str, message: str) -> None:
        metadata = self.pod["metadata"]
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{metadata['name']}."},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": metadata["name"],
                "namespace": metadata["namespace"],
                "uid": self._uid,
            },
            "reason": reason,
            "message": message,
            "type": "Warning",
            "count": 1,
            "source": {"component": "kubelet", "host": self._host.name},
        }
        self._client.post(f"/api/v1/namespaces/{metadata['namespace']}/events", event)


_PULL = ("ErrImagePull", "ImagePullBackOff")


class _OverError(Exception):
    """The pod is over."""


class _NoCommandError(Exception):
    """A container has nothing to run."""


def _terminated(ended: Ended) -> dict[str, Any]:
    state = {
        "exitCode": ended.code,
        "reason": ended.reason,
        "startedAt": ended.started,
        "finishedAt": ended.finished,
    }
    return {"terminated": state | ({"message": ended.message} if ended.message else {})}


def _unknown() -> Ended:
    return Ended(137, "ContainerStatusUnknown", "The container could not be located", now(), now())
