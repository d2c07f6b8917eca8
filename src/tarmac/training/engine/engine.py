"""The training loop: feeds, steps, scores and state, for any strategy.

A step gets its batch on the device, preprocesses it there, and adds its loss and metrics to totals
there. The host reads the totals once an epoch, or a few times a second for a progress display.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch

from tarmac import runs
from tarmac.data import Subset
from tarmac.training.engine.averaging import showing_average
from tarmac.training.engine.chunks import Chunk
from tarmac.training.engine.data_initialisation import initialise_from_data
from tarmac.training.engine.epoch import Epoch
from tarmac.training.engine.epoch_calls import EpochCalls
from tarmac.training.engine.model import build_model
from tarmac.training.engine.replica import Replica
from tarmac.training.engine.scoring import Score
from tarmac.training.engine.snapshot import put_back
from tarmac.training.engine.state import TrainingState
from tarmac.training.engine.step_by_step import StepByStep
from tarmac.training.engine.stop_vote import StopVote
from tarmac.training.engine.strategies import find_strategy
from tarmac.training.engine.team import Team
from tarmac.training.engine.throughput import Throughput
from tarmac.training.engine.timed_batches import TimedBatches
from tarmac.training.engine.update import Update
from tarmac.training.plan import Plan
from tarmac.training.shares import cut


class Engine:
    """A model in training, in one process of a team.

    A step has three parts:

    1. ``Replica.compute``: the feed's batch, preprocessed; the loss; the gradients.
    2. ``Strategy.step``: the all-reduce of the gradients of all micro-batches over all replicas.
    3. ``FlatOptimizer.step``: the update of the parameters, for every replica.

    A `StepRunner` runs the steps one at a time, or on a GPU many in one call.

    Args:
        plan: Training plan, with the workload, the data, the devices and the strategy.
        team: All processes that train together.
    """

    def __init__(self, plan: Plan, team: Team) -> None:
        self._plan = plan
        self._team = team
        self._test = Subset.whole(plan.dataset.test)
        model = build_model(plan.workload, plan.model_arguments, plan.seed)
        initialise_from_data(model, plan)
        spec = find_strategy(plan.strategy)
        self._strategy = spec.build(plan, model, team)
        self._strategy.seed(plan.seed)
        self._runner = (spec.runner or StepByStep)(self._strategy)
        replicas = self._strategy.replicas
        self._calls = EpochCalls(plan, replicas, self._runner)
        self._vote = StopVote(replicas[0].shared.stop_votes, team, at_once=self._calls.at_once)
        # On a CPU the first step is as fast as the others.
        self._on_cuda = replicas[0].device.type == "cuda"
        is_plain = spec.shards_model or not self._on_cuda
        self._is_warm = is_plain and isinstance(self._runner, StepByStep)
        self._shards_model = spec.shards_model
        self._sees_waits = team.world_size > 1 and not (self._on_cuda and team.can_capture)
        self._seen = 0
        self._seconds = 0.0
        self._metric_names = tuple(plan.workload.objective.sample_metrics)
        self._throughput = Throughput(len(replicas))
        if team.world_size > 1 and not spec.shards_model:
            self._broadcast_weights()

    @property
    def first_replica(self) -> Replica:
        """The first copy of the model in this process."""
        return self._strategy.replicas[0]

    @property
    def num_parameters(self) -> int:
        """The number of trained parameters."""
        return self._strategy.parameters.num_parameters

    def warm_up(self) -> float:
        """Load, compile and record what steps on a GPU need, and restore all state.

        All ranks must call this method, before the first epoch or after a restored state.
        Otherwise the first epoch begins with it. A CPU needs no warm-up.

        Returns:
            Duration of the warm-up in seconds; 0 if it was already done.
        """
        if self._is_warm:
            return 0.0
        self._is_warm = True
        started = time.perf_counter()
        with put_back(self._strategy):
            for replica in self._strategy.replicas:
                replica.model.train()
            self._runner.warm_up(self._calls.kinds())
            held_out = self._plan.held.validation
            if len(held_out):
                replicas = self._strategy.replicas
                replicas[0].evaluation.warm_up(held_out, *self._share(held_out))
        self._runner.reload()
        self._synchronize()
        return time.perf_counter() - started

    def train_epoch(
        self,
        epoch: int,
        first_step: int,
        after_step: Callable[[int], bool],
        *,
        last_step: int | None = None,
    ) -> Epoch:
        """Train for one epoch, or until any rank requests a stop.

        Args:
            epoch: Index of the epoch, from 0.
            first_step: Number of steps of the epoch that are already done.
            after_step: Called with the number of steps done; returns whether to stop there. All
                ranks stop after the same step. GPUs may stop some steps later, as they run many
                steps per call.
            last_step: Number of steps of the epoch after which to stop; None for its end.
        """
        self.warm_up()
        started, waited = time.perf_counter(), self._team.seconds_waiting
        shares, replicas = self._plan.shares, self._strategy.replicas
        if first_step == 0:
            self._clear_totals()
        chunks = self._calls.chunks(first_step, last_step)
        batches = [TimedBatches(own) for own in self._calls.batches(epoch, chunks)]
        for replica in replicas:
            replica.model.train()
        done, wished = first_step, False
        for chunk in chunks:
            self._vote.cast(wished=wished)
            self._compute(epoch, chunk, batches)
            for done in range(chunk.first + 1, chunk.stop + 1):
                wished = after_step(done) or wished
            if self._vote.is_carried(wished=wished):
                break
        if self._on_cuda:
            # Do this on the host while the device computes the last steps.
            self._calls.prepare(epoch + 1)
        self._synchronize()
        took_s = time.perf_counter() - started
        waited_s = self._team.seconds_waiting - waited
        self._throughput.add_time(took_s, waited_s)
        seconds = self._seconds + took_s
        self._seconds = seconds if done < shares.num_steps else 0.0
        totals, votes = self._all_reduced_totals(float(wished))
        seen = min(done * shares.batch_size, shares.num_samples)
        return Epoch(
            done,
            seconds,
            self._score(totals, seen),
            stop=votes > 0,
            data_wait_s=sum(own.seconds for own in batches),
            rank_wait_s=waited_s if self._sees_waits else None,
        )

    def _compute(
        self, epoch: int, chunk: Chunk, batches: Sequence[Iterator[tuple[torch.Tensor, ...]]]
    ) -> None:
        steps = self._calls.steps(epoch, chunk)
        self._runner.run(steps, batches)
        self._team.heartbeat()
        for index, sizes in enumerate(steps.sizes):
            num_samples = chunk.count * sum(sizes)
            self._seen += num_samples
            self._throughput.add_samples(index, num_samples)

    def see_losses(self, losses: Sequence[float]) -> None:
        """Set the losses of all completed epochs, the same on all ranks.

        Args:
            losses: Validation losses, or training losses without validation; see
                `Recipe.rate_factors`.
        """
        self._calls.see_losses(losses)

    @property
    def num_skipped(self) -> int | None:
        """Number of steps skipped for non-finite fp16 gradients; None in other precisions."""
        optimizer = self._strategy.optimizer
        return optimizer.num_skipped if isinstance(optimizer, Update) else None

    @property
    def loss_scale(self) -> float | None:
        """The current loss scale in fp16; None in other precisions."""
        scale = self._strategy.parameters.loss_scale
        return None if scale is None else scale.value.item()

    def learning_rate(self, epoch: int, num_steps: int | None = None) -> float:
        """Return the rate of the recipe's optimizer at the last step of an epoch.

        Args:
            epoch: Index of the epoch, from 0.
            num_steps: Number of steps done in the epoch; None for all.
        """
        return self._calls.rates(epoch, (num_steps or self._plan.num_steps) - 1)[0]

    def score_so_far(self) -> Score:
        """Return this process's training score in this epoch, after waiting for the device."""
        return self._score(self._totals().tolist(), max(self._seen, 1))

    def evaluate_validation(self) -> Score:
        """Score the held-out samples; all ranks must call it."""
        return self._evaluate(self._plan.held.validation)

    def evaluate_test(self) -> Score:
        """Score the test set; all ranks must call it."""
        return self._evaluate(self._test)

    def weights(self) -> dict[str, torch.Tensor]:
        """Return the current parameters and buffers by name, uncast."""
        return self._strategy.parameters.state_dict()

    def scored_weights(self) -> dict[str, torch.Tensor]:
        """Return copies of the weights that `evaluate_test` scores: `weights`, or their average.

        All ranks must call this method. The first rank gets whole tensors, the others none.
        """
        with showing_average(self._strategy):
            kept: dict[str, torch.Tensor] = {}
            # Every rank takes part in gathering the shards.
            for name, value in self._strategy.parameters.whole():
                if self._team.is_main:
                    kept[name] = value.cpu() if self._shards_model else value.clone()
            return kept

    def save(self, epoch: int, step: int) -> TrainingState:
        """Return the state after ``step`` steps of ``epoch``; all ranks must call it."""
        random = {
            f"{device_type}.{rank}" if rank else device_type: state
            for rank, states in enumerate(self._strategy.random_states())
            for device_type, state in states.items()
        }
        totals, _ = self._all_reduced_totals(0.0)
        return TrainingState(
            workload=self._plan.reference,
            epoch=epoch,
            step=step,
            seconds=self._seconds,
            model=self.weights(),
            optimizer=self._strategy.optimizer.state(),
            random=random,
            totals=torch.tensor(totals, dtype=torch.float64),
            feed={} if self.first_replica.loader is None else self.first_replica.loader.state(),
        )

    def state_template(self, name: str, shape: torch.Size, dtype: torch.dtype) -> torch.Tensor:
        """Return an empty tensor for the optimizer's saved state, sharded as on this rank."""
        optimizer = self._strategy.optimizer
        if isinstance(optimizer, Update):
            return optimizer.template(name, shape, dtype)
        return torch.empty(shape, dtype=dtype)

    def load(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Set parameters and buffers by name; others stay unchanged."""
        self._strategy.load(self.weights() | dict(weights))
        self._runner.reload()

    def restore(self, saved: TrainingState) -> None:
        """Restore a state that `save` returned for the same plan."""
        self._strategy.load(saved.model)
        self._strategy.optimizer.load_state(saved.optimizer)
        self._runner.reload()
        num_replicas = self._plan.shares.num_replicas
        states: list[dict[str, torch.Tensor]] = [{} for _ in range(num_replicas)]
        for name, state in saved.random.items():
            device_type, _, rank = name.partition(".")
            if int(rank or 0) < num_replicas:
                states[int(rank or 0)][device_type] = state
        self._strategy.set_random_states(states)
        for replica in self._strategy.replicas:
            if replica.loader is not None:
                replica.loader.set_state(saved.feed)
        self._clear_totals()
        # The first rank continues with the totals of all ranks, as only their sum counts.
        if self._team.is_main:
            self._strategy.replicas[0].totals.copy_(saved.totals)
            self._seen = min(
                saved.step * self._plan.shares.batch_size, self._plan.shares.num_samples
            )
        self._seconds = saved.seconds

    def replicas(self) -> tuple[runs.Replica, ...]:
        """Return each device's throughput since the engine's creation; all ranks must call it."""
        devices = self._plan.devices_of(self._team.local_rank)
        here = [
            runs.Replica(
                rank=replica.rank,
                host=socket.gethostname(),
                device=device.to_record(),
                samples_per_s=self._throughput.samples_per_s(index),
                waiting_s=self._throughput.waiting_s,
            )
            for index, (replica, device) in enumerate(
                zip(self._strategy.replicas, devices, strict=True)
            )
        ]
        return tuple(replica for of_rank in self._team.all_gather(here) for replica in of_rank)

    def close(self) -> None:
        """Stop the workers of the replicas' loaders, if there are any."""
        for replica in self._strategy.replicas:
            if replica.loader is not None:
                replica.loader.close()

    def _broadcast_weights(self) -> None:
        """Broadcast the first rank's weights, as a model may draw its weights without the seed."""
        parameters, model = self._strategy.parameters, self._strategy.replicas[0].model
        for value in (parameters.values, *parameters.frozen, *model.buffers()):
            if not self._team.is_main:
                value.zero_()
            self._team.all_reduce(value)
        parameters.publish_frozen()
        parameters.publish()
        self._runner.reload()

    def _share(self, samples: Subset) -> tuple[int, int]:
        """Return the range of samples that this rank scores."""
        return cut(0, len(samples), self._team.world_size)[self._team.rank]

    def _most(self, samples: Subset) -> int:
        """Return the largest number of samples that any rank scores."""
        return -(-len(samples) // self._team.world_size)

    def _evaluate(self, samples: Subset) -> Score:
        """Score samples; each rank scores its share."""
        replica = self._strategy.replicas[0]
        with showing_average(self._strategy):
            totals = replica.evaluate(
                samples,
                *self._share(samples),
                self._team.heartbeat,
                least=self._most(samples) if self._shards_model else 0,
            )
        self._team.all_reduce(totals)
        *sums, weight = totals.tolist()
        weight = len(samples) if samples.split.weights is None else weight
        score = Score.of(sums, self._metric_names, weight)
        of_all = replica.evaluation.set_scores.compute(self._team)
        return Score(score.loss, score.metrics | of_all)

    def _score(self, totals: Sequence[float], seen: int) -> Score:
        """Convert totals over ``seen`` samples into means."""
        if self._plan.dataset.train.weights is None:
            return Score.of(totals, self._metric_names, seen)
        return Score.of(totals[:-1], self._metric_names, totals[-1])

    def _totals(self) -> torch.Tensor:
        """Return the sum of this process's totals, float64 on the CPU: see `Replica.totals`."""
        return torch.stack([replica.totals.cpu() for replica in self._strategy.replicas]).sum(0)

    def _clear_totals(self) -> None:
        for replica in self._strategy.replicas:
            replica.totals.zero_()
        self._seen = 0

    def _all_reduced_totals(self, vote: float) -> tuple[list[float], float]:
        """Add up the totals and a vote over all ranks."""
        device = self._strategy.replicas[0].device
        totals = torch.cat([self._totals(), torch.tensor([vote], dtype=torch.float64)]).to(device)
        self._team.all_reduce(totals)
        *sums, votes = totals.tolist()
        return sums, votes

    def _synchronize(self) -> None:
        for replica in self._strategy.replicas:
            if replica.device.type == "cuda":
                torch.cuda.synchronize(replica.device)
