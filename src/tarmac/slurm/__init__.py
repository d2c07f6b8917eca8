"""Slurm, by its commands alone: submit, look, cancel, and what its words mean.

Knows nothing of job files. `write_script` makes what sbatch gets, `SlurmCommands` asks a real
cluster, and whatever is no answer is a `Silence`. `OneMachineSlurm` is a small one for trials.

Example::

    slurm = SlurmCommands(os.environ)
    script = write_script(Request(name="tarmac-1", shape=Shape(), ...))
    submitted = slurm.submit(script, job_variables(os.environ))
"""

from tarmac.slurm.commands import SlurmCommands as SlurmCommands
from tarmac.slurm.commands import job_variables as job_variables
from tarmac.slurm.interface import SILENCE_HINT as SILENCE_HINT
from tarmac.slurm.interface import Accounted as Accounted
from tarmac.slurm.interface import Limits as Limits
from tarmac.slurm.interface import Queued as Queued
from tarmac.slurm.interface import Script as Script
from tarmac.slurm.interface import Silence as Silence
from tarmac.slurm.interface import Slurm as Slurm
from tarmac.slurm.interface import Submitted as Submitted
from tarmac.slurm.interface import Unit as Unit
from tarmac.slurm.interface import UnitState as UnitState
from tarmac.slurm.never import is_amount_limit as is_amount_limit
from tarmac.slurm.one_machine import NODES as NODES
from tarmac.slurm.one_machine import OneMachineSlurm as OneMachineSlurm
from tarmac.slurm.script import UNIT as UNIT
from tarmac.slurm.script import Request as Request
from tarmac.slurm.script import Shape as Shape
from tarmac.slurm.script import write_script as write_script
from tarmac.slurm.site import Gres as Gres
from tarmac.slurm.site import SlurmNode as SlurmNode
from tarmac.slurm.site import gpus_of as gpus_of
from tarmac.slurm.site import partitions_with_gpus as partitions_with_gpus
from tarmac.slurm.site import read_gres as read_gres
from tarmac.slurm.site import request_gpus as request_gpus
from tarmac.slurm.survey import SlurmFindings as SlurmFindings
from tarmac.slurm.survey import survey_nodes as survey_nodes
from tarmac.slurm.trial import try_slurm as try_slurm
from tarmac.slurm.words import REASONS as REASONS
from tarmac.slurm.words import REFUSALS as REFUSALS
from tarmac.slurm.words import explain_full as explain_full
from tarmac.slurm.words import explain_reason as explain_reason
from tarmac.slurm.words import explain_refusal as explain_refusal
from tarmac.slurm.words import is_full as is_full
from tarmac.slurm.words import read_state as read_state
