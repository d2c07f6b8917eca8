"""Agents without a process: what the pods of a hollow node print, and how they end, tests decide.

Each reads its attempt in its pod's ConfigMap, as the agent in a pod does, and says it in that
one's form. Where a volume has the run, it reads and writes the run's files. So a run goes all the
way through the engine in milliseconds.
"""

from __future__ import annotations

import base64
import gzip
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from emulator import CONFIG_MAP, Emulator, Outcome
from emulator.hollow import HollowNodes

from tarmac.node import (
    RECORD,
    STREAMS,
    AttemptRecord,
    AttemptSpec,
    Chunk,
    attempt_file,
    log_file,
)

_TERMINATED = 143
_INDEX = "batch.kubernetes.io/job-completion-index"


class Agent:
    """The agent of one pod.

    Attributes:
        pod: Its pod's name.
        element: Its attempt.
        rank: Of its node, where several do the attempt.
        host: Its node.
        outcome: How its pod ends; None while it runs.
        may_close_log: Is set where its log may end with it.
        heeds_term: Whether it ends when it is told to, rather than takes its grace.
    """

    def __init__(self, pod: dict[str, Any], element: AttemptSpec, *, has_volume: bool) -> None:
        self.pod: str = pod["metadata"]["name"]
        self.host: str = pod["spec"]["nodeName"]
        self.element = element
        self.rank = int(pod["metadata"]["annotations"][_INDEX]) if element.nodes > 1 else 0
        self.outcome: Outcome | None = None
        self.heeds_term = True
        self.may_close_log = threading.Event()
        self.may_close_log.set()
        self._has_volume = has_volume
        self._log = b""
        self._changed = threading.Condition()

    def print(self, line: str, stream: str = "stdout") -> None:
        """Print a line."""
        if self._has_volume:
            with log_file(self.element.directory, stream, self.rank).open("ab") as file:
                file.write(line.encode() + b"\n")
            return
        self._say(STREAMS[stream] + b" " + line.encode() + b"\n")

    def end(
        self, code: int = 0, *, has_record: bool = True, killed_for: str = "", **record: Any
    ) -> None:
        """End the program with an exit code.

        Args:
            code: The program's exit code, and the pod's.
            has_record: Whether the agent says how it ended, rather than is killed with it.
            killed_for: Kubernetes' reason where it is not the program's: OOMKilled.
            record: What the record has beside that.
        """
        if has_record and self.rank == 0:
            failed = {"cause": "exit", "reason": f"exit code {code}"} if code else {}
            outcome = "failed" if code else "succeeded"
            ended = {"outcome": outcome, "exit_code": code, "host": self.host} | failed | record
            made = AttemptRecord(self.element.nonce, "ended", **ended)
            if self._has_volume:
                path = attempt_file(Path(self.element.directory), self.element.number)
                path.write_bytes(made.to_bytes())
            else:
                self._say(RECORD + b" " + made.to_bytes())
        with self._changed:
            self.outcome = Outcome(code, reason=killed_for)
            self._changed.notify_all()

    def terminate(self) -> None:
        """End the program as SIGTERM does."""
        words = "its engine ended it (SIGTERM)"
        self.end(_TERMINATED, outcome="interrupted", cause="stop", exit_code=-15, reason=words)

    def log(self) -> Iterator[bytes]:
        """Yield the log in pieces, until the pod ends."""
        sent = 0
        while True:
            with self._changed:
                while len(self._log) == sent and self.outcome is None:
                    self._changed.wait()
            if self.outcome is not None:
                self.may_close_log.wait()
            with self._changed:
                piece = self._log[sent:]
            if not piece:
                return
            sent += len(piece)
            yield piece

    def _say(self, line: bytes) -> None:
        with self._changed:
            self._log += line
            self._changed.notify_all()


class HollowAgents:
    """The agents of a cluster's hollow nodes; a context manager.

    Args:
        cluster: Where the nodes are added.
        program: Is called with each new agent; returns its exit code, or None where it runs on.
        nodes: The names of the nodes.
        capacity: What each of them has, beside much of all.

    Attributes:
        begun: All agents, in the order of their beginning.
    """

    def __init__(
        self,
        cluster: Emulator,
        program: Callable[[Agent], int | None] = lambda _: 0,
        *,
        nodes: tuple[str, ...] = ("n1",),
        capacity: dict[str, str] | None = None,
    ) -> None:
        self.program = program
        self.begun: list[Agent] = []
        self._cluster = cluster
        agents = self

        class Kubelet(BaseHTTPRequestHandler):
            """Has the logs of the nodes' pods."""

            def do_GET(self) -> None:
                """Answer with a log, as it comes."""
                name = self.path.partition("?")[0].split("/")[3]
                (agent,) = [it for it in agents.begun if it.pod == name]
                self.send_response(200)
                self.end_headers()
                for piece in agent.log():
                    self.wfile.write(piece)

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        self._kubelet = ThreadingHTTPServer(("127.0.0.1", 0), Kubelet)
        self._kubelet.daemon_threads = True
        self._thread = threading.Thread(
            target=self._kubelet.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self._thread.start()
        for node in nodes:
            cluster.hollow.add(
                node, capacity or {}, self._end, kubelet_port=self._kubelet.server_port
            )

    @property
    def running(self) -> list[Agent]:
        """Those whose pods run."""
        return [agent for agent in self.begun if agent.outcome is None]

    def end(self, agent: Agent, code: int = 0, **how: Any) -> None:
        """End one, as `Agent.end` does."""
        agent.end(code, **how)
        self._cluster.control.look_again(HollowNodes, (self._cluster.namespace, agent.pod))

    def let_go(self, agent: Agent) -> None:
        """Have one heed that it was told to end."""
        agent.heeds_term = True
        self._cluster.control.look_again(HollowNodes, (self._cluster.namespace, agent.pod))

    def __enter__(self) -> HollowAgents:
        return self

    def __exit__(self, *_: object) -> None:
        for agent in self.begun:
            agent.may_close_log.set()
        for agent in self.running:
            agent.end(has_record=False)
        self._kubelet.shutdown()
        self._kubelet.server_close()
        self._thread.join()

    def _end(self, pod: dict[str, Any]) -> Outcome | None:
        """Begin a pod's agent where that has not begun; return how it ends."""
        name = pod["metadata"]["name"]
        agent = next((it for it in self.begun if it.pod == name), None)
        if agent is None:
            names = [it["configMap"]["name"] for it in pod["spec"]["volumes"] if "configMap" in it]
            element = self._element(pod, names[0]) if names else _shared_element(pod)
            agent = Agent(pod, element, has_volume=not names)
            self.begun.append(agent)
            code = self.program(agent)
            if code is not None and agent.outcome is None:
                agent.end(code)
        is_told = "deletionTimestamp" in pod["metadata"]
        if is_told and agent.outcome is None and agent.heeds_term:
            agent.terminate()
        return agent.outcome

    def _element(self, pod: dict[str, Any], name: str) -> AttemptSpec:
        """Return what a pod's agent reads in the ConfigMap that the pod mounts."""
        files = self._cluster.objects.read(CONFIG_MAP, self._cluster.namespace, name)["binaryData"]
        lines = gzip.decompress(base64.b64decode(files["spec.gz"])).splitlines()
        index = int(pod["metadata"]["annotations"][_INDEX])
        return AttemptSpec(**json.loads(lines[index if len(lines) > 1 else 0]))


def _shared_element(pod: dict[str, Any]) -> AttemptSpec:
    """Return what a pod's agent reads in the run's directory, once it has noted its beginning."""
    spec = Chunk(Path(pod["spec"]["containers"][0]["command"][-1]))
    element = spec.element(int(pod["metadata"]["annotations"][_INDEX]))
    directory = Path(element.directory)
    directory.mkdir(parents=True, exist_ok=True)
    began = AttemptRecord(element.nonce, "began", host=pod["spec"]["nodeName"])
    attempt_file(directory, element.number).write_bytes(began.to_bytes())
    return element
