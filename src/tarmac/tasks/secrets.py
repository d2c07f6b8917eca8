"""Resolve references to secrets into their values, at launch and not before."""

from __future__ import annotations

import io
import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs
from pydantic import ValidationError

from tarmac.errors import RequestError, quoted
from tarmac.files import expanded
from tarmac.masking import remember
from tarmac.tasks.model import Container, Secret

if TYPE_CHECKING:
    from tarmac.tasks.plan import Task

# Kubernetes has the same limit for its secrets.
_MAX_BYTES = 2**20


def secret_mapping_path() -> Path:
    """Return the path of the secret mapping: ``TARMAC_SECRETS``, or a file of the user's settings.

    The default is ``secrets.toml`` in the user's configuration directory of Tarmac.
    """
    named = os.environ.get("TARMAC_SECRETS")
    return Path(named) if named else platformdirs.user_config_path("tarmac") / "secrets.toml"


def read_secret_mapping(path: Path | None = None) -> dict[str, Secret]:
    """Read the secret mapping: the place of each named secret on this machine.

    Each line of the TOML file maps a name to a place: ``"s3-secret/awsKey" = { env = "AWS_KEY" }``
    or ``{ file = "~/.keys/aws" }``. The file holds references only, never a secret itself. A
    relative path starts from the file's own directory.

    Args:
        path: Path of the mapping; by default `secret_mapping_path`. The file may be missing.

    Raises:
        RequestError: The file is not of this form. The message shows nothing of its content.
    """
    mapping_path = path or secret_mapping_path()
    try:
        lines = tomllib.loads(mapping_path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8"
        raise RequestError(f"{mapping_path}: {reason}") from error
    except (ValueError, RecursionError) as error:
        raise RequestError(f"{mapping_path}: {error}") from error
    return {name: _place(mapping_path, name, place) for name, place in lines.items()}


def _place(path: Path, name: str, place: object) -> Secret:
    try:
        secret = Secret.model_validate(place)
    except ValidationError:
        secret = None
    if secret is None or (secret.env is None and secret.file is None):
        # The value may be the secret itself, so the message does not show it.
        raise RequestError(
            f"{path}: {name!r} is not of the form {{ env = 'VARIABLE' }} or {{ file = 'PATH' }}"
        )
    if secret.file is not None:
        file = str(path.resolve().parent / expanded(secret.file))
        return secret.model_copy(update={"file": file})
    return secret


def resolve_secrets(
    secrets: Mapping[str, Secret],
    environment: Mapping[str, str],
    mapping: Mapping[str, Secret],
    base: Path,
) -> dict[str, str]:
    """Return the values of secrets, by variable.

    This process redacts the values from now on; see `tarmac.masking.remember`.

    Args:
        secrets: References to secrets, by the variable that receives the value.
        environment: Environment variables that hold secrets, usually ``os.environ``.
        mapping: Places of ``NAME/KEY`` and vault ids on this machine.
        base: Directory that relative paths of ``secrets`` start from: the job file's directory.

    Raises:
        RequestError: A secret cannot be resolved; no message shows a value.
    """
    return {
        variable: _resolve(variable, secret, environment, mapping, base)
        for variable, secret in secrets.items()
    }


def secret_variables(tasks: Iterable[Task], mapping: Mapping[str, Secret]) -> set[str]:
    """Return the variables of this process that hold secrets of tasks.

    Args:
        tasks: Tasks whose secrets are looked up.
        mapping: Places of ``NAME/KEY`` and vault ids on this machine.
    """
    variables = set()
    for task in tasks:
        for secret in _wanted(task).values():
            place = mapping.get(_name(secret), secret)
            if place.env is not None:
                variables.add(place.env)
    return variables


def missing_secrets(
    tasks: Iterable[Task],
    environment: Mapping[str, str],
    mapping: Mapping[str, Secret],
    base: Path,
    *,
    has_named: bool = False,
) -> None:
    """Raise a RequestError that names every secret that cannot be resolved.

    Args:
        tasks: Tasks that will be started.
        environment: Environment variables that hold secrets, usually ``os.environ``.
        mapping: Places of named secrets on this machine.
        base: Directory that relative paths of the tasks' secrets start from.
        has_named: Whether names without a place here are resolved where the tasks run.
    """
    for name, place in mapping.items():
        if place.env is None and place.file is None:
            raise RequestError(f"secret {name}: expected a variable or a file, not another name")
    problems: dict[str, str | None] = {}
    for task in tasks:
        for variable, secret in _wanted(task).items():
            if has_named and secret.name is not None and _name(secret) not in mapping:
                continue
            try:
                _resolve(variable, secret, environment, mapping, base)
            except RequestError as error:
                problems[error.message] = error.hint
    if problems:
        first, *rest = problems
        hints = dict.fromkeys(hint for hint in problems.values() if hint)
        raise RequestError(first, hint="\n".join((*rest, *hints)) or None)


def _wanted(task: Task) -> dict[str, Secret]:
    wanted = dict(task.secrets)
    if isinstance(task.environment, Container) and task.environment.login is not None:
        wanted["the registry"] = task.environment.login
    return wanted


def _name(secret: Secret) -> str:
    return secret.vault_id or f"{secret.name}/{secret.key}"


def place_of_secret(
    variable: str, secret: Secret, mapping: Mapping[str, Secret], base: Path
) -> str | Path:
    """Return the variable, or the file, that holds a secret.

    Args:
        variable: Variable that receives the secret in the task, for messages.
        secret: Reference to the secret: a variable, a file, or a name in ``mapping``.
        mapping: Places of ``NAME/KEY`` and vault ids on this machine.
        base: Directory that a relative path starts from: the job file's directory.

    Raises:
        RequestError: The secret has no place on this machine.
    """
    place, start = _place_here(variable, secret, mapping, base)
    if place.env is not None:
        return place.env
    assert place.file is not None
    return (start / expanded(place.file)).absolute()


def _place_here(
    variable: str, secret: Secret, mapping: Mapping[str, Secret], base: Path
) -> tuple[Secret, Path]:
    """Return a reference to a variable or a file, and the base directory of a relative path."""
    if secret.env is not None or secret.file is not None:
        return secret, base
    name = _name(secret)
    place = mapping.get(name)
    if place is None or (place.env is None and place.file is None):
        raise RequestError(
            f"secret for {variable}: no source is known for {name}",
            hint=f"Name one: --secret {quoted(name)}=env:VARIABLE, "
            f"or a line of {secret_mapping_path()}",
        )
    # A path on a command line starts from the current directory.
    return place, Path()


def _resolve(
    variable: str,
    secret: Secret,
    environment: Mapping[str, str],
    mapping: Mapping[str, Secret],
    base: Path,
) -> str:
    place, start = _place_here(variable, secret, mapping, base)
    if place.env is not None:
        if place.env not in environment:
            raise RequestError(f"secret for {variable}: the variable {place.env} is not set")
        return _remembered(environment[place.env])
    assert place.file is not None
    try:
        with (start / expanded(place.file)).open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise RequestError(f"secret for {variable}: {place.file}: has more than 1 MiB")
        # Convert line ends as `open` does for text files.
        text = io.StringIO(content.decode(), newline=None).read().rstrip("\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8"
        raise RequestError(f"secret for {variable}: {place.file}: {reason}") from error
    if "\0" in text:
        raise RequestError(f"secret for {variable}: {place.file}: has a zero byte")
    return _remembered(text)


def _remembered(secret: str) -> str:
    remember(secret)
    user, colon, password = secret.partition(":")
    # A registry's login is USER:PASSWORD, so the password alone is a secret too.
    if colon and not any(c.isspace() for c in user) and not password.startswith("//"):
        remember(password)
    return secret
