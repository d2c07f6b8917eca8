"""Code for Ray's workers: starts an agent on the node, and waits for its end.

Ray copies this module's functions to the nodes, which need not have Tarmac. So this module may
import only `mirror`, which is copied too, Python's standard library and ray.

The agent is a process in a session of its own. It ends its program when the pipe to the worker
closes, so that a killed worker leaves no orphan (ray-project/ray#42913). A `ray.cancel` reaches
the agent as SIGTERM, and its program gets its grace period.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from tarmac.executors.ray.mirror import Copy

# Interval of checks for a cancellation, and of copies of an agent's output where needed.
_LOOK_EVERY_S = 0.2

# Time for an agent to keep its outputs, after its program's grace period.
_AGENTS_S = 5.0

# Prefixes of a worker's variables that are Ray's own, or describe another part of the job.
_OF_RAY = ("RAY_", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "PYTHONBREAKPOINT", "SPT_NOENV")

# Replaces srun: tells the worker that all nodes are invited, and runs while they are at work. sh
# starts it, as the kernel takes no interpreter with a long path, or with a space in its path.
_STARTER = """\
#!/bin/sh
'''exec' {python} -IS "$0" "$@"
' '''
import os, socket, sys
worker = socket.socket(socket.AF_UNIX)
worker.connect({path!r})
worker.sendall(os.environ["TARMAC_RENDEZVOUS"].encode() + b"\\n")
sys.exit(1 if worker.recv(1) == b"!" else 0)
"""


def see(work: dict[str, Any]) -> tuple[str, bool]:
    """Return this node's name, and whether the node sees the run's directory."""
    with contextlib.suppress(OSError):
        return _host(work), Path(work["probe"]).read_text(encoding="utf-8") == work["nonce"]
    return _host(work), False


def perform(
    work: dict[str, Any], agent: list[Any], mirror: Any = None, part: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Run an attempt's agent on this node.

    Args:
        work: Element of the attempt, and further data for the node; see `units.Unit`.
        agent: Reference to the agent's file, for nodes that do not see the run's directory.
        mirror: Actor that writes to the run's directory for nodes that do not see it; None for
            none.
        part: ``rank`` of this node, and ``meeting``, the rendezvous with the first node; None on
            the first node.

    Returns:
        ``host``, with ``exit`` and ``said``, the agent's exit code and last line; or with only
        ``unseen``, where nothing was done because the node of that name needs a mirror.
    """
    _hear_interrupts()
    host, is_seen = see(work)
    element: dict[str, Any] = {**work["element"]}
    blind = [] if is_seen else [host]
    is_first = element["nodes"] > 1 and part is None
    if is_first:
        blind += _look_on_others(work)
    if blind and mirror is None:
        return {"host": host, "unseen": blind[0]}
    if not is_seen and element["stage"] is not None:
        message = (
            f"it has inputs, outputs, a container or a virtual environment, and {host} does not "
            "see the run's directory; make the run where all nodes see it: --output DIRECTORY"
        )
        _refuse(mirror, element, host, message)
        return {"host": host, "exit": 1, "said": message}
    scratch = Path(tempfile.mkdtemp(prefix="tarmac-"))  # noqa: TID251 - nothing of Tarmac is here
    secrets = contextlib.ExitStack()
    copy = None
    try:
        element["secrets"] = {**element["secrets"], **_put_down(work["secrets"], secrets)}
        if not is_seen:
            copy = Copy(mirror, element, scratch / "task", host)
            element["directory"] = str(scratch / "task")
        spec = _write_spec(scratch, element)
        archive = _agent(work, agent, is_seen=is_seen)
        variables = _variables(work, host, part)
        parts = None
        if is_first:
            handles = agent, mirror
            parts = _Parts(work, handles, archive=archive, spec=spec, scratch=scratch)
        if parts is not None:
            variables["TARMAC_STARTER"] = str(parts.starter)
        words = [str(spec), "0"] if part is None else ["--part", str(spec), "0"]
        with parts or contextlib.nullcontext(), (scratch / "log").open("w+b") as log:
            code = _run([*_python(), str(archive), *words], variables, log, element, copy)
            log.seek(0)
            lines = log.read().decode(errors="replace").strip().splitlines()
        # Keep the whole line: only the runner can redact secrets, which must precede truncation.
        message = (parts.message if parts is not None else "") or (lines[-1] if lines else "")
        return {"host": host, "exit": code, "said": message}
    finally:
        if copy is not None:
            copy.carry()
        secrets.close()
        shutil.rmtree(scratch, ignore_errors=True)


def _refuse(mirror: Any, element: dict[str, Any], host: str, reason: str) -> None:
    """Record that an attempt did not start, as its agent would."""
    import ray  # noqa: PLC0415 - only workers have it for sure

    record = {"schema": 1, "nonce": element["nonce"], "state": "ended", "host": host}
    record |= {"outcome": "failed", "cause": "start", "reason": f"not started: {reason}"}
    number, data = element["number"], json.dumps(record).encode()
    ray.get(mirror.put.remote(element["directory"], number, element["nonce"], data))


class _Parts:
    """Starts an attempt's other nodes, once its agent on this node invites them."""

    def __init__(
        self,
        work: dict[str, Any],
        agent_and_mirror: tuple[list[Any], Any],
        *,
        archive: Path,
        spec: Path,
        scratch: Path,
    ) -> None:
        self._work = work
        self._agent, self._mirror = agent_and_mirror
        self._archive, self._spec, self._scratch = archive, spec, scratch
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(scratch / "starter.socket"))
        self._server.listen()
        self._refs: list[Any] = []
        self._here: threading.Thread | None = None
        self._thread = threading.Thread(target=self._start, daemon=True)
        self.message = ""
        self.starter = scratch / "starter"
        text = _STARTER.format(
            python=shlex.quote(sys.executable), path=str(scratch / "starter.socket")
        )
        self.starter.write_text(text, encoding="utf-8")
        self.starter.chmod(0o700)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        import ray  # noqa: PLC0415 - only workers have it for sure

        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for ref in self._refs:
            ray.cancel(ref)
        # The parts have noticed by now that the first node is gone, and end their programs.
        patience_s = self._work["element"]["grace_s"] + _AGENTS_S
        ray.wait(
            self._refs, num_returns=len(self._refs), timeout=patience_s
        ) if self._refs else None
        self._thread.join(patience_s)

    def _start(self) -> None:
        """Wait for the starter, start all nodes, and end the starter after the last node."""
        import ray  # noqa: PLC0415 - only workers have it for sure

        try:
            starter, _ = self._server.accept()
        except OSError:
            return
        with starter:
            meeting = starter.makefile("r").readline().strip()
            for rank in range(1, self._work["element"]["nodes"]):
                self._refs.append(
                    _on_node(perform, self._work, rank).remote(
                        self._work,
                        self._agent,
                        self._mirror,
                        {"rank": rank, "meeting": meeting},
                    )
                )
            own = {"rank": 0, "meeting": meeting}
            variables = _variables(self._work, _host(self._work), own)
            command = [*_python(), str(self._archive), "--part", str(self._spec), "0"]
            with (
                (self._scratch / "log-0").open("wb") as log,
                _started(command, variables, log) as me,
            ):
                left = [*self._refs]
                while left and self.message == "":
                    done, left = ray.wait(left, timeout=_LOOK_EVERY_S)
                    for ref in done:
                        self._on_answer(ref)
                    if starter in select.select([starter], [], [], 0)[0]:
                        break
                if self.message:
                    with contextlib.suppress(OSError):
                        starter.sendall(b"!")
                me.wait()

    def _on_answer(self, ref: Any) -> None:
        import ray  # noqa: PLC0415 - only workers have it for sure

        try:
            answer = ray.get(ref)
        except ray.exceptions.RayError as error:
            self.message = f"a node of it was lost: {type(error).__name__}"
        else:
            if answer.get("exit"):
                self.message = f"{answer['host']}: {answer['said']}"


def _on_node(function: Any, work: dict[str, Any], rank: int) -> Any:
    """Return a remote function that runs on a node of an attempt's placement group."""
    import ray  # noqa: PLC0415 - only workers have it for sure
    from ray.util.scheduling_strategies import (  # noqa: PLC0415
        PlacementGroupSchedulingStrategy,
    )

    strategy = PlacementGroupSchedulingStrategy(work["group"], placement_group_bundle_index=rank)
    work_options = {} if function is see else work["options"]
    options = {"num_cpus": 0, "max_retries": 0, **work_options, "scheduling_strategy": strategy}
    return ray.remote(function).options(**options)


def _look_on_others(work: dict[str, Any]) -> list[str]:
    """Return the names of an attempt's other nodes that do not see the run's directory."""
    import ray  # noqa: PLC0415 - only workers have it for sure

    ranks = range(1, work["element"]["nodes"])
    results = ray.get([_on_node(see, work, rank).remote(work) for rank in ranks])
    return [host for host, is_seen in results if not is_seen]


def _hear_interrupts() -> None:
    """Make this worker react to `ray.cancel`, which raises a SIGINT of Ray's own making.

    A shell makes background commands such as ``ray start ... &`` ignore SIGINT, and Ray's workers
    inherit that.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _host(work: dict[str, Any]) -> str:
    import ray  # noqa: PLC0415 - only workers have it for sure

    here: str = ray.get_runtime_context().get_node_id()
    names: dict[str, str] = work["names"]
    return names.get(here) or os.uname().nodename


def _python() -> list[str]:
    # The agent needs neither packages nor the user's Python settings.
    return [sys.executable, "-I", "-S"]


def _variables(work: dict[str, Any], host: str, part: dict[str, Any] | None) -> dict[str, str]:
    import ray  # noqa: PLC0415 - only workers have it for sure

    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OF_RAY)}
    own = {
        # Without a request for GPUs, Ray itself leaves all GPUs visible (ray-project/ray#62492).
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, ray.get_gpu_ids())),
        "TARMAC_ENGINE": "Ray",
        "TARMAC_ENGINE_UNIT": work["unit"],
        "TARMAC_ENGINE_HOST": host,
        "TARMAC_ENGINE_LIFELINE": "1",
    }
    if part is not None:
        own |= {"TARMAC_ENGINE_RANK": str(part["rank"]), "TARMAC_RENDEZVOUS": part["meeting"]}
    return {**kept, **own}


def _run(
    command: list[str],
    variables: dict[str, str],
    log: Any,
    element: dict[str, Any],
    copy: Copy | None,
) -> int:
    """Run an agent to its end; a cancellation by Ray reaches it as SIGTERM."""
    kill_at = float("inf")
    agent: subprocess.Popen[bytes]
    with _started(command, variables, log) as agent:
        pidfd = os.pidfd_open(agent.pid)
        try:
            poll = select.poll()
            poll.register(pidfd, select.POLLIN)
            while agent.poll() is None:
                try:
                    # Ray's interrupt arrives between two Python instructions, not within a blocking
                    # call.
                    poll.poll(_LOOK_EVERY_S * 1000)
                    is_asked = copy is not None and bool(copy.carry())
                except KeyboardInterrupt:
                    is_asked = True
                if is_asked and kill_at == float("inf"):
                    agent.terminate()
                    kill_at = time.monotonic() + element["grace_s"] + _AGENTS_S
                if time.monotonic() > kill_at:
                    agent.kill()
        finally:
            os.close(pidfd)
    return agent.returncode


@contextlib.contextmanager
def _started(command: list[str], variables: dict[str, str], log: Any) -> Any:
    """Start an agent whose standard input closes with this process."""
    agent = subprocess.Popen(
        command,
        env=variables,
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    try:
        yield agent
    finally:
        # An agent that still runs ends when its standard input closes.
        assert agent.stdin is not None
        agent.stdin.close()
        agent.wait()


def _agent(work: dict[str, Any], agent: list[Any], *, is_seen: bool) -> Path:
    if is_seen:
        return Path(work["agent"])
    import ray  # noqa: PLC0415 - only workers have it for sure

    content: bytes = ray.get(agent[0])
    place = Path(tempfile.gettempdir(), f"tarmac-agents-{os.getuid()}")
    place.mkdir(mode=0o700, exist_ok=True)
    if place.stat().st_uid != os.getuid() or place.is_symlink():
        raise PermissionError(f"{place} is another user's")
    path = place / f"{hashlib.sha256(content).hexdigest()[:16]}.pyz"
    if not path.exists():
        new = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
        new.write_bytes(content)
        new.replace(path)
    return path


def _write_spec(scratch: Path, element: dict[str, Any]) -> Path:
    (scratch / "0.index").write_bytes((0).to_bytes(8, "little"))
    spec = scratch / "0.spec"
    spec.write_text(json.dumps(element) + "\n", encoding="utf-8")
    return spec


def _put_down(secrets: dict[str, bytes], held: contextlib.ExitStack) -> dict[str, str]:
    """Keep secrets in this process's memory; return paths for processes of the same user."""
    paths = {}
    for name, value in secrets.items():
        file = held.enter_context(os.fdopen(os.memfd_create("secret"), "wb"))
        file.write(value)
        file.flush()
        paths[name] = f"/proc/{os.getpid()}/fd/{file.fileno()}"
    return paths
