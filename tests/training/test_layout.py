"""How devices, strategy and batch size follow from what is asked and what is there."""

from __future__ import annotations

import dataclasses
import math
import threading

import pytest
import torch

import tarmac
from tarmac import RequestError
from tarmac.machine import Device, name_devices
from tarmac.training.planning.batch_size import choose_batch_size
from tarmac.training.planning.devices import choose_devices, devices_again, devices_of_machine
from tarmac.training.planning.options import Options, with_options
from tarmac.training.planning.sharing import weigh_sharing
from tarmac.training.planning.strategy import choose_strategy
from tarmac.training.processes.rendezvous import Rendezvous
from tarmac.workloads import find_workload

GPUS = tuple(
    Device(
        type="cuda",
        index=index,
        name="Fast",
        uuid=f"GPU-{index}",
        memory_bytes=2**34,
        available_bytes=2**34,
        bf16_matrix_units=True,
        compute_capability=(9, 0),
        num_threads=0,
    )
    for index in range(4)
)


def rank(number: int, world_size: int, local_world_size: int | None = None) -> Rendezvous:
    return Rendezvous(
        rank=number,
        world_size=world_size,
        local_rank=number,
        local_world_size=local_world_size or world_size,
        address="localhost:1",
        launch="",
        num_restarts=0,
    )


@pytest.mark.parametrize(
    ("request_", "strategy", "flops", "count"),
    [
        ("auto", "auto", 1e9, 1),
        ("auto", "auto", 1e12, 4),
        ("auto", "ddp", 1e9, 4),
        ("auto", "towers", 1e9, 4),
        ("auto", "single", 1e9, 1),
        ("all", "auto", 1e9, 4),
    ],
)
def test_auto_takes_several_gpus_only_where_the_work_is_worth_it(request_, strategy, flops, count):
    options = Options(devices=request_, strategy=strategy)
    devices, why = choose_devices(options, GPUS, flops, 1_000_000)
    assert len(devices) == count
    assert why.startswith("one GPU of 4: ") is (count == 1)
    assert ("--devices all shares it" in why) is (count == 1 and strategy == "auto")


@pytest.mark.parametrize(
    ("name", "count", "flops_each", "num_parameters", "pays"),
    [
        # 6 FLOP for each parameter and sample: mnist-mlp by 128, gpt2-124m by 12,288 tokens.
        ("NVIDIA H100 80GB HBM3", 8, 6 * 670e3 * 16, 670e3, False),
        ("NVIDIA H100 80GB HBM3", 8, 6 * 124e6 * 12_288, 124e6, True),
        ("Tesla T4", 2, 6 * 670e3 * 64, 670e3, False),
        ("Tesla T4", 2, 6 * 124e6 * 1_024, 124e6, False),
        ("Tesla T4", 2, 6 * 124e6 * 4_096, 124e6, True),
        # A chip that nobody has listed.
        ("Fast", 4, 1e9, 1e6, False),
        ("Fast", 4, 1e12, 1e6, True),
    ],
)
def test_gpus_share_a_step_where_they_save_more_than_their_messages_cost(
    name, count, flops_each, num_parameters, pays
):
    gpus = [dataclasses.replace(GPUS[0], name=name, memory_bytes=80 * 2**30)] * count
    assert weigh_sharing(gpus, flops_each, int(num_parameters)).pays is pays


@pytest.mark.parametrize(("request_", "count"), [("auto", 1), ("all", 4), ("4", 4), ("auto", 4)])
def test_the_reason_for_the_devices_names_those_that_are_left_out(request_, count):
    left_out = "without cuda:4: Fast is in compute mode PROHIBITED"
    options = Options(devices=request_)
    _, why = choose_devices(options, GPUS[:count], 1e12, 1, left_out=left_out)
    assert why.endswith(left_out)


@pytest.mark.parametrize(
    ("request_", "count", "rendezvous", "strategy"),
    [
        ("auto", 1, None, "single"),
        ("auto", 2, None, "ddp"),
        ("ddp", 1, None, "ddp"),
        ("towers", 3, None, "towers"),
        ("auto", 1, rank(0, 1), "ddp"),
        ("auto", 2, rank(0, 2), "ddp"),
    ],
)
def test_the_strategy_follows_from_devices_and_launcher(request_, count, rendezvous, strategy):
    assert choose_strategy(request_, GPUS[:count], rendezvous)[0].name == strategy


@pytest.mark.parametrize(
    ("request_", "rendezvous", "message"),
    [
        ("single", None, "strategy is 'single', but 4 devices are requested"),
        ("towers", rank(0, 2), "strategy is 'towers', but 2 processes were started"),
        ("fast", None, "strategy is 'fast', expected auto, single, ddp, fsdp or towers"),
    ],
)
def test_a_strategy_that_contradicts_is_refused(request_, rendezvous, message):
    with pytest.raises(RequestError, match=message):
        choose_strategy(request_, GPUS, rendezvous)


def batch(world_size: int, **values):
    workload, options = find_workload("digits-mlp"), Options(**values)
    configured = with_options(workload, options, on_cpu=False)
    recipe, why = choose_batch_size(options, workload.recipe, configured.recipe, world_size)
    assert why
    return recipe


def test_the_batch_size_is_of_all_devices_unless_asked_per_device():
    assert batch(4).batch_size == 32
    assert batch(4, batch_size_per_device=32).batch_size == 128


@pytest.mark.parametrize(("scale_lr", "factor"), [("none", 1), ("linear", 4), ("sqrt", 2)])
def test_the_rate_follows_the_batch_only_if_asked(scale_lr, factor):
    own = find_workload("digits-mlp").recipe.optimizer.learning_rate
    chosen = batch(4, batch_size_per_device=32, scale_lr=scale_lr)
    assert math.isclose(chosen.optimizer.learning_rate, own * factor)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"batch_size": 3}, "batch_size is 3, which 4 devices cannot share"),
        ({"batch_size": 7, "accumulate": 2}, "which 4 devices with 2 parts each cannot share"),
        ({"scale_lr": "log"}, "scale_lr is 'log', expected none, linear or sqrt"),
    ],
)
def test_a_batch_that_cannot_be_shared_is_refused(asked, message):
    with pytest.raises(RequestError, match=message):
        batch(4, **asked)


def test_processes_of_a_launcher_take_the_devices_of_their_machine(monkeypatch):
    visible = list(GPUS[:2])
    monkeypatch.setattr(
        "tarmac.training.planning.devices.find_devices", lambda _, **__: tuple(visible)
    )
    assert devices_of_machine("auto", rank(1, 2)) == GPUS[:2]
    assert devices_of_machine("auto", rank(0, 1)) == GPUS[:1]
    with pytest.raises(RequestError, match="3 processes were started here, but 2 GPUs are visible"):
        devices_of_machine("auto", rank(0, 3))
    with pytest.raises(RequestError, match="devices is '0,1', but 1 process was started here"):
        devices_of_machine("0,1", rank(0, 1))
    # Slurm and Ray show each process the one GPU that is its own.
    visible[1:] = []
    shared = devices_of_machine("auto", rank(1, 2))
    assert shared == (GPUS[0], GPUS[0])
    # A run that is resumed finds them by what was recorded.
    request = devices_again(name_devices(shared), rank(1, 2))
    assert devices_of_machine(request, rank(1, 2)) == shared


@pytest.mark.parametrize(
    ("recorded", "rendezvous", "request_"),
    [
        ("cuda:0,2", None, "cuda:0,2"),
        ("cuda:0,2", rank(0, 2), "cuda:0,2"),
        ("cuda:0,1", rank(0, 2, local_world_size=1), "auto"),
        ("cpu:2", None, "cpu:2"),
        ("cpu:2", rank(0, 2, local_world_size=1), "cpu"),
    ],
)
def test_a_run_goes_on_with_its_devices_or_where_its_processes_lie_now(
    recorded, rendezvous, request_
):
    assert devices_again(recorded, rendezvous) == request_


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 2, "devices": "cpu:3"}, "batch_size is 2, which 3 devices cannot share"),
        ({"batch_size": 8, "batch_size_per_device": 4}, "expected one of them"),
        ({"accumulate": 0}, "accumulate is 0, expected at least 1"),
        ({"batch_size": 2, "accumulate": 3}, "cannot be divided into 3 parts"),
        ({"max_restarts": -1}, "max_restarts is -1, expected at least 0"),
        ({"hang_timeout_s": 0}, "hang_timeout is 0, expected above 0 seconds"),
        ({"devices": "cpu:2", "strategy": "single"}, "but 2 devices are requested"),
        (
            {"devices": "cpu:2", "strategy": "towers", "sync_batchnorm": True},
            "towers cannot synchronise batch normalisation",
        ),
    ],
)
def test_a_shared_training_that_cannot_be_leaves_nothing(tmp_path, options, message):
    with pytest.raises(RequestError, match=message):
        tarmac.train("digits-mlp", output=tmp_path, **options)
    assert not list(tmp_path.iterdir())


def test_a_model_that_towers_cannot_replicate_is_refused(tmp_path):
    class Locked(torch.nn.Linear):
        def __init__(self) -> None:
            super().__init__(64, 10)
            self.lock = threading.Lock()

    digits = find_workload("digits-mlp")
    locked = dataclasses.replace(
        digits, model=lambda: torch.nn.Sequential(torch.nn.Flatten(), Locked()), name="locked"
    )
    with pytest.raises(RequestError, match="towers cannot replicate the model of locked: cannot"):
        tarmac.train(locked, devices="cpu:2", strategy="towers", epochs=1, output=tmp_path)
    assert not list(tmp_path.iterdir())


def test_ddp_refuses_a_workload_that_its_workers_could_not_import(tmp_path):
    nameless = dataclasses.replace(find_workload("digits-mlp"), name="nameless")
    with pytest.raises(RequestError, match="nameless"):
        tarmac.train(nameless, devices="cpu:2", output=tmp_path)
    assert not list(tmp_path.iterdir())
