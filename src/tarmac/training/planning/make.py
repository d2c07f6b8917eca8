"""Make a plan from a request: collect the facts, make the choices in order, and check them.

Each choice is a function of facts and earlier choices. It returns a value and the reason in words.
The checks that depend on a choice follow it. A new choice is a function in a module of its own, a
call in `make_plan`, and a field of `Plan`.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from tarmac import data
from tarmac.training.engine.model import bind_dataset
from tarmac.training.engine.strategies import find_strategy
from tarmac.training.initial import Initial, fit_weights, read_weights
from tarmac.training.plan import Plan
from tarmac.training.planning.autotune import choose_autotune
from tarmac.training.planning.batch_size import choose_batch_size
from tarmac.training.planning.dataset import hold_out, in_steps, load_dataset
from tarmac.training.planning.devices import choose_devices, find_training_devices
from tarmac.training.planning.feed import choose_feed
from tarmac.training.planning.fused import choose_fused, why_not_plain_classes
from tarmac.training.planning.memory import check_memory
from tarmac.training.planning.options import (
    Options,
    check_options,
    check_steps,
    check_sync,
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
    candidates, left_out = find_training_devices(str(options.devices), rendezvous)
    published, model_arguments = apply_settings(workload, options.settings)
    configured = with_options(published, options, on_cpu=candidates[0].type == "cpu")
    dataset = load_dataset(configured, load, progress)
    dataset = in_steps(dataset, configured.recipe.batch_size)
    held = hold_out(options, dataset)
    if not goes_on:
        held.check_classes(dataset)
    check_task(configured, dataset, held)
    bound = bind_dataset(configured, dataset)
    requested = None if options.strategy == "auto" else find_strategy(options.strategy)
    trial = try_model(bound, model_arguments, dataset, strategy=requested)
    check_updates(configured.recipe, trial.model)
    if options.activation_checkpointing:
        trial.check_blocks(workload.name)
    initial = _initial(options, trial)

    reasons: dict[str, str] = {}
    samples = options.batch_size_per_device or configured.recipe.batch_size / len(candidates)
    devices, reasons["devices"] = choose_devices(
        options,
        candidates,
        trial.sample_flops * samples,
        trial.num_parameters,
        rendezvous=rendezvous,
        left_out=left_out,
    )
    weakest = min(devices, key=lambda device: device.bf16_matrix_units)
    tightest = min(devices, key=lambda device: device.available_bytes)
    world_size = len(devices) if rendezvous is None else rendezvous.world_size

    strategy, reasons["strategy"] = choose_strategy(options.strategy, devices, rendezvous)
    check_sync(options, strategy)

    recipe, reasons["batch_size"] = choose_batch_size(
        options, published.recipe, configured.recipe, world_size
    )
    if (counted := in_steps(dataset, recipe.batch_size)) is not dataset:
        dataset, held = counted, hold_out(options, counted)
    shares = Shares.of(recipe, len(held.train), world_size, options.accumulate)
    check_steps(options, shares.num_steps * recipe.epochs)
    step_flops = trial.sample_flops * shares.largest
    run_flops = float(trial.sample_flops) * shares.num_samples * recipe.epochs

    feed, reasons["feed"] = choose_feed(options.feed, held.train, tightest)
    check_memory(tightest, dataset, trial.num_parameters, strategy, world_size, feed=feed)
    if shares.smallest == 1 and not (options.sync_batchnorm and world_size > 1):
        trial.check_one_sample()

    precision, reasons["precision"] = choose_precision(
        options.precision, weakest, step_flops, num_parameters=trial.num_parameters
    )
    threads, reasons["threads"] = choose_threads(options.threads, weakest, strategy, step_flops)
    compiled, reasons["compile"] = choose_compile(options.compile, weakest, strategy, run_flops)
    check_sharding(strategy, recipe, compiled=compiled)
    autotune, reasons["autotune"] = choose_autotune(
        weakest, run_flops, deterministic=options.deterministic
    )
    fused, reasons["fused"] = choose_fused(
        options,
        trial.model,
        recipe,
        weakest,
        strategy=strategy,
        feed=feed,
        precision=precision,
        is_compiled=compiled,
        step_flops=step_flops,
        task=why_not_plain_classes(bound.objective, dataset),
    )
    return Plan(
        reference=reference,
        workload=dataclasses.replace(bound, recipe=recipe),
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
        reasons=reasons,
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
        initial=initial,
        steps=options.steps,
    )


def _initial(options: Options, trial: Trial) -> Initial | None:
    if options.init_from is None:
        return None
    source = Path(options.init_from)
    return fit_weights(
        source, read_weights(source), trial.model.state_dict(), partial=options.init_partial
    )
