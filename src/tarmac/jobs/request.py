"""What a job's run is asked for beside its job: one value from the caller down to the executor.

A new option is a field here and its use, an option of `tarmac.cli.job_options`, and an argument of
`tarmac.run` and `tarmac.submit`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from tarmac.errors import RequestError
from tarmac.files import expanded
from tarmac.jobs.model import Secret
from tarmac.jobs.secrets import read_secret_mapping

# Where the process runs that hands out a submitted job's tasks: on this machine, or as a job of the
# same engine as its tasks.
RunnerPlace = Literal["here", "engine"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunRequest:
    """What a run is asked for beside its job.

    Attributes:
        output: Directory in which the run's own is made. Default: `tarmac.runs.default_output`.
        concurrency: Most tasks at once. Default: the job's limit, else as many as fit.
        fake_gpus: Number of GPUs to pretend, to try a job without them. Default 0: real GPUs.
        keep_going: Whether to start what is left also where the first tasks have all failed alike.
            Default False.
        secrets: What named secrets stand for here: the user's configuration (see
            `read_secret_mapping`), and over it what was asked for. Default: none.
        on: Executor of the tasks, one of `executor_names`. Default: what the settings say, else
            ``local``; of a resumed run the one that it began with.
        profile: Name of a profile in the user's settings. Default: none.
        runner: Place of the process that hands out a submitted job's tasks. Default: what the
            settings say, else ``engine`` where the runner can be a job there.
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
        """Return the options of ``tarmac run`` that say what a run does not remember.

        Secrets of the user's configuration are left out: a runner reads that itself.

        Raises:
            RequestError: A named secret stands for another named one.
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


# A run that nothing is asked for, without the user's secrets.
DEFAULT_REQUEST = RunRequest()


def _secret_location(name: str, secret: Secret) -> str:
    if secret.env is not None:
        return f"env:{secret.env}"
    if secret.file is not None:
        # A runner that is a job begins in another directory.
        return f"file:{expanded(secret.file).absolute()}"
    raise RequestError(
        f"secrets: {name!r} stands for {secret}, which is no place on this machine",
        hint="Say env=VARIABLE or file=PATH",
    )
