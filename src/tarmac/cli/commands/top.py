"""``tarmac top``: parse, call, render."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import cloup

from tarmac.cli.choices import EVENTS, Choice
from tarmac.cli.options import Filename, examples, json_option, option, output_option

# Default address of `--serve`.
METRICS_ADDRESS = "127.0.0.1:9407"


class Seconds(click.ParamType):  # type: ignore[type-arg]
    """A duration: seconds, or a time as in job files, such as 10m."""

    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the seconds, which are more than 0."""
        try:
            seconds = float(value)
        except ValueError:
            # Imported here: the import costs more than the rest of a snapshot, and few people
            # write times with units.
            from tarmac.documents import parse_seconds

            try:
                seconds = parse_seconds(value)
            except ValueError as error:
                self.fail(f"{value!r}: {error}", param, ctx)
        if not 0 < seconds < 2**40:
            self.fail(f"{value!r}: expected more than 0 seconds", param, ctx)
        return seconds


class Names(click.ParamType):  # type: ignore[type-arg]
    """Names separated by commas."""

    name = "names"

    def convert(
        self,
        value: Any,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> tuple[str, ...]:
        """Return the names."""
        names = tuple(name.strip() for name in value.split(",") if name.strip())
        if not names:
            self.fail("no name is given", param, ctx)
        return names


class Numbers(click.ParamType):  # type: ignore[type-arg]
    """Whole numbers separated by commas."""

    name = "numbers"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """Return the numbers."""
        try:
            return tuple(int(name) for name in value.split(","))
        except ValueError:
            self.fail(f"{value!r}: expected numbers with commas between them", param, ctx)


@cloup.command(
    "top",
    epilog=examples(
        "tarmac top",
        "tarmac top --once",
        "tarmac top --json | jq '.hosts[].work[] | {id, epoch, eta_s}'",
        "tarmac top --mine --gpu 0,1",
        "tarmac top --csv --watch 10 > gpus.csv",
        "tarmac top --record night.jsonl",
        "tarmac top --replay night.jsonl --speed 60",
        "tarmac top --hosts gpu01,gpu02",
        "tarmac top --slurm",
        "tarmac top --serve",
        "tarmac top --on idle 'mail -s idle me@example.org'",
        "tarmac top --once --fail-idle",
    ),
)
@cloup.option_group(
    "What is shown",
    option(
        "--gpu", type=Names(), metavar="GPU,...", help="Show only these GPUs, by index or UUID."
    ),
    option("--run", type=Names(), metavar="RUN,...", help="Show only these runs and their GPUs."),
    option(
        "--user", type=Names(), metavar="USER,...", help="Show only the processes of these users."
    ),
    option(
        "--host",
        type=Names(),
        metavar="HOST,...",
        help="Show only hosts with names that start with this prefix.",
    ),
    option("--mine", is_flag=True, help="Show only your own processes."),
    option(
        "--pid", type=Numbers(), metavar="PID,...", help="Show only these processes and their runs."
    ),
    option("--visible", is_flag=True, help="Show only the GPUs that CUDA_VISIBLE_DEVICES names."),
    option(
        "--idle-after",
        "idle_after_s",
        type=Seconds(),
        metavar="TIME",
        default=600.0,
        show_default="10m",
        help="How long an allocated GPU may do nothing before it counts as idle.",
    ),
    output_option("Directory of the runs; runs of processes on this machine are found anywhere."),
)
@cloup.option_group(
    "How",
    option(
        "--once",
        is_flag=True,
        help="Print a table once; the default if the output is not a terminal.",
    ),
    json_option(
        "Print JSON, a line of it for each time with --watch; its schema: tarmac schema top."
    ),
    option("--csv", "as_csv", is_flag=True, help="Print CSV, a line per GPU."),
    option(
        "--watch",
        "watch_s",
        type=Seconds(),
        metavar="TIME",
        help="With --json, --csv or --once: print again at this interval.",
    ),
    option(
        "--interval",
        "interval_s",
        type=Seconds(),
        metavar="TIME",
        default=1.0,
        show_default="1s",
        help="Interval of the readings for the screen, --serve and the other outputs.",
    ),
    option(
        "--readonly",
        is_flag=True,
        help="Do not let the screen stop anything; TARMAC_TOP_READONLY=1 does the same.",
    ),
    option("--light", is_flag=True, help="Use dark colours on a light background."),
    option("--ascii", "ascii_only", is_flag=True, help="Draw with ASCII characters only."),
    option(
        "--web",
        is_flag=False,
        flag_value=0,
        type=int,
        metavar="[PORT]",
        help="Serve the screen to browsers on this machine.",
    ),
)
@cloup.option_group(
    "Several machines",
    option(
        "--hosts",
        type=Names(),
        metavar="HOST,...",
        help="Watch these hosts by ssh. Tarmac must be installed there; nothing else runs there.",
    ),
    option(
        "--slurm", is_flag=True, help="Watch the nodes of your jobs on the Slurm cluster, by ssh."
    ),
    option(
        "--ray",
        is_flag=True,
        help="Watch the nodes of the Ray cluster that the ray command is connected to.",
    ),
    option(
        "--host-command",
        metavar="PROGRAM",
        default="tarmac",
        show_default=True,
        help="Path of Tarmac on the hosts, such as /opt/tarmac/bin/tarmac.",
    ),
)
@cloup.option_group(
    "Record and alert",
    option(
        "--record",
        metavar="FILE",
        type=Filename(dir_okay=False, path_type=Path),
        help="Append all readings to a file, a line of JSON each time.",
    ),
    option(
        "--replay",
        metavar="FILE",
        type=Filename(dir_okay=False, path_type=Path),
        help="Show a recording instead of live data.",
    ),
    option(
        "--speed",
        type=float,
        metavar="FACTOR",
        show_default="1 on the screen, else no pause",
        help="Replay a recording faster by this factor.",
    ),
    option(
        "--serve",
        is_flag=False,
        flag_value=METRICS_ADDRESS,
        metavar="[ADDRESS]",
        help="Serve metrics to Prometheus instead, at ADDRESS:PORT or unix:PATH. Default: "
        f"{METRICS_ADDRESS}, which only this machine reaches.",
    ),
    option(
        "--dcgm-names",
        is_flag=True,
        help="With --serve: also serve the GPUs' metrics under the names of NVIDIA's "
        "dcgm-exporter.",
    ),
    option(
        "--job-map",
        metavar="DIRECTORY",
        type=Filename(file_okay=False, path_type=Path),
        help="Keep a file per GPU with the names of its runs, which dcgm-exporter adds to its "
        "metrics (--hpc-job-mapping-dir).",
    ),
    option(
        "--on",
        "alerts",
        type=(Choice(EVENTS), str),
        multiple=True,
        metavar="EVENT COMMAND",
        help=f"Run a shell command for each event ({', '.join(EVENTS)}), with the event as JSON "
        "on its standard input. May be repeated.",
    ),
    option(
        "--fail-idle",
        is_flag=True,
        help="Exit with 1 as soon as an allocated GPU is idle.",
    ),
)
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> None:
    """Watch GPUs, and the trainings, tasks and searches that use them.

    Shows a live screen on a terminal, else a table. Without a GPU it shows the processor, memory
    and the same work, and says why there is no GPU.
    """
    from tarmac.cli.watch_request import Watching
    from tarmac.cli.watching import watch

    ctx.exit(watch(ctx, Watching(**options)))
