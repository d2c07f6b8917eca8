"""Executors: where tasks run. `local` is here, others join it behind the same interface."""

from tarmac.jobs.executors.events import DISTURBANCES as DISTURBANCES
from tarmac.jobs.executors.events import Began as Began
from tarmac.jobs.executors.events import Cause as Cause
from tarmac.jobs.executors.events import Event as Event
from tarmac.jobs.executors.events import Finished as Finished
from tarmac.jobs.executors.events import Queued as Queued
from tarmac.jobs.executors.events import Requeued as Requeued
from tarmac.jobs.executors.events import Waiting as Waiting
from tarmac.jobs.executors.interface import Attempt as Attempt
from tarmac.jobs.executors.interface import Busy as Busy
from tarmac.jobs.executors.interface import Executor as Executor
from tarmac.jobs.executors.interface import ExecutorKind as ExecutorKind
from tarmac.jobs.executors.interface import Outcome as Outcome
from tarmac.jobs.executors.interface import Site as Site
from tarmac.jobs.executors.interface import is_retried as is_retried
from tarmac.jobs.executors.local import LocalExecutor as LocalExecutor
from tarmac.jobs.executors.registry import executor_names as executor_names
from tarmac.jobs.executors.registry import find_executor as find_executor
from tarmac.jobs.executors.registry import outlives_runner as outlives_runner
from tarmac.jobs.executors.runners import RunnerEngine as RunnerEngine
from tarmac.jobs.executors.runners import RunnerJob as RunnerJob
from tarmac.jobs.executors.runners import RunnerState as RunnerState
