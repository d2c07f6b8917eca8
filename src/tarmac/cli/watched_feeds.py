"""The source of the snapshots of ``tarmac top``, and their recording, job map and alerts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tarmac.errors import RequestError
from tarmac.wording import in_lines

if TYPE_CHECKING:
    from tarmac.cli.watch_request import Watching
    from tarmac.monitor import Feed, Tap


def open_feed(request: Watching) -> Feed:
    """Return the requested source of snapshots, with recording, job map and alerts.

    Raises:
        TarmacError: The source cannot be opened.
    """
    taps = _taps(request)
    feed = _source(request)
    if not taps:
        return feed
    from tarmac.monitor import TappedFeed

    # The screen shows warnings itself, and other output would spoil it.
    if request.is_screen:
        return TappedFeed(feed, taps)
    return TappedFeed(
        feed, taps, tell=lambda text: click.echo(in_lines(f"warning: {text}"), err=True)
    )


def _source(request: Watching) -> Feed:
    if request.replay is not None:
        from tarmac.monitor import ReplayFeed

        speed = request.speed or (1.0 if request.is_screen else None)
        return ReplayFeed(request.replay, speed=speed)
    if request.is_of_hosts:
        from tarmac.monitor import HostsFeed

        return HostsFeed(
            _hosts(request),
            command=(request.host_command, *_filters(request)),
            interval_s=request.watch_s or request.interval_s,
            is_patient=not request.is_screen,
        )
    from tarmac.monitor import LocalFeed, WatchOptions

    return LocalFeed(
        WatchOptions(
            output=request.output,
            gpu=request.gpu or (),
            run=request.run or (),
            user=request.user or (),
            mine=request.mine,
            pid=request.pid or (),
            visible=request.visible,
            idle_after_s=request.idle_after_s,
            interval_s=request.watch_s or request.interval_s,
        )
    )


def _hosts(request: Watching) -> tuple[str, ...]:
    from tarmac.monitor import ray_hosts, slurm_hosts

    candidates = [
        *(request.hosts or ()),
        *(slurm_hosts() if request.slurm else ()),
        *(ray_hosts() if request.ray else ()),
    ]
    hosts = tuple(
        host
        for host in dict.fromkeys(candidates)
        if not request.host or host.startswith(request.host)
    )
    if not hosts:
        raise RequestError(
            f"there is no host to watch among {', '.join(candidates) or 'none'}",
            hint="--slurm watches the nodes of your running jobs; list them: squeue --me",
        )
    return hosts


def _filters(request: Watching) -> list[str]:
    """Return the options with which each host filters its own snapshots."""
    words = ["--idle-after", f"{request.idle_after_s:g}"]
    for name, values in (
        ("--gpu", request.gpu),
        ("--run", request.run),
        ("--user", request.user),
        ("--pid", request.pid),
    ):
        if values:
            words += [name, ",".join(map(str, values))]
    words += [
        name
        for name, is_set in (("--mine", request.mine), ("--visible", request.visible))
        if is_set
    ]
    return words if request.output is None else [*words, "--output", str(request.output)]


def _taps(request: Watching) -> list[Tap]:
    taps: list[Tap] = []
    if request.record is not None:
        from tarmac.monitor import Recorder

        taps.append(Recorder(request.record))
    if request.job_map is not None:
        from tarmac.monitor import JobMap

        taps.append(JobMap(request.job_map))
    if request.alerts:
        from tarmac.monitor import Alerts

        taps.append(Alerts(request.alerts, idle_after_s=request.idle_after_s))
    return taps
