"""Does in one start of ranks what tests of shards ask of them.

``torchrun --nproc-per-node 2 sharded_ranks.py OUTPUT``: runs by name, and what was found as JSON.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from pathlib import Path

import sharded_workloads
import torch
import torch.distributed as dist
from sharded_workloads import CHECKPOINTED, EQUAL, OPTIONS, RESUMED, UNSHARDED
from test_torch_optimizers import KINDS, Own, matrices
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor

import tarmac
from tarmac.errors import TarmacError
from tarmac.training import resume
from tarmac.training.engine.engine import Engine
from tarmac.training.engine.parameter_groups import build_optimizer
from tarmac.training.engine.parameters import Parameters
from tarmac.training.engine.sharded_parameters import ShardedParameters, ShardedUpdate
from tarmac.training.engine.team import Alone
from tarmac.training.engine.update import AnyUpdate, build_update
from tarmac.training.planning.make import make_plan
from tarmac.training.planning.options import Options
from tarmac.training.processes.rendezvous import find_rendezvous
from tarmac.workloads import Recipe, TorchOptimizer

# Of epochs of three steps: ranks that vote in the fourth stop after the fifth.
NUM_STEPS = 4


class Ranks(Alone):
    """The ranks of a group that nobody watches."""

    def __init__(self) -> None:
        self.rank = self.local_rank = dist.get_rank()
        self.world_size = dist.get_world_size()
        self.is_main = not self.rank
        self.can_capture = False

    def all_reduce(self, tensor: torch.Tensor) -> None:
        dist.all_reduce(tensor)

    def all_gather(self, value: object) -> list[object]:
        values: list[object] = [None] * self.world_size
        dist.all_gather_object(values, value)
        return values


def train(name: str, output: Path, strategy: str = "fsdp", **options: object) -> tarmac.Run:
    """Train a workload as this rank."""
    workload = f"{sharded_workloads.__file__}:{name}"
    return tarmac.train(workload, output=output, strategy=strategy, **(OPTIONS | options))


def stop_and_resume(name: str, output: Path, **options: object) -> None:
    """Stop a training in the midst of its second epoch, and go on with it."""
    calls = itertools.count(1)
    run = train(name, output, interrupted=lambda: next(calls) >= NUM_STEPS, **options)
    assert run.record.status == "interrupted"
    (checkpoint,) = run.checkpoints.glob("epoch-00001-step-0000002.dcp")
    assert (checkpoint / "position.json").is_file()
    resume(run.path)


def held(tensors: list[torch.Tensor]) -> int:
    """Return the bytes that this rank has of some tensors."""
    return sum((t.to_local() if isinstance(t, DTensor) else t).nbytes for t in tensors)


def bytes_of(strategy: str, team: Alone) -> dict[str, int]:
    """Return the bytes of parameters, gradients and optimizer state after an epoch."""
    is_whole = strategy == "single"
    rendezvous = None if is_whole else find_rendezvous(os.environ, os.getppid())
    options = Options(strategy=strategy, devices="cpu", score_test=False)
    plan = make_plan(sharded_workloads.blocks, "blocks", options, rendezvous=rendezvous)
    engine = Engine(plan, team)
    engine.train_epoch(0, 0, lambda _: False)
    groups = engine.first_replica.parameters.groups
    state = engine.save(1, 0)
    return {
        "parameters": held([*state.model.values()]),
        "gradients": held([group.gradients for group in groups]),
        "optimizer": held([*state.optimizer.values()]),
    }


def update(kind: type[torch.optim.Optimizer], mesh: DeviceMesh | None) -> dict[str, torch.Tensor]:
    """Return what an optimizer makes of a small model in four steps, in shards by a mesh."""
    optimizer = TorchOptimizer(kind=kind, learning_rate=0.01)
    recipe = Recipe(optimizer=optimizer, batch_size=1, epochs=1)
    torch.manual_seed(0)
    model = matrices(kind)
    parameters: Parameters
    updating: AnyUpdate
    if mesh is None:
        parameters = Parameters(
            model, weight_decay={}, default_decays=recipe.default_decays, bf16=False
        )
        updating = build_update(recipe, parameters)
    else:
        parameters = sharded = ShardedParameters(model, recipe, mesh)
        updating = ShardedUpdate(recipe, build_optimizer(recipe, sharded.groups), sharded, Ranks())
    # Ranks have the same samples, and their gradients are added up.
    share = 1.0 if mesh is None else 1.0 / dist.get_world_size()
    for number in range(1, 5):
        inputs = torch.randn(3, 2, 2, 2, generator=torch.Generator().manual_seed(number))
        parameters.differentiate(share * model(inputs).square().sum())
        updating.set_learning_rate(0.01 / number)
        updating.step()
        parameters.publish()
    return {name: value.clone() for name, value in parameters.whole()}


def difference(kind: type[torch.optim.Optimizer], mesh: DeviceMesh) -> float | str:
    """Return the largest difference of weights updated in shards, or why that is refused."""
    whole = update(kind, None)
    try:
        sharded = update(kind, mesh)
    except TarmacError as error:
        return f"{error}\n{error.hint}"
    return max((sharded[name] - value).abs().max().item() for name, value in whole.items())


def skip_together(mesh: DeviceMesh) -> dict[str, object]:
    """Return what a step in fp16 does whose gradient is not finite on the last rank alone."""
    recipe = sharded_workloads.blocks.recipe
    parameters = ShardedParameters(sharded_workloads.Blocks(), recipe, mesh, fp16=True)
    updating = ShardedUpdate(
        recipe, build_optimizer(recipe, parameters.groups), parameters, Ranks()
    )
    before = [group.values.clone() for group in parameters.groups]
    for group in parameters.groups:
        group.gradients.fill_(1.0)
    if dist.get_rank() == dist.get_world_size() - 1:
        parameters.groups[0].gradients[0] = torch.inf
    updating.step()
    assert parameters.loss_scale is not None
    kept = all(
        torch.equal(group.values, value)
        for group, value in zip(parameters.groups, before, strict=True)
    )
    scale = parameters.loss_scale.value.item()
    return {"num_skipped": updating.num_skipped, "scale": scale, "are_values_kept": kept}


def main(output: Path) -> None:
    """Do all of it, as one rank."""
    for name in dict.fromkeys((*EQUAL, *RESUMED)):
        train(name, output / name)
    train("clipped", output / "fp16", precision="fp16")
    for name in RESUMED:
        stop_and_resume(name, output / f"{name}-resumed")
    stop_and_resume("clipped", output / "fp16-resumed", precision="fp16")
    for strategy in ("ddp", "fsdp"):
        for is_on in (False, True):
            kept = output / f"{strategy}-{'again' if is_on else 'kept'}"
            train(CHECKPOINTED, kept, strategy, activation_checkpointing=is_on)
    dist.init_process_group("gloo")
    mesh = DeviceMesh.from_group(dist.group.WORLD, "cpu")
    kinds = {name: kind for name, kind in KINDS.items() if name not in UNSHARDED}
    found = {
        "bytes": {"fsdp": bytes_of("fsdp", Ranks()), "single": bytes_of("single", Alone())},
        "differences": {
            name: difference(kind, mesh) for name, kind in {**kinds, "own": Own}.items()
        },
        "skipped": skip_together(mesh),
    }
    (output / f"found-{dist.get_rank()}.json").write_text(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]))
