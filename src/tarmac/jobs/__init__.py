"""Jobs: programs with their needs, run in order within what this machine has.

Example:
    >>> from tarmac.jobs import parse_job
    >>> parse_job("{name: hello, command: [echo, hello]}").name
    'hello'
"""

from tarmac.jobs._environments import build_environment, list_venvs, remove_venv
from tarmac.jobs._job import Job, Secret
from tarmac.jobs._plan import Task, plan_tasks
from tarmac.jobs._read import parse_job, read_job
from tarmac.jobs._scheduler import Ended, Watcher, task_directory
from tarmac.jobs._submit import JobRun, create_run, find_run, prepare, work_on
from tarmac.jobs.executors import Grant, Outcome

__all__ = [
    "Ended",
    "Grant",
    "Job",
    "JobRun",
    "Outcome",
    "Secret",
    "Task",
    "Watcher",
    "build_environment",
    "create_run",
    "find_run",
    "list_venvs",
    "parse_job",
    "plan_tasks",
    "prepare",
    "read_job",
    "remove_venv",
    "task_directory",
    "work_on",
]
