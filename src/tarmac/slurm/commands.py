"""Slurm through its commands, for all of its versions: text in, text out.

Output counts as an answer only if it has the form of one. Sites print notices, wrappers print
nothing, and a busy controller prints errors although it may have carried out the request. All
other output becomes a `NoAnswer`.
"""

from __future__ import annotations

import dataclasses
import os
import pwd
import re
import shutil
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import IO, TypeVar

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
from tarmac.slurm.interface import Accounted, Limits, NoAnswer, Queued, Script, Submitted, Unit
from tarmac.slurm.never import ASSOCIATION_FIELDS, QOS_FIELDS, read_asked, why_never
from tarmac.slurm.site import SlurmNode
from tarmac.slurm.unit_arguments import arguments_of
from tarmac.slurm.words import is_silence

# Variables that select the cluster. Slurm's other variables belong to another job.
_LEADING = ("SLURM_CONF", "SLURM_CONF_SERVER")
_SLURMS = re.compile(r"S(?:LURM|BATCH|QUEUE|ACCT|INFO|CANCEL|CONTROL|RUN)_")

# Variables that a job's environment keeps.
_KEPT = ("HOME", "LANG", "LOGNAME", "PATH", "SHELL", "USER")

# More names make the command line too long. Then squeue shows all of the user's jobs.
_MAX_NAMES = 64
_MAX_UNITS = 500

# Most characters of a command's output in a message.
_MAX_SAID = 500

_Answer = TypeVar("_Answer")

# sacct leaves out jobs that began before its start time, so the query starts earlier.
_EARLIER = timedelta(days=1)

# Messages about an unknown unit, which are an answer: the unit is gone.
_GONE = re.compile(
    r"invalid job id|already complet|job has already finished|no jobs in the system", re.IGNORECASE
)

# Message of an update that comes too late.
_BEGUN = "no longer pending"

# Messages of a certain refusal, by the controller or by sbatch itself.
_REFUSED = re.compile(
    r"batch job submission failed|allocation failure|^sbatch: (?:error|fatal|unrecognized|invalid)",
    re.IGNORECASE | re.MULTILINE,
)


def job_variables(own: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for a job's environment: only those that hold on all nodes."""
    return {name: own[name] for name in _KEPT if name in own}


class SlurmCommands:
    """The Slurm cluster that the commands on ``PATH`` use.

    Args:
        variables: Environment of this process. Slurm's variables of another job are removed.
        timeout_s: Seconds until a command counts as unanswered. Default 60.
    """

    def __init__(self, variables: Mapping[str, str], *, timeout_s: float = 60.0) -> None:
        self._timeout_s = timeout_s
        self._leading = {name: variables[name] for name in _LEADING if name in variables}
        self._variables = {
            **{name: value for name, value in variables.items() if not _SLURMS.match(name)},
            **self._leading,
            # All times are in UTC, whatever the user's time zone.
            "TZ": "UTC",
            "LC_ALL": "C",
            "SLURM_TIME_FORMAT": "standard",
            # By default squeue truncates an array's elements after 64 characters.
            "SLURM_BITSTR_LEN": "0",
        }
        self._known_limits: Limits | None = None

    @property
    def is_here(self) -> bool:
        """Whether this machine has sbatch."""
        return shutil.which("sbatch", path=self._variables.get("PATH")) is not None

    def limits(self) -> Limits | NoAnswer:
        """Return the site's limits, cached after the first answer."""
        if self._known_limits is None:
            limits = self._read(read_limits, "scontrol", "show", "config")
            if isinstance(limits, NoAnswer):
                return limits
            self._known_limits = limits
        return self._known_limits

    def nodes(self) -> Sequence[SlurmNode] | NoAnswer:
        """Return the site's nodes, once for each partition of a node."""
        return self._read(read_nodes, "sinfo", "--Node", f"--format={NODE_FORMAT}")

    def test(self, script: Script) -> str | NoAnswer | None:
        """Return why a script can never run, in Slurm's words; None where it may run."""
        # sbatch sends these variables to the controller, as a submission does.
        variables = {**job_variables(self._variables), **self._leading}
        done = self._run(("sbatch", "--test-only"), variables, script.text)
        if isinstance(done, NoAnswer):
            return done
        return None if done.returncode == 0 else _refusal(done)

    def submit(self, script: Script, variables: Mapping[str, str]) -> Submitted | str | NoAnswer:
        """Submit a script; return a refusal in Slurm's words.

        Args:
            script: Script to submit, with its name.
            variables: Environment of the job, such as `job_variables`.

        Returns:
            A `NoAnswer` where Slurm may or may not have the job: call `find` next.
        """
        done = self._run(("sbatch", "--parsable"), {**variables, **self._leading}, script.text)
        if isinstance(done, NoAnswer):
            return done
        number = read_job_number(done.stdout)
        if done.returncode == 0 and number is not None:
            return Submitted(number, script.name)
        if done.returncode == 0 or number is not None:
            return NoAnswer("sbatch", _words(done))
        return _refusal(done)

    def find(self, name: str, since: datetime) -> Submitted | NoAnswer | None:
        """Find a submitted script by its name, queued or ended; None where there is none."""
        shown = self._queue("--states=all", f"--name={name}")
        if isinstance(shown, NoAnswer):
            return shown
        jobs = {queued.unit.job for queued in shown if queued.name == name}
        if not jobs:
            limits = self.limits()
            if isinstance(limits, NoAnswer):
                return limits
            if limits.has_accounting:
                kept = self._accounting(since, f"--name={name}")
                if isinstance(kept, NoAnswer):
                    return kept
                jobs = {accounted.unit.job for accounted in kept}
        return Submitted(min(jobs), name) if jobs else None

    def queue(self, names: Collection[str]) -> Sequence[Queued] | NoAnswer:
        """Return the units of some scripts that squeue shows, in one call."""
        wanted = frozenset(names)
        chosen = [f"--name={','.join(sorted(wanted))}"] if len(wanted) <= _MAX_NAMES else []
        shown = self._queue(*chosen)
        if isinstance(shown, NoAnswer):
            return shown
        return [queued for queued in shown if queued.name in wanted]

    def own_nodes(self) -> Sequence[str] | NoAnswer:
        """Return the distinct names of nodes on which jobs of this user run."""
        shown = self._queue("--states=RUNNING")
        if isinstance(shown, NoAnswer):
            return shown
        lists = ",".join(dict.fromkeys(queued.nodes for queued in shown if queued.nodes))
        if not lists:
            return ()
        names = self._read(read_hostnames, "scontrol", "show", "hostnames", lists)
        return names if isinstance(names, NoAnswer) else tuple(dict.fromkeys(names))

    def ended(self, units: Sequence[Unit], since: datetime) -> Sequence[Accounted] | NoAnswer:
        """Return the endings of units that have left the queue, in one call for up to 500.

        Where sacct does not answer, the controller is asked. It remembers a job for
        `Limits.min_job_age_s`.
        """
        limits = self.limits()
        if isinstance(limits, NoAnswer):
            return limits
        results: list[Accounted] = []
        for first in range(0, len(units), _MAX_UNITS):
            some = units[first : first + _MAX_UNITS]
            kept: Sequence[Accounted] | NoAnswer | None = None
            if limits.has_accounting:
                # sacct shows elements that were cancelled before they began as one row of the
                # array.
                jobs = sorted({unit.job for unit in some})
                kept = self._accounting(since, f"--jobs={','.join(map(str, jobs))}")
            if kept is None or isinstance(kept, NoAnswer):
                kept = self._remembered(some)
            if isinstance(kept, NoAnswer):
                return kept
            wanted = frozenset(some)
            results += [accounted for accounted in kept if accounted.unit in wanted]
        return results

    def cancel(self, units: Sequence[Unit] = (), *, names: Sequence[str] = ()) -> NoAnswer | None:
        """Cancel units, or all units of some names; ended units stay as they are."""
        arguments = [("--quiet", *words) for words in arguments_of(units)]
        arguments += [("--quiet", f"--user={os.geteuid()}", f"--name={name}") for name in names]
        for words in arguments:
            answer = self._ask("scancel", *words)
            if isinstance(answer, NoAnswer):
                return answer
        return None

    def avoid(self, job: int, nodes: Collection[str]) -> NoAnswer | None:
        """Keep a job's waiting units off some nodes."""
        excluded = f"ExcNodeList={','.join(nodes)}"
        done = self._run(("scontrol", "update", f"JobId={job}", excluded), self._variables)
        if isinstance(done, NoAnswer):
            return done
        # An array's update reports on each part, and fails where a part has begun.
        is_heard = done.returncode == 0 or _GONE.search(done.stderr) or _BEGUN in done.stderr
        return None if is_heard else NoAnswer("scontrol", _words(done))

    def throttle(self, job: int, most: int) -> NoAnswer | None:
        """Limit how many elements of an array run at once."""
        answer = self._ask("scontrol", "update", f"JobId={job}", f"ArrayTaskThrottle={most}")
        return answer if isinstance(answer, NoAnswer) else None

    def why_never(self, job: int) -> str:
        """Return why a limit of its QOS or account never lets a job start; empty where it may.

        Also empty where the site's limits cannot be read, or there are none.
        """
        request = self._read(read_asked, "scontrol", "--oneliner", "show", "job", str(job))
        if isinstance(request, NoAnswer):
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
        # A site's notice has another number of columns.
        return [line for line in lines if line.count("|") == len(fields) - 1]

    def _queue(self, *words: str) -> Sequence[Queued] | NoAnswer:
        return self._read(
            read_queue, "squeue", f"--user={os.geteuid()}", f"--format={QUEUE_FORMAT}", *words
        )

    def _accounting(self, since: datetime, chosen: str) -> Sequence[Accounted] | NoAnswer:
        start = (since.astimezone(UTC) - _EARLIER).strftime("%Y-%m-%dT%H:%M:%S")
        return self._read(
            read_accounting,
            *("sacct", "--duplicates", "--parsable2", "--units=K"),
            *(f"--format={ACCOUNT_FORMAT}", f"--starttime={start}", chosen),
        )

    def _remembered(self, units: Sequence[Unit]) -> Sequence[Accounted] | NoAnswer:
        jobs = {unit.job for unit in units}
        # scontrol takes one job or none, but no list.
        chosen = [str(job) for job in jobs] if len(jobs) == 1 else []
        return self._read(read_jobs, "scontrol", "--oneliner", "show", "job", *chosen, gone=[])

    def _read(
        self,
        read: Callable[[str], _Answer | None],
        *command: str,
        gone: _Answer | None = None,
    ) -> _Answer | NoAnswer:
        """Run a command and parse its output; return `gone` where the job is unknown."""
        output = self._ask(*command)
        if isinstance(output, NoAnswer):
            return output
        answer = gone if output is None else read(output)
        return NoAnswer(command[0], _shortened(output or "")) if answer is None else answer

    def _ask(self, *command: str) -> str | NoAnswer | None:
        """Return the output of a command; None where the job is unknown."""
        done = self._run(command, self._variables)
        if isinstance(done, NoAnswer):
            return done
        if done.returncode == 0:
            return done.stdout
        return None if _GONE.search(done.stderr) else NoAnswer(command[0], _words(done))

    def _run(
        self, command: Sequence[str], variables: Mapping[str, str], script: str = ""
    ) -> _Done | NoAnswer:
        name = command[0]
        program = shutil.which(name, path=self._variables.get("PATH"))
        if program is None:
            return NoAnswer(name, "is not in PATH")
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
                return NoAnswer(name, f"cannot be started: {error.strerror}")
            has_ended = child.wait(self._timeout_s)
            code = child.finish()
            if not has_ended:
                return NoAnswer(name, f"did not answer within {self._timeout_s:g} s")
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
    """Return a command's output as one message, or that it printed nothing."""
    text = _shortened(done.stderr.strip() or done.stdout.strip())
    return f"{text} (exit code {done.returncode})" if done.returncode else text


def _shortened(message: str) -> str:
    # Redact before truncating: redaction cannot recognize half of a secret.
    message = without_known(" ".join(message.split()))
    if not message:
        return "printed nothing"
    return message if len(message) <= _MAX_SAID else f"{message[:_MAX_SAID]}..."


def _refusal(done: _Done) -> str | NoAnswer:
    """Return sbatch's refusal; a `NoAnswer` where sbatch may have been accepted."""
    if is_silence(done.stderr) or not _REFUSED.search(done.stderr):
        return NoAnswer(done.name, _words(done))
    return done.stderr.strip()
