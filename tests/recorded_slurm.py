"""Programs that answer as Slurm's commands do: by texts that these have printed.

slurm = RecordedSlurm(tmp_path)
slurm.answer("squeue", HEADER)
slurm.answer("scancel", code=1, err="scancel: error: Invalid job id specified")
commands = SlurmCommands(slurm.variables)
"""

from __future__ import annotations

import itertools
import os
import shlex
from pathlib import Path

# As 22.05 prints them.
CONFIG = """\
AccountingStorageType   = accounting_storage/none
ClusterName             = tarmac
KillWait                = 15 sec
MaxArraySize            = 1001
SLURM_VERSION           = 22.05.8
SlurmctldHost[0]        = head(10.0.0.1)
SlurmctldPort           = 6817
"""
ACCOUNTING = CONFIG.replace("storage/none", "storage/slurmdbd")
HEADER = "tarmac|JOBID|NAME|STATE|NODELIST|REASON\n"
NODES = """\
tarmac|NODELIST|PARTITION|STATE|CPUS|MEMORY|TIMELIMIT|AVAIL_FEATURES|GRES|REASON
tarmac|n1|main*|IDLE|4|4096|infinite|(null)|gpu:2|none
tarmac|n2|main*|IDLE|4|4096|infinite|(null)|gpu:2|none
"""
SACCT = "JobID|State|ExitCode|NodeList|MaxRSS|End|Partition|Timelimit|Elapsed\n"

_COMMANDS = ("sacct", "sbatch", "scancel", "scontrol", "sinfo", "squeue")


class RecordedSlurm:
    """Slurm's commands in a directory, with the answers that a test gives them.

    Args:
        place: Gets the programs and what they were called with.

    Attributes:
        variables: What leads `SlurmCommands` to them.
    """

    def __init__(self, place: Path) -> None:
        self._place = place / "recorded-slurm"
        self._calls = self._place / "calls"
        self._cases: dict[str, list[str]] = {name: [] for name in _COMMANDS}
        self._numbers = itertools.count()
        self._place.mkdir()
        self.variables = os.environ | {"PATH": f"{self._place}:{os.environ['PATH']}"}
        self.answer("scontrol show config", CONFIG)
        self.answer("sinfo", NODES)
        self.answer("squeue", HEADER)
        self.answer("sbatch --parsable", "80\n")
        self.answer("sbatch --test-only")
        self.answer("scancel")
        self.answer("scontrol update")

    def answer(self, call: str, out: str = "", err: str = "", code: int = 0) -> None:
        """Have calls that begin so answered; the newest answer that fits is taken."""
        name, _, words = call.partition(" ")
        file = self._place / f"answer-{next(self._numbers)}"
        file.with_suffix(".out").write_text(out)
        file.with_suffix(".err").write_text(err)
        case = f"{shlex.quote(words)}*) cat {file}.out; cat {file}.err >&2; exit {code} ;;"
        self._cases[name].insert(0, case)
        lines = [
            "#!/bin/sh",
            f"echo {name} $* >> {self._calls}",
            f'case "$*" in *--test-only*) ;; *) cat > {self._place}/sent-{name} ;; esac',
            'case "$*" in',
            *self._cases[name],
            "esac",
            f"echo no answer of {name} is recorded >&2; exit 9",
        ]
        program = self._place / name
        program.write_text("\n".join(lines) + "\n")
        program.chmod(0o755)

    def calls(self, name: str = "") -> list[str]:
        """Return what was called, and forget it: lines of a command and its words."""
        lines = self._calls.read_text().splitlines() if self._calls.exists() else []
        self._calls.unlink(missing_ok=True)
        return [line for line in lines if line.split()[0].startswith(name)]

    def sent(self) -> str:
        """Return the script that sbatch got last."""
        return (self._place / "sent-sbatch").read_text()
