"""One task in one instance: input, time limit, stop and ending."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
from pathlib import Path
from typing import Any

from tarmac.errors import TarmacError
from tarmac.files import storage_errors
from tarmac.hkube.hosting.instances import Instance, explain_end, first_of
from tarmac.hkube.hosting.interface import Calls, Ending, Watcher, Why, Work
from tarmac.hkube.hosting.processes import Processes
from tarmac.hkube.hosting.session import MAX_PAYLOAD_BYTES, Disconnected
from tarmac.hkube.hosting.timers import Timers
from tarmac.hkube.hosting.waiting import Entry
from tarmac.hkube.protocol import ProtocolError, load_value, read_made

# Time to read the messages that a process sent before it ended.
_DRAIN_S = 0.5

# HKube's message (core/worker/lib/consts/log-messages.js).
_OUT_OF_TIME = "Algorithm TTL expired"


async def connect(instance: Instance, timeout_s: float) -> tuple[Why, str, int | None] | None:
    """Wait until an instance is connected or must end.

    Returns:
        None if the instance is connected or must end; otherwise the reason, a message and its exit
        code.
    """
    connecting = asyncio.ensure_future(instance.session.connected(timeout_s))
    await first_of(connecting, instance.ended, instance.call)
    if connecting.done() and connecting.exception() is None:
        return None
    has_ended = instance.ended.done()
    error = await _given_up(connecting)
    if has_ended:
        why, message, code = explain_end(instance)
        if code == 0:
            message += (
                ". It never connected to its worker: where it is a program without HKube's "
                'wrapper, its definition says so: "options": {"tarmac": {"protocol": "plain"}}'
            )
        return why, message, code
    return None if error is None else ("crash", f"{error}", None)


async def do_by_session(
    instance: Instance,
    entry: Entry,
    *,
    watcher: Watcher,
    calls: Calls,
    processes: Processes,
    timers: Timers,
) -> tuple[Ending, bool]:
    """Run a task in an instance with HKube's protocol.

    Returns:
        The ending, and whether the instance can take another task.
    """
    work, session, loop = entry.work, instance.session, asyncio.get_running_loop()
    begun = loop.time()
    running = asyncio.ensure_future(session.run(work, watcher=watcher, calls=calls))
    until: float | None = work.ttl_s
    while True:
        await first_of(running, instance.ended, entry.future, timeout_s=until)
        if running.done() or instance.ended.done() or entry.future.done() or work.ttl_s is None:
            break
        # The time limit counts from `start`.
        since = session.started_at
        until = work.ttl_s if since is None else since + work.ttl_s - loop.time()
        if until <= 0:
            break
    if not running.done() and instance.ended.done():
        await first_of(running, timeout_s=_DRAIN_S)
    if running.done() or instance.ended.done():
        ending = await _judged(instance, running, work)
        is_usable = instance.is_usable
    else:
        why: Why = "stopped" if entry.future.done() else "ttl"
        has_stopped = await _stop(instance, running, timers)
        message = _OUT_OF_TIME if why == "ttl" else "it was stopped"
        if not has_stopped:
            message += f"; it did not stop within {timers.stop_s:g} s and was killed"
            processes.end(instance.attempt, message, 0.0)
        ending = Ending(work=work, why=why, message=message)
        is_usable = has_stopped and instance.is_usable
    seconds = ending.seconds or loop.time() - begun
    return dataclasses.replace(ending, attempts=entry.attempts, seconds=seconds), is_usable


async def do_by_program(
    instance: Instance, entry: Entry, *, processes: Processes, timers: Timers
) -> Ending:
    """Wait for the end of an instance that is a plain program, and read its result."""
    work, loop = entry.work, asyncio.get_running_loop()
    begun = loop.time()
    await first_of(instance.ended, entry.future, timeout_s=work.ttl_s)
    ending = Ending(work=work)
    if not instance.ended.done():
        why: Why = "stopped" if entry.future.done() else "ttl"
        message = _OUT_OF_TIME if why == "ttl" else "it was stopped"
        processes.end(instance.attempt, message, timers.stop_s)
        await instance.ended
        ending = Ending(work=work, why=why, message=message)
    elif instance.ended.result().outcome == "succeeded":
        ending = _with_result(instance, work)
    else:
        why, message, code = explain_end(instance)
        ending = Ending(work=work, why=why, message=message, exit_code=code)
    seconds = instance.ended.result().seconds or loop.time() - begun
    return dataclasses.replace(ending, attempts=entry.attempts, seconds=seconds)


async def end_instance(instance: Instance, processes: Processes, timers: Timers) -> None:
    """End an instance with ``exit``, SIGTERM, SIGKILL, and wait for its end."""
    if instance.place.session is not None:
        if instance.session.is_connected and not instance.ended.done():
            await instance.session.exit()
            # HKube's own runner ignores `exit` without an answer, so the wait is bounded.
            await first_of(instance.ended, timeout_s=timers.exit_s)
        instance.session.close()
    if not instance.ended.done():
        processes.end(instance.attempt, "it is no longer needed", timers.kill_s)
        await instance.ended


def write_input(path: Path, work: Work) -> None:
    """Write the input file of a plain program.

    Args:
        path: File to write, as JSON in UTF-8.
        work: Task whose ``input`` is written.

    Raises:
        StorageError: The file cannot be written.
        TarmacError: JSON cannot carry the input.
    """
    try:
        text = json.dumps(list(work.input), allow_nan=True)
    except (TypeError, ValueError) as error:
        raise TarmacError(
            f"its input cannot be written as JSON, which a plain algorithm reads: {error}"
        ) from error
    with storage_errors(path):
        path.write_text(text, encoding="utf-8")


def _with_result(instance: Instance, work: Work) -> Ending:
    path = instance.place.folders.result
    try:
        content = read_made(path.parent, [path.name], max_bytes=MAX_PAYLOAD_BYTES)
        return Ending(work=work, value=load_value(content, "json") if content.strip() else None)
    except FileNotFoundError:
        return Ending(work=work)
    except (OSError, ProtocolError) as error:
        reason = error.message if isinstance(error, ProtocolError) else error.strerror
        message = f"{path}: {reason}"
        return Ending(work=work, why="error", code="Failed", message=message)


async def _judged(instance: Instance, running: asyncio.Future[Ending], work: Work) -> Ending:
    """Return the ending of a task after its session or process has ended."""
    if not running.done():
        await _given_up(running)
    elif running.exception() is None:
        return running.result()
    error = None if running.cancelled() else running.exception()
    if error is not None and not isinstance(error, Disconnected):
        # An error of the host, such as a journal on a full disk.
        raise error
    if instance.ended.done():
        why, message, code = explain_end(instance)
        return Ending(work=work, why=why, message=message, exit_code=code)
    assert error is not None
    return Ending(work=work, why="crash", message=error.message)


async def _stop(instance: Instance, running: asyncio.Future[Ending], timers: Timers) -> bool:
    """Stop the task of an instance; return whether it has stopped."""
    stopping = asyncio.ensure_future(instance.session.stop(timers.stop_s))
    await first_of(stopping, instance.ended)
    has_stopped = stopping.done() and stopping.exception() is None and stopping.result()
    await _given_up(stopping)
    if has_stopped:
        # The session sets the ending in its next step.
        await first_of(running, timeout_s=_DRAIN_S)
    await _given_up(running)
    return bool(has_stopped)


async def _given_up(future: asyncio.Future[Any]) -> BaseException | None:
    """Cancel a future and wait for its end; return its exception, or None."""
    future.cancel()
    with contextlib.suppress(asyncio.CancelledError, TarmacError):
        await future
    return None if future.cancelled() else future.exception()
