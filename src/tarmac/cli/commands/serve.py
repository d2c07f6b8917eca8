"""``tarmac serve``: parse, call, render."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click
import cloup

from tarmac.cli.options import Filename, examples, json_option, option, output_option
from tarmac.errors import Interrupted, RequestError
from tarmac.files import expanded

if TYPE_CHECKING:
    from tarmac.server import Serving


@cloup.command(
    "serve",
    epilog=examples(
        "tarmac serve",
        "tarmac serve --port 8080 --output /data/runs",
        "tarmac serve --socket ~/tarmac.sock",
    ),
)
@output_option()
@option(
    "--port",
    type=int,
    metavar="N",
    show_default="one that is free",
    help="Port of 127.0.0.1 to listen on.",
)
@option(
    "--socket",
    type=Filename(path_type=Path),
    metavar="FILE",
    help="Listen on this socket file instead, which only you can open; ssh -L forwards it.",
)
@json_option("Print a line of JSON with the address, and only that.")
def command(output: Path | None, port: int | None, socket: Path | None, as_json: bool) -> None:
    """Serve the pages of all runs, live, to your browser alone, until Ctrl-C.

    Open the printed address. The token in it is the key to the pages: give it to nobody.
    """
    from tarmac.server import serve

    if port is not None and socket is not None:
        raise RequestError("--port and --socket are both given, expected one of them")
    serve(
        output,
        port=port or 0,
        socket=None if socket is None else expanded(socket),
        ready=lambda serving: _print(serving, as_json=as_json),
    )
    # Only a signal ends the server, and Tarmac's other servers exit with this code as well.
    click.get_current_context().exit(Interrupted.exit_code)


def _print(serving: Serving, *, as_json: bool) -> None:
    if as_json:
        file = None if serving.socket is None else str(serving.socket)
        click.echo(json.dumps({"url": serving.url, "port": serving.port, "socket": file}))
        return
    if serving.socket is not None:
        click.echo(f"on {serving.socket}; forward a port to it: ssh -L 8080:{serving.socket} HOST")
    click.echo(f"{serving.url} (Ctrl-C ends it)")
