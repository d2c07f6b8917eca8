"""Limits of a QOS or an association that never let a job start, compared with its request.

Slurm gives the same reason, such as ``QOSGrpCpuLimit``, to a job that waits for others to end and
to a job that exceeds the limit alone. This module only parses texts; `SlurmCommands` fetches them.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence

# Columns of sacctmgr(1) that limit what one job may ever have, each with words for its scope.
_LIMITS: Mapping[str, str] = {
    "GrpTRES": "in all",
    "MaxTRES": "for a job",
    "MaxTRESPU": "for a user",
    "MaxTRESPA": "for an account",
}
QOS_FIELDS: tuple[str, ...] = ("Name", *_LIMITS)
ASSOCIATION_FIELDS: tuple[str, ...] = ("Account", "User", "GrpTRES", "MaxTRES")

_AMOUNT = re.compile(r"([\d.]+)([KMGTP]?)")
_UNITS = {unit: 1024.0**power for power, unit in enumerate("MGTP")} | {"K": 1 / 1024}

# Only limits on amounts of resources compare with a request; limits on jobs and time do not.
_REASON = re.compile(r"(QOS|Assoc)(Grp|Max)\w*?(Cpu|CPU|Mem|Memory|GRES|Node|Billing|License)")


@dataclasses.dataclass(frozen=True)
class AskedJob:
    """The resources that a job requests, as scontrol shows them.

    Attributes:
        tres: Amounts by Slurm's name of a resource: ``cpu``, ``mem`` in MiB, ``gres/gpu``.
        qos: Name of the job's QOS.
        account: Name of the job's account; empty where there are no accounts.
        partition: Name of the job's partition.
    """

    tres: Mapping[str, float]
    qos: str
    account: str
    partition: str


def is_amount_limit(reason: str) -> bool:
    """Return whether squeue's reason is a limit on the amount of a resource."""
    return _REASON.match(reason) is not None


def read_asked(text: str) -> AskedJob | None:
    """Parse ``scontrol --oneliner show job``; of an array, its first line."""
    line = next((line for line in text.splitlines() if line.startswith("JobId=")), "")
    fields = dict(re.findall(r"(?:^| )(\w+)=(\S*)", line))
    tres = fields.get("ReqTRES") or fields.get("TRES")
    if not tres:
        return None
    account = fields.get("Account", "").removeprefix("(null)")
    return AskedJob(_tres(tres), fields.get("QOS", ""), account, fields.get("Partition", ""))


def why_never(job: AskedJob, user: str, qos: Sequence[str], associations: Sequence[str]) -> str:
    """Return why a job can never start, in words; empty where it may start.

    Args:
        job: Resources that the job requests.
        user: Name of the job's user.
        qos: Lines of ``sacctmgr -nP show qos`` with `QOS_FIELDS`, for the job's QOS and its
            partition's.
        associations: Lines of ``sacctmgr -nP show associations`` with `ASSOCIATION_FIELDS`, for the
            job's account.
    """
    return next(_beyond(job, user, qos, associations), "")


def _beyond(
    job: AskedJob, user: str, qos: Sequence[str], associations: Sequence[str]
) -> Iterator[str]:
    for line in qos:
        row = dict(zip(QOS_FIELDS, line.split("|"), strict=False))
        yield from _over(job, row, f"QOS {row['Name']}")
    for line in associations:
        row = dict(zip(ASSOCIATION_FIELDS, line.split("|"), strict=False))
        if row.get("User") in ("", user):
            whose = f"user {row['User']} of " if row["User"] else ""
            yield from _over(job, row, f"{whose}account {row['Account']}")


def _over(job: AskedJob, row: Mapping[str, str], whose: str) -> Iterator[str]:
    for field, words in _LIMITS.items():
        for name, most in _tres(row.get(field, "")).items():
            much = job.tres.get(name, 0.0)
            if much > most:
                unit = " MiB" if name == "mem" else ""
                yield (
                    f"it asks for {name}={much:g}{unit}, and {whose} allows {most:g}{unit} "
                    f"{words} ({field})"
                )


def _tres(text: str) -> dict[str, float]:
    amounts = {}
    for part in text.split(","):
        name, _, written = part.partition("=")
        amount = _AMOUNT.fullmatch(written)
        if amount is not None:
            # Slurm writes memory without a unit in MiB.
            amounts[name] = float(amount[1]) * (_UNITS[amount[2] or "M"] if name == "mem" else 1.0)
    return amounts
