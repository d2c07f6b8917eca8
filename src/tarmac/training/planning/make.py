"""Makes a plan of what was asked: learns the facts, makes one choice after another, and checks.

Each choice is a function of facts and earlier choices; it returns a value and the reason in words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tarmac import data
from tarmac.errors import RequestError
from tarmac.training.engine.model import bind_dataset
from tarmac.training.engine.strategies import find_strategy
from tarmac.training.plan import Plan
from tarmac.training.planning.autotune import choose_autotune
from tarmac.training.planning.batch_size import choose_batch_size
from tarmac.training.planning.devices import (
    choose_devices,
    find_training_devices,
    why_not_all,
)
from tarmac.training.planning.feed import choose_feed
from tarmac.training.planning.fused import Others, choose_fused
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
from tarmac.training.planning.trial import try_model
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
    load: data.Loader = data.load,
) -> Plan:
    """Resolve and check a request; nothing is written and nothing trained.

    Args:
        workload: What to train.
        reference: How it was named.
        options: What was asked.
        progress: Called while data are downloaded.
        rendezvous: Which of several processes this one is, where a launcher has started them.
        load: Loads a dataset that is named.

    Raises:
        RequestError: A value that cannot be, a device that is not here, too little memory.
        TarmacError: The data cannot be had or are damaged.
    """
    check_options(options)
    found = find_training_devices(str(options.devices), rendezvous)
    published, model_arguments = apply_settings(workload, options.settings)
    asked = with_options(published, options)
    dataset = _load(asked, load, progress)
    train_size = _train_size(options, dataset)
    bound = bind_dataset(asked, dataset)
    asked_strategy = None if options.strategy == "auto" else find_strategy(options.strategy)
    trial = try_model(bound, model_arguments, dataset, strategy=asked_strategy)

    samples_each = options.batch_size_per_device or asked.recipe.batch_size / len(found)
    devices, why_devices = choose_devices(
        str(options.devices),
        options.strategy,
        found,
        trial.sample_flops * samples_each,
        rendezvous,
        why_not_all=why_not_all(str(options.devices), found, rendezvous),
    )
    world_size = len(devices) if rendezvous is None else rendezvous.world_size
    strategy, why_strategy = choose_strategy(options.strategy, devices, rendezvous)
    check_sync(options, strategy)
    batch, why_batch = choose_batch_size(
        published.recipe,
        asked.recipe,
        world_size,
        per_device=options.batch_size_per_device,
        accumulate=options.accumulate,
        scale_lr=options.scale_lr,
    )
    trained = with_batch_size(bound, batch, published.recipe)
    shares = Shares(
        num_samples=train_size,
        batch_size=batch.batch_size,
        num_replicas=world_size,
        accumulate=options.accumulate,
        drop_last=trained.recipe.drop_last,
    )
    tightest = min(devices, key=lambda device: device.available_bytes)
    feed, why_feed = choose_feed(options.feed, dataset.train, train_size, tightest)
    check_memory(
        tightest,
        dataset,
        trial.num_parameters,
        process_per_device=strategy.process_per_device,
        feed=feed,
    )
    if shares.smallest == 1 and not (options.sync_batchnorm and world_size > 1):
        trial.check_one_sample()
    weakest = min(devices, key=lambda device: device.bf16_matrix_units)
    precision, why_precision = choose_precision(
        options.precision, weakest, trial.sample_flops * shares.largest
    )
    run_flops = float(trial.sample_flops) * train_size * trained.recipe.epochs
    compiled, why_compiled = choose_compile(options.compile, weakest, run_flops)
    autotune, why_autotune = choose_autotune(
        weakest, run_flops, deterministic=options.deterministic
    )
    others = Others(
        strategy=strategy.name,
        feed=feed,
        precision=precision,
        is_compiled=compiled,
        accumulate=options.accumulate,
        step_flops=trial.sample_flops * shares.largest,
    )
    fused, why_fused = choose_fused(options.fused, trial.model, trained.recipe, weakest, others)
    return Plan(
        reference=reference,
        workload=trained,
        settings=settings_of(asked) | dict(model_arguments),
        model_arguments=model_arguments,
        dataset=dataset,
        devices=devices,
        world_size=world_size,
        strategy=strategy.name,
        process_per_device=strategy.process_per_device,
        feed=feed,
        fused=fused,
        precision=precision,
        compile=compiled,
        autotune=autotune,
        reasons={
            "devices": why_devices,
            "strategy": why_strategy,
            "feed": why_feed,
            "fused": why_fused,
            "batch_size": why_batch,
            "precision": why_precision,
            "compile": why_compiled,
            "autotune": why_autotune,
        },
        num_parameters=trial.num_parameters,
        sample_flops=trial.sample_flops,
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
        sampling=options.sampling,
        log_to=tuple(options.log_to),
    )


def _load(workload: Workload, load: data.Loader, progress: data.Progress | None) -> Dataset:
    if isinstance(workload.dataset, str):
        return load(workload.dataset, progress=progress)
    return workload.dataset()


def _train_size(options: Options, dataset: Dataset) -> int:
    available = len(dataset.train) - options.validation_size
    if available < 1:
        raise RequestError(
            f"validation_size is {options.validation_size}, which leaves none of the "
            f"{len(dataset.train)} samples of {dataset.name} to train on"
        )
    train_size = available if options.train_size is None else options.train_size
    if not 1 <= train_size <= available:
        held_out = (
            f" ({options.validation_size} more are held out)" if options.validation_size else ""
        )
        raise RequestError(
            f"train_size is {train_size}, but {dataset.name} has {available} samples "
            f"to train on{held_out}"
        )
    return train_size
