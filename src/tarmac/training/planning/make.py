"""From what was asked to what will be done: every value resolved and checked beforehand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tarmac import data
from tarmac.errors import RequestError
from tarmac.machine import find_devices
from tarmac.training.engine.model import bind_dataset
from tarmac.training.plan import Plan
from tarmac.training.planning.batch_size import choose_batch_size
from tarmac.training.planning.devices import choose_devices, devices_of_machine
from tarmac.training.planning.feed import choose_feed
from tarmac.training.planning.memory import check_memory
from tarmac.training.planning.options import (
    Options,
    check_options,
    check_sync,
    with_batch_size,
    with_options,
)
from tarmac.training.planning.precision import choose_compile, choose_precision
from tarmac.training.planning.settings import apply_settings, settings_of
from tarmac.training.planning.strategy import choose_strategy
from tarmac.training.planning.trial import try_model, try_one_sample, try_replica
from tarmac.training.shares import Shares

if TYPE_CHECKING:
    from tarmac.data import Dataset
    from tarmac.training.processes.rendezvous import Rendezvous
    from tarmac.workloads import Workload

__all__ = ["make_plan"]


def make_plan(
    workload: Workload,
    reference: str,
    options: Options,
    progress: data.Progress | None = None,
    *,
    rendezvous: Rendezvous | None = None,
) -> Plan:
    """Resolve and check a request; nothing is written and nothing trained.

    Args:
        workload: What to train.
        reference: How it was named.
        options: What was asked.
        progress: Called while data are downloaded.
        rendezvous: Which of several processes this one is, where a launcher has started them.

    Raises:
        RequestError: A value that cannot be, a device that is not here, too little memory.
        TarmacError: The data cannot be had or are damaged.
    """
    check_options(options)
    if rendezvous is None:
        found = find_devices(str(options.devices))
    else:
        found = devices_of_machine(str(options.devices), rendezvous)
    chosen, model_arguments = apply_settings(workload, options.settings)
    changed = with_options(chosen, options)
    dataset = _load(changed, progress)
    defaults = settings_of(changed)
    changed = bind_dataset(changed, dataset)
    train_size = _train_size(options, dataset)
    sample_flops, num_parameters, has_batch_norm = try_model(changed, model_arguments, dataset)
    asked = options.batch_size_per_device
    if rendezvous is None:
        devices, why_devices = choose_devices(
            str(options.devices),
            options.strategy,
            found,
            sample_flops * (asked or changed.recipe.batch_size / len(found)),
        )
    else:
        devices, why_devices = found, "one for each process here"
    strategy, why_strategy = choose_strategy(options.strategy, devices, rendezvous)
    world_size = len(devices) if rendezvous is None else rendezvous.world_size
    batch = choose_batch_size(
        chosen.recipe,
        changed.recipe,
        world_size,
        per_device=asked,
        accumulate=options.accumulate,
        scale_lr=options.scale_lr,
    )
    changed = with_batch_size(changed, batch)
    check_sync(options, strategy)
    if strategy == "towers":
        try_replica(changed, model_arguments)
    tightest = min(devices, key=lambda device: device.available_bytes)
    feed, why_feed = choose_feed(options.feed, dataset.train, train_size, tightest)
    check_memory(tightest, dataset, num_parameters, strategy=strategy, feed=feed)
    weakest = min(devices, key=lambda device: device.bf16_matrix_units)
    shares = Shares(
        num_samples=train_size,
        batch_size=changed.recipe.batch_size,
        num_replicas=world_size,
        accumulate=options.accumulate,
    )
    if has_batch_norm and shares.smallest == 1 and not (options.sync_batchnorm and world_size > 1):
        try_one_sample(changed, model_arguments, dataset)
    precision, why_precision = choose_precision(
        options.precision, weakest, sample_flops * shares.largest
    )
    compiled, why_compiled = choose_compile(
        options.compile, weakest, float(sample_flops) * train_size * changed.recipe.epochs
    )
    return Plan(
        reference=reference,
        workload=changed,
        settings=defaults | dict(model_arguments),
        model_arguments=model_arguments,
        dataset=dataset,
        devices=devices,
        world_size=world_size,
        strategy=strategy,
        feed=feed,
        precision=precision,
        compile=compiled,
        reasons={
            "devices": why_devices,
            "strategy": why_strategy,
            "feed": why_feed,
            "batch_size": batch.reason,
            "precision": why_precision,
            "compile": why_compiled,
        },
        num_parameters=num_parameters,
        train_size=train_size,
        validation_size=options.validation_size,
        patience=options.patience,
        score_test=options.score_test,
        seed=options.seed,
        accumulate=options.accumulate,
        sync_batchnorm=options.sync_batchnorm,
        scale_lr=options.scale_lr,
        deterministic=options.deterministic,
        checkpoint_every=options.checkpoint_every,
        max_restarts=options.max_restarts,
        hang_timeout_s=options.hang_timeout_s,
    )


def _load(workload: Workload, progress: data.Progress | None) -> Dataset:
    if isinstance(workload.dataset, str):
        return data.load(workload.dataset, progress=progress)
    return workload.dataset()


def _train_size(options: Options, dataset: Dataset) -> int:
    available = len(dataset.train) - options.validation_size
    train_size = available if options.train_size is None else options.train_size
    if not 1 <= train_size <= available:
        held_out = (
            f" ({options.validation_size} more are held out)" if options.validation_size else ""
        )
        raise RequestError(
            f"train_size is {train_size}, but {dataset.name} has {max(available, 0)} samples "
            f"to train on{held_out}"
        )
    return train_size
