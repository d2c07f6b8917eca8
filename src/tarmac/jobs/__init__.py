"""Jobs: programs with their needs, run in order within what this machine has.

Example:
    >>> from tarmac.jobs import parse_job
    >>> parse_job("{name: hello, command: [echo, hello]}").name
    'hello'
"""

from tarmac.jobs.containers import WORK
from tarmac.jobs.executors import (
    Attempt,
    Busy,
    Executor,
    ExecutorKind,
    Finished,
    LocalExecutor,
    Outcome,
    Site,
    executor_names,
    find_executor,
    is_retried,
)
from tarmac.jobs.graph import circle_of
from tarmac.jobs.handle import Handle, JobFailed, attach, run, start_runner, submit
from tarmac.jobs.job_run import JobRun, create_run, find_run, list_statuses, prepare, work_on
from tarmac.jobs.kind import JOB
from tarmac.jobs.machine import Grant, Machine, read_machine
from tarmac.jobs.model import (
    Container,
    Input,
    Job,
    Mount,
    Output,
    Resources,
    Retries,
    Secret,
    SystemEnvironment,
    TaskSpec,
    Venv,
)
from tarmac.jobs.placeholders import escape
from tarmac.jobs.plan import Task, plan_tasks, thread_variables
from tarmac.jobs.reader import job_of, parse_job, read_job
from tarmac.jobs.scheduler import Ended, Reporter, Silent, run_tasks, task_directory
from tarmac.jobs.secrets import read_secret_mapping
from tarmac.jobs.status import RunStatus, TaskStatus, read_status
from tarmac.jobs.sweep import Sweep

__all__ = [
    "JOB",
    "WORK",
    "Attempt",
    "Busy",
    "Container",
    "Ended",
    "Executor",
    "ExecutorKind",
    "Finished",
    "Grant",
    "Handle",
    "Input",
    "Job",
    "JobFailed",
    "JobRun",
    "LocalExecutor",
    "Machine",
    "Mount",
    "Outcome",
    "Output",
    "Reporter",
    "Resources",
    "Retries",
    "RunStatus",
    "Secret",
    "Silent",
    "Site",
    "Sweep",
    "SystemEnvironment",
    "Task",
    "TaskSpec",
    "TaskStatus",
    "Venv",
    "attach",
    "circle_of",
    "create_run",
    "escape",
    "executor_names",
    "find_executor",
    "find_run",
    "is_retried",
    "job_of",
    "list_statuses",
    "parse_job",
    "plan_tasks",
    "prepare",
    "read_job",
    "read_machine",
    "read_secret_mapping",
    "read_status",
    "run",
    "run_tasks",
    "start_runner",
    "submit",
    "task_directory",
    "thread_variables",
    "work_on",
]
