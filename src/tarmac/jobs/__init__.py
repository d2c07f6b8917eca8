"""Jobs: programs with their needs, run in order within what this machine has.

Example:
    >>> from tarmac.jobs import parse_job
    >>> parse_job("{name: hello, command: [echo, hello]}").name
    'hello'
"""

from tarmac.environments.containers import find_engine
from tarmac.environments.venvs import build_venv, list_venvs, remove_venv
from tarmac.jobs.executors import Grant, Outcome
from tarmac.jobs.handle import Handle, JobFailed, attach, start_runner, submit
from tarmac.jobs.machine import Machine, read_machine
from tarmac.jobs.model import Job, Secret, Venv
from tarmac.jobs.plan import Task, plan_tasks, thread_variables
from tarmac.jobs.reader import parse_job, read_job
from tarmac.jobs.scheduler import Ended, Watcher, task_directory
from tarmac.jobs.secrets import read_secret_mapping
from tarmac.jobs.status import RunStatus, TaskStatus, list_statuses, read_status
from tarmac.jobs.verb import JobRun, create_run, find_run, prepare, work_on

__all__ = [
    "Ended",
    "Grant",
    "Handle",
    "Job",
    "JobFailed",
    "JobRun",
    "Machine",
    "Outcome",
    "RunStatus",
    "Secret",
    "Task",
    "TaskStatus",
    "Venv",
    "Watcher",
    "attach",
    "build_venv",
    "create_run",
    "find_engine",
    "find_run",
    "list_statuses",
    "list_venvs",
    "parse_job",
    "plan_tasks",
    "prepare",
    "read_job",
    "read_machine",
    "read_secret_mapping",
    "read_status",
    "remove_venv",
    "start_runner",
    "submit",
    "task_directory",
    "thread_variables",
    "work_on",
]
