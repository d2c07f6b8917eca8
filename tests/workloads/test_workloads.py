"""Each reference workload is the published network with the published numbers."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.metadata
import inspect
import sys

import numpy as np
import pytest
import torch

import tarmac
from tarmac import RequestError, TarmacError
from tarmac.data import sources as _sources
from tarmac.testing import workloads as conformance
from tarmac.training import apply_settings, settings_of
from tarmac.workloads import (
    Constant,
    Cosine,
    Expectation,
    Linear,
    OneCycle,
    Plateau,
    Scale,
    Steps,
    find_workload,
    workload_names,
)
from tarmac.workloads.cifar10_convnet import preprocess
from tarmac.workloads.layers import LocalResponseNorm

# Published: Keras's summaries for the first two; the others by the arithmetic of their layers.
NUM_PARAMETERS = {
    "mnist-mlp": 669_706,
    "mnist-cnn": 1_199_882,
    "mnist-chainer-mlp": 1_796_010,
    "mnist-convnet": 832 + 51_264 + 3_212_288 + 196_800 + 1_930,
    "mnist-fast": 13_162,
    "cifar10-fast": 312 + 13_824 + 36_864 + 147_456 + 3 * 589_824 + 2_304 + 2_560,
    "cifar10-convnet": 4_864 + 102_464 + 885_120 + 73_920 + 1_930,
    "digits-mlp": 26_122,
}
FITTED = {"sample_shape": (64,), "target_shape": (10,), "num_classes": 10}
# Of the names and shapes of what is stored.
WEIGHTS = {
    "digits-mlp": "e387e82699ab3afd",
    "diabetes-mlp": "91271467046e7b89",
    "table-mlp": "c4a6291036770421",
    "digits-autoencoder": "c19f9e4b44ab8aa3",
    "mnist-mlp": "b9a6d214c954e6b5",
    "mnist-cnn": "b98749eeae942b53",
    "mnist-convnet": "c796b6f24739fc8e",
    "mnist-chainer-mlp": "673054da924425e0",
    "mnist-fast": "96471dfa5f5ee552",
    "cifar10-fast": "c56121b5876937bd",
    "cifar10-convnet": "b04fd20fab982351",
    "resnet50": "3513091288955748",
    "mlp": "4367a3a94c330c03",
    "char-gpt": "42a038e29b58baa7",
    "char-gpt-small": "21eeda6662fadf8a",
    "gpt2-124m": "fdf430bfe00c510b",
}
SHAPES = {"mnist": (28, 28), "cifar10": (3, 32, 32), "digits": (8, 8)}
# Those of other data, objectives or classes have tests of their own.
ELSEWHERE = {
    *("mlp", "diabetes-mlp", "table-mlp", "digits-autoencoder", "resnet50"),
    *("char-gpt", "char-gpt-small", "gpt2-124m"),
}
CLASSIFIERS = [name for name in workload_names() if name not in ELSEWHERE]
SHAPES_BY_WORKLOAD = {name: SHAPES[find_workload(name).dataset] for name in CLASSIFIERS} | {
    "mlp": (8, 8)
}


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_workload_builds_and_gives_logits(name):
    workload = find_workload(name)
    assert workload.name == name
    model = workload.model()
    assert sum(p.numel() for p in model.parameters()) == NUM_PARAMETERS[name]
    raw = torch.randint(0, 256, (4, *SHAPES[workload.dataset]), dtype=torch.uint8)
    for training in (True, False):
        inputs = workload.recipe.preprocess(raw, training=training, dtype=torch.float32)
        assert model(inputs).shape == (4, 10)
    assert workload.expectation is not None
    assert settings_of(workload)["dataset"] == workload.dataset


def test_weights_of_earlier_releases_fit_each_workload():
    """A run's weights are read by name: a layer that is renamed needs a way for older ones."""
    digests = {}
    for name in workload_names():
        network = find_workload(name).model
        fitted = inspect.signature(network).parameters.keys() & FITTED.keys()
        with torch.device("meta"):
            weights = network(**{key: FITTED[key] for key in fitted}).state_dict()
        lines = "".join(f"{key} {list(value.shape)}\n" for key, value in weights.items())
        digests[name] = hashlib.sha256(lines.encode()).hexdigest()[:16]
    assert digests == WEIGHTS


# Of large networks, check_resumes compares two trainings by one seed as well.
_LARGE = ("cifar10-fast", "mnist-convnet")


@pytest.mark.parametrize(
    ("name", "check"),
    [
        pytest.param(
            name,
            check,
            marks=[pytest.mark.nightly]
            if name in _LARGE and check is conformance.check_repeats
            else [],
        )
        for name in SHAPES_BY_WORKLOAD
        for check in conformance.CHECKS
    ],
)
def test_a_workload_conforms(name, check, tmp_path):
    dataset = conformance.random_dataset(SHAPES_BY_WORKLOAD[name], num_classes=10)
    check(find_workload(name), dataset, tmp_path)


def test_the_conformance_suite_sees_a_layer_that_is_not_trained(tmp_path):
    digits = find_workload("digits-mlp")

    class Idle(torch.nn.Linear):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return inputs + 0 * super().forward(inputs)

    def model() -> torch.nn.Module:
        return torch.nn.Sequential(torch.nn.Flatten(), Idle(64, 64), torch.nn.Linear(64, 10))

    idle = dataclasses.replace(digits, model=model, name="idle")
    dataset = conformance.random_dataset((8, 8), num_classes=10)
    with pytest.raises(AssertionError, match=r"1\.weight does not change"):
        conformance.check_trains(idle, dataset, tmp_path)


def test_the_conformance_suite_sees_a_state_that_no_checkpoint_holds(tmp_path):
    digits = find_workload("digits-mlp")

    class Counting(Scale):
        def __call__(self, inputs, *, training, dtype):
            calls.append(training)
            return super().__call__(inputs, training=training, dtype=dtype) * len(calls)

    calls = []
    recipe = dataclasses.replace(digits.recipe, preprocess=Counting())
    counting = dataclasses.replace(digits, recipe=recipe)
    dataset = conformance.random_dataset((8, 8), num_classes=10)
    with pytest.raises(AssertionError, match="the resumed training differs"):
        conformance.check_resumes(counting, dataset, tmp_path)


@pytest.mark.parametrize("name", ["mnist-mlp", "mnist-cnn"])
def test_keras_networks_start_with_keras_weights(name):
    torch.manual_seed(0)
    for layer in find_workload(name).model():
        if isinstance(layer, torch.nn.Linear | torch.nn.Conv2d):
            assert not layer.bias.any()
            receptive = layer.weight[0, 0].numel() if layer.weight.dim() == 4 else 1
            fans = receptive * (layer.weight.shape[0] + layer.weight.shape[1])
            limit = (6 / fans) ** 0.5
            assert layer.weight.abs().max() <= limit
            assert layer.weight.std().item() == pytest.approx(limit / 3**0.5, rel=0.1)


@pytest.mark.parametrize(
    ("dataset", "settings", "num_parameters", "batch_size"),
    [
        ("mnist", {}, 669_706, 128),
        ("cifar10", {"layers": 1, "neurons": 64}, 3072 * 64 + 64 + 650, 64),
        ("digits", {"layers": 4, "neurons": 1024}, 65 * 1024 + 3 * 1025 * 1024 + 10250, 128),
    ],
)
def test_the_searched_networks_take_any_image_dataset(
    dataset, settings, num_parameters, batch_size
):
    workload, arguments = apply_settings(find_workload("mlp"), {"dataset": dataset} | settings)
    assert workload.recipe.batch_size == batch_size
    model = workload.model(sample_shape=SHAPES[dataset], num_classes=10, **arguments)
    assert sum(p.numel() for p in model.parameters()) == num_parameters
    raw = torch.randint(0, 17, (4, *SHAPES[dataset]), dtype=torch.uint8)
    inputs = workload.recipe.preprocess(raw, training=True, dtype=torch.float32)
    assert inputs.max() == pytest.approx(1.0 if dataset == "digits" else 16 / 255)
    assert model(inputs).shape == (4, 10)
    assert sum(isinstance(layer, torch.nn.Dropout) for layer in model) == len(model) // 3


def test_the_searched_optimizers_have_keras_2_values():
    # https://github.com/keras-team/keras/blob/2.0.2/keras/optimizers.py
    published = {
        "sgd": {"learning_rate": 0.01, "momentum": 0.0, "nesterov": False},
        "rmsprop": {"learning_rate": 0.001, "rho": 0.9, "eps": 1e-8},
        "adagrad": {"learning_rate": 0.01, "eps": 1e-8},
        "adadelta": {"learning_rate": 1.0, "rho": 0.95, "eps": 1e-8},
        "adam": {"learning_rate": 0.001, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8},
        "adamax": {"learning_rate": 0.002, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8},
        "nadam": {
            "learning_rate": 0.002,
            "beta1": 0.9,
            "beta2": 0.999,
            "eps": 1e-8,
            "momentum_decay": 0.004,
        },
    }
    workload = find_workload("mlp")
    for name, values in published.items():
        changed, _ = apply_settings(workload, {"optimizer": name})
        assert dataclasses.asdict(changed.recipe.optimizer) == values
        assert settings_of(changed)["optimizer"] == name
    assert workload.optimizers.keys() == published.keys()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"activation": "rleu"}, "unknown activation 'rleu', did you mean 'relu'"),
        ({"layers": 0}, "layers is 0, expected at least 1"),
        ({"optimizer": "nadm"}, "unknown optimizer 'nadm', did you mean 'nadam'"),
        ({"optimizer": "sgd", "optimizer.rho": 0.5}, "unknown setting of mlp 'optimizer.rho'"),
    ],
)
def test_a_network_that_cannot_be_is_refused(settings, message):
    with pytest.raises(RequestError, match=message):
        tarmac.train("mlp", settings={"dataset": "digits"} | settings)


def test_local_response_norm_is_pytorchs():
    inputs = torch.randn(3, 32, 5, 7) * 20
    norm = LocalResponseNorm(32, size=9, alpha=0.001, k=1.0)
    ours = norm(inputs)
    theirs = torch.nn.LocalResponseNorm(9, alpha=0.001, beta=0.75, k=1.0)(inputs)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
    # Nothing of it is among a model's weights either.
    assert not norm.state_dict()


def test_the_cifar_augmentation_crops_flips_and_standardises():
    torch.manual_seed(0)
    raw = torch.randint(0, 256, (64, 3, 32, 32), dtype=torch.uint8)
    first = preprocess(raw, training=True, dtype=torch.float32)
    second = preprocess(raw, training=True, dtype=torch.float32)
    assert first.shape == (64, 3, 24, 24)
    assert not torch.equal(first, second)
    for images in (first, preprocess(raw, training=False, dtype=torch.float32)):
        variance, mean = torch.var_mean(images, dim=(1, 2, 3), correction=0)
        torch.testing.assert_close(mean, torch.zeros(64), atol=1e-5, rtol=0)
        torch.testing.assert_close(variance, torch.ones(64), atol=1e-4, rtol=0)
    assert torch.equal(
        preprocess(raw, training=False, dtype=torch.float32),
        preprocess(raw, training=False, dtype=torch.float32),
    )


def test_an_augmented_image_is_a_crop_of_its_own_image():
    torch.manual_seed(0)
    # Each image is constant along rows and rises along columns, the same in all channels.
    raw = (torch.arange(32) * 4).expand(16, 3, 32, 32).to(torch.uint8).contiguous()
    images = preprocess(raw, training=True, dtype=torch.float32)
    steps = images.diff(dim=3)
    assert (steps.amax(dim=(1, 2, 3)) - steps.amin(dim=(1, 2, 3)) < 1e-4).all()
    assert {bool(s > 0) for s in steps[:, 0, 0, 0]} == {True, False}


def test_the_first_layer_of_cifar10_fast_whitens_patches():
    workload = find_workload("cifar10-fast")
    torch.manual_seed(0)
    # Neighbouring pixels and channels are alike, as in photographs.
    rough = torch.randn(40, 3, 32, 32).cumsum(2).cumsum(3) / 20
    images = rough + rough.mean(1, keepdim=True)
    model = workload.model()
    with torch.no_grad():
        workload.initialise(model, images)
        model.whiten.bias.zero_()
        found = model.whiten(images)
    assert torch.equal(found[:, :12], -found[:, 12:])
    values = found[:, :12].transpose(0, 1).flatten(1)
    moments = values @ values.T / values.shape[1]
    torch.testing.assert_close(moments, torch.diag(moments.diag()), rtol=0, atol=1e-3)
    assert 0.5 < moments.diag().min() <= moments.diag().max() < 1.001


def test_cifar10_fast_begins_with_the_identity_and_frozen_scales():
    workload = find_workload("cifar10-fast")
    model = workload.model()
    weight = model.block2.conv1.weight
    assert torch.equal(weight[:64, :, 1, 1], torch.eye(64))
    assert weight[64:].std() > 0
    frozen = {name for name, p in model.named_parameters() if not p.requires_grad}
    norms = {f"block{block}.norm{norm}.weight" for block in (1, 2, 3) for norm in (1, 2)}
    assert frozen == norms | {"whiten.weight"}
    assert model.head.weight.std().item() == pytest.approx(1 / 256)


def test_pixels_of_cifar10_fast_are_the_same_numbers_in_bf16():
    raw = torch.arange(256, dtype=torch.uint8)
    preprocess = find_workload("cifar10-fast").recipe.preprocess
    exact = preprocess(raw, training=True, dtype=torch.float64)
    assert torch.equal(preprocess(raw, training=True, dtype=torch.bfloat16).double(), exact)


def test_schedules_start_rise_and_end_where_they_say():
    cycle = OneCycle(warmup=0.25, start=0.1, end=0.0)
    assert [cycle.factor(p) for p in (0.0, 0.25, 1.0)] == pytest.approx([0.1, 1.0, 0.0])
    assert OneCycle(warmup=0.0, start=0.1, end=0.5).factor(0.0) == 1.0
    assert Constant().factor(0.7) == 1.0
    line = Linear(start=1.0, end=0.2, until=0.5)
    assert [line.factor(p) for p in (0.0, 0.25, 0.5, 0.9)] == pytest.approx([1.0, 0.6, 0.2, 0.2])
    cosine = Cosine(warmup=0.2, start=0.5, end=0.1, until=0.6)
    points = (0.0, 0.1, 0.2, 0.4, 0.6, 1.0)
    assert [cosine.factor(p) for p in points] == pytest.approx([0.5, 0.75, 1.0, 0.55, 0.1, 0.1])
    steps = Steps(at=(0.5, 0.75), ratio=0.1, warmup=0.25)
    points = (0.0, 0.125, 0.25, 0.5, 0.7, 0.75, 1.0)
    expected = [0.0, 0.5, 1.0, 0.1, 0.1, 0.01, 0.01]
    assert [steps.factor(p) for p in points] == pytest.approx(expected)
    with pytest.raises(RequestError, match="until is 0, expected above 0"):
        Linear(until=0)


def test_a_plateau_lowers_the_rate_as_pytorchs():
    losses = [1.0, 0.9, 0.91, 0.9, 0.95, 0.89999, 0.8, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9]
    sgd = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    theirs = torch.optim.lr_scheduler.ReduceLROnPlateau(sgd, factor=0.5, patience=2, min_lr=0.2)
    ours = Plateau(ratio=0.5, patience=2, least=0.2)
    for number, loss in enumerate(losses, start=1):
        theirs.step(loss)
        assert ours.factor_after(losses[:number]) == pytest.approx(sgd.param_groups[0]["lr"])
    assert ours.factor_after(losses) == 0.2
    assert ours.factor(0.7) == 1.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Cosine(warmup=1.0), r"schedule\.warmup is 1\.0, expected at least 0 and below 1"),
        (
            lambda: Cosine(warmup=0.5, until=0.5),
            r"until is 0\.5, expected above the warm-up's 0\.5",
        ),
        (lambda: Steps(at=(0.7, 0.5)), r"schedule\.at is \(0\.7, 0\.5\), expected rising shares"),
        (lambda: Steps(at=(0.7, 1.5)), "schedule.at is"),
        (lambda: Steps(at=(), ratio=0), "ratio is 0, expected above 0"),
        (lambda: Plateau(ratio=1.0), r"ratio is 1\.0, expected below 1"),
        (lambda: Plateau(patience=-1), "patience is -1, expected at least 0"),
    ],
)
def test_a_schedule_that_cannot_be_is_refused(make, message):
    with pytest.raises(RequestError, match=message):
        make()


def test_scaling_is_the_same_in_training_and_evaluation():
    raw = torch.tensor([0, 51, 255], dtype=torch.uint8)
    scale = Scale(factor=1 / 255, mean=0.5, std=0.25)
    out = [scale(raw, training=t, dtype=torch.float32) for t in (True, False)]
    assert torch.equal(*out)
    torch.testing.assert_close(out[0], torch.tensor([-2.0, -1.2, 2.0]))


@pytest.mark.parametrize(
    ("expectation", "accuracy", "met", "words"),
    [
        (Expectation(at_least=0.9), 0.95, True, "expected at least 0.9: as expected"),
        (Expectation(at_least=0.9), 0.85, False, "below what was expected"),
        (Expectation(at_least=0.9, at_most=0.92), 0.95, False, "expected 0.9 to 0.92: above"),
    ],
)
def test_a_verdict_says_it_in_words(expectation, accuracy, met, words):
    verdict = expectation.judge(accuracy)
    assert verdict.met is met
    assert words in verdict.text


def test_a_workload_is_found_in_a_file(tmp_path):
    (tmp_path / "settings.py").write_text("RATE = 0.5\n")
    path = tmp_path / "my model.py"
    path.write_text(
        "from settings import RATE\n"
        "from tarmac.workloads.digits_mlp import workload\n"
        "import dataclasses\n"
        "mine = dataclasses.replace(workload, name=f'mine-{RATE}')\n"
    )
    assert find_workload(f"{path}:mine").name == "mine-0.5"
    with pytest.raises(RequestError, match="did you mean 'mine'"):
        find_workload(f"{path}:mime")
    with pytest.raises(RequestError, match="is of type float, expected a tarmac Workload"):
        find_workload(f"{path}:RATE")
    with pytest.raises(RequestError, match=r"'study\.yaml' is no workload") as caught:
        find_workload("study.yaml")
    assert "tarmac search study.yaml" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import tarmac\nworkload = 1 / 0\n", r"model\.py:2: ZeroDivisionError"),
        ("x = (\n", r"model\.py:1: SyntaxError"),
        ("from nothing_of_that_name import workload\n", r"model\.py:1: ModuleNotFoundError"),
    ],
)
def test_a_file_that_fails_is_named_with_the_line(tmp_path, text, message):
    (tmp_path / "model.py").write_text(text)
    with pytest.raises(TarmacError, match=message):
        find_workload(f"{tmp_path / 'model.py'}:workload")


def test_a_file_that_fails_is_named_with_the_line_where_its_path_is_relative(tmp_path, monkeypatch):
    (tmp_path / "model.py").write_text("import tarmac\nworkload = 1 / 0\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TarmacError, match=r"^model\.py:2: ZeroDivisionError"):
        find_workload("model.py:workload")


def test_a_file_that_imports_what_an_extra_brings_names_it(tmp_path, monkeypatch):
    # As an import finds nothing.
    monkeypatch.setitem(sys.modules, "torchmetrics", None)
    (tmp_path / "model.py").write_text("import tarmac\nfrom torchmetrics import workload\n")
    with pytest.raises(TarmacError, match=r"model\.py:2: ModuleNotFoundError") as caught:
        find_workload(f"{tmp_path / 'model.py'}:workload")
    assert caught.value.hint == "pip install 'tarmac-gpu[metrics]'"


@pytest.mark.parametrize("module", ["types", "random", "numpy", "torch"])
def test_a_neighbour_of_a_workloads_file_hides_no_module_of_the_library(tmp_path, module):
    (tmp_path / f"{module}.py").write_text("raise ImportError('impostor')\n")
    (tmp_path / "own_neighbour.py").write_text("from colorsys import rgb_to_hsv as found\n")
    (tmp_path / "mine.py").write_text(
        f"import importlib, {module}, own_neighbour\n"
        f"importlib.import_module({module!r})\n"
        "from tarmac.workloads.digits_mlp import workload\n"
    )
    before = [*sys.path]
    assert find_workload(f"{tmp_path / 'mine.py'}:workload").name == "digits-mlp"
    assert sys.path == before


def test_a_neighbour_of_a_workloads_file_comes_after_the_library_and_before_packages(
    tmp_path, monkeypatch
):
    for module in ("colorsys", "tabulate_of_others"):
        (tmp_path / f"{module}.py").write_text("where = 'neighbour'\n")
    packages = tmp_path / "packages"
    packages.mkdir()
    (packages / "tabulate_of_others.py").write_text("where = 'package'\n")
    monkeypatch.syspath_prepend(packages)
    monkeypatch.setattr(sys, "path", [*sys.path[1:], str(packages)])
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    (tmp_path / "mine.py").write_text(
        "import colorsys, tabulate_of_others\n"
        "assert not hasattr(colorsys, 'where')\n"
        "assert tabulate_of_others.where == 'neighbour'\n"
        "from tarmac.workloads.digits_mlp import workload\n"
    )
    find_workload(f"{tmp_path / 'mine.py'}:workload")


def test_a_file_that_is_not_there_is_named():
    with pytest.raises(RequestError, match=r"'nowhere\.py' does not exist"):
        find_workload("nowhere.py:workload")


def test_a_package_can_provide_workloads(monkeypatch):
    point = importlib.metadata.EntryPoint(
        "mine", "tarmac.workloads.digits_mlp:workload", "tarmac.workloads"
    )
    broken = importlib.metadata.EntryPoint("broken", "no_such_package:x", "tarmac.workloads")

    points = importlib.metadata.EntryPoints([point, broken])
    monkeypatch.setattr("tarmac.extensions.points_of", lambda group: points.select(group=group))
    assert {"mine", "broken"} < set(workload_names())
    assert find_workload("mine").name == "digits-mlp"
    with pytest.raises(TarmacError, match="'broken' of no_such_package:x failed to load"):
        find_workload("broken")


def test_an_unknown_workload_suggests_the_nearest():
    with pytest.raises(RequestError, match="did you mean 'mnist-mlp'"):
        find_workload("mnist-mpl")


@pytest.mark.mnist
def test_mnist_fast_reaches_99_percent(mnist, tmp_path):
    run = tarmac.train("mnist-fast", output=tmp_path)
    # One seed may fall a little short of what the mean of ten reaches.
    assert run.metrics["test_accuracy"] >= 0.988


def test_fashion_can_stand_in_for_mnist_and_brings_no_expectation(tmp_path, monkeypatch):
    data = tmp_path / "data"
    data.mkdir()
    monkeypatch.setenv("TARMAC_DATA", str(data))
    rng = np.random.default_rng(0)
    folder = data / "fashion-mnist"
    folder.mkdir()
    for file in _sources.SOURCES["fashion-mnist"].layouts[0]:
        shape = (300, 28, 28) if "images" in file.name else (300,)
        header = bytes([0, 0, 8, len(shape)]) + np.array(shape, ">u4").tobytes()
        high = 256 if "images" in file.name else 10
        body = rng.integers(0, high, shape, dtype=np.uint8).tobytes()
        (folder / file.name).write_bytes(header + body)
    run = tarmac.train(
        "mnist-mlp", epochs=1, output=tmp_path, settings={"dataset": "fashion-mnist"}
    )
    assert run.record.dataset["name"] == "fashion-mnist"
    assert run.record.expectation is None
