"""Parsers for the output of Slurm's commands: pure functions from text to records.

Each parser returns None where the text does not have the expected form. An answer of several
lines begins with its header, so that an empty answer differs from none. Lines without the mark
are notices.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from tarmac.slurm.interface import Accounted, Limits, Queued, Unit
from tarmac.slurm.site import SlurmNode, read_gres
from tarmac.slurm.words import read_state

_MARK = "tarmac"

# Fields that may hold any character come last.
QUEUE_FORMAT = f"{_MARK}|%i|%j|%T|%N|%r"
NODE_FORMAT = f"{_MARK}|%N|%P|%T|%c|%m|%l|%f|%G|%E"
ACCOUNT_FORMAT = "JobID,State,ExitCode,NodeList,MaxRSS,End,Partition,Timelimit,Elapsed"

_MIB = 2**20
_KIB = 2**10

# Signal of a step that the kernel ended for its memory (sacct(1), "OUT_OF_MEMORY").
_SIGNAL_OF_MEMORY = 125

# Slurm's numbers have 32 bits and its sizes 64; Python refuses to read thousands of digits.
_ID = r"\d{1,10}"
_SIZE = r"\d{1,20}"

# slurm.conf(5): the largest MaxArraySize.
_MAX_ARRAY_SIZE = 4_000_001

_UNIT = re.compile(rf"(?P<job>{_ID})(?:_(?:(?P<one>{_ID})|\[(?P<many>[\d,:-]+)(?:%\d+)?\]))?")
_STEP = re.compile(rf"(?P<unit>{_ID}(?:_{_ID})?)\.\S+")
_RANGE = re.compile(rf"({_ID})(?:-({_ID})(?::({_ID}))?)?")

_HOSTNAME = re.compile(r"[\w.-]+")

_DURATION = re.compile(rf"(?:({_ID})-)?({_ID}):({_ID}):({_ID})")

# `sbatch --parsable` prints the number, and the cluster's name where there are several clusters.
_JOB = re.compile(rf"^({_ID})(?:;\S+)?$", re.MULTILINE)


def read_job_number(text: str) -> int | None:
    """Parse the job number from sbatch's output; notices before it may be numbers too."""
    numbers = _JOB.findall(text)
    return int(numbers[-1]) if numbers else None


def read_limits(text: str) -> Limits | None:
    """Parse ``scontrol show config``."""
    settings = {
        key.strip(): value.strip()
        for key, equals, value in (line.partition("=") for line in text.splitlines())
        if equals
    }
    if "SLURM_VERSION" not in settings:
        return None
    default = Limits(version=settings["SLURM_VERSION"])
    return Limits(
        version=default.version,
        max_array_size=_number(settings.get("MaxArraySize"), default.max_array_size),
        min_job_age_s=_number(settings.get("MinJobAge"), default.min_job_age_s),
        kill_wait_s=_number(settings.get("KillWait"), default.kill_wait_s),
        has_accounting="slurmdbd" in settings.get("AccountingStorageType", ""),
        requeues=settings.get("JobRequeue") != "0",
        preemption=settings.get("PreemptMode", default.preemption),
        cluster=settings.get("ClusterName", default.cluster),
        controller=_controller(settings),
    )


def _controller(settings: Mapping[str, str]) -> str:
    """Return the address of the first controller, even while a backup is active."""
    host, port = settings.get("SlurmctldHost[0]", ""), settings.get("SlurmctldPort", "")
    return f"{host.partition('(')[0]}:{port}" if host else ""


def read_hostnames(text: str) -> Sequence[str] | None:
    """Parse ``scontrol show hostnames``: a name in each line."""
    names = text.split("\n")[:-1]
    return names if names and all(map(_HOSTNAME.fullmatch, names)) else None


def read_nodes(text: str) -> Sequence[SlurmNode] | None:
    """Parse sinfo's lines of `NODE_FORMAT`."""
    rows = _rows(text, NODE_FORMAT, "NODELIST")
    if rows is None:
        return None
    return [
        SlurmNode(
            name=name,
            partition=partition.removesuffix("*"),
            is_default=partition.endswith("*"),
            state=state.lower(),
            cpus=_number(cpus, 1),
            memory_bytes=_number(memory, 0) * _MIB,
            gres=read_gres(gres),
            features=tuple(f for f in features.split(",") if f != "(null)"),
            time_limit=limit,
            reason="" if reason == "none" else reason,
        )
        for name, partition, state, cpus, memory, limit, features, gres, reason in rows
    ]


def read_queue(text: str) -> Sequence[Queued] | None:
    """Parse squeue's lines of `QUEUE_FORMAT`; expand an array's line into its units."""
    rows = _rows(text, QUEUE_FORMAT, "JOBID")
    if rows is None:
        return None
    queued: list[Queued] = []
    for row in rows:
        units = _queued(*row)
        if units is None:
            return None
        queued += units
    return queued


def read_accounting(text: str) -> Sequence[Accounted] | None:
    """Parse sacct's lines of `ACCOUNT_FORMAT`; keep the last try of a requeued unit."""
    lines = text.splitlines()
    header = ACCOUNT_FORMAT.replace(",", "|")
    if header not in lines:
        return None
    width = header.count("|") + 1
    by_unit: dict[Unit, Accounted] = {}
    for line in lines[lines.index(header) + 1 :]:
        fields = line.split("|")
        if len(fields) != width:
            continue
        step = _STEP.fullmatch(fields[0])
        for unit in _units(step["unit"] if step else fields[0]) or ():
            accounted = _accounted(unit, fields[1:])
            if step is None:
                by_unit[unit] = accounted
            elif unit in by_unit:
                by_unit[unit] = _with_step(by_unit[unit], accounted)
    return list(by_unit.values())


def read_jobs(text: str) -> Sequence[Accounted] | None:
    """Parse ``scontrol --oneliner show job``."""
    if "No jobs in the system" in text:
        return []
    lines = [line for line in text.splitlines() if line.startswith("JobId=")]
    return [job for line in lines for job in _jobs(line)] if lines else None


def _rows(text: str, form: str, first: str) -> list[list[str]] | None:
    """Return the fields of an answer's lines after its header."""
    width = form.count("|")
    lines = [line for line in text.splitlines() if line.startswith(f"{_MARK}|")]
    if not lines or not lines[0].startswith(f"{_MARK}|{first}|"):
        return None
    rows = [line.split("|", width)[1:] for line in lines[1:]]
    # A truncated line makes the whole answer doubtful.
    return None if any(len(row) != width for row in rows) else rows


# An array of a thousand elements keeps the same line until its first element begins.
@functools.lru_cache(maxsize=64)
def _queued(
    units: str, name: str, state: str, nodes: str, reason: str
) -> tuple[Queued, ...] | None:
    parsed_units = _units(units)
    if parsed_units is None:
        return None
    where, known = nodes.replace("(null)", ""), read_state(state)
    return tuple(
        Queued(
            unit=unit,
            name=name,
            state=known,
            word=state,
            reason=reason,
            nodes=where,
        )
        for unit in parsed_units
    )


def _units(words: str) -> Sequence[Unit] | None:
    """Expand ``80``, ``80_3`` or ``80_[3,7-9%2]`` into units."""
    match = _UNIT.fullmatch(words)
    if match is None:
        return None
    job = int(match["job"])
    if match["many"] is not None:
        elements = _expanded(match["many"])
        return None if elements is None else [Unit(job, element) for element in elements]
    return [Unit(job, None if match["one"] is None else int(match["one"]))]


def _expanded(ranges: str) -> Sequence[int] | None:
    """Return the elements of an array; None where there are more than Slurm allows."""
    elements: list[int] = []
    for part in ranges.split(","):
        match = _RANGE.fullmatch(part)
        if match is not None:
            first, last, step = match.groups()
            some = range(int(first), int(last or first) + 1, int(step or 1) or 1)
            if len(elements) + len(some) > _MAX_ARRAY_SIZE:
                return None
            elements += some
    return elements


def _accounted(unit: Unit, fields: Sequence[str]) -> Accounted:
    """Return a record from the fields of `ACCOUNT_FORMAT` after the first."""
    state, code, nodes, rss, end, partition, limit, ran = fields
    exit_code, _, signal = code.partition(":")
    return Accounted(
        unit=unit,
        state=read_state(state),
        word=state,
        exit_code=_number(exit_code, 0),
        signal=_number(signal, 0),
        nodes="" if nodes in ("None assigned", "(null)") else nodes,
        max_rss_bytes=_number(rss, 0) * _KIB or None,
        ended_at=_time(end),
        partition=partition,
        time_limit_s=_seconds(limit),
        ran_s=_seconds(ran),
    )


def _with_step(unit: Accounted, step: Accounted) -> Accounted:
    most = max(unit.max_rss_bytes or 0, step.max_rss_bytes or 0) or None
    is_memory = step.state == "out_of_memory" or step.signal == _SIGNAL_OF_MEMORY
    state = "out_of_memory" if is_memory else unit.state
    return dataclasses.replace(unit, state=state, max_rss_bytes=most)


def _jobs(line: str) -> Iterator[Accounted]:
    # The first field of a name counts, as a comment may hold any text and comes later.
    fields: Mapping[str, str] = dict(
        part.partition("=")[::2] for part in reversed(line.split(" ")) if "=" in part
    )
    array, element = fields.get("ArrayJobId"), fields.get("ArrayTaskId")
    units = _units(fields["JobId"] if array is None else f"{array}_[{element}]")
    names = ("JobState", "ExitCode", "NodeList", "", "EndTime", "Partition", "TimeLimit", "RunTime")
    for unit in units or ():
        yield _accounted(unit, [fields.get(name, "") for name in names])


def _number(words: str | None, default: int) -> int:
    match = re.match(_SIZE, words or "")
    return int(match[0]) if match else default


def _seconds(words: str) -> float | None:
    """Parse a duration such as ``1-02:03:04`` or ``02:03:04``; None for any other text."""
    match = _DURATION.fullmatch(words)
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def _time(words: str) -> datetime | None:
    try:
        return datetime.fromisoformat(words).replace(tzinfo=UTC)
    except ValueError:
        return None
