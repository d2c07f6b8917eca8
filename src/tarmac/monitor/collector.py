"""Repeated looks at this machine: GPUs, processes and work, joined and judged."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import pwd
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tarmac.checks import last_check_file
from tarmac.files import Readings
from tarmac.machine import (
    HostReader,
    LiveGpu,
    LiveHost,
    NvmlProblem,
    XidSeen,
    open_live_reader,
    read_module_version,
)
from tarmac.monitor.candidates import Candidate, candidates_of
from tarmac.monitor.containers import ContainerNames
from tarmac.monitor.filters import filtered
from tarmac.monitor.findings import Watchlist, findings_of_news
from tarmac.monitor.idle import IdleClock, Standing, standing_of
from tarmac.monitor.joining import Join, join, slurm_job_of
from tarmac.monitor.last_check import findings_of_check, is_of_machine
from tarmac.monitor.processes import FileId, Process, ProcessTable
from tarmac.monitor.run_discovery import RunDiscovery, runs_among
from tarmac.monitor.slow import GpuPast, throttled_shares
from tarmac.monitor.snapshot import Finding, HostSnapshot, ProcessRow, Work
from tarmac.monitor.works import Facts, is_warming, work_of
from tarmac.process_ids import boot_id
from tarmac.runs import Glance, default_output

if TYPE_CHECKING:
    from tarmac.checks import KernelNews, KernelWatch
    from tarmac.monitor.options import WatchOptions

# Time over which counters of lowered clocks are compared.
_PAST_S = 60.0

# The first look waits this long, because CPU shares refer to a time span.
_FIRST_SHARE_S = 0.05

# The first look waits at most this long for names of containers. Later looks do not wait.
_FIRST_NAMES_S = 0.5

# Ended work is shown for this long.
_ENDED_FOR = timedelta(minutes=5)

# Thousands of tasks and trials may end in that time; only the last ones are shown.
_MAX_ENDED_PARTS = 32

# Digits of a container's ID, as engines show it.
_SHORT = 12


class GpuReader(Protocol):
    """A reader of GPUs, such as `tarmac.machine.LiveReader`."""

    def read(self, *, details: bool = False) -> tuple[LiveGpu, ...]:
        """Return all GPUs as they are now; ``details`` adds the traffic of their links."""
        ...

    def new_xids(self) -> tuple[XidSeen, ...]:
        """Return the errors that the driver reported since the last call."""
        ...

    def close(self) -> None:
        """Release the driver."""
        ...


@dataclasses.dataclass(frozen=True)
class _Ended:
    work: Work
    since: datetime


class Watcher:
    """A monitor of this machine, with an open driver and a cache of files.

    Args:
        options: Filters for GPUs, runs and processes.
        gpus: Reader of GPUs. Default: all GPUs of this machine.
        processes: Table of processes. Default: the processes of this machine.
    """

    def __init__(
        self,
        options: WatchOptions,
        *,
        gpus: GpuReader | None = None,
        processes: ProcessTable | None = None,
    ) -> None:
        self._options = options
        opened = gpus or open_live_reader()
        self._reader = None if isinstance(opened, NvmlProblem) else opened
        self._no_gpu_reason = _why_none(opened) if isinstance(opened, NvmlProblem) else ""
        self._host_reader = HostReader()
        self._table = processes or ProcessTable()
        self._readings = Readings()
        self._output = (options.output or default_output()).resolve()
        self._runs = RunDiscovery(self._output, self._readings)
        self._containers = ContainerNames()
        self._clock = IdleClock()
        self._watchlist = Watchlist()
        self._kernel: KernelWatch | None = None
        self._has_looked = False
        self._past: dict[str, deque[GpuPast]] = {}
        self._elsewhere: dict[FileId, tuple[Path, ...]] = {}
        self._works: dict[str, Work] = {}
        self._ended: dict[str, _Ended] = {}
        self._user = _user_name()
        self._boot_id: str | None = None
        with contextlib.suppress(OSError):
            self._boot_id = boot_id()

    def look(self) -> HostSnapshot:
        """Return this machine as it is now."""
        now, is_first = datetime.now(UTC), not self._has_looked
        # The driver takes a while to count link traffic; a single snapshot does not wait for it.
        gpus = () if self._reader is None else self._reader.read(details=not is_first)
        host = self._read_host()
        news = self._news()
        self._watchlist = self._watchlist.advanced(gpus, findings_of_news(news, gpus), now)
        holders = self._table.lock_holders()
        glances = self._runs.look(self._runs_elsewhere(holders))
        findings = (*self._watchlist.findings, *self._last_check(glances, gpus))
        processes, candidates = self._processes(gpus, glances, holders)
        numbers = {p.container for p in processes.values() if p.container}
        names = self._containers.look(numbers)
        if is_first and numbers:
            # A task in a container is known only by the container's name.
            self._containers.wait(_FIRST_NAMES_S)
            names = self._containers.look(numbers)
        joined = join(gpus, processes, candidates, names)
        standings = _standings(gpus, joined, candidates, findings, now)
        self._clock = self._clock.advanced(standings, now, _last_activity(glances))
        facts = Facts(
            gpus={gpu.uuid: gpu for gpu in gpus},
            processes=processes,
            joined=joined,
            idle_s=self._clock.idle_s(now),
            throttled=self._throttled(gpus),
            quota_ratio=host.throttled_ratio,
            group=processes[os.getpid()].group if os.getpid() in processes else "",
            findings=findings,
            idle_after_s=self._options.idle_after_s,
            user=self._user,
            now=now,
        )
        works = tuple(work_of(candidate, facts) for candidate in candidates)
        snapshot = HostSnapshot(
            at=now,
            host=host,
            gpus=gpus,
            gpu_states={uuid: standing.state for uuid, standing in standings.items()},
            gpu_idle_s=dict(facts.idle_s),
            processes=tuple(_rows(gpus, facts, names)),
            work=(*works, *self._ended_since(works, now)),
            findings=findings,
            no_gpu_reason=self._no_gpu_reason,
        )
        return filtered(snapshot, self._options, self._user, os.environ)

    def close(self) -> None:
        """Close the driver; further calls do nothing."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        if self._kernel is not None:
            self._kernel.close()
            self._kernel = None

    def _read_host(self) -> LiveHost:
        """Return the host, with shares since the last look or, at first, over a short wait."""
        if self._has_looked:
            return self._host_reader.read()
        self._host_reader.read()
        time.sleep(_FIRST_SHARE_S)
        # A quota is counted in periods, and so short a wait may have none.
        return dataclasses.replace(self._host_reader.read(), throttled_ratio=None)

    def _news(self) -> tuple[KernelNews, ...]:
        """Return the errors of GPUs since the last look."""
        xids = () if self._reader is None else self._reader.new_xids()
        # A single snapshot sees no new errors, so it does not import the catalogue.
        if self._kernel is None and self._reader is not None and (xids or self._has_looked):
            from tarmac.checks import KernelWatch  # noqa: PLC0415

            self._kernel = KernelWatch()
        self._has_looked = True
        return () if self._kernel is None else self._kernel.new(xids)

    def _runs_elsewhere(self, holders: Mapping[FileId, int]) -> Iterator[Path]:
        """Yield runs in other directories that local processes work on, found by their locks."""
        for file in self._elsewhere.keys() - holders.keys():
            del self._elsewhere[file]
        for file, pid in holders.items():
            if file not in self._elsewhere:
                directories = self._table.locked_directories(pid, ".lock")
                # A task's training may be anywhere below its job.
                paths = [
                    path
                    for path in directories
                    if self._options.output is None or path.is_relative_to(self._output)
                ]
                self._elsewhere[file] = tuple(paths)
            # A new run's directory is locked before it holds a record, so check it at each look.
            yield from runs_among(self._elsewhere[file])

    def _processes(
        self, gpus: Sequence[LiveGpu], glances: Sequence[Glance], holders: Mapping[FileId, int]
    ) -> tuple[dict[int, Process], tuple[Candidate, ...]]:
        """Return all relevant processes, and the runs with the processes of each."""
        locks = {
            part.name: [file for lock in part.locks if (file := FileId.of(lock)) is not None]
            for glance in glances
            for part in (glance, *glance.parts)
        }
        roots = {
            part.name: {*part.pids, *(holders[f] for f in locks[part.name] if f in holders)}
            for glance in glances
            for part in (glance, *glance.parts)
        }
        on_gpus = {row.pid for gpu in gpus for row in gpu.processes if row.pid is not None}
        processes = self._table.look({os.getpid(), *on_gpus, *itertools.chain(*roots.values())})
        started: dict[int, tuple[int, ...]] = {}
        for glance in glances:
            for pid in () if glance.kind == "search" else roots[glance.name]:
                started[pid] = self._table.children(pid)
                # The other ranks of a training by torchrun are torchrun's other children.
                if pid in processes and "RANK" in processes[pid].variables:
                    started[pid] += self._table.children(processes[pid].parent)
        processes |= self._table.look(itertools.chain(*started.values()))
        return processes, candidates_of(glances, processes, holders, locks, started)

    def _last_check(
        self, glances: Sequence[Glance], gpus: Sequence[LiveGpu]
    ) -> tuple[Finding, ...]:
        """Return the findings of the last check by this user or at the start of a run."""
        files = [last_check_file(), *(glance.path / "check.json" for glance in glances)]
        # The driver may be loaded again, in another version, while this monitor watches.
        driver = read_module_version()
        reports = [
            report
            for report in map(self._readings.fields, files)
            if is_of_machine(report, boot_id=self._boot_id, driver=driver)
        ]
        known = [(at, number) for number, r in enumerate(reports) if (at := r.moment("checked_at"))]
        return findings_of_check(reports[max(known)[1]], gpus) if known else ()

    def _throttled(self, gpus: Sequence[LiveGpu]) -> dict[str, dict[str, float]]:
        """Return the share of the last minute with lowered clocks, by GPU and reason."""
        at_s = time.monotonic()
        shares = {}
        for gpu in gpus:
            past = self._past.setdefault(gpu.uuid, deque())
            while len(past) > 1 and past[1].at_s <= at_s - _PAST_S:
                past.popleft()
            shares[gpu.uuid] = throttled_shares(gpu, past[0] if past else None, at_s)
            past.append(GpuPast(at_s, gpu.throttled_s))
        return shares

    def _ended_since(self, works: Sequence[Work], now: datetime) -> tuple[Work, ...]:
        """Return work that was seen before and has ended, with its final state."""
        current = {work.id: work for work in works}
        for gone in [name for name in self._works if name not in current]:
            work = self._works[gone]
            if work.parent is not None and work.state == "waiting":
                # Only the first waiting parts are listed; this part is still in its queue.
                continue
            last = None if work.parent is not None else self._runs.last_of(Path(work.path))
            status = "ended" if last is None else last.status
            note = work.note if last is None else last.note
            ended = dataclasses.replace(
                work,
                status=status,
                state="ended",
                note=note,
                slow=(),
                advice=(),
                pids=(),
                gpu_uuids=(),
                idle_s=None,
                eta_s=None,
            )
            if last is not None:
                ended = dataclasses.replace(
                    ended,
                    epoch=last.epoch,
                    loss=last.loss,
                    metric_name=last.metric_name,
                    metric=last.metric,
                    done=last.done,
                    total=last.total,
                )
            self._ended[gone] = _Ended(ended, now)
        self._works = current
        known = {
            name: entry
            for name, entry in self._ended.items()
            if name not in current and now - entry.since < _ENDED_FOR
        }
        parts = [name for name, entry in known.items() if entry.work.parent is not None]
        for name in parts[:-_MAX_ENDED_PARTS]:
            del known[name]
        self._ended = known
        return tuple(entry.work for entry in self._ended.values())


def _standings(
    gpus: Sequence[LiveGpu],
    joined: Join,
    candidates: Sequence[Candidate],
    findings: Sequence[Finding],
    now: datetime,
) -> dict[str, Standing]:
    """Return the state of each GPU, by UUID."""
    bad = {finding.gpu_uuid for finding in findings if finding.level == "failure"}
    holders: dict[str, list[Glance]] = {}
    for candidate in candidates:
        for uuid in joined.gpus_of.get(candidate.id, ()):
            holders.setdefault(uuid, []).append(candidate.glance)
    cut_up = {gpu.parent_uuid for gpu in gpus}
    standings = {}
    for gpu in gpus:
        # The trainings in jobs and tasks decide whether these are before their first step.
        trainings = [g for g in holders.get(gpu.uuid, ()) if g.kind == "training"]
        standings[gpu.uuid] = standing_of(
            # The used memory of a card in slices belongs to the slices.
            dataclasses.replace(gpu, memory_used_bytes=None) if gpu.uuid in cut_up else gpu,
            is_given=gpu.uuid in holders,
            is_warming=bool(trainings) and all(is_warming(g, now) for g in trainings),
            is_bad=gpu.uuid in bad,
        )
    return standings


def _last_activity(glances: Sequence[Glance]) -> dict[str, datetime]:
    """Return the time of each GPU's last activity, by UUID, as far as runs have sampled it."""
    times: dict[str, datetime] = {}
    for glance in glances:
        for part in (glance, *glance.parts):
            for uuid, at in part.gpus_active_at.items():
                times[uuid] = max(at, times.get(uuid, at))
    return times


def _rows(gpus: Sequence[LiveGpu], facts: Facts, names: Mapping[str, str]) -> Iterator[ProcessRow]:
    for gpu in gpus:
        for row in gpu.processes:
            process = facts.processes.get(row.pid) if row.pid is not None else None
            common = ProcessRow(
                pid=row.pid,
                gpu_uuid=gpu.uuid,
                memory_bytes=row.memory_bytes,
                sm_ratio=row.sm_ratio,
                work=facts.joined.work_of.get((gpu.uuid, row.driver_pid)),
            )
            if process is None:
                yield common
                continue
            container = names.get(process.container) or process.container[:_SHORT]
            yield dataclasses.replace(
                common,
                user=process.user,
                command=process.command,
                cpu_ratio=process.cpu_ratio,
                rss_bytes=process.rss_bytes,
                started_at=process.started_at,
                container=container or None,
                slurm_job=slurm_job_of(process),
            )


def _user_name() -> str:
    uid = os.getuid()
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _why_none(problem: NvmlProblem) -> str:
    """Return why there is no GPU, without PyTorch, which would take seconds."""
    if problem.is_absence:
        return "no GPU is here"
    return f"NVIDIA's driver does not answer: {problem.text}"
