"""The options of a training beside its plan, in a single value from the verbs down to the ranks."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path

from tarmac.files import is_object
from tarmac.training.processes.rendezvous import Rendezvous, find_launch, find_rendezvous
from tarmac.training.session.epochs import EpochHook
from tarmac.training.session.reporter import Reporter, Silent


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainRequest:
    """The options of `train`, `resume` and `extend` beside the plan.

    Attributes:
        output: Directory in which runs are created and searched. Default: `runs.default_output`.
        uri: URI below which the run's copy goes. Default: the URI in the run's record.
        reporter: Receiver of progress reports, on the first rank. Default: no reports.
        stop: Called after every epoch with its metrics; returns a reason to stop, or None.
            Default: none.
        interrupted: Called after every step; if true, save the state and stop. Default: none.
        rendezvous: Rank and world size of this process from its launcher. Default: no launcher.
        launch: Name of the task for which a new run is created, so that a later attempt of the task
            resumes the run. Default: empty, no task.
    """

    output: Path | None = None
    uri: str | None = None
    reporter: Reporter = dataclasses.field(default_factory=Silent)
    stop: EpochHook | None = None
    interrupted: Callable[[], bool] | None = None
    rendezvous: Rendezvous | None = None
    launch: str = ""

    @classmethod
    def of(
        cls,
        output: str | Path | None,
        reporter: Reporter | None,
        stop: EpochHook | None,
        interrupted: Callable[[], bool] | None,
        *,
        is_resumed: bool = False,
    ) -> TrainRequest:
        """Create a request from a verb's arguments and the launcher's environment variables.

        Args:
            output: Directory of runs, or the URI of an object store.
            reporter: Receiver of progress reports, on the first rank.
            stop: Called after every epoch; see the attribute.
            interrupted: Called after every step; see the attribute.
            is_resumed: Whether the caller names the run to resume. The request then has no
                ``launch``, as any task may have created that run. Default False.

        Raises:
            RequestError: The launcher's variables contradict each other.
        """
        rendezvous = find_rendezvous(os.environ, os.getppid())
        launch = find_launch(os.environ) if rendezvous is None else rendezvous.launch
        is_uri = output is not None and is_object(str(output))
        return cls(
            output=None if output is None or is_uri else Path(output),
            uri=str(output) if is_uri else None,
            reporter=reporter or Silent(),
            stop=stop,
            interrupted=interrupted,
            rendezvous=rendezvous,
            launch="" if is_resumed else launch,
        )
