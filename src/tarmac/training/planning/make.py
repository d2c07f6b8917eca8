"""Make a plan from a request: collect the facts, make the choices in order, and check them.

Each choice is a function of facts and earlier choices. It returns a value and the reason in words.
"""

from __future__ import annotations

from pathlib import Path

from tarmac import data
from tarmac.errors import RequestError
from tarmac.training.engine.blocks import find_blocks
from tarmac.training.engine.model import bind_dataset
from tarmac.training.engine.strategies import find_strategy
from tarmac.training.initial import Initial, fit_weights, read_weights
from tarmac.training.plan import Plan
from tarmac.training.planning.autotune import choose_autotune
from tarmac.training.planning.batch_size import choose_batch_size
from tarmac.training.planning.dataset import hold_out, in_steps, load_dataset
from tarmac.training.planning.devices import (
    choose_devices,
    find_training_devices,
    why_not_all,
)
from tarmac.training.planning.feed import choose_feed
from tarmac.training.planning.fused import choose_fused, why_not_plain_classes
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
from tarmac.training.planning.sharding import check_sharding
from tarmac.training.planning.strategy import choose_strategy
from tarmac.training.planning.task import check_task
from tarmac.training.planning.threads import choose_threads
from tarmac.training.planning.trial import Trial, try_model
from tarmac.training.planning.updates import check_updates
from tarmac.training.processes.rendezvous import Rendezvous
from tarmac.training.shares import Shares
from tarmac.workloads import Workload


def make_plan(
    workload: Workload,
    reference: str,
    options: Options,
    progress: data.Progress | None = None,
    *,
    rendezvous: Rendezvous | None = None,
    load: data.Loader = data.load,
    goes_on: bool = False,
) -> Plan:
    """Resolve and check a request; write nothing and train nothing.

    Args:
        workload: Workload to train, before options and settings apply.
        reference: Reference by which `find_workload` finds the workload.
        options: Options that the user set.
        progress: Called while data are downloaded.
        rendezvous: Rank and world size of this process from its launcher; None without a launcher.
        load: Function that loads a dataset by its name.
        goes_on: Whether a run is resumed; the classes of its split are then not checked again.

    Raises:
        RequestError: A value is invalid, a device does not exist, or the memory is too small.
        TarmacError: The data cannot be loaded or are damaged.
    """
    check_options(options)
    candidates = find_training_devices(str(options.devices), rendezvous)
    published, model_arguments = apply_settings(workload, options.settings)
    configured = with_options(published, options, on_cpu=candidates[0].type == "cpu")
    dataset = load_dataset(configured, load, progress)
    dataset = in_steps(dataset, configured.recipe.batch_size)
    held = hold_out(options, dataset)
    if not goes_on:
        held.check_classes(dataset)
    check_task(configured, dataset, held)
    bound = bind_dataset(configured, dataset)
    asked_strategy = None if options.strategy == "auto" else find_strategy(options.strategy)
    trial = try_model(bound, model_arguments, dataset, strategy=asked_strategy)

    samples_each = options.batch_size_per_device or configured.recipe.batch_size / len(candidates)
    devices, why_devices = choose_devices(
        str(options.devices),
        options.strategy,
        candidates,
        trial.sample_flops * samples_each,
        trial.num_parameters,
        rendezvous=rendezvous,
        why_not_all=why_not_all(str(options.devices), candidates, rendezvous),
    )
    world_size = len(devices) if rendezvous is None else rendezvous.world_size
    strategy, why_strategy = choose_strategy(options.strategy, devices, rendezvous)
    check_sync(options, strategy)
    batch, why_batch = choose_batch_size(
        published.recipe,
        configured.recipe,
        world_size,
        per_device=options.batch_size_per_device,
        accumulate=options.accumulate,
        scale_lr=options.scale_lr,
    )
    trained = with_batch_size(bound, batch, published.recipe)
    counted = in_steps(dataset, batch.batch_size)
    if counted is not dataset:
        dataset, held = counted, hold_out(options, counted)
    shares = Shares.of(trained.recipe, len(held.train), world_size, options.accumulate)
    _check_trial(options, shares.num_steps * trained.recipe.epochs)
    tightest = min(devices, key=lambda device: device.available_bytes)
    feed, why_feed = choose_feed(options.feed, held.train, tightest)
    check_memory(
        tightest,
        dataset,
        trial.num_parameters // (world_size if strategy.shards_model else 1),
        process_per_device=strategy.process_per_device,
        feed=feed,
    )
    if shares.smallest == 1 and not (options.sync_batchnorm and world_size > 1):
        trial.check_one_sample()
    weakest = min(devices, key=lambda device: device.bf16_matrix_units)
    precision, why_precision = choose_precision(
        options.precision,
        weakest,
        trial.sample_flops * shares.largest,
        num_parameters=trial.num_parameters,
    )
    run_flops = float(trial.sample_flops) * shares.num_samples * trained.recipe.epochs
    threads, why_threads = choose_threads(
        options.threads, weakest, strategy.name, trial.sample_flops * shares.largest
    )
    compiled, why_compiled = choose_compile(options.compile, weakest, run_flops)
    if strategy.shards_model:
        if options.compile == "auto":
            compiled, why_compiled = False, f"{strategy.name} gathers parameters between layers"
        check_sharding(strategy.name, trained.recipe, compiled=compiled)
    check_updates(trained.recipe, trial.model)
    if options.activation_checkpointing and not find_blocks(trial.model):
        raise RequestError(
            f"activation_checkpointing needs repeated blocks, but {workload.name} has none",
            hint="Blocks are children of one class in a ModuleList or Sequential.",
        )
    autotune, why_autotune = choose_autotune(
        weakest, run_flops, deterministic=options.deterministic
    )
    fused, why_fused = choose_fused(
        options,
        trial.model,
        trained.recipe,
        weakest,
        strategy=strategy,
        feed=feed,
        precision=precision,
        is_compiled=compiled,
        step_flops=trial.sample_flops * shares.largest,
        task=why_not_plain_classes(trained.objective, dataset),
    )
    return Plan(
        reference=reference,
        workload=trained,
        settings=settings_of(configured) | dict(model_arguments),
        model_arguments=model_arguments,
        dataset=dataset,
        devices=devices,
        world_size=world_size,
        strategy=strategy.name,
        process_per_device=strategy.process_per_device,
        feed=feed,
        fused=fused,
        precision=precision,
        threads=threads,
        compile=compiled,
        autotune=autotune,
        reasons={
            "devices": why_devices,
            "strategy": why_strategy,
            "feed": why_feed,
            "fused": why_fused,
            "batch_size": why_batch,
            "precision": why_precision,
            "threads": why_threads,
            "compile": why_compiled,
            "autotune": why_autotune,
        },
        layers=trial.layers,
        num_parameters=trial.num_parameters,
        sample_flops=trial.sample_flops,
        returns_probabilities=trial.returns_probabilities,
        held=held,
        validation_seed=options.split_seed,
        patience=options.patience,
        score_test=options.score_test,
        seed=options.seed,
        accumulate=options.accumulate,
        sync_batchnorm=options.sync_batchnorm,
        activation_checkpointing=options.activation_checkpointing,
        scale_lr=options.scale_lr,
        deterministic=options.deterministic,
        checkpoint_every=options.checkpoint_every,
        max_restarts=options.max_restarts,
        hang_timeout_s=options.hang_timeout_s,
        sampling=options.sampling,
        log_to=tuple(options.log_to),
        initial=_initial(options, trial),
        steps=options.steps,
    )


def _check_trial(options: Options, num_steps: int) -> None:
    if options.steps is not None and options.steps > num_steps:
        raise RequestError(
            f"steps is {options.steps}, but the whole training has {num_steps}",
            hint="Ask for fewer, for more --epochs, or leave --steps out for the whole training.",
        )


def _initial(options: Options, trial: Trial) -> Initial | None:
    if options.init_from is None:
        return None
    source = Path(options.init_from)
    return fit_weights(
        source, read_weights(source), trial.model.state_dict(), partial=options.init_partial
    )
