"""Executors whose attempts wait in the queue of an engine, and outlive the runner there.

`QueueingExecutor` knows chunks, windows, witnesses and patience; an `Engine` knows one engine's
commands.
"""

from tarmac.jobs.executors.queueing.chunks import ChunkFiles as ChunkFiles
from tarmac.jobs.executors.queueing.chunks import ChunkRecord as ChunkRecord
from tarmac.jobs.executors.queueing.chunks import job_label as job_label
from tarmac.jobs.executors.queueing.chunks import run_code as run_code
from tarmac.jobs.executors.queueing.clusters import ClusterId as ClusterId
from tarmac.jobs.executors.queueing.elsewhere import note_runner_cluster as note_runner_cluster
from tarmac.jobs.executors.queueing.elsewhere import refuse_other_cluster as refuse_other_cluster
from tarmac.jobs.executors.queueing.elsewhere import runner_elsewhere as runner_elsewhere
from tarmac.jobs.executors.queueing.engine import Accepted as Accepted
from tarmac.jobs.executors.queueing.engine import Ending as Ending
from tarmac.jobs.executors.queueing.engine import Engine as Engine
from tarmac.jobs.executors.queueing.engine import Full as Full
from tarmac.jobs.executors.queueing.engine import Refused as Refused
from tarmac.jobs.executors.queueing.engine import Shown as Shown
from tarmac.jobs.executors.queueing.engine import Silent as Silent
from tarmac.jobs.executors.queueing.engine import Terms as Terms
from tarmac.jobs.executors.queueing.engine import TooLarge as TooLarge
from tarmac.jobs.executors.queueing.engine import UnitName as UnitName
from tarmac.jobs.executors.queueing.executor import QueueingExecutor as QueueingExecutor
from tarmac.jobs.executors.queueing.submissions import chunk_size as chunk_size
from tarmac.jobs.executors.queueing.verdict import Patience as Patience
