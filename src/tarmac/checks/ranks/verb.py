"""``tarmac check --ranks all``: rank 0 leads the check and reports, and all other ranks follow."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from tarmac.checks.evidence import Evidence, Probe
from tarmac.checks.inventory import read_inventory
from tarmac.checks.ranked import Ranks
from tarmac.checks.ranks.lead import Lead
from tarmac.checks.ranks.member import follow
from tarmac.checks.ranks.place import Place, find_place
from tarmac.checks.report.make import make_report
from tarmac.checks.report.model import Report
from tarmac.checks.report.requirements import parse_requirements
from tarmac.checks.targets import THIS_PYTHON, python_target
from tarmac.errors import RequestError, TarmacError

# NCCL takes some seconds to connect two hosts, and a message a fraction of one.
_ROUND_S = 60.0

_INTERRUPTED = 130


@dataclasses.dataclass(frozen=True)
class RanksChecked:
    """The result of a check by several ranks.

    Attributes:
        report: Report of the check on rank 0; None on all other ranks.
        exit_code: Exit code, the same on all ranks.
    """

    report: Report | None
    exit_code: int


def check_ranks(
    *,
    python: str | Path | None = None,
    devices: Sequence[str] = (),
    require: Sequence[str] = (),
    timeout_s: float = 120.0,
) -> RanksChecked:
    """Compare the hosts of all ranks, and run all-reduces: over all ranks, then in pairs.

    All ranks that torchrun, srun or mpirun has started must call it.

    Args:
        python: Interpreter whose PyTorch computes. Default: this one.
        devices: ``cpu`` to leave GPUs out. Default: GPUs where each rank has its own.
        require: Conditions on rank 0's machine, as for `tarmac.checks.check`.
        timeout_s: Seconds to wait for ranks, above 0. An all-reduce has the same limit, but at most
            60 s. Default 120.

    Raises:
        RequestError: No launcher has started this process, or a requirement is not valid.
        TarmacError: Rank 0 cannot be reached, or is gone.
    """
    started = time.perf_counter()
    place = find_place(os.environ)
    requirements = parse_requirements(require)
    if not timeout_s > 0:
        raise RequestError(f"timeout is {timeout_s:g}, expected above 0 seconds")
    command = (THIS_PYTHON if python is None else python_target(python)).command
    if place.rank:
        code = follow(place, command=command, environment=os.environ, limit_s=timeout_s)
        return RanksChecked(None, code)
    lead = Lead(
        place,
        timeout_s=timeout_s,
        round_s=min(timeout_s, _ROUND_S),
        on_cpu=set(devices) == {"cpu"},
    )
    code = _INTERRUPTED
    own = threading.Thread(
        target=_follow_oneself, args=(place, command, timeout_s), name="tarmac-rank-0", daemon=True
    )
    try:
        own.start()
        ranks = lead.gather()
        probes: tuple[Probe, ...] = ()
        if len(ranks.ranks) > 1:
            probes = (_all_reduce(ranks, lead.add_up([rank.rank for rank in ranks.ranks])),)
            pairs, num_bytes = lead.meet_in_pairs(ranks)
            ranks = ranks.model_copy(update={"pairs": pairs, "message_bytes": num_bytes})
        ranks = ranks.model_copy(update={"lost": dict(lead.lost)})
        evidence = Evidence(inventory=read_inventory(), probes=probes, ranks=ranks)
        seconds = time.perf_counter() - started
        report = make_report(
            evidence,
            requirements=requirements,
            fail_on=None if requirements else "failure",
            seconds=seconds,
        )
        code = 0 if report.ok else 1
    except TarmacError as error:
        code = error.exit_code
        raise
    finally:
        lead.close(code)
        # The thread ends the computing process of this rank.
        own.join()
    return RanksChecked(report, code)


def _follow_oneself(place: Place, command: Sequence[str], limit_s: float) -> None:
    # Where rank 0 cannot reach itself, the report lists it as missing.
    with contextlib.suppress(TarmacError):
        follow(place, command=command, environment=os.environ, limit_s=limit_s)


def _all_reduce(ranks: Ranks, answers: Mapping[int, Mapping[str, Any]]) -> Probe:
    """Return the result of all ranks' all-reduce, in the form of the single machine's probe."""
    hosts = len(ranks.hosts)
    count = len(ranks.ranks)
    result: dict[str, Any] = {"stage": "done", "version": ranks.ranks[0].torch, "devices": []}
    failed = {rank: answer for rank, answer in answers.items() if "error" in answer}
    wrong = [
        rank for rank, answer in answers.items() if not answer.get("answer", {"ok": True})["ok"]
    ]
    if failed or not answers:
        own = {rank: answer for rank, answer in failed.items() if answer.get("own")}
        shown = [f"{ranks.name_of(rank)} {answers[rank]['error']}" for rank in own or failed]
        result["all_reduce"] = {"problem": "hung", "detail": "; ".join(shown[:4])}
    elif wrong:
        names = ", ".join(map(ranks.name_of, wrong))
        result["all_reduce"] = {"problem": "wrong", "detail": f"on {names}"}
    else:
        times = [median(answer["answer"]["seconds"]) for answer in answers.values()]
        size = next(iter(answers.values()))["answer"]["bytes"]
        # The bus bandwidth: see PERFORMANCE.md of NVIDIA's nccl-tests.
        rate = 2.0 * (count - 1) / count * size / max(times)
        kind = "gpu" if ranks.ranks[0].gpu is not None else "cpu"
        result["devices"] = [
            {"name": f"{count} ranks", "kind": kind, "bus_bytes_per_s": rate},
        ]
    return Probe(
        framework="all-reduce",
        where=f"{count} ranks on {hosts} host{'s' if hosts > 1 else ''}",
        outcome="hung" if failed or not answers else "done",
        detail=result.get("all_reduce", {}).get("detail", ""),
        result=result,
    )
