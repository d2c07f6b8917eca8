"""A run's host of algorithms, with real processes and sockets."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from pools import IMPATIENT, define, each, make

from tarmac.errors import TarmacError
from tarmac.hkube.hosting.interface import Ending
from tarmac.hkube.hosting.pool import refuse
from tarmac.jobs import DEFAULT_REQUEST, Secret
from waiting import wait_until_async


def test_a_task_is_done_by_an_instance_and_its_result_comes_back(host, told, tmp_path):
    (ending,) = host([define()], each(make("echo", {"a": [1, None, "ü"]})))
    assert ending.succeeded, ending
    assert (ending.value, ending.attempts) == ([{"a": [1, None, "ü"]}], 1)
    assert 0 < ending.seconds < 60
    assert told.of("started") == [("task[0]", 1, "000000-alg", ())]
    assert (tmp_path / "instances/000000-alg/stdout").read_text() == "ready\n"


def test_an_instance_is_used_again_and_ended_with_the_run(host):
    async def use(pool):
        first = await pool.submit(make("who", 1))
        second = await pool.submit(make("who", 2, index=1))
        return first.value, second.value

    first, second = host([define()], use)
    assert first["pid"] == second["pid"]
    assert not Path(f"/proc/{first['pid']}").exists()


def test_an_algorithm_finds_what_hkube_injects(host):
    algorithm = define(
        entryPoint="main.py",
        mem="1000Mi",
        algorithmEnv={"MINE": 1, "WORKER_ALGORITHM_ENCODING": "json", "WORKER_SOCKET_PORT": "1"},
    )
    (ending,) = host([algorithm], each(make("environment")))
    seen = ending.value
    expected = {
        "ALGORITHM_TYPE": "alg",
        "ALGORITHM_ENTRY_POINT": "main.py",
        "MINE": "1",
        "WORKER_ALGORITHM_ENCODING": "json",
        "DISCOVERY_MAX_CACHE_SIZE": "200",
        "DISCOVERY_ENABLE": "false",
        "DEFAULT_STORAGE": "fs",
        "STORAGE_ENCODING": "msgpack",
        "WORKER_SOCKET_PROTOCOL": "ws",
    }
    assert {name: seen.get(name) for name in expected} == expected
    assert "WORKER_SOCKET_URL" not in seen
    assert Path(seen["ALGO_METRICS_DIR"]).is_dir()
    assert Path(seen["BASE_FS_ADAPTER_DIRECTORY"]).is_dir()


def test_a_secret_reaches_its_algorithm_and_no_file(host, tmp_path, monkeypatch):
    monkeypatch.setenv("VAULT", "hunter2hunter2")
    reference = {"secretKeyRef": {"name": "s3", "key": "k"}}
    mapping = {"s3/k": Secret(env="VAULT")}
    algorithm = define(algorithmEnv={"TOKEN": reference})
    (ending,) = host([algorithm], each(make("environment")), secrets=mapping)
    assert ending.value["TOKEN"] == "hunter2hunter2"
    files = (path for path in tmp_path.rglob("*") if path.is_file())
    assert not [path for path in files if b"hunter2" in path.read_bytes()]


def test_a_missing_secret_refuses_its_algorithms_tasks_by_name(host):
    reference = {"secretKeyRef": {"name": "s3", "key": "k"}}
    algorithm = define(algorithmEnv={"TOKEN": reference})
    (ending,) = host([algorithm], each(make("echo")))
    assert (ending.why, ending.attempts) == ("refused", 0)
    assert "TOKEN" in ending.message
    assert "s3/k" in ending.message


def test_an_error_is_the_algorithms_own_word_and_its_instance_goes_on(host, told):
    async def use(pool):
        failed = await pool.submit(make("error", "no such file"))
        again = await pool.submit(make("echo", 1, index=1))
        return failed, again

    failed, again = host([define()], use)
    assert (failed.why, failed.message, failed.code) == ("error", "no such file", "Failed")
    assert again.value == [1]
    assert [directory for _, _, directory, _ in told.of("started")] == ["000000-alg"] * 2


@pytest.mark.parametrize(
    ("what", "code", "words"),
    [
        (("leave", 3), 3, "exit code 3"),
        (("leave", 0), 0, "exit code 0"),
        (("die", "SIGSEGV"), -11, "signal 11"),
    ],
)
def test_a_process_that_ends_without_a_result_has_crashed_whatever_its_exit_code(
    host, what, code, words
):
    (ending,) = host([define()], each(make(*what, retry="Never")))
    assert (ending.why, ending.exit_code, ending.attempts) == ("crash", code, 1)
    assert words in ending.message


@pytest.mark.parametrize(
    ("policy", "failure", "num_attempts"),
    [
        ("Never", ("leave", 1), 1),
        ("OnCrash", ("leave", 1), 2),
        ("OnError", ("leave", 1), 1),
        ("Always", ("leave", 1), 2),
        ("Never", ("error", "bad"), 1),
        ("OnCrash", ("error", "bad"), 1),
        ("OnError", ("error", "bad"), 2),
        ("Always", ("error", "bad"), 2),
    ],
)
def test_what_fails_is_tried_again_as_its_policy_says(
    host, tmp_path, policy, failure, num_attempts
):
    work = make("fail_once", str(tmp_path / "sign"), [*failure], retry=policy)
    (ending,) = host([define()], each(work))
    assert ending.attempts == num_attempts
    assert ending.succeeded == (num_attempts == 2)


def test_attempts_are_limited_in_all(host, told):
    (ending,) = host([define()], each(make("leave", 1, limit=3)))
    assert (ending.why, ending.attempts) == ("crash", 3)
    assert len(told.of("retrying")) == 2
    assert [attempt for _, attempt, _, _ in told.of("started")] == [1, 2, 3]


def test_more_memory_than_asked_for_is_named_in_hkubes_words(host):
    algorithm = define(mem="64Mi")
    (ending,) = host([algorithm], each(make("eat", 2**28, retry="Never")))
    assert ending.why == "memory"
    assert "please specify higher memory value" in ending.message
    assert "64 MiB" in ending.message


def test_a_task_out_of_time_is_stopped_and_the_next_has_a_fresh_instance(host, told):
    async def use(pool):
        late = await pool.submit(make("wait", ttl_s=0.2))
        return late, await pool.submit(make("echo", 1, index=1))

    late, again = host([define()], use)
    assert (late.why, late.message, late.attempts) == ("ttl", "Algorithm TTL expired", 1)
    assert again.succeeded
    assert [directory for _, _, directory, _ in told.of("started")] == ["000000-alg", "000001-alg"]


def test_an_algorithm_that_ignores_stop_is_killed(host, told):
    async def use(pool):
        late = await pool.submit(make("deaf", ttl_s=0.2))
        return late, await pool.submit(make("echo", 1, index=1))

    late, again = host([define()], use, timers=IMPATIENT)
    assert late.why == "ttl"
    assert "did not stop within 0.2 s and was killed" in late.message
    assert again.succeeded
    assert [directory for _, _, directory, _ in told.of("started")] == ["000000-alg", "000001-alg"]


def test_a_cancelled_task_is_stopped_and_a_waiting_one_never_starts(host, told):
    async def use(pool):
        first = pool.submit(make("wait"))
        second = pool.submit(make("echo", index=1))
        await wait_until_async(lambda: told.of("started"), "the first task")
        second.cancel()
        first.cancel()
        return await pool.submit(make("echo", 1, index=2))

    ending = host([define(maxWorkers=1)], use)
    assert ending.succeeded
    assert [name for name, *_ in told.of("started")] == ["task[0]", "task[2]"]


def test_no_more_instances_than_max_workers(host, told):
    async def use(pool):
        first = pool.submit(make("wait"))
        others = [pool.submit(make("who", n, index=n)) for n in range(1, 6)]
        await wait_until_async(lambda: told.of("waiting"), "a task that waits")
        first.cancel()
        return await asyncio.gather(*others)

    endings = host([define(maxWorkers=1)], use)
    assert len({ending.value["pid"] for ending in endings}) == 1
    (first, reason), *later = told.of("waiting")
    assert (first, reason) == ("task[1]", "1 of 1 instances are at work (maxWorkers)")
    # Each instance that begins may leave another task first in line, which is told then.
    assert {why for _, why in later} <= {reason}
    assert len(later) <= 1


def test_hot_workers_are_there_before_their_tasks(host, tmp_path):
    async def use(pool):
        await pool.submit(make("echo"))
        logs = tmp_path.glob
        await wait_until_async(lambda: len([*logs("instances/*/stdout")]) == 2, "both instances")
        return True

    assert host([define(minHotWorkers=2)], use)


def test_priorities_go_first(host, told):
    order = []

    async def use(pool):
        first = pool.submit(make("wait", index=0))
        await wait_until_async(lambda: told.of("started"), "the first task")
        later = [
            pool.submit(make("echo", index=number, priority=priority))
            for number, priority in enumerate((1, 3, 5, 3), start=1)
        ]
        for future in later:
            future.add_done_callback(lambda done: order.append(done.result().work.index))
        first.cancel()
        await asyncio.gather(*later)

    host([define(maxWorkers=1)], use)
    assert order == [3, 2, 4, 1]


def test_an_idle_instance_gives_way_to_another_algorithm(host, told):
    cores = max(1, len(os.sched_getaffinity(0)))
    algorithms = [define("one", cpu=cores), define("two", cpu=cores)]

    async def use(pool):
        one = await pool.submit(make("who", 1, algorithm="one"))
        two = await pool.submit(make("who", 2, algorithm="two", index=1))
        return one, two

    one, two = host(algorithms, use)
    assert one.succeeded
    assert two.succeeded
    ((name, reason),) = told.of("waiting")
    assert name == "task[1]"
    cpus = "CPU is" if cores == 1 else "CPUs are"
    assert reason == f"{cores} of {cores} {cpus} in use, it needs {cores}"


def test_what_waits_for_gpus_says_how_many_there_are(host, told):
    async def use(pool):
        first = pool.submit(make("wait", algorithm="alg"))
        second = pool.submit(make("echo", algorithm="other", index=1))
        await wait_until_async(lambda: told.of("waiting") and told.of("started"), "both tasks")
        without = await pool.submit(make("echo", algorithm="none", index=2))
        first.cancel()
        return without, await second

    algorithms = [define(gpu=2), define("other", gpu=1), define("none")]
    without, second = host(algorithms, use, fake_gpus=2)
    assert without.succeeded
    assert second.succeeded
    assert told.of("waiting") == [("task[1]", "2 of 2 GPUs are in use, it needs 1")]
    assert told.of("started")[0][3] == ("FAKE-0", "FAKE-1")


def test_what_can_never_fit_is_refused_with_numbers(host, tmp_path):
    greedy = define(cpu=100000)
    (ending,) = host([greedy], each(make("echo")))
    assert ending.why == "refused"
    assert "100,000 CPUs" in ending.message
    with pytest.raises(TarmacError, match="100,000 CPUs"):
        refuse({"alg": greedy}, tmp_path, DEFAULT_REQUEST)


def test_an_unknown_algorithm_is_refused_by_its_name(host):
    (ending,) = host([define()], each(make("echo", algorithm="other")))
    assert ending.why == "refused"
    assert "Algorithm named 'other' does not exist" in ending.message


def test_an_algorithm_starts_another_and_gets_its_result(host):
    work = make("call", "child", ["echo", 7])
    (ending,) = host([define(), define("child")], each(work))
    assert ending.value == {"child": [7]}


def test_a_child_that_never_fits_beside_its_caller_is_refused(host):
    cores = max(1, len(os.sched_getaffinity(0)))
    algorithms = [define(cpu=cores), define("child", cpu=cores)]
    (ending,) = host(algorithms, each(make("call", "child", ["echo", 7])))
    assert ending.why == "error"
    assert "beside task[0], which started it" in ending.message


def test_callers_that_hold_all_room_do_not_wait_for_each_other_for_ever(host, tmp_path):
    cores = len(os.sched_getaffinity(0))
    algorithms = [define(cpu=cores / 2), define("child", cpu=cores / 2)]
    signs = [str(tmp_path / "first"), str(tmp_path / "second")]
    for sign in signs:
        os.mkfifo(sign)
    works = [
        make("call_together", *signs, "child", ["echo", 0]),
        make("call_together", *reversed(signs), "child", ["echo", 1], index=1),
    ]
    endings = host(algorithms, each(*works))
    assert sorted(ending.why for ending in endings) == ["", "error"]
    (failed,) = [ending for ending in endings if ending.why]
    assert "tasks that wait for tasks they have started: task[0], task[1]" in failed.message


def test_a_caller_at_the_limit_of_concurrency_gets_its_child(host):
    work = make("call", "child", ["echo", 7])
    (ending,) = host([define(), define("child")], each(work), concurrency=1)
    assert ending.value == {"child": [7]}


def test_an_algorithm_that_waits_for_itself_at_its_most_is_told_so(host):
    (ending,) = host([define(maxWorkers=1)], each(make("call", "alg", ["echo", 7])))
    assert ending.why == "error"
    assert "1 of 1 instances are at work (maxWorkers)" in ending.message
    assert "task[0]" in ending.message


def test_an_error_of_a_watchers_reaches_who_waits_for_the_task(host, told, monkeypatch):
    def full(*_):
        raise TarmacError("no space is left")

    monkeypatch.setattr(told, "started", full)
    with pytest.raises(TarmacError, match="no space is left"):
        host([define()], each(make("echo")))


def test_concurrency_is_a_limit_on_tasks_at_once(host, told):
    async def use(pool):
        first = pool.submit(make("wait"))
        await wait_until_async(lambda: told.of("started"), "the first task")
        second = pool.submit(make("echo", index=1, algorithm="other"))
        await asyncio.sleep(0)
        first.cancel()
        return await second

    assert host([define(), define("other")], use, concurrency=1).succeeded
    assert [name for name, *_ in told.of("started")] == ["task[0]", "task[1]"]


def test_a_program_that_is_not_there_is_said_and_charged(host):
    algorithm = define(command=["no-such-program"])
    (ending,) = host([algorithm], each(make("echo", limit=2)))
    assert (ending.why, ending.attempts) == ("crash", 2)
    assert "no-such-program: No such file or directory" in ending.message


def test_a_program_that_never_connects_is_told_of_plain_algorithms(host):
    algorithm = define(command=["true"])
    (ending,) = host([algorithm], each(make("echo", limit=1)))
    assert ending.why == "crash"
    assert '"protocol": "plain"' in ending.message


def test_a_program_that_does_not_connect_in_time_is_ended(host):
    algorithm = define(
        command=["sleep", "600"], workerEnv={"ALGORITHM_DISCONNECTED_TIMEOUT_MS": 200}
    )
    (ending,) = host([algorithm], each(make("echo", limit=1)), timers=IMPATIENT)
    assert ending.why == "crash"
    assert "has not connected within 0.2 s" in ending.message


def test_leaving_the_pool_ends_what_is_at_work(host, told):
    async def use(pool):
        works = pool.submit(make("deaf")), pool.submit(make("echo", index=1))
        await wait_until_async(lambda: told.of("started"), "the first task")
        return works

    first, second = host([define(maxWorkers=1)], use, timers=IMPATIENT)
    assert first.cancelled()
    assert (second.result().why, second.result().message) == ("stopped", "the run has ended")


def test_nothing_is_left_of_a_run(host, trace):
    host([define()], each(*(make("echo", n, index=n) for n in range(3))))
    assert not trace.processes()


def test_an_ending_without_reason_has_succeeded():
    assert Ending(work=make("echo")).succeeded
