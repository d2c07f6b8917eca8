"""Docker run options: those with a counterpart in Tarmac, and a note on each other one."""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from tarmac.formats.shipyard.mapping.files import inside
from tarmac.formats.shipyard.report import Path, Report
from tarmac.jobs import WORK

_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)\s*([bkmgtBKMGT])?[iI]?[bB]?")
_UNITS = {"b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}

_WITHOUT_VALUE = frozenset(
    (
        *("--rm", "--init", "--privileged", "--detach", "-d", "--interactive", "-i", "--tty", "-t"),
        *("-it", "-ti", "--read-only", "-P", "--publish-all", "--no-healthcheck", "--sig-proxy"),
        *("--oom-kill-disable", "--disable-content-trust"),
    )
)
_SHORT = {
    "-m": "--memory", "-v": "--volume", "-e": "--env", "-u": "--user", "-w": "--workdir",
    "--net": "--network", "-l": "--label", "-p": "--publish", "-h": "--hostname",
}  # fmt: skip
_NAMED_HERE = ("--name", "--label", "--publish", "--detach", "-d", "--cidfile")
_REASONS = dict.fromkeys(_NAMED_HERE, "Tarmac names and starts its containers itself") | {
    "--privileged": "a task gets no rights over this machine; its GPUs need none",
}
_ULIMIT = re.compile(r"[a-z]+=-?\d+(:-?\d+)?")


@dataclasses.dataclass
class RunOptions:
    """The values of Docker run options. An absent option has None or an empty collection.

    Attributes:
        cpus: CPU cores from ``--cpus``, above 0.
        memory: Memory limit in bytes, from ``--memory``.
        shm: Size of shared memory in bytes, from ``--shm-size``.
        gpus: GPUs from ``--gpus``, in the form of a task's ``gpus``.
        user: User of the container's process, from ``--user``.
        network: Name of the container's Docker network, from ``--network``.
        workdir: Working directory in the container, from ``--workdir``.
        ipc: ``host`` for the machine's own shared memory, from ``--ipc``.
        ulimits: Process limits from ``--ulimit``, such as ``memlock=-1``.
        entrypoint: Entrypoint that replaces the image's, from ``--entrypoint``.
        mounts: Mounted directories from ``--volume``, as plain values.
        env: Values of environment variables from ``--env``, by name.
    """

    cpus: float | None = None
    memory: int | None = None
    shm: int | None = None
    gpus: str | None = None
    user: str | None = None
    network: str | None = None
    workdir: str | None = None
    ipc: str | None = None
    ulimits: list[str] = dataclasses.field(default_factory=list)
    entrypoint: str | None = None
    mounts: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    env: dict[str, str] = dataclasses.field(default_factory=dict)


def parse_size(text: str) -> int:
    """Return the bytes of a memory size in Docker's form, with powers of 1024: ``64m``.

    Raises:
        ValueError: The text is no memory size.
    """
    match = _SIZE.fullmatch(text.strip())
    amount = float(match[1]) * _UNITS[(match[2] or "b").lower()] if match is not None else 0
    if not 1 <= amount < 2**62:
        raise ValueError("expected an amount of memory, with b, k, m or g: 256m")
    return int(amount)


def read_options(options: Sequence[str], path: Path, report: Report) -> RunOptions:
    """Read ``additional_docker_run_options``.

    Args:
        options: Options as in the file. An element may hold several words.
        path: Keys that lead to the options in the configuration.
        report: Receives problems, and notes on options without a counterpart.
    """
    run_options = RunOptions()
    try:
        words = [word for option in options for word in shlex.split(option or "")]
    except ValueError as error:
        report.wrong(path, f"{error}")
        return run_options
    for name, value in _pairs(words):
        try:
            known = _take(run_options, name, value)
        except ValueError as error:
            report.wrong(path, f"{name} {value}: {error}")
            continue
        if known:
            continue
        reason = _REASONS.get(name, "it has no counterpart here")
        report.note(path, f"{name} is without effect here, and kept: {reason}")
    return run_options


def _pairs(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    rest = iter(words)
    for word in rest:
        name, separator, value = word.partition("=")
        if re.fullmatch(r"-[mveuwlp].+", word):
            # A short option may have its value attached: -v/a:/b.
            name, separator, value = word[:2], "=", word[2:].removeprefix("=")
        if not separator and name not in _WITHOUT_VALUE:
            value = next(rest, "")
        yield _SHORT.get(name, name), value


def _take(options: RunOptions, name: str, value: str) -> bool:
    if name in _PARSERS:
        field, parse = _PARSERS[name]
        setattr(options, field, parse(value))
    elif name == "--ipc" and value == "host":
        options.ipc = value
    elif name == "--ulimit":
        options.ulimits.append(_ulimit(value))
    elif name == "--volume":
        options.mounts.append(_mount(value))
    elif name == "--env":
        key, separator, text = value.partition("=")
        if not separator:
            raise ValueError("expected NAME=VALUE; secrets come by tarmac run --secret")
        options.env[key] = text
    else:
        return name in ("--rm", "--init")
    return True


def _text(value: str) -> str:
    if not value:
        raise ValueError("its value is missing")
    return value.strip('"')


def _cpus(value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = -1
    if not 0 < number < 2**20:
        raise ValueError("expected a number of CPUs above 0")
    return number


def _workdir(value: str) -> str:
    plain = _text(value)
    if plain.startswith("/"):
        return plain
    below = inside(plain) if plain.startswith("$") else None
    if below is None:
        raise ValueError("expected a path from / or from $AZ_BATCH_TASK_WORKING_DIR")
    return str(PurePosixPath(WORK) / below)


def _ulimit(value: str) -> str:
    if not _ULIMIT.fullmatch(value):
        raise ValueError("expected NAME=SOFT or NAME=SOFT:HARD, such as memlock=-1")
    return value


def _mount(value: str) -> dict[str, Any]:
    source, separator, rest = value.partition(":")
    target, _, mode = rest.partition(":")
    if not separator or not source or not target.startswith("/") or "$" in value:
        raise ValueError("expected SOURCE:/TARGET, without variables of Azure Batch's nodes")
    mount: dict[str, Any] = {"source": source, "target": target}
    if "ro" in mode.split(","):
        mount["read_only"] = True
    return mount


# Options with one value: the field, and the parser of the value.
_PARSERS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "--cpus": ("cpus", _cpus),
    "--memory": ("memory", parse_size),
    "--shm-size": ("shm", parse_size),
    "--gpus": ("gpus", _text),
    "--user": ("user", _text),
    "--network": ("network", _text),
    "--workdir": ("workdir", _workdir),
    "--entrypoint": ("entrypoint", _text),
}
