"""How strategies are found: Tarmac's own, and those that an installed package provides."""

from __future__ import annotations

import textwrap

import pytest

import tarmac
from tarmac import RequestError, TarmacError
from tarmac.testing import strategies
from tarmac.training import find_strategy, strategy_names


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Return a function that installs a package with a strategy named ``mine``."""
    site = tmp_path / "site"
    metadata = site / "mine-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(site)

    def install(module: str, source: str) -> None:
        (metadata / "entry_points.txt").write_text(f"[tarmac.strategies]\nmine = {module}:spec\n")
        (site / f"{module}.py").write_text(textwrap.dedent(source))

    return install


def test_a_package_can_provide_a_strategy_and_hold_it_to_the_contract(tmp_path, package):
    package(
        "strategy_of_mine",
        """
        from tarmac.training import AllReduce, StrategySpec, find_strategy

        class Mine(AllReduce):
            steps = 0

            def step(self, scale, batches, sizes):
                Mine.steps += 1
                super().step(scale, batches, sizes)

        spec = StrategySpec(name="mine", build=Mine, max_devices=1)
        """,
    )
    assert strategy_names() == ("single", "ddp", "fsdp", "towers", "mine")
    for check in strategies.CHECKS:
        check(strategies.trainer("mine", 1, tmp_path), 1, tmp_path)
    strategies.check_resume("mine", 1, tmp_path / "resume")
    run = tarmac.train("digits-mlp", strategy="mine", epochs=1, train_size=64, output=tmp_path)
    assert run.record.parallel.strategy == "mine"
    assert find_strategy("mine").build.steps > 0
    with pytest.raises(RequestError, match="strategy is 'mine', but 2 devices are requested"):
        tarmac.train("digits-mlp", strategy="mine", devices="cpu:2", output=tmp_path)


def test_the_conformance_suite_sees_a_strategy_that_leaves_a_part_out(tmp_path, package):
    package(
        "strategy_that_forgets",
        """
        from tarmac.training import StrategySpec, find_strategy

        def forgetful(plan, model, team):
            towers = find_strategy("towers").build(plan, model, team)
            whole = towers.step

            def step(scale, batches, sizes):
                kept = [sizes[0], *([0] * len(other) for other in sizes[1:])]
                whole(scale, batches, kept)

            towers.step = step
            return towers

        spec = StrategySpec(name="mine", build=forgetful, copies_model=True)
        """,
    )
    train = strategies.trainer("mine", 2, tmp_path)
    with pytest.raises(AssertionError, match=r"2 replicas, mlp-fp64-1-48: .* differs by"):
        strategies.check_equal_weights(train, 2, tmp_path)


@pytest.mark.parametrize(
    ("module", "source", "error", "message"),
    [
        (
            "no_spec",
            "spec = 7",
            TarmacError,
            "'mine' of no_spec:spec is of type int, expected StrategySpec",
        ),
        ("broken", "1 / 0", TarmacError, "'mine' of broken:spec failed to load: ZeroDivisionError"),
    ],
)
def test_a_strategy_that_cannot_be_loaded_is_named(package, module, source, error, message):
    package(module, source)
    with pytest.raises(error, match=message):
        find_strategy("mine")


def test_an_unknown_strategy_lists_those_that_packages_provide(package):
    package("unused", "")
    with pytest.raises(RequestError, match="expected auto, single, ddp, fsdp, towers or mine"):
        find_strategy("fast")
