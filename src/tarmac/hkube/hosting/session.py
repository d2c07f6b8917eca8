"""The worker's side of HKube's protocol for one instance: one task after another by websocket.

A task goes through ``initialize``, ``initialized``, ``start`` and ``started``. It ends with
``done``, with ``errorMessage``, or with ``stopped`` after ``stop``. The same instance takes the
next task, except after a stop. A protocol error of an algorithm ends only its task and the session.

A connection that drops during a task may come back, and the answer arrives on the new connection.
The session sends no message twice, because the algorithm would act on it twice. So a message in
transit may be lost when the connection drops. If the answer then stays away, the task has crashed.

Source: kube-HPC/hkube at 261d3d06, core/worker/lib/worker.js, states/stateManager.js; the clients'
behavior was observed with hkube_python_wrapper 2.4.2 and 2.6.0.dev27.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection
from pathlib import Path
from typing import Any

from tarmac.errors import TarmacError
from tarmac.hkube.hosting.exchange import Exchange, Stage
from tarmac.hkube.hosting.interface import Calls, Ending, Watcher, Work
from tarmac.hkube.hosting.server import Gone, Listener, open_listener
from tarmac.hkube.protocol import Link, Message, ProtocolError

# WORKER_SOCKET_MAX_PAYLOAD_BYTES of HKube's chart v2.0.20.
MAX_PAYLOAD_BYTES = 1_000_000_000
# HKube's production values of ALGORITHM_DISCONNECTED_TIMEOUT_MS, WRAPPER_TIMEOUT_DURATION, `stop`,
# STOPPING_TIME_OUT.
_DISCONNECTED_S = 60.0
_ALIVE_S = 10.0
_STOP_S = 10.0
_STOPPING_S = 600.0
_EXIT_S = 1.0


class Disconnected(TarmacError):  # noqa: N818 - the protocol's term
    """The algorithm stays disconnected or sends nothing, so its task has crashed."""


class Session:
    """The worker of one instance, created by `open_session`. All calls are in the loop's thread.

    Attributes:
        url: URL that the algorithm connects to, without a query.
        host: Address that the session listens on, as in ``url``.
        port: TCP port that the session listens on, as in ``url``.
    """

    def __init__(
        self,
        *,
        storage_directory: Path,
        max_payload_bytes: int,
        disconnected_timeout_s: float,
        alive_timeout_s: float,
        users: Collection[int] | None,
    ) -> None:
        self._storage = storage_directory
        self._max_payload_bytes = max_payload_bytes
        self._disconnected_s = disconnected_timeout_s
        self._alive_s = alive_timeout_s
        self._users = users
        self._loop = asyncio.get_running_loop()
        self._listener: Listener
        self._link = Link()
        self._exchange: Exchange | None = None
        self._arrived = asyncio.Event()
        self._stopped: asyncio.Future[bool] | None = None
        self._prolong_stop: Any = None
        self._watch: asyncio.TimerHandle | None = None
        # Time of the last message, connection or disconnection.
        self._turned_at = self._loop.time()
        self._pinging: asyncio.Task[None] | None = None
        self._unusable = ""
        self._has_done_a_task = False
        self.url, self.host, self.port = "", "", 0

    async def open(self, host: str) -> None:
        """Listen on a free port of an address."""
        self._listener = await open_listener(
            host, self, max_payload_bytes=self._max_payload_bytes, users=self._users
        )
        self.host, self.port = self._listener.host, self._listener.port
        name = f"[{self.host}]" if ":" in self.host else self.host
        self.url = f"ws://{name}:{self.port}"

    @property
    def is_connected(self) -> bool:
        """Whether the algorithm is connected now."""
        return self._listener.is_connected

    @property
    def is_usable(self) -> bool:
        """Whether the instance takes another task. If not, its process must be ended."""
        return not self._unusable

    @property
    def started_at(self) -> float | None:
        """The loop time at which ``start`` was sent for the current task. None before."""
        return None if self._exchange is None else self._exchange.started_at

    async def connected(self, timeout_s: float = _DISCONNECTED_S) -> None:
        """Wait until the algorithm is connected.

        Raises:
            Disconnected: The timeout in seconds is over, or the session was closed.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._arrived.wait()
        self._check()
        if not self._arrived.is_set():
            refused = self._listener.refused
            reason = f": it was refused, as {refused}" if refused else ""
            raise Disconnected(f"the algorithm has not connected within {timeout_s:g} s{reason}")

    async def run(self, work: Work, *, watcher: Watcher, calls: Calls) -> Ending:
        """Run a task in the algorithm, and wait for its end.

        Cancelling this call leaves the algorithm running, and the session takes no other task.

        Args:
            work: Task to run. A session runs one task at a time.
            watcher: Receives the task's progress, at most ten times a second.
            calls: Runs the algorithms and pipelines that the algorithm starts. Calls that still run
                at the task's end are cancelled.

        Returns:
            The ending: ``why`` is empty, ``error`` or ``stopped``; ``seconds`` from ``start``.

        Raises:
            Disconnected: The algorithm stayed disconnected or sent nothing, or the session takes no
                task.
        """
        self._check()
        assert self._exchange is None, "one task at a time"
        exchange = self._exchange = Exchange(
            work,
            watcher=watcher,
            calls=calls,
            send=self._listener.send,
            answer=self._answer,
            storage=self._storage,
            max_bytes=self._max_payload_bytes,
            follows=self._has_done_a_task,
        )
        self._has_done_a_task = True
        exchange.storage = self._link.storage
        self._listener.num_heard = 0
        self._turned_at = self._loop.time()
        try:
            if self.is_connected:
                await exchange.go_on()
            else:
                self._keep_watch()
            return await exchange.ended
        finally:
            if not exchange.ended.done() or exchange.ended.cancelled():
                self._unusable = self._unusable or "a task of it was abandoned"
            exchange.close()
            self._exchange = None
            if self._watch is not None:
                self._watch.cancel()
                self._watch = None

    async def stop(self, grace_s: float = _STOP_S) -> bool:
        """Stop the current task, and wait for ``stopped``.

        Each ``stopping`` restarts the grace period, up to 10 minutes in all. Afterwards the session
        takes no other task: the Node.js wrapper 2.1.3 sends ``stopped`` and still works on, so its
        late ``done`` would count for the next task.

        Args:
            grace_s: Seconds to wait for ``stopped``. Default 10.

        Returns:
            Whether the task has stopped. If not, it may still run, and its process must be killed.
        """
        if self._unusable:
            return False
        exchange = self._exchange
        if exchange is None:
            return True
        exchange.is_stopping = True
        if exchange.stage is Stage.NEW:
            # The algorithm does not know of the task yet.
            exchange.end("stopped")
            return True
        self._unusable = "it was told to stop"
        self._stopped = self._loop.create_future()
        last = self._loop.time() + max(_STOPPING_S, grace_s)
        try:
            async with asyncio.timeout(grace_s) as timeout:
                self._prolong_stop = lambda: timeout.reschedule(
                    min(self._loop.time() + grace_s, last)
                )
                await self._answer(Message("stop", {"forceStop": True}))
                return await self._stopped
        except TimeoutError:
            return False
        finally:
            self._stopped = self._prolong_stop = None

    async def exit(self) -> None:
        """Ask the algorithm to end its process, which it may ignore."""
        self._unusable = self._unusable or "it was told to exit"
        with contextlib.suppress(Gone, TimeoutError):
            async with asyncio.timeout(_EXIT_S):
                await self._listener.send(Message("exit", {"exitCode": 0}))

    def close(self) -> None:
        """Close the listener; a running task ends with `Disconnected`."""
        self._unusable = self._unusable or "its session was closed"
        self._listener.close()
        if self._stopped is not None and not self._stopped.done():
            self._stopped.set_result(False)
        if self._exchange is not None:
            self._exchange.fail(Disconnected(self._because()))
        # Wake waiters for a connection, because none will follow.
        self._arrived.set()

    async def arrived(self, link: Link) -> None:
        """Continue the task of the last connection."""
        self._link = link
        self._turned_at = self._loop.time()
        self._arrived.set()
        exchange = self._exchange
        if exchange is None:
            return
        exchange.storage = link.storage
        if not link.has_query and exchange.started_at is not None:
            # Clients without a query read and work in one thread. They reconnect after `start` has
            # returned, and its result is lost.
            self._crash("the algorithm lost its connection, and its result with it")
            return
        if exchange.stage in (Stage.INITIALIZING, Stage.STARTING):
            # The last connection may have lost the message to the algorithm or its answer.
            exchange.must_speak = True
            self._keep_watch()
        await exchange.go_on()

    async def heard(self, message: Message) -> None:
        """Handle a message of the algorithm.

        Raises:
            ProtocolError: The message is not allowed now.
        """
        self._turned_at = self._loop.time()
        exchange, command = self._exchange, message.command
        if command == "stopped":
            self._has_stopped()
        elif command == "stopping":
            if self._prolong_stop is not None:
                self._prolong_stop()
        elif command == "dataSourceRequest":
            await self._refuse_data_source(message.data)
        elif exchange is not None:
            await exchange.heard(message)
            if exchange.must_speak:
                self._keep_watch()

    def lost(self) -> None:
        """Give the algorithm time to reconnect."""
        self._arrived.clear()
        self._turned_at = self._loop.time()
        if self._exchange is not None:
            self._keep_watch()

    def broken(self, reason: Exception) -> None:
        """End the task with an error of the connection, and take no other task."""
        exchange = self._exchange
        if isinstance(reason, ProtocolError):
            message = f"the algorithm broke the protocol: {reason.message}"
            self._unusable = self._unusable or message
            if exchange is not None:
                exchange.end("error", message, code="Protocol")
        else:
            self._unusable = self._unusable or str(reason)
            if exchange is not None:
                exchange.fail(reason)

    def _has_stopped(self) -> None:
        if self._stopped is None:
            raise ProtocolError("it said 'stopped' without being told to stop")
        if not self._stopped.done():
            self._stopped.set_result(True)
        if self._exchange is not None:
            self._exchange.end("stopped")

    async def _refuse_data_source(self, data: Any) -> None:
        request = data.get("requestId") if isinstance(data, dict) else None
        error = "data sources exist only in an HKube cluster"
        await self._answer(Message("dataSourceResponse", {"requestId": request, "error": error}))

    async def _answer(self, message: Message) -> None:
        while not self._listener.is_closed:
            try:
                await self._listener.send(message)
            except Gone:
                if not self.is_connected:
                    self._arrived.clear()
                    # The reader of the socket may wait here, and then cannot report the loss.
                    self._keep_watch()
                await self._arrived.wait()
            else:
                return

    def _keep_watch(self) -> None:
        if self._watch is None:
            every_s = min(self._disconnected_s, self._alive_s) / 5
            self._watch = self._loop.call_later(every_s, self._look)

    def _look(self) -> None:
        self._watch = None
        exchange = self._exchange
        if exchange is None or exchange.ended.done():
            return
        now = self._loop.time()
        is_silent = now - self._turned_at >= self._disconnected_s
        if not self.is_connected:
            if is_silent:
                self._crash(
                    f"the algorithm was disconnected for {self._disconnected_s:g} s while it worked"
                )
        elif exchange.must_speak:
            unheard_s = now - self._listener.heard_at
            if is_silent:
                self._crash(
                    f"the algorithm has sent nothing for {self._disconnected_s:g} s, not even a "
                    "heartbeat: its answer may be lost"
                )
            elif exchange.says_alive and unheard_s >= 2 * self._alive_s:
                self._crash(f"the algorithm sent no heartbeat for {2 * self._alive_s:g} s")
            elif exchange.says_alive and unheard_s >= self._alive_s:
                # The algorithm's thread may just be busy; its websocket library answers pings.
                self._ping()
        self._keep_watch()

    def _ping(self) -> None:
        if self._pinging is None or self._pinging.done():
            self._pinging = self._loop.create_task(self._listener.ping())

    def _crash(self, message: str) -> None:
        self._unusable = self._unusable or message
        if self._exchange is not None:
            self._exchange.fail(Disconnected(message))

    def _check(self) -> None:
        if self._unusable:
            raise Disconnected(self._because())

    def _because(self) -> str:
        return f"the algorithm's process takes no task: {self._unusable}"


async def open_session(
    host: str = "127.0.0.1",
    *,
    storage_directory: Path,
    max_payload_bytes: int = MAX_PAYLOAD_BYTES,
    disconnected_timeout_s: float = _DISCONNECTED_S,
    alive_timeout_s: float = _ALIVE_S,
    users: Collection[int] | None = None,
) -> Session:
    """Return a session that listens for one instance of an algorithm.

    Args:
        host: Address to listen on, with a free port. Default ``127.0.0.1``.
        storage_directory: Directory of results by storage v3: the instance's
            ``BASE_FS_ADAPTER_DIRECTORY``.
        max_payload_bytes: Largest message or stored result in bytes. A larger one ends the task.
        disconnected_timeout_s: Seconds without a connection after which a task has crashed.
        alive_timeout_s: Seconds within which an algorithm that has sent ``alive`` must send it
            again; otherwise it must answer a ping within the same time.
        users: User IDs whose processes may connect, to keep inputs private. None: any user, because
            containers have their own users.

    Raises:
        OSError: The address cannot be listened on.
    """
    session = Session(
        storage_directory=storage_directory,
        max_payload_bytes=max_payload_bytes,
        disconnected_timeout_s=disconnected_timeout_s,
        alive_timeout_s=alive_timeout_s,
        users=users,
    )
    await session.open(host)
    return session
