"""The source of the snapshots of ``tarmac top``, and their recording, job map and alerts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tarmac.errors import RequestError
from tarmac.wording import in_lines

if TYPE_CHECKING:
    from tarmac.cli.watch_request import Watching
    from tarmac.monitor import Feed, Tap


def open_feed(asked: Watching) -> Feed:
    """Return the requested source of snapshots, with recording, job map and alerts.

    Raises:
        TarmacError: The source cannot be opened.
    """
    taps = _taps(asked)
    feed = _source(asked)
    if not taps:
        return feed
    from tarmac.monitor import TappedFeed

    # The screen shows warnings itself, and other output would spoil it.
    if asked.is_screen:
        return TappedFeed(feed, taps)
    return TappedFeed(
        feed, taps, tell=lambda text: click.echo(in_lines(f"warning: {text}"), err=True)
    )


def _source(asked: Watching) -> Feed:
    if asked.replay is not None:
        from tarmac.monitor import ReplayFeed

        speed = asked.speed or (1.0 if asked.is_screen else None)
        return ReplayFeed(asked.replay, speed=speed)
    if asked.is_of_hosts:
        from tarmac.monitor import HostsFeed

        return HostsFeed(
            _hosts(asked),
            command=(asked.host_command, *_filters(asked)),
            interval_s=asked.watch_s or asked.interval_s,
            is_patient=not asked.is_screen,
        )
    from tarmac.monitor import LocalFeed, WatchOptions

    return LocalFeed(
        WatchOptions(
            output=asked.output,
            gpu=asked.gpu or (),
            run=asked.run or (),
            user=asked.user or (),
            mine=asked.mine,
            pid=asked.pid or (),
            visible=asked.visible,
            idle_after_s=asked.idle_after_s,
            interval_s=asked.watch_s or asked.interval_s,
        )
    )


def _hosts(asked: Watching) -> tuple[str, ...]:
    from tarmac.monitor import ray_hosts, slurm_hosts

    candidates = [
        *(asked.hosts or ()),
        *(slurm_hosts() if asked.slurm else ()),
        *(ray_hosts() if asked.ray else ()),
    ]
    hosts = tuple(
        host for host in dict.fromkeys(candidates) if not asked.host or host.startswith(asked.host)
    )
    if not hosts:
        raise RequestError(
            f"there is no host to watch among {', '.join(candidates) or 'none'}",
            hint="--slurm names the nodes of jobs of yours that run: squeue --me",
        )
    return hosts


def _filters(asked: Watching) -> list[str]:
    """Return the options with which each host filters its own snapshots."""
    words = ["--idle-after", f"{asked.idle_after_s:g}"]
    for name, values in (
        ("--gpu", asked.gpu),
        ("--run", asked.run),
        ("--user", asked.user),
        ("--pid", asked.pid),
    ):
        if values:
            words += [name, ",".join(map(str, values))]
    words += [
        name for name, is_set in (("--mine", asked.mine), ("--visible", asked.visible)) if is_set
    ]
    return words if asked.output is None else [*words, "--output", str(asked.output)]


def _taps(asked: Watching) -> list[Tap]:
    taps: list[Tap] = []
    if asked.record is not None:
        from tarmac.monitor import Recorder

        taps.append(Recorder(asked.record))
    if asked.job_map is not None:
        from tarmac.monitor import JobMap

        taps.append(JobMap(asked.job_map))
    if asked.alerts:
        from tarmac.monitor import Alerts

        taps.append(Alerts(asked.alerts, idle_after_s=asked.idle_after_s))
    return taps
