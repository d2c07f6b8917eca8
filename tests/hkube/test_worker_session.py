"""The worker's side of one algorithm: tasks, drops, stops, and what breaks the protocol."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import json
import os
import socket
import weakref
from pathlib import Path

import pytest
import websockets
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.asyncio.client import connect

from tarmac.errors import TarmacError
from tarmac.hkube.hosting.interface import Ending, Work
from tarmac.hkube.hosting.session import Disconnected, Session, open_session
from tarmac.hkube.protocol import ENCODINGS, Link, Message, decode, dump_value, encode, stored_bytes

# What a client gets that asks for nothing else.
_PLAIN = Link()

each_encoding = pytest.mark.parametrize("encoding", ENCODINGS)


class Algorithm:
    """A client that says what a test has it say."""

    def __init__(self, session: Session, link: Link) -> None:
        self.session = session
        self.link = link
        self.heard: list[Message] = []

    async def connect(self) -> None:
        query = self.link.query if self.link.has_query else ""
        self.socket = await connect(self.session.url + query, max_size=None, ping_interval=None)

    async def say(self, command, data=None, error=None) -> None:
        await self.socket.send(encode(Message(command, data, error), self.link.encoding))

    async def hear(self, command) -> Message:
        message = decode(await self.socket.recv(), self.link.encoding)
        assert message.command == command, message
        self.heard.append(message)
        return message

    async def drop(self) -> None:
        self.socket.transport.abort()
        await self.socket.wait_closed()

    async def begin(self) -> dict:
        """Take a task as far as its start."""
        data = (await self.hear("initialize")).data
        await self.say("initialized")
        await self.hear("start")
        await self.say("started")
        return data


class Clock:
    """Moves the time of the loop that runs."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        time = loop.time
        loop.time = lambda: time() + self.ahead_s
        self.ahead_s = 0.0

    def move(self, seconds) -> None:
        self.ahead_s += seconds


class Watching:
    def __init__(self) -> None:
        self.told = []

    def progress(self, work, value, details) -> None:
        self.told.append((value, details))


class Calling:
    """Runs what an algorithm asks for: whatever a test gives for its name."""

    def __init__(self, **algorithms) -> None:
        self.algorithms = algorithms
        self.stopped: list[str] = []

    async def run_algorithm(self, caller, algorithm, inputs) -> Ending:
        if algorithm not in self.algorithms:
            raise TarmacError(f"Algorithm named '{algorithm}' does not exist")
        try:
            return await self.algorithms[algorithm](a_work(name=algorithm), *inputs)
        except asyncio.CancelledError:
            self.stopped.append(algorithm)
            raise

    async def run_pipeline(self, caller, body):
        if "nodes" not in body:
            raise TarmacError(f"pipeline {body['name']} Not Found")
        return [{"nodeName": body["nodes"][0]["nodeName"], "result": body["flowInput"]}]


def a_work(index=0, **fields) -> Work:
    names = {"name": "train", "task_id": f"task-{index}", "algorithm": "keras", "job_id": "job-1"}
    return Work(index=index, input=[{"x": 1}], pipeline="sweep", node="train", **names | fields)


@contextlib.asynccontextmanager
async def hosted(storage, *, link=_PLAIN, **options):
    """Give a session with an algorithm that is connected."""
    session = await open_session(storage_directory=storage, **options)
    algorithm = Algorithm(session, link)
    await algorithm.connect()
    try:
        await session.connected(10)
        yield session, algorithm
    finally:
        session.close()
        await algorithm.socket.close()


def run(session, work=None, watcher=None, calls=None) -> asyncio.Task:
    work = a_work() if work is None else work
    return asyncio.ensure_future(
        session.run(work, watcher=watcher or Watching(), calls=calls or Calling())
    )


def in_loop(test):
    """Run an asynchronous test in a loop of its own, which must leave nothing behind."""

    async def whole(*args, **fields):
        failures = []
        asyncio.get_running_loop().set_exception_handler(lambda _, about: failures.append(about))
        await asyncio.wait_for(test(*args, **fields), 60)
        assert not failures

    @functools.wraps(test)
    def sync(*args, **fields):
        asyncio.run(whole(*args, **fields))

    return sync


@each_encoding
@pytest.mark.parametrize("storage", ["v1", "v3"])
@in_loop
async def test_one_instance_does_task_after_task(tmp_path, encoding, storage):
    async with hosted(tmp_path, link=Link(storage, encoding)) as (session, algorithm):
        for index in range(3):
            task = run(session, a_work(index))
            data = await algorithm.begin()
            assert data["taskId"] == f"task-{index}"
            value = {"loss": [0.5, index], "name": "ä"}
            if storage == "v3":
                path = f"local-hkube/job-1/task-{index}"
                (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / path).write_bytes(stored_bytes(value, "msgpack"))
                await algorithm.say("storing", {"storageInfo": {"path": path, "size": 9}})
                value = None
            await algorithm.say("done", value)
            ending = await task
            assert ending.succeeded
            assert ending.value == {"loss": [0.5, index], "name": "ä"}
            assert ending.seconds > 0
            assert session.is_usable
        await session.exit()
        assert (await algorithm.hear("exit")).data == {"exitCode": 0}
        assert not list(tmp_path.rglob("task-*"))


@pytest.mark.parametrize("encoding", ["msgpack", "bson"])
@in_loop
async def test_binary_data_goes_there_and_back(tmp_path, encoding):
    async with hosted(tmp_path, link=Link("v1", encoding)) as (session, algorithm):
        task = run(session, Work(**fields_of(a_work()) | {"input": [b"\x00\xff"]}))
        data = await algorithm.begin()
        assert data["input"] == [b"\x00\xff"]
        await algorithm.say("done", data["input"])
        assert (await task).value == [b"\x00\xff"]


def fields_of(work: Work) -> dict:
    return {name: getattr(work, name) for name in Work.__dataclass_fields__}


@in_loop
async def test_a_client_without_a_query_speaks_json_as_text(tmp_path):
    async with hosted(tmp_path, link=Link(has_query=False)) as (session, algorithm):
        task = run(session)
        assert json.loads(await algorithm.socket.recv())["command"] == "initialize"
        await algorithm.socket.send('{"command": "initialized"}')
        assert json.loads(await algorithm.socket.recv()) == {"command": "start", "data": {}}
        await algorithm.socket.send('{"command": "done", "data": {"acc": 0.9}}')
        assert (await task).value == {"acc": 0.9}


@in_loop
async def test_initialize_says_what_the_task_is(tmp_path):
    async with hosted(tmp_path) as (session, algorithm):
        work = a_work(batch_index=3, root_job_id="root", parents=["load"], children=["sum"])
        task = run(session, work)
        assert await algorithm.begin() == {
            "input": [{"x": 1}],
            "jobId": "job-1",
            "taskId": "task-0",
            "nodeName": "train",
            "pipelineName": "sweep",
            "algorithmName": "keras",
            "kind": "batch",
            "batchIndex": 3,
            "parents": ["load"],
            "childs": ["sum"],
            "info": {
                "savePaths": [],
                "extraData": {},
                "lastRunResult": None,
                "rootJobId": "root",
            },
            "flatInput": {},
            "storage": {},
        }
        await algorithm.say("done")
        assert (await task).succeeded


@in_loop
async def test_late_words_on_a_task_are_not_the_next_ones(tmp_path):
    async with hosted(tmp_path) as (session, algorithm):
        task = run(session)
        await algorithm.begin()
        await algorithm.say("done", "first")
        assert (await task).value == "first"
        task = run(session)
        await algorithm.hear("initialize")
        await algorithm.say("done", "first again")
        await algorithm.say("progress", {"progress": 1})
        await algorithm.say("startAlgorithmExecution")
        await algorithm.say("initialized")
        await algorithm.hear("start")
        await algorithm.say("done", "second")
        assert (await task).value == "second"


@pytest.mark.parametrize("when", ["at initialize", "at work"])
@in_loop
async def test_an_error_of_the_algorithm_is_its_tasks(tmp_path, when):
    async with hosted(tmp_path) as (session, algorithm):
        task = run(session)
        if when == "at work":
            await algorithm.begin()
        else:
            await algorithm.hear("initialize")
        error = {"code": "Failed", "message": "no module named x", "details": "line 1"}
        await algorithm.say("errorMessage", error=error)
        ending = await task
        assert (ending.why, ending.code) == ("error", "Failed")
        assert (ending.message, ending.details) == ("no module named x", "line 1")
        task = run(session)
        await algorithm.begin()
        await algorithm.say("done", 1)
        assert (await task).value == 1


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (None, "the algorithm gave no reason"),
        ({}, "the algorithm gave no reason"),
        ({"message": {"a": 1}}, "{'a': 1}"),
        ({"message": "x" * 50_000}, "x" * 10_000 + " [...]"),
    ],
    ids=["none", "empty", "object", "long"],
)
@in_loop
async def test_an_error_in_any_form_has_a_message_of_bounded_length(tmp_path, error, message):
    async with hosted(tmp_path) as (session, algorithm):
        task = run(session)
        await algorithm.begin()
        await algorithm.say("errorMessage", error=error)
        assert (await task).message == message


@in_loop
async def test_what_an_encoding_cannot_carry_fails_its_task_alone(tmp_path):
    async with hosted(tmp_path) as (session, algorithm):
        ending = await run(session, Work(**fields_of(a_work()) | {"input": [{"image": b"1"}]}))
        assert ending.why == "error"
        assert "input[0].image is binary data" in ending.message
        task = run(session)
        await algorithm.begin()
        await algorithm.say("done", 1)
        assert (await task).succeeded


# Storage.


@pytest.mark.parametrize(
    "path", ["missing", "../secret", "/etc/hostname", None, {"a": 1}], ids=repr
)
@in_loop
async def test_a_result_that_is_not_in_the_storage_is_an_error(tmp_path, path):
    (tmp_path / "secret").write_bytes(stored_bytes("secret", "msgpack"))
    storage = tmp_path / "storage"
    storage.mkdir()
    async with hosted(storage, link=Link("v3", "msgpack")) as (session, algorithm):
        task = run(session)
        await algorithm.begin()
        await algorithm.say("storing", {"storageInfo": {"path": path}})
        await algorithm.say("done")
        ending = await task
        assert ending.why == "error"
        assert ending.message.startswith("its result was not found")
        assert (tmp_path / "secret").exists()


@in_loop
async def test_done_without_a_result_in_the_storage_is_no_success(tmp_path):
    async with hosted(tmp_path, link=Link("v3", "msgpack")) as (session, algorithm):
        task = run(session)
        await algorithm.begin()
        await algorithm.say("done")
        ending = await task
        assert ending.why == "error"
        assert "without saying where its result is stored" in ending.message


# Stops.


@in_loop
async def test_a_stopped_task_takes_its_instance_with_it(tmp_path):
    async with hosted(tmp_path) as (session, algorithm):
        task = run(session)
        await algorithm.begin()
        stop = asyncio.ensure_future(session.stop(30))
        assert (await algorithm.hear("stop")).data == {"forceStop": True}
        await algorithm.say("stopped")
        assert await stop
        assert (await task).why == "stopped"
        # It may say `done` yet, which would be the next task's.
        assert not session.is_usable
        await session.exit()
        await algorithm.hear("exit")


@in_loop
async def test_a_stop_that_is_ignored_leaves_the_task_to_be_killed(tmp_path):
    async with hosted(tmp_path) as (session, algorithm):
        task = run(session)
        await algorithm.begin()
        assert not await session.stop(0.1)
        assert not session.is_usable
        assert not task.done()
        session.close()
        with pytest.raises(Disconnected):
            await task


@in_loop
async def test_stopping_gives_the_algorithm_as_long_again(tmp_path):
    async with hosted(tmp_path) as (session, algorithm):
        task = run(session)
        await algorithm.begin()
        clock = Clock()
        stop = asyncio.ensure_future(session.stop(3))
        await algorithm.hear("stop")
        for _ in range(4):
            clock.move(2)
            await algorithm.say("stopping")
            # What comes after it is answered after it was heard.
            await algorithm.say("dataSourceRequest", {})
            await algorithm.hear("dataSourceResponse")
        await algorithm.say("stopped")
        assert await stop
        assert (await task).why == "stopped"


@in_loop
async def test_a_task_that_is_stopped_before_its_start_is_never_started(tmp_path):
    async with hosted(tmp_path) as (session, algorithm):
        task = run(session)
        await algorithm.hear("initialize")
        stop = asyncio.ensure_future(session.stop(30))
        await algorithm.hear("stop")
        await algorithm.say("initialized")
        await algorithm.say("stopped")
        assert await stop
        assert (await task).why == "stopped"
        await session.exit()
        await algorithm.hear("exit")


@in_loop
async def test_an_error_while_it_stops_does_not_say_that_it_has(tmp_path):
    async with hosted(tmp_path) as (session, algorithm):
        task = run(session)
        await algorithm.begin()
        stop = asyncio.ensure_future(session.stop(30))
        await algorithm.hear("stop")
        await algorithm.say("errorMessage", error={"message": "interrupted"})
        await algorithm.say("stopped")
        assert await stop
        assert (await task).why == "stopped"


@in_loop
async def test_a_result_that_overtakes_its_stop_counts(tmp_path):
    async with hosted(tmp_path) as (session, algorithm):
        task = run(session)
        await algorithm.begin()
        stop = asyncio.ensure_future(session.stop(30))
        await algorithm.hear("stop")
        await algorithm.say("done", 7)
        assert (await task).value == 7
        await algorithm.say("stopped")
        assert await stop


@in_loop
async def test_without_a_task_there_is_nothing_to_stop(tmp_path):
    async with hosted(tmp_path) as (session, _):
        assert await session.stop()
        assert session.is_usable


@in_loop
async def test_a_task_that_was_given_up_takes_the_instance_with_it(tmp_path):
    async with hosted(tmp_path) as (session, algorithm):
        task = run(session)
        await algorithm.begin()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not session.is_usable
        with pytest.raises(Disconnected, match="was abandoned"):
            await run(session)


# Drops.


@each_encoding
@pytest.mark.parametrize("when", ["initialized", "started"])
@in_loop
async def test_a_dropped_socket_delivers_once_on_the_next_one(tmp_path, encoding, when):
    async with hosted(tmp_path, link=Link("v1", encoding)) as (session, algorithm):
        task = run(session)
        await algorithm.hear("initialize")
        if when == "initialized":
            await algorithm.drop()
            await algorithm.connect()
            await algorithm.say("initialized")
            await algorithm.hear("start")
        else:
            await algorithm.say("initialized")
            await algorithm.hear("start")
            await algorithm.say("started")
            await algorithm.drop()
            await algorithm.connect()
        await algorithm.say("done", 5)
        assert (await task).value == 5
        await session.exit()
        # Nothing else was said on the new connection.
        await algorithm.hear("exit")
        assert [message.command for message in algorithm.heard] == ["initialize", "start", "exit"]


@in_loop
async def test_a_task_waits_for_an_algorithm_that_is_away(tmp_path):
    async with hosted(tmp_path) as (session, algorithm):
        await algorithm.drop()
        task = run(session)
        await algorithm.connect()
        await algorithm.begin()
        await algorithm.say("done", 1)
        assert (await task).value == 1


@pytest.mark.parametrize("when", ["before", "at initialize", "at work"])
@in_loop
async def test_a_socket_that_stays_away_is_a_crash(tmp_path, when):
    async with hosted(tmp_path, disconnected_timeout_s=0.2) as (session, algorithm):
        if when == "before":
            await algorithm.drop()
        task = run(session)
        if when == "at work":
            await algorithm.begin()
        elif when == "at initialize":
            await algorithm.hear("initialize")
        await algorithm.drop()
        with pytest.raises(Disconnected, match=r"disconnected for 0\.2 s"):
            await task
        assert not session.is_usable


@in_loop
async def test_an_algorithm_that_goes_before_it_is_answered_and_stays_away_is_a_crash(tmp_path):
    async with hosted(tmp_path, disconnected_timeout_s=0.2) as (session, algorithm):
        task = run(session)
        await algorithm.begin()
        # So many are read at once; before the next one is heard the socket is gone.
        for _ in range(2250 - 3):
            await algorithm.say("startSpan")
        await algorithm.say("dataSourceRequest", {"requestId": "1"})
        await algorithm.drop()
        with pytest.raises(Disconnected, match=r"disconnected for 0\.2 s"):
            await asyncio.wait_for(task, 20)


@in_loop
async def test_an_answer_that_a_drop_has_swallowed_is_a_crash(tmp_path):
    # Long enough to come back within it on a busy machine.
    async with hosted(tmp_path, disconnected_timeout_s=3.0) as (session, algorithm):
        task = run(session)
        await algorithm.hear("initialize")
        await algorithm.drop()
        await algorithm.connect()
        with pytest.raises(Disconnected, match="its answer may be lost"):
            await task


@in_loop
async def test_a_client_that_reads_and_works_in_one_thread_has_lost_its_result(tmp_path):
    async with hosted(tmp_path, link=Link(has_query=False)) as (session, algorithm):
        task = run(session)
        await algorithm.begin()
        await algorithm.drop()
        await algorithm.connect()
        with pytest.raises(Disconnected, match="lost its connection, and its result"):
            await task


@in_loop
async def test_an_algorithm_that_says_no_more_that_it_is_alive_is_a_crash(tmp_path):
    options = {"alive_timeout_s": 0.2, "disconnected_timeout_s": 30}
    async with hosted(tmp_path, **options) as (session, algorithm):
        task = run(session)
        await algorithm.begin()
        await algorithm.say("alive")
        # It reads no more, and so answers no ping.
        algorithm.socket.transport.pause_reading()
        with pytest.raises(Disconnected, match=r"no heartbeat for 0\.4 s"):
            await task
        algorithm.socket.transport.abort()


@in_loop
async def test_an_algorithm_that_answers_pings_is_alive_but_has_to_say_something(tmp_path):
    options = {"alive_timeout_s": 0.1, "disconnected_timeout_s": 0.6}
    async with hosted(tmp_path, **options) as (session, algorithm):
        task = run(session)
        await algorithm.begin()
        await algorithm.say("alive")
        with pytest.raises(Disconnected, match="its answer may be lost"):
            await task


@in_loop
async def test_an_algorithm_that_never_said_that_it_is_alive_need_not(tmp_path):
    options = {"alive_timeout_s": 0.5, "disconnected_timeout_s": 1}
    async with hosted(tmp_path, **options) as (session, algorithm):
        task = run(session)
        await algorithm.begin()
        clock = Clock()
        for _ in range(10):
            clock.move(0.5)
            await asyncio.sleep(0)
        await algorithm.say("done", 1)
        assert (await task).value == 1


@in_loop
async def test_an_algorithm_that_does_not_come_is_waited_for_so_long(tmp_path):
    session = await open_session(storage_directory=tmp_path)
    with pytest.raises(Disconnected, match=r"not connected within 0\.1 s$"):
        await session.connected(0.1)
    with pytest.raises(websockets.InvalidStatus):
        await connect(session.url + "?encoding=pickle")
    with pytest.raises(Disconnected, match="refused, as encoding is 'pickle'"):
        await session.connected(0.1)
    session.close()
    with pytest.raises(Disconnected):
        await session.connected(10)


# Breaches.

_BREACHES = {
    "no JSON": ("{", "not JSON"),
    "no message": ("[]", "not a message"),
    "no UTF-8": (b"\xff", "not JSON"),
    "deep": ("[" * 450 + "]" * 450, "nested more"),
    "done too early": ('{"command": "done", "data": 1}', "before it said 'initialized'"),
    "started too early": ('{"command": "started"}', "before it said 'initialized'"),
    "stopped": ('{"command": "stopped"}', "without being told to stop"),
    "too large": ("x" * 2000, "more than 1000 bytes"),
    "calls too early": ('{"command": "startAlgorithmExecution"}', "before it said 'initialized'"),
}


@pytest.mark.parametrize(("frame", "what"), _BREACHES.values(), ids=_BREACHES.keys())
@in_loop
async def test_a_breach_of_the_protocol_ends_its_task_and_no_other(tmp_path, frame, what):
    small = {"max_payload_bytes": 1000}
    async with (
        hosted(tmp_path, **small) as (session, algorithm),
        hosted(tmp_path) as (other, good),
    ):
        task, other_task = run(session), run(other)
        await algorithm.hear("initialize")
        await good.begin()
        with contextlib.suppress(websockets.ConnectionClosed):
            await algorithm.socket.send(frame)
        ending = await task
        assert (ending.why, ending.code) == ("error", "Protocol")
        assert what in ending.message
        assert not session.is_usable
        with pytest.raises(Disconnected):
            await run(session)
        await good.say("done", 1)
        assert (await other_task).value == 1


@in_loop
async def test_a_text_frame_that_is_no_utf_8_is_a_breach(tmp_path):
    async with hosted(tmp_path) as (session, algorithm):
        task = run(session)
        await algorithm.hear("initialize")
        algorithm.socket.protocol.send_text(b'{"command": "done", "data": "\xff"}')
        algorithm.socket.send_data()
        ending = await task
        assert ending.code == "Protocol"
        assert "UTF-8" in ending.message


@in_loop
async def test_bytes_that_are_no_websocket_are_nobodys_task(tmp_path):
    async with hosted(tmp_path) as (session, algorithm):
        for data in (b"\r\n", b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 100_000):
            reader, writer = await asyncio.open_connection(session.host, session.port)
            writer.write(data)
            with contextlib.suppress(ConnectionError):
                await reader.read()
            writer.close()
        task = run(session)
        await algorithm.begin()
        await algorithm.say("done", 1)
        assert (await task).value == 1


@in_loop
async def test_a_frame_that_breaks_websockets_own_rules_is_a_breach(tmp_path):
    async with hosted(tmp_path) as (session, algorithm):
        task = run(session)
        await algorithm.hear("initialize")
        algorithm.socket.transport.write(b"\xff\xff\xff\xff")
        ending = await task
        assert ending.code == "Protocol"


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(data=st.binary(max_size=40), is_framed=st.booleans())
def test_whatever_bytes_it_sends_a_task_has_an_end(tmp_path, data, is_framed):
    @in_loop
    async def test() -> None:
        async with hosted(tmp_path, disconnected_timeout_s=0.05) as (session, algorithm):
            task = run(session)
            await algorithm.hear("initialize")
            # A frame of any kind with its right length and a mask of zeros; or no frame at all.
            size = bytes([0x80 | len(data[1:])]) if is_framed else b""
            mask = b"\0" * 4 if is_framed else b""
            algorithm.socket.transport.write(data[:1] + size + mask + data[1:])
            algorithm.socket.transport.write_eof()
            with contextlib.suppress(Disconnected):
                assert (await task).why == "error"

    test()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
@in_loop
async def test_the_users_own_process_is_let_in(tmp_path, host):
    try:
        session = await open_session(host, storage_directory=tmp_path, users={os.geteuid()})
    except OSError:
        pytest.skip(f"{host} is no address of this machine; enable IPv6")
    algorithm = Algorithm(session, _PLAIN)
    await algorithm.connect()
    await session.connected(10)
    session.close()


@in_loop
async def test_a_process_that_speaks_ipv4_by_a_socket_of_ipv6_is_let_in(tmp_path):
    # As Java's do.
    try:
        mapped = socket.socket(socket.AF_INET6)
        session = await open_session(storage_directory=tmp_path, users={os.geteuid()})
        mapped.connect(("::ffff:127.0.0.1", session.port))
    except OSError:
        pytest.skip("this machine has no IPv6; enable it")
    mapped.setblocking(False)
    async with connect(session.url, sock=mapped):
        await session.connected(10)
    session.close()


@in_loop
async def test_a_second_connection_is_refused_while_the_first_is_there(tmp_path):
    async with hosted(tmp_path) as (session, algorithm):
        task = run(session)
        await algorithm.begin()
        with pytest.raises(websockets.InvalidStatus, match="409"):
            await connect(session.url)
        await algorithm.say("done", 1)
        assert (await task).value == 1


@in_loop
async def test_a_process_cannot_take_the_hosts_descriptors(tmp_path):
    async with hosted(tmp_path) as (session, algorithm):
        before = len(list(Path("/proc/self/fd").iterdir()))
        streams = [await asyncio.open_connection(session.host, session.port) for _ in range(50)]
        # Those beyond a few are closed at once.
        await asyncio.gather(*[reader.read() for reader, _ in streams[10:]])
        # Both ends are this process's.
        assert len(list(Path("/proc/self/fd").iterdir())) - before < 50 + 10
        for _, writer in streams:
            writer.close()
        task = run(session)
        await algorithm.begin()
        await algorithm.say("done", 1)
        assert (await task).value == 1


def test_another_users_process_is_not_let_in(tmp_path, second_user):
    @in_loop
    async def test() -> None:
        session = await open_session(storage_directory=tmp_path, users={os.geteuid()})

        def knock() -> bytes:
            # As bytes: another user may not read the codec that text needs.
            with socket.create_connection((session.host.encode(), session.port)) as stranger:
                with contextlib.suppress(ConnectionError):
                    stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
                    return stranger.recv(100)
                return b""

        assert await asyncio.to_thread(second_user, knock) == b""
        with pytest.raises(Disconnected, match="refused, as the process that connected is of the"):
            await session.connected(0.1)
        algorithm = Algorithm(session, _PLAIN)
        await algorithm.connect()
        task = run(session)
        await algorithm.begin()
        await algorithm.say("done", 1)
        assert (await task).value == 1
        session.close()

    test()


@in_loop
async def test_words_after_the_end_are_nobodys(tmp_path):
    async with hosted(tmp_path) as (session, algorithm):
        for index in range(2):
            task = run(session, a_work(index))
            await algorithm.begin()
            await algorithm.say("done", index)
            assert (await task).value == index
            for command in ("alive", "progress", "done", "started", "startSpan", "unknown"):
                await algorithm.say(command, 99)
            # Whatever was said is heard before this is answered.
            await (await algorithm.socket.ping())
        assert session.is_usable


@in_loop
async def test_a_flood_holds_up_nobody_else(tmp_path):
    async with hosted(tmp_path) as (session, algorithm), hosted(tmp_path) as (other, good):
        task = run(session)
        await algorithm.begin()

        async def flood() -> None:
            frame = '{"command": "progress", "data": {"progress": 0.5}}'
            with contextlib.suppress(websockets.ConnectionClosed):
                while True:
                    await algorithm.socket.send(frame)
                    await asyncio.sleep(0)

        flooding = asyncio.ensure_future(flood())
        for index in range(50):
            other_task = run(other, a_work(index))
            await good.begin()
            await good.say("done", index)
            assert (await other_task).value == index
        session.close()
        with pytest.raises(Disconnected):
            await task
        await flooding


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(
    frames=st.lists(
        st.text(max_size=50)
        | st.binary(max_size=50)
        | st.builds(
            lambda command, data: json.dumps({"command": command, "data": data}),
            st.sampled_from(
                [
                    *("initialized", "started", "done", "storing", "progress", "stopped"),
                    *("stopping", "alive", "errorMessage", "dataSourceRequest", "startSpan"),
                    *("startAlgorithmExecution", "startRawSubPipeline", "stopSubPipeline"),
                ]
            ),
            st.recursive(
                st.none() | st.integers() | st.text(max_size=5),
                lambda x: (
                    st.lists(x, max_size=3)
                    | st.dictionaries(
                        st.sampled_from(
                            ["execId", "subPipelineId", "algorithmName", "input", "error"]
                        )
                        | st.sampled_from(["storageInput", "storage", "subPipeline", "progress"]),
                        x,
                    )
                ),
                max_leaves=6,
            ),
        ),
        max_size=6,
    ),
    storage=st.sampled_from(["v1", "v3"]),
)
def test_whatever_it_says_a_task_has_an_end(tmp_path, frames, storage):
    @in_loop
    async def test() -> None:
        async with hosted(tmp_path, link=Link(storage, "json")) as (session, algorithm):
            task = run(session, calls=Calling())
            await algorithm.hear("initialize")
            with contextlib.suppress(websockets.ConnectionClosed):
                for frame in frames:
                    await algorithm.socket.send(frame)
                await algorithm.socket.send('{"command": "errorMessage", "error": {}}')
            ending = await task
            dump_value([ending.value, ending.message, ending.code, ending.details], "msgpack")

    test()


# Progress.


@in_loop
async def test_progress_is_told_as_a_share_or_in_words(tmp_path):
    watcher = Watching()
    async with hosted(tmp_path) as (session, algorithm):
        for data in (
            {"progress": 0.5, "details": "epoch 1"},
            {"progress": 1},
            {"progress": 50},
            {"progress": float("nan")},
            {"progress": True},
            "half",
            None,
        ):
            task = run(session, watcher=watcher)
            await algorithm.begin()
            await algorithm.say("progress", data)
            await algorithm.say("done")
            await task
    assert watcher.told == [
        (0.5, "epoch 1"),
        (1, ""),
        (None, "50"),
        # JSON has no NaN.
        (None, ""),
        (None, "True"),
        (None, "half"),
        (None, ""),
    ]


@in_loop
async def test_much_progress_is_told_as_its_latest(tmp_path):
    watcher = Watching()
    async with hosted(tmp_path) as (session, algorithm):
        task = run(session, watcher=watcher)
        await algorithm.begin()
        for step in range(1000):
            await algorithm.say("progress", {"progress": step / 1000})
        await algorithm.say("done")
        await task
    assert watcher.told[-1] == (0.999, "")
    assert len(watcher.told) < 500


@in_loop
async def test_a_watcher_that_fails_ends_the_task_with_its_own_error(tmp_path):
    class Full(Watching):
        def progress(self, work, value, details) -> None:
            raise TarmacError("no space left")

    async with hosted(tmp_path) as (session, algorithm):
        task = run(session, watcher=Full())
        await algorithm.begin()
        await algorithm.say("progress", {"progress": 0.5})
        with pytest.raises(TarmacError, match="no space left"):
            await task


# What an algorithm asks for.


async def _double(work, value) -> Ending:
    return Ending(work=work, value=value * 2)


async def _fails(work, *_) -> Ending:
    return Ending(work=work, why="error", message="division by zero")


async def _never(work, *_) -> Ending:
    return await asyncio.get_running_loop().create_future()


@contextlib.asynccontextmanager
async def calling(storage, calls, link=_PLAIN):
    async with hosted(storage, link=link) as (session, algorithm):
        task = run(session, calls=calls)
        await algorithm.begin()
        yield algorithm
        await algorithm.say("done", "end")
        assert (await task).value == "end"


@in_loop
async def test_algorithms_that_an_algorithm_starts_answer_each_on_its_own(tmp_path):
    async with calling(tmp_path, Calling(double=_double, fails=_fails)) as algorithm:
        for identity, name, value in (("1", "double", 4), ("2", "fails", 0), ("3", "other", 0)):
            data = {"execId": identity, "algorithmName": name, "input": [value]}
            await algorithm.say("startAlgorithmExecution", data | {"includeResult": True})
        answers = [decode(await algorithm.socket.recv(), "json") for _ in range(3)]
        assert {answer.data["execId"]: answer.data for answer in answers} == {
            "1": {"execId": "1", "response": 8},
            "2": {"execId": "2", "error": "division by zero"},
            "3": {"execId": "3", "error": "Algorithm named 'other' does not exist"},
        }


@in_loop
async def test_a_result_that_is_not_asked_for_is_not_sent(tmp_path):
    async with calling(tmp_path, Calling(double=_double)) as algorithm:
        data = {"execId": "1", "algorithmName": "double", "input": [4], "includeResult": False}
        await algorithm.say("startAlgorithmExecution", data)
        answer = await algorithm.hear("algorithmExecutionDone")
        assert answer.data == {"execId": "1", "response": None}


@in_loop
async def test_inputs_that_are_in_the_storage_are_read_there(tmp_path):
    path = "local-hkube/job-1/abcd"
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_bytes(stored_bytes([21], "msgpack"))

    async def total(work, values, text) -> Ending:
        return Ending(work=work, value=[sum(values), text])

    async with calling(tmp_path, Calling(total=total)) as algorithm:
        data = {
            "execId": "1",
            "algorithmName": "total",
            "storageInput": ["$$abcd", "as it is"],
            "storage": {"abcd": {"storageInfo": {"path": path}}},
            "includeResult": True,
        }
        await algorithm.say("startAlgorithmExecution", data)
        answer = await algorithm.hear("algorithmExecutionDone")
        assert answer.data["response"] == [21, "as it is"]


@in_loop
async def test_pipelines_that_an_algorithm_starts_say_that_they_began(tmp_path):
    async with calling(tmp_path, Calling()) as algorithm:
        body = {"name": "sub", "nodes": [{"nodeName": "green"}], "flowInput": {"a": 1}}
        data = {"subPipelineId": "7", "subPipeline": body, "includeResult": True}
        await algorithm.say("startRawSubPipeline", data)
        assert (await algorithm.hear("subPipelineStarted")).data == {"subPipelineId": "7"}
        assert (await algorithm.hear("subPipelineDone")).data == {
            "subPipelineId": "7",
            "response": [{"nodeName": "green", "result": {"a": 1}}],
        }
        data = {"subPipelineId": "8", "subPipeline": {"name": "stored", "flowInput": {}}}
        await algorithm.say("startStoredSubPipeline", data)
        await algorithm.hear("subPipelineStarted")
        answer = await algorithm.hear("subPipelineError")
        assert answer.data == {"subPipelineId": "8", "error": "pipeline stored Not Found"}


@in_loop
async def test_what_an_algorithm_stops_is_stopped(tmp_path):
    calls = Calling(never=_never)
    async with calling(tmp_path, calls) as algorithm:
        data = {"execId": "1", "algorithmName": "never", "input": []}
        await algorithm.say("startAlgorithmExecution", data)
        await algorithm.say("startAlgorithmExecution", data)
        answer = await algorithm.hear("algorithmExecutionError")
        assert answer.data["error"] == "execution 1 already running"
        await algorithm.say("stopAlgorithmExecution", {"execId": "1", "reason": "enough"})
        answer = await algorithm.hear("algorithmExecutionError")
        assert answer.data["error"] == "stopped by algorithm: enough"
        assert calls.stopped == ["never"]
        await algorithm.say("stopSubPipeline", {"subPipelineId": "9"})
        answer = await algorithm.hear("subPipelineError")
        assert answer.data["error"] == "cannot stop subPipeline - not found: 9"


@in_loop
async def test_what_a_task_has_started_ends_with_it(tmp_path):
    calls = Calling(never=_never)
    async with calling(tmp_path, calls) as algorithm:
        for identity in ("1", "2"):
            data = {"execId": identity, "algorithmName": "never", "input": []}
            await algorithm.say("startAlgorithmExecution", data)
        await algorithm.say("stopAlgorithmExecution", {"execId": "?"})
        await algorithm.hear("algorithmExecutionError")
    assert calls.stopped == ["never", "never"]


@pytest.mark.parametrize(
    ("command", "data", "error"),
    [
        ("startAlgorithmExecution", None, "property 'execId'"),
        ("startAlgorithmExecution", {"execId": 5}, "property 'execId'"),
        ("startAlgorithmExecution", {"execId": "1"}, "property 'algorithmName'"),
        (
            "startAlgorithmExecution",
            {"execId": "1", "algorithmName": "double", "input": 5},
            "input should be array",
        ),
        (
            "startAlgorithmExecution",
            {"execId": "1", "algorithmName": "double", "storageInput": ["$$a"], "storage": {}},
            "no storageInfo for '\\$\\$a'",
        ),
        ("startRawSubPipeline", {"subPipelineId": "1"}, "property 'subPipeline'"),
        ("stopSubPipeline", {}, "property 'subPipelineId'"),
    ],
)
@in_loop
async def test_a_call_that_is_wrong_is_answered(tmp_path, command, data, error):
    async with calling(tmp_path, Calling(double=_double)) as algorithm:
        await algorithm.say(command, data)
        answer = decode(await algorithm.socket.recv(), "json")
        assert answer.command in ("algorithmExecutionError", "subPipelineError")
        with pytest.raises(AssertionError, match=error):
            raise AssertionError(answer.data["error"])


@in_loop
async def test_an_answer_that_the_encoding_cannot_carry_is_an_error_of_the_call(tmp_path):
    async def image(work) -> Ending:
        return Ending(work=work, value=b"png")

    async with calling(tmp_path, Calling(image=image)) as algorithm:
        data = {"execId": "1", "algorithmName": "image", "input": []}
        await algorithm.say("startAlgorithmExecution", data)
        answer = await algorithm.hear("algorithmExecutionError")
        assert "response is binary data" in answer.data["error"]


@in_loop
async def test_a_host_that_fails_ends_the_task_with_its_own_error(tmp_path):
    async def broken(work) -> Ending:
        raise ZeroDivisionError("a defect")

    async with hosted(tmp_path) as (session, algorithm):
        task = run(session, calls=Calling(broken=broken))
        await algorithm.begin()
        data = {"execId": "1", "algorithmName": "broken", "input": []}
        await algorithm.say("startAlgorithmExecution", data)
        with pytest.raises(ZeroDivisionError, match="a defect"):
            await task


@in_loop
async def test_an_answer_that_finds_no_socket_comes_on_the_next_one(tmp_path):
    ready = asyncio.Event()

    async def late(work) -> Ending:
        await ready.wait()
        return Ending(work=work, value=1)

    async with calling(tmp_path, Calling(late=late)) as algorithm:
        await algorithm.say(
            "startAlgorithmExecution", {"execId": "1", "algorithmName": "late", "input": []}
        )
        await algorithm.say("stopAlgorithmExecution", {"execId": "?"})
        await algorithm.hear("algorithmExecutionError")
        await algorithm.drop()
        ready.set()
        await algorithm.connect()
        answer = await algorithm.hear("algorithmExecutionDone")
        assert answer.data == {"execId": "1", "response": 1}


@in_loop
async def test_data_sources_are_refused_with_their_reason(tmp_path):
    async with calling(tmp_path, Calling()) as algorithm:
        await algorithm.say("dataSourceRequest", {"requestId": "1", "dataSource": {"name": "a"}})
        answer = await algorithm.hear("dataSourceResponse")
        assert answer.data["requestId"] == "1"
        assert "HKube cluster" in answer.data["error"]


# Large things.


@in_loop
async def test_what_a_task_carried_is_freed_with_it(tmp_path):
    class Large(list):
        """Can be referred to weakly."""

    async def whole(session, algorithm, carried) -> None:
        task = run(session, Work(**fields_of(a_work()) | {"input": carried}))
        await algorithm.begin()
        await algorithm.say("progress", {"progress": 0.5})
        await algorithm.say("done", 1)
        await task

    async with hosted(tmp_path) as (session, algorithm):
        carried = Large([1])
        reference = weakref.ref(carried)
        gc.disable()
        try:
            await asyncio.ensure_future(whole(session, algorithm, carried))
            del carried
            await asyncio.sleep(0)
            assert reference() is None
        finally:
            gc.enable()


@each_encoding
@in_loop
async def test_a_large_value_goes_there_and_back(tmp_path, encoding):
    text = "x" * 20_000_000
    async with hosted(tmp_path, link=Link("v1", encoding)) as (session, algorithm):
        task = run(session, Work(**fields_of(a_work()) | {"input": [text]}))
        data = await algorithm.begin()
        assert data["input"] == [text]
        await algorithm.say("done", data["input"])
        assert (await task).value == [text]
