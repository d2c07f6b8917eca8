"""Jobs: programs with their needs, run in order within what this machine has.

Example:
    >>> from tarmac.jobs import parse_job
    >>> parse_job("{name: hello, command: [echo, hello]}").name
    'hello'
"""

from tarmac.jobs.containers import WORK
from tarmac.jobs.executors import (
    DISTURBANCES,
    Attempt,
    Began,
    Busy,
    Cause,
    Event,
    Executor,
    ExecutorKind,
    Finished,
    LocalExecutor,
    Outcome,
    Queued,
    Requeued,
    RunnerEngine,
    RunnerJob,
    RunnerState,
    Site,
    Waiting,
    executor_names,
    find_executor,
    is_retried,
)
from tarmac.jobs.glance import glance_job
from tarmac.jobs.graph import circle_of
from tarmac.jobs.handle import Handle, JobFailed, attach, runner_options, start_runner
from tarmac.jobs.job_run import (
    JobRun,
    create_run,
    find_run,
    list_statuses,
    note_outcome,
    prepare,
    work_on,
    working_on,
)
from tarmac.jobs.journal import Journal, read_journal
from tarmac.jobs.kind import JOB
from tarmac.jobs.machine import Grant, Machine, Shortage, read_machine
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
from tarmac.jobs.plan import LAUNCH, Task, plan_tasks, thread_variables
from tarmac.jobs.progress import Ended, Reporter, Silent
from tarmac.jobs.reader import as_written, job_of, parse_job, read_job
from tarmac.jobs.record import JobRecord, read_record
from tarmac.jobs.run_files import SHARED, directory_name
from tarmac.jobs.runner_jobs import (
    OwnRunnerJob,
    end_runner_jobs,
    recall_secrets,
    submit_runner,
    why_no_runner_job,
)
from tarmac.jobs.scheduler import run_tasks, task_directory
from tarmac.jobs.secrets import missing_secrets, read_secret_mapping, secret_variables
from tarmac.jobs.status import RunStatus, TaskStatus, read_status
from tarmac.jobs.sweep import Sweep
from tarmac.jobs.training_job import training_job

__all__ = [
    "DISTURBANCES",
    "JOB",
    "LAUNCH",
    "SHARED",
    "WORK",
    "Attempt",
    "Began",
    "Busy",
    "Cause",
    "Container",
    "Ended",
    "Event",
    "Executor",
    "ExecutorKind",
    "Finished",
    "Grant",
    "Handle",
    "Input",
    "Job",
    "JobFailed",
    "JobRecord",
    "JobRun",
    "Journal",
    "LocalExecutor",
    "Machine",
    "Mount",
    "Outcome",
    "Output",
    "OwnRunnerJob",
    "Queued",
    "Reporter",
    "Requeued",
    "Resources",
    "Retries",
    "RunStatus",
    "RunnerEngine",
    "RunnerJob",
    "RunnerState",
    "Secret",
    "Shortage",
    "Silent",
    "Site",
    "Sweep",
    "SystemEnvironment",
    "Task",
    "TaskSpec",
    "TaskStatus",
    "Venv",
    "Waiting",
    "as_written",
    "attach",
    "circle_of",
    "create_run",
    "directory_name",
    "end_runner_jobs",
    "escape",
    "executor_names",
    "find_executor",
    "find_run",
    "glance_job",
    "is_retried",
    "job_of",
    "list_statuses",
    "missing_secrets",
    "note_outcome",
    "parse_job",
    "plan_tasks",
    "prepare",
    "read_job",
    "read_journal",
    "read_machine",
    "read_record",
    "read_secret_mapping",
    "read_status",
    "recall_secrets",
    "run_tasks",
    "runner_options",
    "secret_variables",
    "start_runner",
    "submit_runner",
    "task_directory",
    "thread_variables",
    "training_job",
    "why_no_runner_job",
    "work_on",
    "working_on",
]
