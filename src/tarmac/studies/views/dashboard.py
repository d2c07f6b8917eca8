"""Serve a study in optuna-dashboard."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING
from wsgiref.simple_server import WSGIRequestHandler, make_server

from tarmac.distribution import require
from tarmac.errors import RequestError

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from tarmac.studies.study.study import Study


class _Quiet(WSGIRequestHandler):
    """A request handler that prints no line per request."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Print nothing."""


def serve_dashboard(study: Study, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve until interrupted; on a loopback address, refuse requests from other sites.

    Args:
        study: Study to show in the dashboard.
        host: The address to listen on.
        port: The port to listen on; 0 for any that is free.
        ready: Called with the page's URL once the server answers.

    Raises:
        RequestError: optuna-dashboard is not installed, or the port is taken.
    """
    require("optuna_dashboard")
    from optuna_dashboard import wsgi  # type: ignore[import-untyped]  # noqa: PLC0415 - an extra

    number = study.optuna._study_id
    application = wsgi(study.optuna._storage)
    try:
        server = make_server(host, port, application, handler_class=_Quiet)
    except OSError as error:
        raise RequestError(
            f"cannot listen on {host}:{port}: {error.strerror}", hint="Name another --port."
        ) from error
    if ipaddress.ip_address(str(server.server_address[0])).is_loopback:
        server.set_app(_for_this_machine(application, host))
    with server:
        ready(f"http://{host}:{server.server_port}/dashboard/studies/{number}")
        server.serve_forever()


def _for_this_machine(application: WSGIApplication, host: str) -> WSGIApplication:
    """Refuse requests from pages of other sites, and by host names that point here.

    The dashboard can change and remove the study.
    """
    names = {"localhost", "127.0.0.1", "[::1]", host}

    def guarded(request: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        header = request.get("HTTP_HOST", "")
        above, _, port = header.rpartition(":")
        name = above if port.isdigit() else header
        if name in names and request.get("HTTP_ORIGIN", f"http://{header}") == f"http://{header}":
            return application(request, start)
        start("421 Misdirected Request", [("Content-Type", "text/plain")])
        return [b"This is served to this machine alone\n"]

    return guarded
