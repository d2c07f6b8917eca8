"""Container images behind a registry's login."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import platformdirs

from tarmac.errors import TarmacError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["pull_with_login"]

_ANSWER_S = 60

# Images of frameworks are 10 GB and more.
_PULL_S = 3600

# The names under which Docker and Podman keep credentials of Docker Hub.
_DOCKER_HUB = ["https://index.docker.io/v1/", "docker.io"]

# See https://docs.docker.com/reference/cli/docker/login/#credential-helper-protocol
_KEEPER = "tarmac"
_KEPT = "TARMAC_REGISTRY_LOGIN"
_KEEPER_SCRIPT = f"""#!/bin/sh
case $1 in
  get) printf '%s' "${_KEPT}" ;;
  list) printf '{{}}' ;;
  *) while read -r _; do :; done ;;
esac
"""


def pull_with_login(
    engine: str, image: str, credentials: str, *, when: Literal["missing", "always", "never"]
) -> None:
    """Pull an image from a registry that asks who one is.

    The engine keeps credentials where its configuration says. For this it gets one of its own,
    which names a program as the keeper: that forgets what it is told, and answers from a variable
    of the engine's process. So no file has them, also when this process is killed in the middle;
    the user's own login stays as it is.

    Args:
        engine: The engine's program.
        image: Its name.
        credentials: ``USER:PASSWORD``.
        when: ``always``, only where it is ``missing`` here, or ``never``.

    Raises:
        TarmacError: The registry does not take them, or has no such image; the engine's own words
            are in the message.
    """
    user, separator, password = credentials.partition(":")
    if not separator:
        raise TarmacError("container: the secret of login is not of the form USER:PASSWORD")
    if when == "never" or (when == "missing" and _has(engine, image)):
        return
    first = image.split("/", maxsplit=1)[0]
    is_named = "." in first or ":" in first or first == "localhost"
    registry = [first] if is_named else []
    with tempfile.TemporaryDirectory(dir=_executable_directory()) as directory:
        keeper = Path(directory) / f"docker-credential-{_KEEPER}"
        keeper.write_text(_KEEPER_SCRIPT, encoding="utf-8")
        keeper.chmod(0o700)
        names = registry or _DOCKER_HUB
        configuration = json.dumps({"credHelpers": dict.fromkeys(names, _KEEPER)})
        for name in ("config.json", "auth.json"):
            (Path(directory) / name).write_text(configuration, encoding="utf-8")
        answer = {"ServerURL": names[0], "Username": user, "Secret": password}
        environment = _endpoint(engine) | {
            "DOCKER_CONFIG": directory,
            "REGISTRY_AUTH_FILE": str(Path(directory) / "auth.json"),
            "PATH": f"{directory}{os.pathsep}{os.environ.get('PATH', '')}",
            _KEPT: json.dumps(answer),
        }
        login = ("login", "--username", user, "--password-stdin", *registry)
        place = registry[0] if registry else "Docker Hub"
        _ask(engine, login, environment, f"login to {place}", limit_s=_ANSWER_S, given=password)
        pull = ("pull", "--quiet", image)
        _ask(engine, pull, environment, f"pull {image}", limit_s=_PULL_S)


def _executable_directory() -> str:
    """Return a directory where programs can be started, which some do not allow in /tmp."""
    places = (tempfile.gettempdir(), platformdirs.user_cache_dir("tarmac", ensure_exists=True))
    allowed = (place for place in places if not os.statvfs(place).f_flag & os.ST_NOEXEC)
    return next(allowed, places[0])


def _has(engine: str, image: str) -> bool:
    return _run([engine, "image", "inspect", image], f"look for {image}").returncode == 0


def _endpoint(engine: str) -> dict[str, str]:
    """Return what names the engine in use, which another configuration directory would not know."""
    if "DOCKER_HOST" in os.environ:
        return {}
    form = "{{.Endpoints.docker.Host}}"
    done = _run([engine, "context", "inspect", "--format", form], "say where it is")
    return {"DOCKER_HOST": done.stdout.strip()} if done.returncode == 0 else {}


def _ask(
    engine: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    what: str,
    *,
    limit_s: float,
    given: str | None = None,
) -> None:
    done = _run(
        [engine, *arguments], what, {**os.environ, **environment}, limit_s=limit_s, given=given
    )
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["no word"])[-1]
        raise TarmacError(f"container: {what}: {said}")


def _run(
    command: Sequence[str],
    what: str,
    environment: Mapping[str, str] | None = None,
    *,
    limit_s: float | None = None,
    given: str | None = None,
) -> subprocess.CompletedProcess[str]:
    limit_s = limit_s or _ANSWER_S
    try:
        return subprocess.run(
            command,
            input=given,
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise TarmacError(
            f"container: {what}: {Path(command[0]).name} has not within {limit_s:g} s"
        ) from error
