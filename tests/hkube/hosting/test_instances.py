"""What an instance that did a task is to the next one."""

from __future__ import annotations

import asyncio
import os
import weakref
from pathlib import Path
from unittest import mock

import pytest
from pools import define, make

from tarmac.errors import TarmacError
from tarmac.hkube.hosting.instances import explain_end
from tarmac.jobs import LocalExecutor
from tarmac.tasks.model import Container
from waiting import wait_until_async


def test_what_an_idle_instance_says_wrong_is_not_the_next_tasks(host, told, tmp_path):
    asked, sign = tmp_path / "asked", tmp_path / "sign"
    os.mkfifo(asked)

    async def use(pool):
        await pool.submit(make("babble", str(asked), str(sign)))
        asked.write_bytes(b"")
        await wait_until_async(sign.exists, "the end of the connection")
        return await pool.submit(make("echo", 1, index=1, retry="Never"))

    assert host([define()], use).value == [1]
    assert [directory for _, _, directory, _ in told.of("started")] == ["000000-alg", "000001-alg"]


def test_a_task_that_an_instance_was_given_last_ends_with_the_run(host):
    async def use(pool):
        await pool.submit(make("echo"))
        late = pool.submit(make("echo", index=1))
        # It is given away, and the instance does not know yet.
        await asyncio.sleep(0)
        return late

    assert host([define()], use).cancelled()


def test_an_idle_instance_keeps_nothing_of_its_last_task(host):
    class Kept(dict):
        """A value that can be watched."""

    async def use(pool):
        value = Kept()
        kept = weakref.ref(value)
        future = pool.submit(make("echo", value))
        del value
        await future
        del future
        await asyncio.sleep(0)
        return kept()

    assert host([define()], use) is None


def test_an_error_of_the_executor_reaches_who_waits_for_a_task(host, told, monkeypatch):
    async def use(pool):
        task = pool.submit(make("wait"))
        await wait_until_async(lambda: told.of("started"), "the task")
        wait = LocalExecutor.wait

        def fail_once(*_):
            monkeypatch.setattr(LocalExecutor, "wait", wait)
            raise TarmacError("no space is left")

        monkeypatch.setattr(LocalExecutor, "wait", fail_once)
        return await asyncio.wait_for(task, 20)

    with pytest.raises(TarmacError, match="no space is left"):
        host([define()], use)


@pytest.mark.parametrize(
    ("how", "why", "words"),
    [
        ({"cause": "memory", "reason": "137"}, "memory", "out of memory, please specify higher"),
        (
            {"exit_code": 3, "reason": ""},
            "crash",
            "ended without a result: exit code 3; see /d/std",
        ),
        ({"exit_code": -9, "reason": "signal 9"}, "crash", "without a result: signal 9; see "),
        ({"exit_code": None, "reason": "no sh"}, "crash", "it could not be started: no sh"),
    ],
)
def test_what_the_end_of_a_process_is_to_its_task(how, why, words):
    assert explained(how, environment=None)[0] == why
    assert words in explained(how, environment=None)[1]


@pytest.mark.parametrize(("login", "why"), [(None, "crash"), (object(), "image")])
def test_an_image_behind_a_login_that_cannot_be_had_is_an_images_failure(login, why):
    container = Container.model_construct(image="registry.example/a", login=login)
    assert explained({"exit_code": None, "reason": "denied"}, environment=container)[0] == why


def explained(how, *, environment):
    """Return what an instance's end is said to be."""
    instance = mock.Mock()
    instance.place.folders.path = Path("/d")
    instance.attempt.task.environment = environment
    instance.ended.result.return_value = mock.Mock(**({"cause": None, "exit_code": 1} | how))
    return explain_end(instance)
