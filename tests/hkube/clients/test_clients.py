"""Algorithms by HKube's own clients, hosted as its worker does."""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import sys

import psutil
import pytest
from hosted import definition_of, hosting

from tarmac.hkube.hosting import Timers

OLD, NEW, NODE = "python 2.4.2", "python 2.6.0.dev27", "node 2.1.3"
WRAPPERS = (OLD, NEW, NODE)


VALUE = {"text": "ü", "list": [1, -2.5, None, True, [], {}], "large": 2**40, "": {"a.b": [[0]]}}

SHORT = Timers(stop_s=0.5, exit_s=0.5, kill_s=0.5)


def cases(names, cases, *always):
    """Parametrize a test by all cases; those of `always` are in `make test` too."""
    return pytest.mark.parametrize(
        names,
        [
            pytest.param(
                *case,
                id="-".join(case).replace(" ", "-"),
                marks=() if case in always else pytest.mark.hkube,
            )
            for case in cases
        ],
    )


@cases(
    ("name", "encoding", "storage"),
    [*itertools.product(WRAPPERS, ("json", "msgpack", "bson"), ("v1", "v3"))],
    (OLD, "json", "v1"),
    (NEW, "bson", "v3"),
    (NODE, "msgpack", "v3"),
)
def test_a_client_does_task_after_task_in_one_process(client_of, tmp_path, name, encoding, storage):
    async def go():
        async with hosting(client_of(name), tmp_path, encoding=encoding, storage=storage) as hosted:
            first = (await hosted.do("tell", batch_index=3)).value
            assert first["taskId"] == "id-0"
            assert (first["nodeName"], first["pipelineName"]) == ("node", "pipe")
            assert (first["algorithmName"], first["batchIndex"]) == ("tried", 3)
            for value in (VALUE, [], None, 0, "", False):
                ending = await hosted.do("give", value)
                assert (ending.why, ending.value) == ("", value)
            failed = await hosted.do("fail", "no such colour")
            assert (failed.why, failed.message) == ("error", "no such colour")
            if encoding != "json" or storage == "v3":
                assert (await hosted.do("make", "bytes", 6)).value == b"\x00\xff" * 3
            assert (await hosted.do("tell")).value["pid"] == first["pid"]

    asyncio.run(go())


@cases(("name", "how"), [*itertools.product(WRAPPERS, ("crash", "leave"))])
def test_a_process_that_ends_in_a_task_has_crashed_whatever_its_exit_code(
    client_of, tmp_path, name, how
):
    async def go():
        async with hosting(client_of(name), tmp_path) as hosted:
            ending = await hosted.do(how, limit=2)
            assert (ending.why, ending.attempts) == ("crash", 2)
            assert ending.exit_code == (-9 if how == "crash" else 0)
            assert len(hosted.watcher.retries) == 1
            assert (await hosted.do("give", 1)).value == 1

    asyncio.run(go())


@cases(("name", "storage"), [*itertools.product(WRAPPERS, ("v1", "v3"))], (OLD, "v1"))
def test_a_socket_that_drops_in_a_task_comes_back_and_delivers_once(
    client_of, tmp_path, name, storage
):
    async def go():
        async with hosting(client_of(name), tmp_path, storage=storage) as hosted:
            before = (await hosted.do("tell")).value
            ending = await hosted.do("drop", VALUE)
            assert (ending.value, ending.attempts) == (VALUE, 1)
            after = (await hosted.do("tell")).value
            assert after["pid"] == before["pid"]
            assert after["tasks"] == before["tasks"] + 2

    asyncio.run(go())


@cases(("name",), [(name,) for name in (*WRAPPERS, "original")], ("original",))
def test_who_ignores_a_stop_is_killed(client_of, tmp_path, name):
    async def go():
        async with hosting(client_of(name), tmp_path, timers=SHORT) as hosted:
            before = (await hosted.do("tell")).value["pid"]
            ending = await hosted.do("hang", ttl_s=0.2)
            assert ending.why == "ttl"
            assert (await hosted.do("tell")).value["pid"] != before
            assert not psutil.pid_exists(before)

    asyncio.run(go())


@cases(("name", "storage"), [*itertools.product(WRAPPERS, ("v1", "v3"))], (NODE, "v3"))
def test_what_a_stopped_task_still_gives_is_no_other_tasks_result(
    client_of, tmp_path, name, storage
):
    async def go():
        async with hosting(client_of(name), tmp_path, storage=storage) as hosted:
            ending = await hosted.do("until_stop", ttl_s=0.2)
            assert ending.why == "ttl"
            for number in range(3):
                assert (await hosted.do("give", number)).value == number

    asyncio.run(go())


@cases(
    ("name", "encoding", "storage"),
    [
        (OLD, "bson", "v1"),
        (OLD, "json", "v1"),
        (NEW, "msgpack", "v1"),
        (NEW, "bson", "v3"),
        (NODE, "msgpack", "v1"),
        (NODE, "json", "v1"),
        (NODE, "bson", "v3"),
    ],
    (NEW, "bson", "v3"),
)
def test_a_result_of_100_mb_arrives(client_of, tmp_path, name, encoding, storage):
    async def go():
        async with hosting(client_of(name), tmp_path, encoding=encoding, storage=storage) as hosted:
            kind = "text" if encoding == "json" else "bytes"
            ending = await hosted.do("make", kind, 100_000_000)
            assert ending.succeeded, ending.message
            assert len(ending.value) == 100_000_000

    asyncio.run(go())


@cases(
    ("name", "storage"),
    [(OLD, "v1"), (OLD, "v3"), (NEW, "v1"), (NEW, "v3"), (NODE, "v3")],
    (NODE, "v3"),
)
def test_a_client_starts_other_algorithms_and_pipelines(client_of, tmp_path, name, storage):
    # Node's with storage v1 starts no algorithms: it always stores their inputs.
    shout = {
        "name": "shout",
        "cpu": 0.1,
        "mem": "64Mi",
        "options": {
            "tarmac": {
                "protocol": "plain",
                "command": ["sh", "-c", 'cp "$TARMAC_INPUT" "$TARMAC_RESULT"'],
            }
        },
    }

    async def go():
        async with hosting(
            client_of(name), tmp_path, storage=storage, others={"shout": shout}
        ) as hosted:
            ending = await hosted.do("call", "shout", [VALUE, [1]])
            assert ending.succeeded, ending.message
            assert ending.value == [VALUE, [1]]
            ending = await hosted.do("call_pipeline", "other", {"x": 1})
            assert ending.succeeded, ending.message
            assert ending.value[0]["result"] == ["other", {"x": 1}]
            failed = await hosted.do("call", "nobody", [])
            # Python's wrapper gives back the other one's error as if it were a result.
            assert "nobody" in (failed.message if name == NODE else failed.value)

    asyncio.run(go())


@cases(("name",), [(name,) for name in (*WRAPPERS, "original")], ("original",))
def test_no_client_outlives_its_host(client_of, tmp_path, name, trace):
    async def go():
        async with hosting(client_of(name), tmp_path, timers=SHORT) as hosted:
            await hosted.do("tell")
            assert trace.processes()

    asyncio.run(go())
    assert not trace.processes()


@cases(("name",), [(name,) for name in (*WRAPPERS, "original")], ("original",))
def test_no_client_outlives_a_host_that_is_killed(client_of, tmp_path, name, trace):
    (tmp_path / "tried.json").write_text(json.dumps(definition_of(client_of(name))))
    (tmp_path / "input.json").write_text('["hang"]')
    command = [sys.executable, "-m", "tarmac", "run", "tried.json", "--input", "input.json"]
    with subprocess.Popen(
        [*command, "--output", "runs"], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as host:
        assert any("started" in line for line in host.stdout)
        clients = trace.processes()
        host.kill()
    _, left = psutil.wait_procs(clients, timeout=60)
    assert not left


@pytest.mark.hkube
def test_code_that_cannot_be_imported_is_the_tasks_error(client_of, tmp_path):
    client = client_of(NEW)
    python, _ = client.command
    program = "from hkube_python_wrapper import Algorunner; Algorunner.Run()"

    async def go():
        broken = type(client)((python, "-c", program), client.environment)
        async with hosting(broken, tmp_path) as hosted:
            ending = await hosted.do("tell")
            assert ending.why == "error"
            assert "algorithm_unique_folder" in ending.message

    asyncio.run(go())


def test_the_original_runner_does_task_after_task_in_one_process(client_of, tmp_path):
    async def go():
        async with hosting(client_of("original"), tmp_path) as hosted:
            first = (await hosted.do("tell")).value
            assert (await hosted.do("give", VALUE)).value == VALUE
            failed = await hosted.do("fail", "no such colour")
            assert (failed.why, failed.message) == ("error", "no such colour")
            assert len((await hosted.do("make", 100_000_000)).value) == 100_000_000
            assert (await hosted.do("tell")).value["pid"] == first["pid"]

    asyncio.run(go())


def test_a_result_that_the_original_runner_lost_with_its_socket_is_a_crash(client_of, tmp_path):
    async def go():
        async with hosting(client_of("original"), tmp_path) as hosted:
            ending = await hosted.do("drop", 7, limit=1)
            assert ending.why == "crash"
            assert (await hosted.do("give", 1)).value == 1

    asyncio.run(go())


@pytest.mark.nightly
def test_a_result_that_python_lost_with_its_socket_is_a_crash_after_a_minute(client_of, tmp_path):
    # 2.4.2, which never says that it is alive, cannot be told from one that works on.
    async def go():
        async with hosting(client_of(NEW), tmp_path) as hosted:
            ending = await hosted.do("lose", 7, limit=1)
            assert ending.why == "crash"
            assert "its answer may be lost" in ending.message

    asyncio.run(go())


@pytest.mark.nightly
def test_the_original_runner_may_work_for_minutes_without_a_word(client_of, tmp_path):
    async def go():
        async with hosting(client_of("original"), tmp_path) as hosted:
            assert (await hosted.do("work", 90)).succeeded

    asyncio.run(go())
