"""Explains Slurm's states, reasons to wait, and refusals, with advice.

Slurm's own terms stay in the messages, so that users can look them up in its manuals.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tarmac.slurm.interface import UnitState

# squeue(1) and sacct(1), "JOB STATE CODES"; the states of a job that may still run are "JOB STATE
# FLAGS" in newer versions.
_STATES: Mapping[str, UnitState] = {
    "PENDING": "pending",
    "CONFIGURING": "pending",
    "RUNNING": "running",
    "RESIZING": "running",
    "SIGNALING": "running",
    "STAGE_OUT": "completing",
    "COMPLETING": "completing",
    "COMPLETED": "completed",
    "FAILED": "failed",
    "TIMEOUT": "timeout",
    "DEADLINE": "timeout",
    "OUT_OF_MEMORY": "out_of_memory",
    "PREEMPTED": "preempted",
    "NODE_FAIL": "node_fail",
    "BOOT_FAIL": "node_fail",
    "LAUNCH_FAILED": "node_fail",
    "RECONFIG_FAIL": "node_fail",
    "CANCELLED": "cancelled",
    "REQUEUED": "requeued",
    "REQUEUE_FED": "requeued",
    "REQUEUE_HOLD": "requeued",
    "SPECIAL_EXIT": "requeued",
    "SUSPENDED": "suspended",
    "STOPPED": "suspended",
}

# squeue(1), "JOB REASON CODES", and Slurm's page on resource limits for QOS*, Assoc*.
REASONS: Mapping[str, str] = {
    "None": "was just submitted",
    "Priority": "waits for its turn",
    "Resources": "is next; waits for free resources",
    "Dependency": "waits for another job",
    "BeginTime": "waits for its begin time, or for a moment after a requeue",
    "Cleaning": "its last attempt is still being cleaned up",
    "JobArrayTaskLimit": "waits because the array's limit of running tasks is reached",
    "JobHeldUser": "is held by its user; release it: scontrol release",
    "JobHeldAdmin": "is held by an administrator, who must release it",
    "AccountNotAllowed": "the partition does not accept this account; choose another `account`",
    "InvalidAccount": "the account is unknown or has expired; choose another `account`",
    "InvalidQOS": "the QOS is unknown or has expired; choose another `qos`",
    "QOSNotAllowed": "the partition or account does not accept this QOS; choose another `qos`",
    "BadConstraints": "no node can satisfy its request; change `constraint` or request less",
    "DependencyNeverSatisfied": "never starts: the job that it depends on failed",
    "Licenses": "waits for a licence",
    "NodeDown": "a node that it needs is down",
    "PartitionConfig": "it requests more than its partition allows; request less, or choose "
    "another `partition`",
    "PartitionDown": "its partition is down; choose another `partition`, or wait",
    "PartitionInactive": "its partition accepts no jobs; choose another `partition`, or wait",
    "PartitionNodeLimit": "it requests more nodes than its partition allows, or nodes are down",
    "PartitionTimeLimit": "its time limit exceeds the partition's; shorten `time` or choose "
    "another `partition`",
    "ReqNodeNotAvail": "nodes that it needs are down, drained or reserved. If a maintenance "
    "begins before its time limit ends, shorten `time`",
    "Reservation": "waits for its reservation to begin",
    "ReservationDeleted": "its reservation is gone; choose another `reservation`",
    "FrontEndDown": "the node that would start it is down",
    "InvalidJobLocalAccount": "the account is unknown; choose another `account`",
    "MaxGRESPerAccount": "the account uses all GPUs that it may use at once",
    "MaxMemPerLimit": "it requests more memory per CPU or node than is allowed; lower `memory`",
    "Prolog": "its node is being prepared",
    "WaitingForScheduling": "was just submitted",
}

# The resource that a limit of a user, group, account or QOS concerns, by the end of its name.
_LIMITED: Mapping[str, str] = {
    "Cpu": "CPUs",
    "GRES": "GPUs",
    "Memory": "memory",
    "Mem": "memory",
    "Node": "nodes",
    "Jobs": "jobs",
    "Job": "jobs",
    "SubmitJob": "jobs in the queue",
    "Submit": "jobs in the queue",
    "Wall": "time",
    "WallDuration": "time",
    "Billing": "billing units",
    "BB": "burst buffers",
    "License": "licences",
    "RunMinutes": "minutes",
    "Minutes": "minutes",
    "Unknown": "some resource",
}

# Message of partition_mgr.c: Job's QOS not permitted to use this partition (a allows b not c)
_NOT_PERMITTED = re.compile(
    r"Job's (?P<kind>QOS|account) not (?:permitted to|known, so it can't) use this partition"
)

_LIMIT = re.compile(
    r"(?P<whose>QOS|Assoc|Association)(?P<which>Grp|Max|Group|Min)(?P<rest>\w*?)(?:Limit|Cpu)?$"
)

# Messages of the client and the network, from slurm_errno.c in the versions 20.02 to 25.05. They
# leave open whether the controller has carried out the request.
_SILENCES = re.compile(
    r"socket timed out|timed out on send|unable to contact slurm controller"
    r"|unable to establish|connection refused|connection reset|connection timed out"
    r"|communications? (?:connection|shutdown|send|receive|failure|error)"
    r"|zero bytes were transmitted|unexpected message received|insane message length"
    r"|header lengths are longer|message receive failure|message send failure"
    r"|slurm backup controller in standby|temporarily unable to accept"
    r"|resource temporarily unavailable|protocol authentication error|invalid authentication"
    r"|munge encode failed|munged communication error|failed to connect to any"
    r"|unable to resolve|no route to host|network is unreachable|slurm controller not responding"
    r"|slurm database daemon|slurmdbd.*(?:refused|failed)|problem talking to the database"
    r"|job credential (?:expired|replayed)|unable to process configuration file"
    r"|transport endpoint is not connected|broken pipe",
    re.IGNORECASE,
)

# Refusals that stop once fewer of the user's jobs are in the queue.
_FULL = re.compile(
    r"AssocMaxSubmit|AssocGrpSubmit|QOSMaxSubmit|QOSGrpSubmit|MaxSubmitJob"
    r"|job violates accounting/qos policy|too many jobs|maximum job ?count|MaxJobCount"
    r"|job submit limit|slurm temporarily unable to accept job",
    re.IGNORECASE,
)

REFUSALS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), words)
    for pattern, words in (
        (
            r"invalid partition",
            "Choose another `partition`; `sinfo` lists them.",
        ),
        (
            r"invalid account or account/partition",
            "The account is unknown, has expired, or may not use this partition: choose another "
            "`account`; `sacctmgr show associations user=$USER` lists yours.",
        ),
        (
            r"invalid qos",
            "Choose another `qos`; `sacctmgr show associations user=$USER` lists yours.",
        ),
        (
            r"requested node configuration is not available",
            "No node of the partition has enough CPUs, GPUs or memory; `sinfo -N -o "
            "'%N %P %c %m %G'` lists them.",
        ),
        (
            r"invalid generic resource|gres",
            "Slurm has no such GPUs here; `sinfo -o %G` lists the GPUs of nodes.",
        ),
        (
            r"requested time limit is invalid|time limit.*(?:exceeds|invalid)",
            "Shorten `time`; `sinfo -o '%P %l'` shows what each partition allows.",
        ),
        (
            r"reservation",
            "Choose another `reservation`; `scontrol show reservation` lists them.",
        ),
        (
            r"invalid (?:job )?array",
            "The site does not allow an array of this size; `scontrol show config` shows "
            "MaxArraySize.",
        ),
        (
            r"invalid feature|constraint",
            "Choose another `constraint`; `sinfo -o '%N %f'` shows what nodes have.",
        ),
        (
            r"more processors requested than permitted|node count specification invalid",
            "Request fewer CPUs or nodes, or choose another `partition`.",
        ),
        (
            r"memory specification can ?not be satisfied|memory.*limit",
            "Request less memory, or choose another `partition`.",
        ),
        (
            r"user.*(?:not (?:permitted|allowed)|access denied)|permission denied|group not",
            "Ask the administrators for access to this partition, or choose another.",
        ),
    )
)


def read_state(word: str) -> UnitState:
    """Return the state for Slurm's word for it, such as ``CANCELLED by 1002``."""
    first = word.strip().partition(" ")[0].rstrip("+*")
    return _STATES.get(first.upper(), "other")


def explain_reason(reason: str) -> str:
    """Return why a job waits and what would help, with Slurm's own reason in brackets.

    Args:
        reason: Reason as squeue shows it: ``Priority``, ``(launch failed requeued held)``.
    """
    reason = reason.strip()
    if reason.startswith("(") and reason.endswith(")"):
        reason = reason[1:-1]
    key = reason.partition(",")[0].strip()
    words = REASONS.get(key) or _held(reason) or _not_permitted(reason) or _limit(key)
    if words is None:
        return f"waits: {reason}" if reason else "waits"
    # The full reason follows, as it may name nodes.
    return f"{words} ({reason})"


def explain_refusal(words: str) -> str:
    """Return Slurm's refusal in one line, followed by a line of advice where there is any."""
    message = _said(words)
    advice = next((advice for pattern, advice in REFUSALS if pattern.search(message)), None)
    return message if advice is None else f"{message}\n{advice}"


def explain_full(words: str) -> str:
    """Return what a refusal for a full queue means for further jobs, with Slurm's term."""
    named = re.search(r"\b(?:Assoc|QOS|Max)[A-Z]\w+", words)
    return (
        "the site accepts no more of your jobs now; the others follow as jobs end "
        f"({named[0] if named else _said(words)})"
    )


def is_full(words: str) -> bool:
    """Return whether a refusal stops once fewer of the user's jobs are in the queue."""
    return _FULL.search(words) is not None


def is_silence(words: str) -> bool:
    """Return whether a command's message only says that Slurm could not be reached."""
    return _SILENCES.search(words) is not None


def _said(words: str) -> str:
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    return "; ".join(re.sub(r"^(?:sbatch: )?(?:error: )?", "", line) for line in lines)


def _not_permitted(reason: str) -> str | None:
    match = _NOT_PERMITTED.match(reason)
    if match is None:
        return None
    kind = match["kind"]
    return (
        f"never starts: its partition does not accept its {kind}; choose another `partition` or "
        f"another `{kind.lower()}`"
    )


def _held(reason: str) -> str | None:
    if "requeued held" in reason:
        return (
            "could not be started and is held; read its node's log, then release it: scontrol "
            "release JOB"
        )
    return None


def _limit(key: str) -> str | None:
    match = _LIMIT.match(key)
    if match is None:
        return None
    whose = "the QOS" if match["whose"] == "QOS" else "the account or its user"
    rest = re.sub(r"^(?:TRES|Per(?:User|Account|Job)|Max)+", "", match["rest"])
    rest = re.sub(r"(?:Per(?:User|Account|Job|Acct|PU|PA|PJ|Node)|PU|PA|PJ)+$", "", rest)
    what = _LIMITED.get(rest, rest or "resources")
    if "Per" in match["rest"] and "Job" in match["rest"].partition("Per")[2]:
        return f"requests more {what} than {whose} allows per job; request less"
    return f"waits until {whose} is below its limit of {what}"
