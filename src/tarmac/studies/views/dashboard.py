"""Serves a study in optuna-dashboard."""

from __future__ import annotations

from typing import TYPE_CHECKING
from wsgiref.simple_server import WSGIRequestHandler, make_server

from tarmac.distribution import require
from tarmac.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tarmac.studies.study.study import Study

__all__ = ["serve_dashboard"]


class _Quiet(WSGIRequestHandler):
    """Prints no line per request."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Say nothing."""


def serve_dashboard(study: Study, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve until interrupted.

    Args:
        study: The study.
        host: The address to listen on.
        port: The port to listen on; 0 for any that is free.
        ready: Called with the page's address once it answers.

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
    with server:
        ready(f"http://{host}:{server.server_port}/dashboard/studies/{number}")
        server.serve_forever()
