"""Pull container images, with logins to registries, and as one file for all nodes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import platformdirs

from tarmac.environments.engines import ClusterEngine
from tarmac.environments.once import made_once
from tarmac.errors import TarmacError
from tarmac.files import scratch_directory

_ANSWER_S = 60

# Images of frameworks have 10 GB and more.
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
    """Pull an image from a registry that requires a login.

    The engine stores credentials as its configuration says. Here it gets a temporary configuration
    with a credential helper that stores nothing and answers from an environment variable of the
    engine's process. So no file holds the credentials, even if this process is killed. The user's
    own login is not changed.

    Args:
        engine: Path of the engine's program, Docker or Podman.
        image: Name of the image, with its registry unless on Docker Hub.
        credentials: Login for the registry, as ``USER:PASSWORD``.
        when: Time to pull: ``always``, if the image is ``missing`` on this machine, or ``never``.

    Raises:
        TarmacError: The registry refuses the login, or lacks the image. The message contains the
            engine's error.
    """
    user, password = _split(credentials)
    if when == "never" or (when == "missing" and _has(engine, image)):
        return
    first = image.split("/", maxsplit=1)[0]
    is_named = "." in first or ":" in first or first == "localhost"
    registry = [first] if is_named else []
    with scratch_directory(_executable_directory()) as directory:
        keeper = directory / f"docker-credential-{_KEEPER}"
        keeper.write_text(_KEEPER_SCRIPT, encoding="utf-8")
        keeper.chmod(0o700)
        names = registry or _DOCKER_HUB
        configuration = json.dumps({"credHelpers": dict.fromkeys(names, _KEEPER)})
        for name in ("config.json", "auth.json"):
            (directory / name).write_text(configuration, encoding="utf-8")
        answer = {"ServerURL": names[0], "Username": user, "Secret": password}
        environment = _endpoint(engine) | {
            "DOCKER_CONFIG": str(directory),
            "REGISTRY_AUTH_FILE": str(directory / "auth.json"),
            "PATH": f"{directory}{os.pathsep}{os.environ.get('PATH', '')}",
            _KEPT: json.dumps(answer),
        }
        login = ("login", "--username", user, "--password-stdin", *registry)
        place = registry[0] if registry else "Docker Hub"
        _ask(engine, login, environment, f"login to {place}", limit_s=_ANSWER_S, stdin=password)
        pull = ("pull", "--quiet", image)
        _ask(engine, pull, environment, f"pull {image}", limit_s=_PULL_S)


def pull_once(
    engine: str,
    image: str,
    directory: Path,
    *,
    credentials: str | None,
    when: Literal["missing", "always", "never"],
    run: str,
) -> None:
    """Pull an image for Docker or Podman, once for all of a run's tasks on this node.

    Args:
        engine: Path of the engine's program, Docker or Podman.
        image: Name of the image, as the engine takes it.
        directory: Directory on this node's own disk for marks of pulled images.
        credentials: Login for the registry, as ``USER:PASSWORD``. None: no login.
        when: Time to pull: ``always``, which is once per run; if the image is ``missing`` on this
            node; or ``never``.
        run: Identifier of the run whose tasks share the pull, such as its directory.

    Raises:
        TarmacError: The registry lacks the image, or refuses the login. The message contains the
            engine's error.
    """
    if when == "never" or (when == "missing" and _has(engine, image)):
        return
    content = (engine, image, run)
    digest = hashlib.blake2b(repr(content).encode(), digest_size=8).hexdigest()
    mark = directory / f"{digest}.pulled"
    if mark.exists() and not _has(engine, image):
        # The image was removed after the pull, to free space.
        mark.unlink(missing_ok=True)

    def pull(part: Path) -> None:
        if credentials is not None:
            pull_with_login(engine, image, credentials, when="always")
        else:
            _ask(engine, ("pull", "--quiet", image), {}, f"pull {image}", limit_s=_PULL_S)
        part.touch()

    made_once(mark, pull)


def image_file(
    engine: ClusterEngine,
    image: str,
    store: Path,
    *,
    credentials: str | None,
    when: Literal["missing", "always", "never"],
    run: str,
) -> Path:
    """Return the file of an image for an engine of clusters, pulled once for all nodes.

    Passwords are never on a command line or in a file. Apptainer and Enroot, with which Pyxis
    pulls, read them from an environment variable of their process.

    Args:
        engine: Engine that runs the image, Apptainer or Pyxis.
        image: Name of the image, as the engine takes it.
        store: Directory for image files, on a file system that all nodes share.
        credentials: Login for the registry, as ``USER:PASSWORD``. None: no login.
        when: Time to pull: ``always``, which is once per run; if the file is ``missing``; or
            ``never``.
        run: Identifier of the run. With ``always``, each run pulls its own file.

    Raises:
        TarmacError: The image cannot be pulled. The message contains the program's error.
    """
    content = (engine.name, image, platform.machine(), run if when == "always" else "")
    digest = hashlib.blake2b(repr(content).encode(), digest_size=8).hexdigest()
    path = store / f"{digest}.{'sif' if engine.name == 'apptainer' else 'sqsh'}"
    if when == "never" and not path.exists():
        raise TarmacError(
            f"container: {image} has not been pulled, and pull is never",
            hint=f"pull: missing; they are kept in {store}",
        )

    def pull(part: Path) -> None:
        user, password = (None, "") if credentials is None else _split(credentials)
        if engine.name == "apptainer":
            command = [engine.program, "pull", "--disable-cache", str(part), image]
            login = {
                "APPTAINER_DOCKER_USERNAME": user,
                "APPTAINER_DOCKER_PASSWORD": password,
                "SINGULARITY_DOCKER_USERNAME": user,
                "SINGULARITY_DOCKER_PASSWORD": password,
            }
            variables = {name: text for name, text in login.items() if user is not None and text}
            _ask(command[0], command[1:], variables, f"pull {image}", limit_s=_PULL_S)
            return
        registry, separator, _ = image.partition("#")
        host = registry.partition(":")[0] if separator else "registry-1.docker.io"
        whose = "" if user is None else f"{user}@"
        uri = image if "://" in image else f"docker://{whose}{image}"
        with _enroot_configuration(host, user, password) as variables:
            steps = ("import", "--output", str(part), uri)
            _ask("enroot", steps, variables, f"pull {image}", limit_s=_PULL_S)

    return made_once(path, pull)


def _split(credentials: str) -> tuple[str, str]:
    user, separator, password = credentials.partition(":")
    if not separator:
        raise TarmacError("container: the secret of login is not of the form USER:PASSWORD")
    return user, password


# Hosts that issue a registry's tokens, if they differ from the registry's host.
_TOKENS = {"nvcr.io": "authn.nvidia.com", "registry-1.docker.io": "auth.docker.io"}


@contextlib.contextmanager
def _enroot_configuration(host: str, user: str | None, password: str) -> Iterator[dict[str, str]]:
    """Yield the variables with which Enroot logs in; Enroot expands ``$NAME`` from its variables.

    See https://github.com/NVIDIA/enroot/blob/main/doc/cmd/import.md
    """
    if user is None:
        yield {}
        return
    with scratch_directory() as directory:
        hosts = dict.fromkeys((host, _TOKENS.get(host, host)))
        lines = [f"machine {machine} login {user} password ${_KEPT}\n" for machine in hosts]
        (directory / ".credentials").write_text("".join(lines), encoding="utf-8")
        # Enroot stores tokens in its cache, which is removed with the directory.
        place = str(directory)
        yield {"ENROOT_CONFIG_PATH": place, "ENROOT_CACHE_PATH": place, _KEPT: password}


def _executable_directory() -> str:
    """Return a directory where programs can run; some machines mount /tmp with noexec."""
    place = tempfile.gettempdir()
    if not os.statvfs(place).f_flag & os.ST_NOEXEC:
        return place
    # A home directory may be read-only.
    with contextlib.suppress(OSError):
        cache = platformdirs.user_cache_dir("tarmac", ensure_exists=True)
        if not os.statvfs(cache).f_flag & os.ST_NOEXEC:
            return cache
    return place


def _has(engine: str, image: str) -> bool:
    return _run([engine, "image", "inspect", image], f"look for {image}").returncode == 0


def _endpoint(engine: str) -> dict[str, str]:
    """Return the variable with the engine's address, which another configuration does not have."""
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
    stdin: str | None = None,
) -> None:
    done = _run(
        [engine, *arguments], what, {**os.environ, **environment}, limit_s=limit_s, stdin=stdin
    )
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise TarmacError(f"container: {what}: {reason}")


def _run(
    command: Sequence[str],
    what: str,
    environment: Mapping[str, str] | None = None,
    *,
    limit_s: float | None = None,
    stdin: str | None = None,
) -> subprocess.CompletedProcess[str]:
    limit_s = limit_s or _ANSWER_S
    try:
        return subprocess.run(
            command,
            input=stdin,
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
    except OSError as error:
        raise TarmacError(f"container: {what}: {command[0]}: {error.strerror}") from error
