"""Jobs: programs with their needs, run in order within what this machine has.

Example:
    >>> from tarmac.jobs import parse_job
    >>> parse_job("{name: hello, command: [echo, hello]}").name
    'hello'
"""

from tarmac.jobs.containers import WORK
from tarmac.jobs.executors import Grant, Outcome
from tarmac.jobs.graph import circle_of
from tarmac.jobs.handle import Handle, JobFailed, attach, start_runner, submit
from tarmac.jobs.machine import Machine, read_machine
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
from tarmac.jobs.scheduler import Ended, Watcher, task_directory
from tarmac.jobs.secrets import read_secret_mapping
from tarmac.jobs.status import RunStatus, TaskStatus, list_statuses, read_status
from tarmac.jobs.sweep import Sweep
from tarmac.jobs.verb import JobRun, create_run, find_run, prepare, work_on

__all__ = [
    "WORK",
    "Container",
    "Ended",
    "Grant",
    "Handle",
    "Input",
    "Job",
    "JobFailed",
    "JobRun",
    "Machine",
    "Mount",
    "Outcome",
    "Output",
    "Resources",
    "Retries",
    "RunStatus",
    "Secret",
    "Sweep",
    "SystemEnvironment",
    "Task",
    "TaskSpec",
    "TaskStatus",
    "Venv",
    "Watcher",
    "attach",
    "circle_of",
    "create_run",
    "escape",
    "find_run",
    "job_of",
    "list_statuses",
    "parse_job",
    "plan_tasks",
    "prepare",
    "read_job",
    "read_machine",
    "read_secret_mapping",
    "read_status",
    "start_runner",
    "submit",
    "task_directory",
    "thread_variables",
    "work_on",
]
