"""What a stack needs before and between its steps: weights, shapes, and draws."""

from __future__ import annotations

import threading
import weakref

import pytest
import torch
from torch import nn

from tarmac import data
from tarmac.kernels import read_architecture
from tarmac.studies.evaluation.interface import Candidate
from tarmac.studies.evaluation.stacked import draws as _draws
from tarmac.studies.evaluation.stacked.draws import Draws
from tarmac.studies.evaluation.stacked.evaluator import StackedEvaluator
from tarmac.studies.evaluation.stacked.layout import Layout
from tarmac.studies.evaluation.stacked.masks import Masks
from tarmac.studies.evaluation.stacked.network import can_stack, resolve
from tarmac.training import build_model, order_of
from tarmac.workloads import Adam, Recipe, Workload

CPU = torch.device("cpu")


def own(model) -> Workload:
    return Workload(
        name="mine",
        summary="",
        dataset="digits",
        model=model,
        recipe=Recipe(
            optimizer=Adam(learning_rate=1e-2, beta1=0.9, beta2=0.999, eps=1e-8),
            batch_size=64,
            epochs=2,
        ),
    )


def perceptron(hidden: int = 8) -> nn.Module:
    return nn.Sequential(nn.Linear(64, hidden), nn.ReLU(), nn.Dropout(0.1), nn.Linear(hidden, 10))


def candidate(number, **settings) -> Candidate:
    return Candidate(number=number, settings=settings, seed=number, epochs=1)


def test_a_network_draws_its_weights_once():
    drawn = []

    def model():
        built = perceptron()
        drawn.append(built[0].weight.device.type != "meta")
        return built

    workload, digits = own(model), data.load("digits")
    assert can_stack(workload, digits) is None
    mine = StackedEvaluator(workload, digits, train_size=100, validation_size=50, device="cpu")
    results = [*mine.evaluate([candidate(n) for n in range(3)], lambda progress: False)]
    assert [result.error for result in results] == [None] * 3
    assert sum(drawn) == 3


def test_a_model_that_reads_a_value_when_it_is_built_is_read_as_it_is():
    def model():
        return perceptron(8 + int(torch.randint(1, 2, ())))

    network = resolve(candidate(0), own(model), data.load("digits"), {})
    assert network.shape.sizes == (64, 9, 10)
    assert network.dropouts == (0.1,)
    assert network.build().sizes == (64, 9, 10)


def test_weights_are_those_of_a_training_with_the_seed():
    workload, digits = own(perceptron), data.load("digits")
    networks = [resolve(candidate(n), workload, digits, {}) for n in (3, 4)]
    layout = Layout(networks[0].shape.sizes, 2)
    flat = layout.gather((network.build() for network in networks), CPU)
    for index, network in enumerate(networks):
        with torch.random.fork_rng(devices=[]):
            alone = read_architecture(build_model(workload, {}, network.candidate.seed))
        for layer, (weight, bias) in enumerate(alone.parameters):
            assert torch.equal(layout.weights(flat)[layer][index], weight.T)
            assert torch.equal(layout.biases(flat)[layer][index], bias)


def test_weights_are_let_go_network_by_network():
    weights, most = [], 0

    def built():
        nonlocal most
        for _ in range(5):
            architecture = read_architecture(perceptron())
            weights.append(weakref.ref(architecture.parameters[0][0]))
            most = max(most, sum(each() is not None for each in weights))
            yield architecture
            del architecture

    Layout((64, 8, 10), 5).gather(built(), CPU)
    # The one that was put in place is let go when the next is there.
    assert most == 2


@pytest.fixture
def drawing(monkeypatch):
    """Return a function that makes draws, and the threads that drew, by epoch."""
    threads, opened = {}, []

    def noted(seed, epoch, num_samples):
        threads[epoch] = threading.current_thread()
        return order_of(seed, epoch, num_samples)

    monkeypatch.setattr(_draws, "order_of", noted)

    def make(seeds, num_epochs=3):
        masks = Masks(seeds, [(0.5,)] * len(seeds), 64, CPU, torch.float32)
        opened.append(Draws(seeds, 20, 3, masks, num_epochs=num_epochs, device=CPU))
        return opened[-1]

    yield make, threads
    for each in opened:
        each.close()


def test_an_epoch_is_drawn_beside_the_one_before(drawing):
    make, threads = drawing
    mine = make([5, 6])
    for epoch in range(3):
        drawn = mine.take(epoch)
        assert drawn.orders.dtype == torch.int32
        wanted = [order_of(seed, epoch, 20) for seed in (5, 6)]
        assert torch.equal(drawn.orders.long(), torch.stack(wanted))
        assert drawn.coefficients.shape == (3, 1, 2, 2)
    mine.close()
    assert sorted(threads) == [0, 1, 2]
    assert threading.current_thread() not in threads.values()


def test_networks_of_one_seed_share_an_order(drawing):
    make, _ = drawing
    mine = make([7, 7, 7])
    assert mine.take(0).orders.shape == (1, 20)
    mine.keep([0, 2])
    assert mine.take(1).orders.shape == (1, 20)


def test_networks_that_stay_draw_as_if_they_had_been_alone(drawing):
    make, _ = drawing
    among, alone = make([5, 6, 7]), make([6])
    for epoch in range(3):
        ours, own_draws = among.take(epoch), alone.take(epoch)
        index = 1 if epoch == 0 else 0
        assert torch.equal(ours.orders[index], own_draws.orders[0])
        assert torch.equal(ours.coefficients[..., index], own_draws.coefficients[..., 0])
        if epoch == 0:
            among.keep([1, 2])
