"""Turns references to secrets into secrets, at the moment of launch and not before."""

from __future__ import annotations

import io
import os
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs
from pydantic import ValidationError

from tarmac.errors import RequestError, quoted
from tarmac.files import expanded
from tarmac.jobs.model import Container, Secret
from tarmac.masking import remember

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tarmac.jobs.plan import Task

# As Kubernetes has it for its own.
_MAX_BYTES = 2**20


def secret_mapping_path() -> Path:
    """Return the user's file of secrets: ``TARMAC_SECRETS``, else in the configuration's place."""
    named = os.environ.get("TARMAC_SECRETS")
    return Path(named) if named else platformdirs.user_config_path("tarmac") / "secrets.toml"


def read_secret_mapping(path: Path | None = None) -> dict[str, Secret]:
    """Read where named secrets are to be found on this machine.

    Each line of the TOML file maps a name to a place: ``"s3-secret/awsKey" = { env = "AWS_KEY" }``
    or ``{ file = "~/.keys/aws" }``. It holds references only, never a secret itself. A relative
    path starts from the file's own directory.

    Args:
        path: The file; by default `secret_mapping_path`, which need not exist.

    Raises:
        RequestError: It is not of this form. What it says is in no message.
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
        # What stands there may be the secret itself.
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
    """Return the secrets themselves, by variable.

    From now on this process shows them nowhere; see `tarmac.masking.remember`.

    Args:
        secrets: References, by the variable that is to hold them.
        environment: Environment variables that hold secrets, usually ``os.environ``.
        mapping: What ``NAME/KEY`` and vault ids stand for here.
        base: What relative paths of ``secrets`` start from: the job file's directory.

    Raises:
        RequestError: One is not to be had; its value is in no message.
    """
    return {
        variable: _resolve(variable, secret, environment, mapping, base)
        for variable, secret in secrets.items()
    }


def secret_variables(tasks: Iterable[Task], mapping: Mapping[str, Secret]) -> set[str]:
    """Return the variables of this process that hold a secret of one of some tasks.

    Args:
        tasks: Those that ask for secrets.
        mapping: What ``NAME/KEY`` and vault ids stand for here.
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
    """Raise a RequestError that names every secret that tasks will not find.

    Args:
        tasks: All that will be started.
        environment: Environment variables that hold secrets, usually ``os.environ``.
        mapping: What names stand for here.
        base: What relative paths of tasks' secrets start from.
        has_named: Whether names that stand for nothing here are found where the tasks run.
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
        variable: What is to hold it in the task, for messages.
        secret: Reference to the secret: a variable, a file, or a name in ``mapping``.
        mapping: What ``NAME/KEY`` and vault ids stand for here.
        base: What a relative path of it starts from: the job file's directory.

    Raises:
        RequestError: Nothing says where it is to be found.
    """
    place, start = _place_here(variable, secret, mapping, base)
    if place.env is not None:
        return place.env
    assert place.file is not None
    return (start / expanded(place.file)).absolute()


def _place_here(
    variable: str, secret: Secret, mapping: Mapping[str, Secret], base: Path
) -> tuple[Secret, Path]:
    """Return a reference to a variable or a file, and what a relative path of it starts from."""
    if secret.env is not None or secret.file is not None:
        return secret, base
    name = _name(secret)
    place = mapping.get(name)
    if place is None or (place.env is None and place.file is None):
        raise RequestError(
            f"secret for {variable}: nothing says where {name} is to be found",
            hint=f"Say it: --secret {quoted(name)}=env:VARIABLE, "
            f"or a line of {secret_mapping_path()}",
        )
    # What a command line names starts from where it was typed.
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
        # Whatever ends its lines, as open has it for texts.
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
    # As registries take it.
    if colon and not any(c.isspace() for c in user) and not password.startswith("//"):
        remember(password)
    return secret
