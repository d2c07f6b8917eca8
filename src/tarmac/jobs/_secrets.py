"""Turns references to secrets into secrets, at the moment of launch and not before."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tarmac.errors import RequestError
from tarmac.jobs._job import Container

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tarmac.jobs._job import Secret
    from tarmac.jobs._plan import Task

__all__ = ["missing_secrets", "resolve_secrets"]


def resolve_secrets(
    secrets: Mapping[str, Secret], environment: Mapping[str, str], mapping: Mapping[str, Secret]
) -> dict[str, str]:
    """Return the secrets themselves, by variable.

    Args:
        secrets: References, by the variable that is to hold them.
        environment: Usually ``os.environ``.
        mapping: What ``NAME/KEY`` and vault ids stand for here.

    Raises:
        RequestError: One is not to be had; its value is in no message.
    """
    return {
        variable: _resolve(variable, secret, environment, mapping)
        for variable, secret in secrets.items()
    }


def missing_secrets(
    tasks: Iterable[Task], environment: Mapping[str, str], mapping: Mapping[str, Secret]
) -> None:
    """Raise a RequestError that names every secret that tasks will not find.

    Args:
        tasks: All that will be started.
        environment: Usually ``os.environ``.
        mapping: What names stand for here.
    """
    problems: dict[str, None] = {}
    for task in tasks:
        wanted = dict(task.secrets)
        if isinstance(task.environment, Container) and task.environment.login is not None:
            wanted["the registry"] = task.environment.login
        for variable, secret in wanted.items():
            try:
                _resolve(variable, secret, environment, mapping)
            except RequestError as error:
                problems[error.message] = None
    if problems:
        first, *rest = problems
        raise RequestError(first, hint="\n".join(rest) or None)


def _resolve(
    variable: str, secret: Secret, environment: Mapping[str, str], mapping: Mapping[str, Secret]
) -> str:
    if secret.env is not None:
        if secret.env not in environment:
            raise RequestError(f"secret for {variable}: the variable {secret.env} is not set")
        return environment[secret.env]
    if secret.file is not None:
        try:
            return Path(secret.file).expanduser().read_text(encoding="utf-8").rstrip("\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "is not UTF-8"
            raise RequestError(f"secret for {variable}: {secret.file}: {reason}") from error
    name = secret.vault_id or f"{secret.name}/{secret.key}"
    if name not in mapping:
        raise RequestError(f"secret for {variable}: nothing says where {name} is to be found")
    return _resolve(variable, mapping[name], environment, {})
