"""Jobs: programs with their needs, run in order within the resources of this machine.

Example:
    >>> from tarmac.jobs import parse_job
    >>> parse_job("{name: hello, command: [echo, hello]}").name
    'hello'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tarmac.lazy import lazy_names

if TYPE_CHECKING:
    from tarmac.executors import DISTURBANCES as DISTURBANCES
    from tarmac.executors import Attempt as Attempt
    from tarmac.executors import Began as Began
    from tarmac.executors import Busy as Busy
    from tarmac.executors import Cause as Cause
    from tarmac.executors import Event as Event
    from tarmac.executors import Executor as Executor
    from tarmac.executors import ExecutorKind as ExecutorKind
    from tarmac.executors import Finished as Finished
    from tarmac.executors import LocalExecutor as LocalExecutor
    from tarmac.executors import Outcome as Outcome
    from tarmac.executors import Queued as Queued
    from tarmac.executors import Requeued as Requeued
    from tarmac.executors import RunnerEngine as RunnerEngine
    from tarmac.executors import RunnerJob as RunnerJob
    from tarmac.executors import RunnerState as RunnerState
    from tarmac.executors import Site as Site
    from tarmac.executors import Waiting as Waiting
    from tarmac.executors import executor_names as executor_names
    from tarmac.executors import find_executor as find_executor
    from tarmac.executors import is_retried as is_retried
    from tarmac.jobs.glance import glance_job as glance_job
    from tarmac.jobs.handle import Handle as Handle
    from tarmac.jobs.handle import JobFailed as JobFailed
    from tarmac.jobs.handle import attach as attach
    from tarmac.jobs.handle import start_runner as start_runner
    from tarmac.jobs.history import read_history as read_history
    from tarmac.jobs.job_run import JobRun as JobRun
    from tarmac.jobs.job_run import create_run as create_run
    from tarmac.jobs.job_run import find_run as find_run
    from tarmac.jobs.job_run import note_executor as note_executor
    from tarmac.jobs.job_run import note_outcome as note_outcome
    from tarmac.jobs.job_run import refuse_lost_lock as refuse_lost_lock
    from tarmac.jobs.job_run import tasks_left as tasks_left
    from tarmac.jobs.job_run import work_on as work_on
    from tarmac.jobs.job_run import working_on as working_on
    from tarmac.jobs.journal import Journal as Journal
    from tarmac.jobs.journal import read_journal as read_journal
    from tarmac.jobs.kind import JOB as JOB
    from tarmac.jobs.kind import list_statuses as list_statuses
    from tarmac.jobs.preparing import prepare as prepare
    from tarmac.jobs.preparing import problems_beforehand as problems_beforehand
    from tarmac.jobs.preparing import refuse_tasks as refuse_tasks
    from tarmac.jobs.progress import Ended as Ended
    from tarmac.jobs.progress import Reporter as Reporter
    from tarmac.jobs.progress import Silent as Silent
    from tarmac.jobs.reader import as_written as as_written
    from tarmac.jobs.reader import job_of as job_of
    from tarmac.jobs.reader import parse_job as parse_job
    from tarmac.jobs.reader import read_job as read_job
    from tarmac.jobs.record import JobRecord as JobRecord
    from tarmac.jobs.record import changed_file as changed_file
    from tarmac.jobs.record import read_record as read_record
    from tarmac.jobs.request import DEFAULT_REQUEST as DEFAULT_REQUEST
    from tarmac.jobs.request import RunnerPlace as RunnerPlace
    from tarmac.jobs.request import RunRequest as RunRequest
    from tarmac.jobs.retries import follow_up as follow_up
    from tarmac.jobs.runner_jobs import OwnRunnerJob as OwnRunnerJob
    from tarmac.jobs.runner_jobs import end_runner_jobs as end_runner_jobs
    from tarmac.jobs.runner_jobs import recall_secrets as recall_secrets
    from tarmac.jobs.runner_jobs import submit_runner as submit_runner
    from tarmac.jobs.runner_jobs import why_no_runner_job as why_no_runner_job
    from tarmac.jobs.runner_record import is_asked_to_end as is_asked_to_end
    from tarmac.jobs.scheduler import run_tasks as run_tasks
    from tarmac.jobs.scheduler import task_directory as task_directory
    from tarmac.jobs.secret_marks import learn_marks as learn_marks
    from tarmac.jobs.status import RunStatus as RunStatus
    from tarmac.jobs.status import read_status as read_status
    from tarmac.jobs.task_status import TaskStatus as TaskStatus
    from tarmac.jobs.timeline import AttemptSpan as AttemptSpan
    from tarmac.jobs.timeline import TaskTrace as TaskTrace
    from tarmac.jobs.timeline import Timeline as Timeline
    from tarmac.jobs.timeline import read_timeline as read_timeline
    from tarmac.jobs.training_jobs import training_job as training_job
    from tarmac.tasks.containers import WORK as WORK
    from tarmac.tasks.conversion_error import ConversionError as ConversionError
    from tarmac.tasks.conversion_error import placed as placed
    from tarmac.tasks.graph import find_cycle as find_cycle
    from tarmac.tasks.machine import Grant as Grant
    from tarmac.tasks.machine import Machine as Machine
    from tarmac.tasks.machine import Shortage as Shortage
    from tarmac.tasks.machine import read_machine as read_machine
    from tarmac.tasks.model import Conda as Conda
    from tarmac.tasks.model import Container as Container
    from tarmac.tasks.model import Environment as Environment
    from tarmac.tasks.model import Input as Input
    from tarmac.tasks.model import Job as Job
    from tarmac.tasks.model import Mount as Mount
    from tarmac.tasks.model import Output as Output
    from tarmac.tasks.model import Project as Project
    from tarmac.tasks.model import Resources as Resources
    from tarmac.tasks.model import Retries as Retries
    from tarmac.tasks.model import Secret as Secret
    from tarmac.tasks.model import SystemEnvironment as SystemEnvironment
    from tarmac.tasks.model import TaskSpec as TaskSpec
    from tarmac.tasks.model import Venv as Venv
    from tarmac.tasks.placeholders import escape as escape
    from tarmac.tasks.plan import LAUNCH as LAUNCH
    from tarmac.tasks.plan import Task as Task
    from tarmac.tasks.plan import plan_tasks as plan_tasks
    from tarmac.tasks.plan import specs_of as specs_of
    from tarmac.tasks.plan import thread_variables as thread_variables
    from tarmac.tasks.run_files import SHARED as SHARED
    from tarmac.tasks.run_files import directory_name as directory_name
    from tarmac.tasks.secrets import missing_secrets as missing_secrets
    from tarmac.tasks.secrets import read_secret_mapping as read_secret_mapping
    from tarmac.tasks.secrets import secret_variables as secret_variables
    from tarmac.tasks.sweep import Sweep as Sweep
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
