"""Slurm through its commands: submit, poll, cancel, and explain its messages.

Independent of job files. `write_script` makes the file for sbatch, and `SlurmCommands` calls a
real cluster. A failed call returns a `NoAnswer`.

Example::

    slurm = SlurmCommands(os.environ)
    script = write_script(Request(name="tarmac-1", shape=Shape(), ...))
    submitted = slurm.submit(script, job_variables(os.environ))
"""

from tarmac.slurm.commands import SlurmCommands, job_variables
from tarmac.slurm.interface import (
    SILENCE_HINT,
    Accounted,
    Limits,
    NoAnswer,
    Queued,
    Script,
    Slurm,
    Submitted,
    Unit,
    UnitState,
)
from tarmac.slurm.never import is_amount_limit
from tarmac.slurm.script import UNIT, Request, Shape, write_script
from tarmac.slurm.site import (
    Gres,
    SlurmNode,
    gpus_of,
    partitions_with_gpus,
    read_gres,
    request_gpus,
)
from tarmac.slurm.survey import SlurmFindings, survey_nodes
from tarmac.slurm.words import (
    REASONS,
    REFUSALS,
    explain_full,
    explain_reason,
    explain_refusal,
    is_full,
    read_state,
)

__all__ = [
    "REASONS",
    "REFUSALS",
    "SILENCE_HINT",
    "UNIT",
    "Accounted",
    "Gres",
    "Limits",
    "NoAnswer",
    "Queued",
    "Request",
    "Script",
    "Shape",
    "Slurm",
    "SlurmCommands",
    "SlurmFindings",
    "SlurmNode",
    "Submitted",
    "Unit",
    "UnitState",
    "explain_full",
    "explain_reason",
    "explain_refusal",
    "gpus_of",
    "is_amount_limit",
    "is_full",
    "job_variables",
    "partitions_with_gpus",
    "read_gres",
    "read_state",
    "request_gpus",
    "survey_nodes",
    "write_script",
]
