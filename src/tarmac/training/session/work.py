"""Training into a run's directory: in this process, in workers, or as a launcher's rank."""

from __future__ import annotations

from collections.abc import Callable

from tarmac.errors import RequestError
from tarmac.runs import Run
from tarmac.training.engine.team import Alone
from tarmac.training.plan import Plan
from tarmac.training.session.epochs import train_epochs
from tarmac.training.session.rank import train_as_rank
from tarmac.training.session.record import recorded
from tarmac.training.session.request import TrainRequest
from tarmac.training.session.sampling import Sampler, uuids_of
from tarmac.training.session.stop_request import StopRequest
from tarmac.training.session.tracking import Tracking
from tarmac.training.session.upload import uploaded
from tarmac.training.session.workers import train_in_workers
from tarmac.workloads import Workload


def work(
    request: TrainRequest,
    prepare: Callable[[], tuple[Workload, Plan]],
    make_run: Callable[[Workload, Plan], Run],
) -> Run:
    """Train into a run's directory, record the result, and upload the run if it has a URI.

    Args:
        request: Options of the training beside the plan.
        prepare: Function that finds the workload, before options change it, and makes the plan.
        make_run: Function that creates the run of a plan, or finds the run to resume.

    Raises:
        RequestError: The request cannot be carried out; nothing was started.
        TarmacError: The training failed; its progress so far is in the run.
    """
    if request.rendezvous is not None:
        with uploaded(request.uri) as begin:
            return train_as_rank(request, prepare, make_run, begun=begin)
    workload, plan = prepare()
    if request.stop is not None and plan.process_per_device:
        raise RequestError(
            f"stop cannot be used: the epochs of {plan.strategy} run in worker processes, which "
            "do not have it",
            hint="Train on one device, by towers, or under torchrun.",
        )
    run = make_run(workload, plan)
    if run.record.status == "completed":
        return run
    sampler = Sampler(run, uuids_of(plan.devices), is_on=plan.sampling)
    tracking = Tracking(request.reporter, sampler)
    uri, launch = request.uri, request.launch
    with (
        uploaded(uri) as begin,
        recorded(
            run, plan, workload, sampler=sampler, tracking=tracking, uri=uri, launch=launch
        ) as conclude,
    ):
        begin(run)
        if plan.process_per_device:
            conclude(train_in_workers(plan, run, tracking, sampler, request.interrupted))
        else:
            with StopRequest(request.interrupted) as stop:
                conclude(train_epochs(plan, run, Alone(), tracking, stop, stop=request.stop))
    return run
