"""The options of a run beside its job, in a single value from the caller down to the executor.

A new option needs a field here and code that uses it, an option in `tarmac.cli.job_options`, and an
argument of `tarmac.run` and `tarmac.submit`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from tarmac.errors import RequestError
from tarmac.files import expanded
from tarmac.tasks.model import Secret
from tarmac.tasks.secrets import read_secret_mapping

# Place of the runner, the process that hands out a submitted job's tasks: on this machine, or as a
# job of the engine that runs the tasks.
RunnerPlace = Literal["here", "engine"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunRequest:
    """The options of a run beside its job.

    Attributes:
        output: Directory in which to create the run. Default: `tarmac.runs.default_output`.
        concurrency: Maximum number of tasks at once. Default: the job's limit, else as many as fit.
        fake_gpus: Number of GPUs to pretend, to try a job without them. Default 0: real GPUs.
        keep_going: Whether to start the remaining tasks even when the first tasks all failed alike.
            Default False.
        secrets: Places of named secrets on this machine; references only, never a secret itself.
            The caller's places override the user's configuration (see `read_secret_mapping`).
            Default: none.
        on: Executor of the tasks, one of `executor_names`. Default: the user's settings, else
            ``local``; a resumed run keeps its executor.
        profile: Name of a profile in the user's settings. Default: none.
        runner: Place of the process that hands out a submitted job's tasks. Default: the user's
            settings, else ``engine`` where the runner can be a job of the engine.
    """

    output: Path | None = None
    concurrency: int | None = None
    fake_gpus: int = 0
    keep_going: bool = False
    secrets: Mapping[str, Secret] = dataclasses.field(default_factory=dict)
    on: str | None = None
    profile: str | None = None
    runner: RunnerPlace | None = None

    def runner_options(self) -> list[str]:
        """Return the options of ``tarmac run`` that the run's record does not hold.

        Secrets of the user's configuration are left out: the runner reads that file itself.

        Raises:
            RequestError: A named secret refers to another named secret.
        """
        options = []
        if self.concurrency is not None:
            options += ["--jobs", str(self.concurrency)]
        if self.fake_gpus:
            options += ["--fake-gpus", str(self.fake_gpus)]
        if self.keep_going:
            options.append("--keep-going")
        configured = read_secret_mapping()
        for name, secret in self.secrets.items():
            if configured.get(name) != secret:
                options += ["--secret", f"{name}={_secret_location(name, secret)}"]
        return options


# All defaults, without the secrets of the user's configuration.
DEFAULT_REQUEST = RunRequest()


def _secret_location(name: str, secret: Secret) -> str:
    if secret.env is not None:
        return f"env:{secret.env}"
    if secret.file is not None:
        # A runner job starts in another directory.
        return f"file:{expanded(secret.file).absolute()}"
    raise RequestError(
        f"secrets: {name!r} stands for {secret}, which is not a source on this machine",
        hint="Use env=VARIABLE or file=PATH",
    )
