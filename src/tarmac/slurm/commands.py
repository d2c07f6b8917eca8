"""Slurm by its own commands, the same in all of its versions: text in, text out.

What a command prints counts only where its form shows that it is an answer: sites print notices,
wrappers print nothing, and a controller that is busy prints errors and may yet have done what it
was asked. Whatever else comes back is a `Silence`.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import pwd
import re
import shutil
import tempfile
from datetime import UTC, timedelta
from typing import IO, TYPE_CHECKING, TypeVar

from tarmac.masking import without_known
from tarmac.processes import spawn
from tarmac.slurm.answers import (
    ACCOUNT_FORMAT,
    NODE_FORMAT,
    QUEUE_FORMAT,
    read_accounting,
    read_hostnames,
    read_job_number,
    read_jobs,
    read_limits,
    read_nodes,
    read_queue,
)
from tarmac.slurm.interface import Accounted, Silence, Submitted, Unit
from tarmac.slurm.never import ASSOCIATION_FIELDS, QOS_FIELDS, read_asked, why_never
from tarmac.slurm.words import is_silence

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from datetime import datetime

    from tarmac.slurm.interface import Limits, Queued, Script
    from tarmac.slurm.site import SlurmNode

# What leads Slurm's commands to the cluster; all other variables of theirs are another job's.
_LEADING = ("SLURM_CONF", "SLURM_CONF_SERVER")
_SLURMS = re.compile(r"S(?:LURM|BATCH|QUEUE|ACCT|INFO|CANCEL|CONTROL|RUN)_")

# What a job's environment starts from.
_KEPT = ("HOME", "LANG", "LOGNAME", "PATH", "SHELL", "USER")

# More names make a long command line; then all of the user's jobs are shown, and ours picked.
_MAX_NAMES = 64
_MAX_UNITS = 500

# Of scancel's arguments: jobs, and spans of one array's elements.
_MAX_WORDS = 500
_MAX_SPANS = 200

# Of what was said, in a message.
_MAX_SAID = 500

_Answer = TypeVar("_Answer")

# sacct asked from a moment on leaves out what had begun before.
_EARLIER = timedelta(days=1)

# What asks for a unit is told so where it is not known any more: an answer like another.
_GONE = re.compile(
    r"invalid job id|already complet|job has already finished|no jobs in the system", re.IGNORECASE
)

# What an update says of what it comes too late for.
_BEGUN = "no longer pending"

# What sbatch prints where it was refused, or has not even asked.
_REFUSED = re.compile(
    r"batch job submission failed|allocation failure|^sbatch: (?:error|fatal|unrecognized|invalid)",
    re.IGNORECASE | re.MULTILINE,
)


def job_variables(own: Mapping[str, str]) -> dict[str, str]:
    """Return what a job's environment starts from: of one's own, only what holds on all nodes."""
    return {name: own[name] for name in _KEPT if name in own}


class SlurmCommands:
    """The Slurm that its commands on ``PATH`` lead to.

    Args:
        variables: One's own environment, without what Slurm would read of another job in it.
        timeout_s: After which a command has not answered.
    """

    def __init__(self, variables: Mapping[str, str], *, timeout_s: float = 60.0) -> None:
        self._timeout_s = timeout_s
        self._leading = {name: variables[name] for name in _LEADING if name in variables}
        self._variables = {
            **{name: value for name, value in variables.items() if not _SLURMS.match(name)},
            **self._leading,
            # Times are written and read in one zone, whatever the user's is.
            "TZ": "UTC",
            "LC_ALL": "C",
            "SLURM_TIME_FORMAT": "standard",
            # Else squeue cuts off an array's elements after 64 characters.
            "SLURM_BITSTR_LEN": "0",
        }
        self._known_limits: Limits | None = None

    @property
    def is_here(self) -> bool:
        """Whether this machine has the command that submits."""
        return shutil.which("sbatch", path=self._variables.get("PATH")) is not None

    def limits(self) -> Limits | Silence:
        """Return what the site allows; asked once."""
        if self._known_limits is None:
            limits = self._read(read_limits, "scontrol", "show", "config")
            if isinstance(limits, Silence):
                return limits
            self._known_limits = limits
        return self._known_limits

    def nodes(self) -> Sequence[SlurmNode] | Silence:
        """Return the site's nodes, each once for every partition that it is in."""
        return self._read(read_nodes, "sinfo", "--Node", f"--format={NODE_FORMAT}")

    def test(self, script: Script) -> str | Silence | None:
        """Return why a script can never run, in Slurm's words; None where it may."""
        # It sends what the job's environment would start from, as a submission does.
        variables = {**job_variables(self._variables), **self._leading}
        done = self._run(("sbatch", "--test-only"), variables, script.text)
        if isinstance(done, Silence):
            return done
        return None if done.returncode == 0 else _refusal(done)

    def submit(self, script: Script, variables: Mapping[str, str]) -> Submitted | str | Silence:
        """Submit a script; a refusal comes back in Slurm's words.

        Args:
            script: Script to submit, with its name.
            variables: All that the job's environment starts from, such as `job_variables`.

        Returns:
            A `Silence` where it is not known whether it was accepted: look by its name first.
        """
        done = self._run(("sbatch", "--parsable"), {**variables, **self._leading}, script.text)
        if isinstance(done, Silence):
            return done
        number = read_job_number(done.stdout)
        if done.returncode == 0 and number is not None:
            return Submitted(number, script.name)
        if done.returncode == 0 or number is not None:
            return Silence("sbatch", _words(done))
        return _refusal(done)

    def find(self, name: str, since: datetime) -> Submitted | Silence | None:
        """Return what was submitted under a name, queued or ended; None where nothing was."""
        shown = self._queue("--states=all", f"--name={name}")
        if isinstance(shown, Silence):
            return shown
        jobs = {queued.unit.job for queued in shown if queued.name == name}
        if not jobs:
            limits = self.limits()
            if isinstance(limits, Silence):
                return limits
            if limits.has_accounting:
                kept = self._accounting(since, f"--name={name}")
                if isinstance(kept, Silence):
                    return kept
                jobs = {accounted.unit.job for accounted in kept}
        return Submitted(min(jobs), name) if jobs else None

    def queue(self, names: Collection[str]) -> Sequence[Queued] | Silence:
        """Return the units of some scripts that squeue knows, in one call."""
        wanted = frozenset(names)
        chosen = [f"--name={','.join(sorted(wanted))}"] if len(wanted) <= _MAX_NAMES else []
        shown = self._queue(*chosen)
        if isinstance(shown, Silence):
            return shown
        return [queued for queued in shown if queued.name in wanted]

    def own_nodes(self) -> Sequence[str] | Silence:
        """Return the nodes on which jobs of this user run, each once."""
        shown = self._queue("--states=RUNNING")
        if isinstance(shown, Silence):
            return shown
        lists = ",".join(dict.fromkeys(queued.nodes for queued in shown if queued.nodes))
        if not lists:
            return ()
        names = self._read(read_hostnames, "scontrol", "show", "hostnames", lists)
        return names if isinstance(names, Silence) else tuple(dict.fromkeys(names))

    def ended(self, units: Sequence[Unit], since: datetime) -> Sequence[Accounted] | Silence:
        """Return what is known of units that have left the queue, in one call for up to 500.

        Where the accounts do not answer, the controller is asked, which remembers for
        `Limits.min_job_age_s`.
        """
        limits = self.limits()
        if isinstance(limits, Silence):
            return limits
        results: list[Accounted] = []
        for first in range(0, len(units), _MAX_UNITS):
            some = units[first : first + _MAX_UNITS]
            kept: Sequence[Accounted] | Silence | None = None
            if limits.has_accounting:
                # Elements that were cancelled before they began are shown with their whole array.
                jobs = sorted({unit.job for unit in some})
                kept = self._accounting(since, f"--jobs={','.join(map(str, jobs))}")
            if kept is None or isinstance(kept, Silence):
                kept = self._remembered(some)
            if isinstance(kept, Silence):
                return kept
            wanted = frozenset(some)
            results += [accounted for accounted in kept if accounted.unit in wanted]
        return results

    def cancel(self, units: Sequence[Unit] = (), *, names: Sequence[str] = ()) -> Silence | None:
        """Cancel units, or all of some names; what has ended is left as it is."""
        arguments = [("--quiet", *words) for words in _argued(units)]
        arguments += [("--quiet", f"--user={os.geteuid()}", f"--name={name}") for name in names]
        for words in arguments:
            answer = self._ask("scancel", *words)
            if isinstance(answer, Silence):
                return answer
        return None

    def avoid(self, job: int, nodes: Collection[str]) -> Silence | None:
        """Let what waits of a job run on other nodes than these alone."""
        excluded = f"ExcNodeList={','.join(nodes)}"
        done = self._run(("scontrol", "update", f"JobId={job}", excluded), self._variables)
        if isinstance(done, Silence):
            return done
        # Of an array it tells of each part, and fails where one has begun.
        is_heard = done.returncode == 0 or _GONE.search(done.stderr) or _BEGUN in done.stderr
        return None if is_heard else Silence("scontrol", _words(done))

    def throttle(self, job: int, most: int) -> Silence | None:
        """Let at most so many elements of an array run at once."""
        answer = self._ask("scontrol", "update", f"JobId={job}", f"ArrayTaskThrottle={most}")
        return answer if isinstance(answer, Silence) else None

    def why_never(self, job: int) -> str:
        """Return why a limit of its QOS or account never lets a job start; empty where it may.

        A site whose limits may not be read, or are not there, says nothing.
        """
        request = self._read(read_asked, "scontrol", "--oneliner", "show", "job", str(job))
        if isinstance(request, Silence):
            return ""
        names = [request.qos, *self._qos_of_partition(request.partition)]
        qos = self._show("qos", QOS_FIELDS, f"name={','.join(filter(None, names))}")
        by = f"account={request.account}"
        associations = self._show("associations", ASSOCIATION_FIELDS, by) if request.account else []
        return why_never(request, _user_name(), qos, associations)

    def _qos_of_partition(self, name: str) -> Sequence[str]:
        answer = self._ask("scontrol", "--oneliner", "show", "partition", name) if name else ""
        match = re.search(r"\bQoS=(\S+)", answer) if isinstance(answer, str) else None
        return [match[1]] if match and match[1] != "N/A" else []

    def _show(self, what: str, fields: Sequence[str], chosen: str) -> Sequence[str]:
        answer = self._ask(
            *("sacctmgr", "--noheader", "--parsable2", "show", what, "where", chosen),
            f"format={','.join(fields)}",
        )
        lines = answer.splitlines() if isinstance(answer, str) else []
        # A notice of the site has other columns.
        return [line for line in lines if line.count("|") == len(fields) - 1]

    def _queue(self, *words: str) -> Sequence[Queued] | Silence:
        return self._read(
            read_queue, "squeue", f"--user={os.geteuid()}", f"--format={QUEUE_FORMAT}", *words
        )

    def _accounting(self, since: datetime, chosen: str) -> Sequence[Accounted] | Silence:
        start = (since.astimezone(UTC) - _EARLIER).strftime("%Y-%m-%dT%H:%M:%S")
        return self._read(
            read_accounting,
            *("sacct", "--duplicates", "--parsable2", "--units=K"),
            *(f"--format={ACCOUNT_FORMAT}", f"--starttime={start}", chosen),
        )

    def _remembered(self, units: Sequence[Unit]) -> Sequence[Accounted] | Silence:
        jobs = {unit.job for unit in units}
        # One number or none at all: scontrol takes no list.
        chosen = [str(job) for job in jobs] if len(jobs) == 1 else []
        return self._read(read_jobs, "scontrol", "--oneliner", "show", "job", *chosen, gone=[])

    def _read(
        self,
        read: Callable[[str], _Answer | None],
        *command: str,
        gone: _Answer | None = None,
    ) -> _Answer | Silence:
        """Ask, and read the answer; `gone` is the one where what is asked for is not known."""
        output = self._ask(*command)
        if isinstance(output, Silence):
            return output
        answer = gone if output is None else read(output)
        return Silence(command[0], _shortened(output or "")) if answer is None else answer

    def _ask(self, *command: str) -> str | Silence | None:
        """Return what a command prints; None where what it was asked for is gone."""
        done = self._run(command, self._variables)
        if isinstance(done, Silence):
            return done
        if done.returncode == 0:
            return done.stdout
        return None if _GONE.search(done.stderr) else Silence(command[0], _words(done))

    def _run(
        self, command: Sequence[str], variables: Mapping[str, str], script: str = ""
    ) -> _Done | Silence:
        name = command[0]
        program = shutil.which(name, path=self._variables.get("PATH"))
        if program is None:
            return Silence(name, "is not in PATH")
        with (
            tempfile.TemporaryFile() as stdin,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
        ):
            stdin.write(os.fsencode(script))
            stdin.seek(0)
            try:
                child = spawn(
                    [program, *command[1:]],
                    environment=variables,
                    stdin=stdin,
                    stdout=out,
                    stderr=err,
                )
            except OSError as error:
                return Silence(name, f"cannot be started: {error.strerror}")
            has_ended = child.wait(self._timeout_s)
            code = child.finish()
            if not has_ended:
                return Silence(name, f"did not answer within {self._timeout_s:g} s")
            return _Done(name, code, _text(out), _text(err))


@dataclasses.dataclass(frozen=True)
class _Done:
    name: str
    returncode: int
    stdout: str
    stderr: str


def _user_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return ""


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _words(done: _Done) -> str:
    """Return what a command said, or that it said nothing."""
    text = _shortened(done.stderr.strip() or done.stdout.strip())
    return f"{text} (exit code {done.returncode})" if done.returncode else text


def _shortened(said: str) -> str:
    # Masked before it is cut: nothing knows half of a secret.
    said = without_known(" ".join(said.split()))
    if not said:
        return "said nothing"
    return said if len(said) <= _MAX_SAID else f"{said[:_MAX_SAID]}..."


def _refusal(done: _Done) -> str | Silence:
    """Return a refusal of sbatch's; a `Silence` where it may have been accepted for all we know."""
    if is_silence(done.stderr) or not _REFUSED.search(done.stderr):
        return Silence(done.name, _words(done))
    return done.stderr.strip()


def _argued(units: Sequence[Unit]) -> Iterator[Sequence[str]]:
    """Yield arguments for scancel: ``20_[1-3,7]``, in lines that are not too long."""
    words: list[str] = []
    for job, some in itertools.groupby(sorted(units, key=_order), lambda unit: unit.job):
        elements = [unit.element for unit in some if unit.element is not None]
        if not elements:
            words.append(str(job))
        words.extend(f"{job}_[{ranges}]" for ranges in _ranges(elements))
    for first in range(0, len(words), _MAX_WORDS):
        yield words[first : first + _MAX_WORDS]


def _order(unit: Unit) -> tuple[int, int]:
    return unit.job, -1 if unit.element is None else unit.element


def _ranges(elements: Sequence[int]) -> Iterator[str]:
    """Yield numbers that grow as ``1-3,7``, so many at once as scancel takes."""
    spans: list[tuple[int, int]] = []
    for element in elements:
        if spans and spans[-1][1] == element - 1:
            spans[-1] = (spans[-1][0], element)
        else:
            spans.append((element, element))
    for first in range(0, len(spans), _MAX_SPANS):
        some = spans[first : first + _MAX_SPANS]
        yield ",".join(str(a) if a == b else f"{a}-{b}" for a, b in some)
