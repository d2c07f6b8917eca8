"""Ray's Jobs interface over HTTP; each call makes a single request, without retries.

Sources: ray 2.60.0, dashboard/modules/job/job_head.py (paths), common.py (fields), job_manager.py
("already exists"), and dashboard/authentication (401 and 403).
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Literal

from tarmac.files import parse_json

if TYPE_CHECKING:
    import ssl

    import httpx

_TIMEOUT_S = 30.0
_CONNECT_TIMEOUT_S = 5.0

# The reason is at the end of Ray's message, after a trace of Ray's own code.
_MAX_WORDS = 300
_ERROR = re.compile(r"^[\w.]*(?:Error|Exception): ")

_States = Literal["pending", "running", "succeeded", "failed", "stopped"]
_STATES: Mapping[str, _States] = {
    "PENDING": "pending",
    "RUNNING": "running",
    "SUCCEEDED": "succeeded",
    "FAILED": "failed",
    "STOPPED": "stopped",
}


@dataclasses.dataclass(frozen=True)
class NoAnswer:
    """No answer, or an unusable one; the request may have been carried out.

    Attributes:
        words: Reason for the missing answer, for people.
    """

    words: str


@dataclasses.dataclass(frozen=True)
class Refused:
    """An answer of Ray that refuses a request.

    Attributes:
        status: HTTP status code of Ray's answer.
        words: Message of Ray, shortened or explained.
        hint: Suggested remedy; empty where none is known.
    """

    status: int
    words: str
    hint: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Submission:
    """A job to submit to Ray; users of the cluster can read all of it, so it has no secrets.

    Attributes:
        name: Submission id, never reused: letters, digits, hyphens and underscores.
        entrypoint: A line for bash, run on the head as the user that Ray runs as.
        variables: Environment variables for the entrypoint and for its Ray tasks.
        metadata: Texts that Ray returns with the job.
    """

    name: str
    entrypoint: str
    variables: Mapping[str, str] = dataclasses.field(default_factory=dict)
    metadata: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class RayJob:
    """The state of a job in Ray.

    Attributes:
        name: Submission id of the job.
        state: State of the job, in small letters: ``running``.
        message: Ray's message about the state, in one line.
        exit_code: Exit code of the job's entrypoint; None where Ray does not report it.
    """

    name: str
    state: _States
    message: str
    exit_code: int | None = None


class RayJobs:
    """A client for the jobs of a Ray cluster.

    Args:
        address: URL of the cluster's dashboard, from `dashboard_address`.
        token: Token for a cluster that requires authentication; None for none.
        timeout_s: Seconds to wait for each answer. Default 30.
    """

    def __init__(
        self, address: str, token: str | None = None, *, timeout_s: float = _TIMEOUT_S
    ) -> None:
        self.address = address
        # Private, so that neither `repr` nor an error shows the token.
        self.__headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._timeout_s = timeout_s

    def version(self) -> str | Refused | NoAnswer:
        """Return the cluster's version of Ray, ``2.60.0``."""
        answer = self._ask("GET", "/api/version")
        if isinstance(answer, (Refused, NoAnswer)):
            return answer
        version = answer.get("ray_version")
        return version if isinstance(version, str) else self._unlike("its version")

    def submit(self, submission: Submission) -> str | Refused | NoAnswer:
        """Submit a job once; an existing job of the same name counts as submitted.

        Returns:
            The name of the job.
        """
        body = {
            "submission_id": submission.name,
            "entrypoint": submission.entrypoint,
            "runtime_env": {"env_vars": dict(submission.variables)},
            "metadata": dict(submission.metadata),
        }
        answer = self._ask("POST", "/api/jobs/", body)
        if isinstance(answer, Refused) and "already exists" in answer.words:
            return submission.name
        return answer if isinstance(answer, (Refused, NoAnswer)) else submission.name

    def look(self, name: str) -> RayJob | Refused | NoAnswer | None:
        """Return the state of a job; None for a job that Ray does not know."""
        answer = self._ask("GET", f"/api/jobs/{name}")
        if isinstance(answer, Refused) and answer.status == HTTPStatus.NOT_FOUND:
            # A server that is no dashboard answers 404 as well.
            return None if name in answer.words else answer
        if isinstance(answer, (Refused, NoAnswer)):
            return answer
        state = _STATES.get(str(answer.get("status")))
        if state is None:
            return self._unlike(f"a job's state: {_shortened(str(answer.get('status')))}")
        code = answer.get("driver_exit_code")
        # Drop the program's own output.
        text, _, _ = str(answer.get("message") or "").partition(", last available logs")
        message = _shortened(text)
        return RayJob(name, state, message, code if isinstance(code, int) else None)

    def stop(self, name: str) -> bool | Refused | NoAnswer:
        """Stop a job: SIGTERM, and 3 seconds later SIGKILL.

        Returns:
            Whether the job existed and had not ended.
        """
        answer = self._ask("POST", f"/api/jobs/{name}/stop")
        if isinstance(answer, Refused) and answer.status == HTTPStatus.NOT_FOUND:
            return False
        return answer if isinstance(answer, (Refused, NoAnswer)) else answer.get("stopped") is True

    @functools.cached_property
    def _trusted(self) -> ssl.SSLContext:
        import httpx  # noqa: PLC0415

        # Reading the authorities' certificates takes 25 ms, more than a request.
        return httpx.create_ssl_context()

    def _ask(
        self, verb: str, path: str, body: Mapping[str, Any] | None = None
    ) -> dict[str, Any] | Refused | NoAnswer:
        # The import takes a tenth of a second, which other executors need not wait for.
        import httpx  # noqa: PLC0415

        connect_s = min(self._timeout_s, _CONNECT_TIMEOUT_S)
        try:
            answer = httpx.request(
                verb,
                f"{self.address}{path}",
                json=body,
                headers=self.__headers,
                verify=self._trusted,
                timeout=httpx.Timeout(self._timeout_s, connect=connect_s),
            )
        except httpx.TimeoutException:
            return NoAnswer(f"{self.address} has not answered within {self._timeout_s:g} s")
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return NoAnswer(f"{self.address}: {_shortened(str(error)) or type(error).__name__}")
        if answer.is_success:
            try:
                body = parse_json(answer.content)
            except ValueError:
                body = None
            return body if isinstance(body, dict) else self._unlike("JSON")
        return self._failure(answer, knows_token=bool(self.__headers))

    def _failure(self, answer: httpx.Response, *, knows_token: bool) -> Refused | NoAnswer:
        status = answer.status_code
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            known = "does not take the token" if knows_token else "asks for a token"
            return Refused(
                status,
                f"{self.address} {known}",
                "Set RAY_AUTH_TOKEN, or RAY_AUTH_TOKEN_PATH to its file; on the head: "
                "~/.ray/auth_token",
            )
        words = _shortened(answer.text)
        # The head also answers 500 for its agent's refusals, with the agent's trace.
        is_busy = status >= HTTPStatus.INTERNAL_SERVER_ERROR and "already exists" not in words
        return NoAnswer(f"{self.address}: {status}: {words}") if is_busy else Refused(status, words)

    def _unlike(self, what: str) -> NoAnswer:
        return NoAnswer(
            f"{self.address} gives an answer that is not {what}: is it Ray's dashboard?"
        )


def _shortened(text: str) -> str:
    """Return the reason in a message of Ray: without the trace, in one line, of bounded length."""
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    reasons = [number for number, line in enumerate(lines) if _ERROR.match(line)]
    if reasons and lines[0].startswith("Traceback"):
        lines = lines[reasons[-1] :]
    words = " ".join(lines)
    return words if len(words) <= _MAX_WORDS else f"{words[:_MAX_WORDS]}..."
