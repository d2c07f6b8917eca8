"""What a training is asked for beside its plan: one value from the verbs down to the ranks."""

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
    """What `train`, `resume` and `extend` are asked for beside the plan.

    Attributes:
        output: Directory in which runs are made or looked for. Default: `runs.default_output`.
        uri: URI below which the run's copy goes. Default: the one that the run's record names.
        reporter: Receives progress; of several ranks the first one's. Default: none.
        stop: Called after every epoch; returns why the training ends there, or None. Default: none.
        interrupted: Called after every step; if true, save the state and stop. Default: none.
        rendezvous: Rank and world size of this process, where a launcher has started several.
            Default: a process of its own.
        launch: Name of the task that a new run is begun for, so that a later attempt goes on with
            it. Default: empty, for none.
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
        """Make a request of a verb's arguments, and of what a launcher has set for this process.

        Args:
            output: A directory, or the URI of an object store.
            reporter: See the attribute; so are the others.
            stop: Called after every epoch.
            interrupted: Called after every step.
            is_resumed: Whether a run is named to go on with, whichever task has begun it.

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
