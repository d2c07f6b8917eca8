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


def watch(ctx: click.Context, asked: Watching) -> int:
    """Watch as the options ask, and return the exit code.

    Raises:
        RequestError: Options exclude each other.
        Interrupted: SIGTERM or SIGHUP arrived.
    """
    _refuse(asked)
    if asked.web is not None:
        from tarmac.monitor import serve_in_browser

        serve_in_browser(_arguments(ctx, without=("web",)), port=asked.web)
        return 0
    with _ended_by_signals(), contextlib.closing(open_feed(asked)) as feed:
        if asked.serve is not None:
            return _serve(asked, asked.serve, feed)
        if asked.is_screen:
            return _show(asked, feed)
        if asked.is_kept and not (asked.once or asked.as_json or asked.as_csv):
            return _print_all(asked, feed, lambda _: "")
        return _print(asked, feed)


def _refuse(asked: Watching) -> None:
    forms = {
        # --json and --csv also print one snapshot, unless --watch is given.
        "--once": asked.once and not (asked.as_json or asked.as_csv),
        "--json": asked.as_json,
        "--csv": asked.as_csv,
        "--serve": asked.serve is not None,
        "--web": asked.web is not None,
    }
    names = [name for name, is_given in forms.items() if is_given]
    if len(names) > 1:
        raise RequestError(f"{names[0]} and {names[1]} exclude each other")
    if asked.is_repeated and not (asked.once or asked.as_json or asked.as_csv):
        raise RequestError("--watch is for --once, --json and --csv; the screen has --interval")
    if asked.dcgm_names and asked.serve is None:
        raise RequestError("--dcgm-names is for --serve")
    if asked.host and not asked.is_of_hosts:
        raise RequestError(
            "--host is for several machines: --hosts, --slurm or --ray",
            hint="To watch one other machine: tarmac top --hosts NAME",
        )
    if asked.replay is None and asked.speed is not None:
        raise RequestError("--speed is for --replay")
    if asked.speed is not None and not asked.speed > 0:
        raise RequestError(f"--speed is {asked.speed:g}, expected more than 0")
    if asked.replay is not None:
        _refuse_beside_replay(asked)
    if asked.fail_idle and (asked.serve is not None or asked.web is not None or asked.is_screen):
        raise RequestError(
            "--fail-idle is for --once, --json and --csv",
            hint="--serve has tarmac_gpu_held_idle_seconds, and --on idle runs a command.",
        )
    if asked.web is not None and asked.is_kept:
        raise RequestError(
            "--record, --job-map and --on are not for --web: each page is a top of its own",
            hint="Start another one for them, without --web.",
        )


def _refuse_beside_replay(asked: Watching) -> None:
    live = {
        "--record": asked.record,
        "--hosts": asked.hosts,
        "--slurm": asked.slurm,
        "--ray": asked.ray,
        "--job-map": asked.job_map,
        "--gpu": asked.gpu,
        "--run": asked.run,
        "--user": asked.user,
        "--mine": asked.mine,
        "--pid": asked.pid,
        "--visible": asked.visible,
    }
    for name, is_given in live.items():
        if is_given:
            raise RequestError(f"{name} is for what is there now, and --replay shows what was")


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


def _show(asked: Watching, feed: Feed) -> int:
    from tarmac.monitor import ScreenOptions, run_screen

    # On another machine or in a recording, equal numbers and names are other processes and files.
    elsewhere = "it is on another machine" if asked.is_of_hosts else ""
    if asked.replay is not None:
        elsewhere = "it is of a recording"
    is_forbidden = os.environ.get("TARMAC_TOP_READONLY", "") not in ("", "0")
    options = ScreenOptions(
        interval_s=asked.interval_s,
        idle_after_s=asked.idle_after_s,
        elsewhere=elsewhere,
        readonly=asked.readonly or bool(elsewhere) or is_forbidden,
        light=asked.light,
        ascii_only=asked.ascii_only,
    )
    run_screen(feed, options)
    return 0


def _serve(asked: Watching, address: str, feed: Feed) -> int:
    from tarmac.monitor import MetricsAddress, serve_metrics

    where = MetricsAddress.read(address)
    if where.is_open:
        click.echo(
            "warning: other machines can read this: names of users, runs and hosts", err=True
        )
    serve_metrics(
        feed,
        where,
        with_dcgm_names=asked.dcgm_names,
        tell=lambda place: click.echo(f"Serving metrics at {place}", err=True),
    )
    return 0


def _print(asked: Watching, feed: Feed) -> int:
    if asked.as_csv:
        from tarmac.monitor import csv_header, csv_rows

        click.echo(csv_header(), nl=False)
        return _print_all(asked, feed, csv_rows)
    if asked.as_json:
        from tarmac.monitor import to_json, to_line

        if asked.is_repeated:
            return _print_all(asked, feed, lambda snapshot: f"{to_line(snapshot)}\n")
        return _print_all(
            asked, feed, lambda snapshot: f"{json.dumps(to_json(snapshot), indent=2)}\n"
        )
    return _print_all(asked, feed, lambda snapshot: _table(snapshot, asked.idle_after_s))


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


def _print_all(asked: Watching, feed: Feed, render: Callable[[Snapshot], str]) -> int:
    """Print one snapshot, or all of them.

    Returns:
        The exit code: 1 if an output such as a recording failed, or by --fail-idle; else 0.
    """
    from tarmac.monitor import TappedFeed

    is_printed = asked.once or asked.as_json or asked.as_csv
    is_repeated = asked.is_repeated or (asked.is_kept and not is_printed)
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
            if asked.fail_idle and _is_idle(snapshot, asked.idle_after_s):
                return 1
        elif asked.replay is None:
            break
    if last is not None and not is_repeated:
        click.echo(render(last), nl=False)
    if isinstance(feed, TappedFeed) and feed.has_failed:
        return 1
    if not asked.fail_idle:
        return 0
    return int(last is None or _is_silent(last) or _is_idle(last, asked.idle_after_s))


def _is_silent(snapshot: Snapshot) -> bool:
    """Return whether a machine does not answer, and print so: its GPUs may be idle or not."""
    silent = [host for host in snapshot.hosts if host.problem]
    for host in silent:
        problem = f"whether a GPU of {host.host.name} is idle is not known: {host.problem}"
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
