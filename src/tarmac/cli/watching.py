"""Output of the snapshots of ``tarmac top``: shown, printed or served."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import click

from tarmac.cli.watched_feeds import open_feed
from tarmac.errors import Interrupted, RequestError
from tarmac.wording import in_one_line

if TYPE_CHECKING:
    from tarmac.cli.watch_request import Watching
    from tarmac.monitor import Feed, Snapshot

# Width of a table in a file or a pipe.
_WIDTH = 120


def watch(ctx: click.Context, request: Watching) -> int:
    """Watch as the options ask, and return the exit code.

    Raises:
        RequestError: Options exclude each other.
        Interrupted: SIGTERM or SIGHUP arrived.
    """
    _refuse(request)
    if request.web is not None:
        from tarmac.monitor import serve_in_browser

        serve_in_browser(_arguments(ctx, without=("web",)), port=request.web)
        return 0
    with _ended_by_signals(), contextlib.closing(open_feed(request)) as feed:
        if request.serve is not None:
            return _serve(request, request.serve, feed)
        if request.is_screen:
            return _show(request, feed)
        if request.is_kept and not (request.once or request.as_json or request.as_csv):
            return _print_all(request, feed, lambda _: "")
        return _print(request, feed)


def _refuse(request: Watching) -> None:
    forms = {
        # --json and --csv also print one snapshot, unless --watch is given.
        "--once": request.once and not (request.as_json or request.as_csv),
        "--json": request.as_json,
        "--csv": request.as_csv,
        "--serve": request.serve is not None,
        "--web": request.web is not None,
    }
    names = [name for name, is_given in forms.items() if is_given]
    if len(names) > 1:
        raise RequestError(f"{names[0]} and {names[1]} exclude each other")
    if request.is_repeated and not (request.once or request.as_json or request.as_csv):
        raise RequestError("--watch is for --once, --json and --csv; the screen has --interval")
    if request.dcgm_names and request.serve is None:
        raise RequestError("--dcgm-names is for --serve")
    if request.host and not request.is_of_hosts:
        raise RequestError(
            "--host is for several machines: --hosts, --slurm or --ray",
            hint="To watch one other machine: tarmac top --hosts NAME",
        )
    if request.replay is None and request.speed is not None:
        raise RequestError("--speed is for --replay")
    if request.speed is not None and not request.speed > 0:
        raise RequestError(f"--speed is {request.speed:g}, expected more than 0")
    if request.replay is not None:
        _refuse_beside_replay(request)
    if request.fail_idle and (
        request.serve is not None or request.web is not None or request.is_screen
    ):
        raise RequestError(
            "--fail-idle is for --once, --json and --csv",
            hint="--serve has tarmac_gpu_held_idle_seconds, and --on idle runs a command.",
        )
    if request.web is not None and request.is_kept:
        raise RequestError(
            "--record, --job-map and --on do not go with --web: each page is a separate tarmac top",
            hint="Start another one for them, without --web.",
        )


def _refuse_beside_replay(request: Watching) -> None:
    live = {
        "--record": request.record,
        "--hosts": request.hosts,
        "--slurm": request.slurm,
        "--ray": request.ray,
        "--job-map": request.job_map,
        "--gpu": request.gpu,
        "--run": request.run,
        "--user": request.user,
        "--mine": request.mine,
        "--pid": request.pid,
        "--visible": request.visible,
    }
    for name, is_given in live.items():
        if is_given:
            raise RequestError(f"{name} needs live data, but --replay shows a recording")


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Raise an exception on SIGTERM and SIGHUP, as on Ctrl-C, so that resources are released."""

    def end(number: int, _frame: object) -> None:
        raise Interrupted(f"ended by {signal.Signals(number).name}")

    names = (signal.SIGTERM, signal.SIGHUP)
    before = {name: signal.signal(name, end) for name in names}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


def _show(request: Watching, feed: Feed) -> int:
    from tarmac.monitor import ScreenOptions, run_screen

    # On another machine or in a recording, equal numbers and names are other processes and files.
    elsewhere = "it is on another machine" if request.is_of_hosts else ""
    if request.replay is not None:
        elsewhere = "it is of a recording"
    is_forbidden = os.environ.get("TARMAC_TOP_READONLY", "") not in ("", "0")
    options = ScreenOptions(
        interval_s=request.interval_s,
        idle_after_s=request.idle_after_s,
        elsewhere=elsewhere,
        readonly=request.readonly or bool(elsewhere) or is_forbidden,
        light=request.light,
        ascii_only=request.ascii_only,
    )
    run_screen(feed, options)
    return 0


def _serve(request: Watching, address: str, feed: Feed) -> int:
    from tarmac.monitor import MetricsAddress, serve_metrics

    where = MetricsAddress.read(address)
    if where.is_open:
        click.echo(
            "warning: other machines can read this: names of users, runs and hosts", err=True
        )
    serve_metrics(
        feed,
        where,
        with_dcgm_names=request.dcgm_names,
        tell=lambda place: click.echo(f"Serving metrics at {place}", err=True),
    )
    return 0


def _print(request: Watching, feed: Feed) -> int:
    if request.as_csv:
        from tarmac.monitor import csv_header, csv_rows

        click.echo(csv_header(), nl=False)
        return _print_all(request, feed, csv_rows)
    if request.as_json:
        from tarmac.monitor import to_json, to_line

        if request.is_repeated:
            return _print_all(request, feed, lambda snapshot: f"{to_line(snapshot)}\n")
        return _print_all(
            request, feed, lambda snapshot: f"{json.dumps(to_json(snapshot), indent=2)}\n"
        )
    return _print_all(request, feed, lambda snapshot: _table(snapshot, request.idle_after_s))


def _table(snapshot: Snapshot, idle_after_s: float) -> str:
    from tarmac.monitor import render_once

    width = shutil.get_terminal_size((_WIDTH, 24)).columns
    has_color = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    return render_once(
        snapshot,
        width,
        color=has_color and os.environ.get("TERM") != "dumb",
        encoding=sys.stdout.encoding or "ascii",
        idle_after_s=idle_after_s,
    )


def _print_all(request: Watching, feed: Feed, render: Callable[[Snapshot], str]) -> int:
    """Print one snapshot, or all of them.

    Returns:
        The exit code: 1 if an output such as a recording failed, or by --fail-idle; else 0.
    """
    from tarmac.monitor import TappedFeed

    is_printed = request.once or request.as_json or request.as_csv
    is_repeated = request.is_repeated or (request.is_kept and not is_printed)
    last: Snapshot | None = None
    while True:
        try:
            snapshot = feed.next()
        except StopIteration:
            break
        last = snapshot
        if is_repeated:
            click.echo(render(snapshot), nl=False)
            sys.stdout.flush()
            if request.fail_idle and _is_idle(snapshot, request.idle_after_s):
                return 1
        elif request.replay is None:
            break
    if last is not None and not is_repeated:
        click.echo(render(last), nl=False)
    if isinstance(feed, TappedFeed) and feed.has_failed:
        return 1
    if not request.fail_idle:
        return 0
    return int(last is None or _is_silent(last) or _is_idle(last, request.idle_after_s))


def _is_silent(snapshot: Snapshot) -> bool:
    """Return whether a machine does not answer, and print so: its GPUs may be idle or not."""
    silent = [host for host in snapshot.hosts if host.problem]
    for host in silent:
        problem = f"cannot tell whether a GPU of {host.host.name} is idle: {host.problem}"
        click.echo(in_one_line(f"error: {problem}"), err=True)
    return bool(silent)


def _is_idle(snapshot: Snapshot, idle_after_s: float) -> bool:
    from tarmac.monitor import idle_ones

    return bool(idle_ones(snapshot, idle_after_s))


def _arguments(ctx: click.Context, *, without: tuple[str, ...]) -> list[str]:
    """Return the options on the command line as words, for another `top`."""
    words: list[str] = []
    for parameter in ctx.command.params:
        name = parameter.name or ""
        source = ctx.get_parameter_source(name)
        if name in without or source is not click.core.ParameterSource.COMMANDLINE:
            continue
        value = ctx.params[name]
        option = max(parameter.opts, key=len)
        if value is True:
            words.append(option)
        else:
            words += [option, ",".join(map(str, value)) if isinstance(value, tuple) else str(value)]
    return words
