"""The user's settings: where work runs by default, and the options of each executor.

A TOML file, ``~/.config/tarmac/settings.toml``::

    on = "slurm"

    [slurm]
    account = "vision"

    [profiles.debug.slurm]
    partition = "debug"
"""

from __future__ import annotations

import dataclasses
import difflib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import platformdirs
from pydantic import ValidationError

from tarmac.documents import Document, Problem, problems_of, read_toml, refuse, show_path
from tarmac.documents import Path as KeyPath
from tarmac.errors import RequestError, TarmacError, unknown_name
from tarmac.jobs import Job, RunnerPlace, executor_names, find_executor

_PLACES = get_args(RunnerPlace)


@dataclasses.dataclass(frozen=True)
class Settings:
    """Defaults for work that does not choose for itself.

    Attributes:
        on: Executor of the tasks, one of `tarmac.jobs.executor_names`. None if not set.
        runner: Place of the process that hands out a submitted job's tasks. None if not set.
        options: Options by executor, which a job's own ``options`` override.
    """

    on: str | None = None
    runner: RunnerPlace | None = None
    options: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)

    def applied_to(self, job: Job) -> Job:
        """Return a job with these options below its own, as its record then stores them."""
        if not self.options:
            return job
        return job.model_copy(update={"options": _merged(self.options, job.options)})


def settings_path() -> Path:
    """Return the settings file: ``TARMAC_SETTINGS_FILE``, else in the configuration directory."""
    named = os.environ.get("TARMAC_SETTINGS_FILE")
    return Path(named) if named else platformdirs.user_config_path("tarmac") / "settings.toml"


def read_settings(profile: str | None = None) -> Settings:
    """Read the user's settings.

    Args:
        profile: Name of a table of ``profiles`` that overrides the other values. Default: none.

    Raises:
        RequestError: The file is invalid, with lines and columns; it lacks the profile; or the
            file that ``TARMAC_SETTINGS_FILE`` names does not exist.
    """
    path = settings_path()
    if not path.exists() and not os.environ.get("TARMAC_SETTINGS_FILE"):
        if profile is None:
            return Settings()
        raise RequestError(
            f"unknown profile {profile!r}: there is no file {path}",
            hint=f'Write one:\n  [profiles.{profile}]\n  on = "slurm"',
        )
    document = read_toml(path)
    problems = [*_problems(document, document.value, ())]
    profiles = document.value.get("profiles", {})
    if not isinstance(profiles, dict):
        problems.append(_problem(document, ("profiles",), "expected tables: [profiles.NAME]"))
        profiles = {}
    for name, values in profiles.items():
        problems += _problems(document, values, ("profiles", name))
    if problems:
        raise refuse(document, problems)
    general = _settings_of(document.value)
    if profile is None:
        return general
    if profile not in profiles:
        raise _unknown_profile(profile, profiles, path)
    chosen = _settings_of(profiles[profile])
    return Settings(
        on=chosen.on or general.on,
        runner=chosen.runner or general.runner,
        options=_merged(general.options, chosen.options),
    )


def chosen(on: str | None, profile: str | None) -> Settings:
    """Return the effective settings: the caller's choice, then the profile, then the file.

    Args:
        on: Executor of the tasks. None: the settings' executor, else this machine.
        profile: Name of a profile in the settings. None: no profile.

    Raises:
        RequestError: See `read_settings`.
    """
    settings = read_settings(profile)
    return dataclasses.replace(settings, on=on or settings.on or "local")


def profile_names() -> Sequence[str]:
    """Return the names of the profiles; empty without a file.

    Raises:
        RequestError: The file cannot be read.
    """
    path = settings_path()
    profiles = read_toml(path).value.get("profiles", {}) if path.exists() else {}
    return tuple(profiles) if isinstance(profiles, dict) else ()


def _unknown_profile(name: str, profiles: Mapping[str, Any], path: Path) -> RequestError:
    error = unknown_name("profile", name, dict.fromkeys(profiles, ""))
    return RequestError(f"{path}: {error.message}", hint=error.hint)


def _settings_of(values: Mapping[str, Any]) -> Settings:
    options = {
        name: part for name, part in values.items() if name not in ("on", "runner", "profiles")
    }
    return Settings(values.get("on"), values.get("runner"), options)


def _merged(
    below: Mapping[str, Mapping[str, Any]], above: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    names = dict.fromkeys([*below, *above])
    return {name: {**below.get(name, {}), **above.get(name, {})} for name in names}


def _problems(document: Document, values: Any, path: KeyPath) -> Iterator[Problem]:
    """Yield the problems of the file's own keys, or of a profile's keys."""
    if not isinstance(values, dict):
        yield _problem(document, path, "expected keys and their values")
        return
    executors = executor_names()
    for key, value in values.items():
        here = (*path, key)
        if key == "on":
            yield from _choice(document, here, value, executors)
        elif key == "runner":
            yield from _choice(document, here, value, _PLACES)
        elif key in executors:
            yield from _wrong_options(document, here, value)
        elif key != "profiles" or path:
            valid = ["on", "runner", *executors, *(() if path else ("profiles",))]
            yield _problem(document, here, "unknown key", _nearest(key, valid))


def _choice(
    document: Document, path: KeyPath, value: Any, valid: Sequence[str]
) -> Iterator[Problem]:
    if value not in valid:
        message = f"{value!r}: expected {' or '.join(map(repr, valid))}"
        yield _problem(document, path, message)


def _wrong_options(document: Document, path: KeyPath, value: Any) -> Iterator[Problem]:
    try:
        model = find_executor(str(path[-1])).options
    except TarmacError as error:
        yield _problem(document, path, error.message, f"  {error.hint}" if error.hint else "")
        return
    if not isinstance(value, dict):
        yield _problem(document, path, "expected keys and their values")
    elif model is None:
        if value:
            yield _problem(document, path, "takes no options")
    else:
        try:
            model.model_validate(value)
        except ValidationError as error:
            yield from problems_of(error, document, model, path)


def _problem(document: Document, path: KeyPath, message: str, hint: str = "") -> Problem:
    return Problem(document.place_of(path), show_path(path), message, hint)


def _nearest(name: str, valid: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, valid, n=1)
    return f"  did you mean {near[0]!r}?" if near else f"  valid: {', '.join(valid)}"
