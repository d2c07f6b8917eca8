"""The form in which a documented command is run here, and how it ends.

Placeholders get a value, trainings and searches are cut short by options behind those that are
shown, and servers get Ctrl-C as soon as they serve.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import re
import signal
import subprocess
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any

import click
import pytest
from documented import Documented

import tarmac.monitor
import tarmac.server
import tarmac.studies
from tarmac.checks import verb
from tarmac.cli import watching
from tarmac.cli.entry import root
from tarmac.errors import TarmacError

# Commands that start processes with PyTorch, for seconds each. They are parsed here; tests/docs
# runs their pages whole, and a test here fails for a command in no block that it runs.
BY_ITS_PAGE = (
    r"--devices cpu:2$",
    r"--devices cpu:2 --(strategy (ddp|fsdp)|verbose)$",
    r"--selftest$",
    r"^tarmac check --ranks 2 torch$",
    r"^tarmac check --soak 5s$",
    r"^tarmac export latest --to onnx --output",
    r"^tarmac run (digits.yaml|loop.yaml|trials.yaml --follow)$",
)

# Commands that no machine of this kind can run to their end, and why. They are parsed.
ONLY_PARSED = {
    r"--provision": "builds environments of frameworks; tests/checks does, in their group",
    r"^tarmac check --conda": "needs an environment of conda's; tests/checks builds one",
    r"^tarmac check --ranks (2|8 torch)$": "starts processes; its page does, by --ranks 2 torch",
    r"^tarmac run examples/hkube/sweep": "trains on MNIST in processes; tests/examples does",
    r"env\.REPLICAS=2$": "builds an environment of TensorFlow; tests/examples does, in their group",
    r"^tarmac export latest --to onnx$": "takes seconds; its page exports to another file",
    r"^tarmac train my-digits$": "a package of the reader's; tests/workloads has one",
    r"^tarmac run examples/((chainer|jax)-mnist|conda)": "needs packages; tests/examples does",
    r"^tarmac hkube work tasks/": "only a runner types it, with a file that it has just written",
}

# What has to be typed before, by a command.
BEFORE = {
    r"^tarmac train mlp --set dataset=flowers$": "data add flowers --from flowers --size 64x64",
    r"dataset=houses": "data add houses --from houses.csv --target price --drop id",
    r"^tarmac cancel latest$": "submit asleep.yaml",
    r"--checkpoint best$": "train digits-mlp --validation-size 200 --epochs 1 --no-check",
    r"--data fashion-mnist": "train mnist-mlp --set hidden=8 --epochs 1 --no-check",
    r"^tarmac top .*--replay": "top --once --record night.jsonl",
}

# What is put behind a command, so that it is short; the last of several values holds.
BEHIND = (
    (r"^tarmac train .*--steps", "--steps 2 --no-check"),
    (r"^tarmac train --from-checkpoint", "--epochs 3 --no-check"),
    (r"^tarmac train .*--resume", "--no-check"),
    (r"^tarmac train (?!.*--(list|selftest|summary))\S", "--epochs 1 --no-check"),
    (r"^tarmac search -- ", ""),
    # Its workers are processes of their own, which know nothing of the small MNIST.
    (r"^tarmac search mlp-evolve .*--train-size", "--dry-run --train-size 60"),
    (r"^tarmac search mlp-evolve(?!.*(dataset=digits|--on))", "--dry-run"),
    (r"^tarmac search .*--resume", ""),
    (r"^tarmac search (?!best|dashboard|export|list|plot|show|worker)\S", "--epochs 1 --trials 2"),
    (r"^tarmac hkube serve", "--worker-timeout 0.1"),
    (r"^tarmac check --soak", "--soak 1s"),
)
# Networks of a hundred million parameters are built of fewer.
SMALLER = (
    ("gpt2-124m", "--set layers=1 --set heads=1 --set width=16"),
    ("resnet50", "--set width=8"),
)

# How a command ends that does not end with 0: its exit code, and what it says.
ENDINGS = (
    (r"^tarmac cluster try", 2, "Slurm is not installed"),
    (r"^tarmac check --on slurm", 1, "Slurm does not answer: sinfo: is not in PATH"),
    (r"--on slurm(?!.*--dry-run)", 2, "Slurm does not answer: scontrol: is not in PATH"),
    (r"^tarmac submit .*--on ray", 1, "Ray's dashboard does not answer"),
    (r"--on ray(?!.*--dry-run)", 2, "no Ray cluster was found on this machine"),
    (r"^tarmac check --on kubernetes$", 2, "no image is named"),
    (r"^tarmac (train|search) .*--on kubernetes", 2, "volume"),
    (r"--on kubernetes(?!.*--dry-run)", 2, "no kubeconfig: "),
    (r"^tarmac run --resume RUN --runner engine", 2, "local cannot run runners"),
    (r"--on held$", 2, "unknown --on 'held'"),
    (r"^tarmac top --slurm", 1, "Slurm does not say where your jobs run"),
    (r"^tarmac check torch jax", 1, "MISSING   jax"),
    (r"--devices cpu:3$", 2, "strategy is 'single', but 3 devices are requested"),
    (r"--devices 2$", 2, "devices is '2'"),
    (r"^tarmac runs logs RUN", 2, "RUN has no logs"),
    (r"gpus>=", 1, "gpus"),
    (r"--require gpu$", 1, "FAILS     gpu"),
    (r"gpus=1", 2, "GPU"),
    (r"^tarmac run gpu.yaml$", 2, ""),
    (r"--verify$", 1, "below what was expected"),
    (r"^tarmac check --read .*--json", 1, '"ok": false'),
    (r"^tarmac check --read", 1, " found"),
    (r"^tarmac check --ranks all", 2, "--ranks all is for ranks that a launcher has started"),
    (
        r"^tarmac run (recipe|shipyard/|FOLDER|pool.yaml jobs.yaml)(?!.*--dry-run)",
        2,
        "neither docker",
    ),
    (r"^tarmac run train-digits.json --input", 2, "neither docker"),
    (r"^tarmac train my_model.py:workload --resume RUN", 2, "run OWN is of "),
    (
        r"^tarmac search my_model.py:workload --resume STUDY",
        2,
        "was started with workload digits-mlp",
    ),
    (r"^tarmac run gpu-alg.json --secret", 2, "the variable AWS_KEY is not set"),
    (r"^tarmac env rm", 2, "no environment begins with"),
    (r"^tarmac hkube serve", 1, "no worker at ws://127.0.0.1:3000"),
    (r"^tarmac runs rm (?!.*--yes)\S", 2, "Add --yes to delete without asking"),
    (r"^tarmac cancel (?!latest)\S", 2, "is not active"),
    (r"--log-to mlflow", 2, "MLFLOW_TRACKING_URI is not set"),
    (r"--log-to wandb", 2, "you are not logged in to Weights & Biases"),
    (r"^tarmac train .*--output s3://", 1, "AWS_ACCESS_KEY_ID is not set"),
    (r"^tarmac train( \.\.\.)?$", 2, "no workload is named"),
    (r"^tarmac train mnist_mlp.py$", 2, "workload file 'mnist_mlp.py' does not exist"),
    (r"^tarmac train mnist-convnet$", 2, "but not RANK, MASTER_ADDR, MASTER_PORT"),
    (r"^tarmac run( --dry-run)?$", 2, "expected job files, or --resume RUN"),
    (r"^tarmac submit$", 2, "expected job files"),
    (r"^tarmac search$", 2, "no workload or study is named"),
    (r"^tarmac train --resume runs/RUN$", 2, "is completed, there is nothing to resume"),
    (r"^tarmac search -- list", 2, "unknown workload 'list'"),
    (r"^tarmac check -- compare", 2, "unknown framework 'compare'"),
    (r"^tarmac runs compare$", 2, "expected at least 2 to compare"),
    (r"^tarmac serve", 130, "http://"),
    (r"^tarmac (search dashboard|top --serve)", 130, ""),
    (r"^tarmac top .*--watch|^tarmac top --on ", 130, ""),
    (r"^tarmac top --(record|job-map)", 130, ""),
)


def matching(table: Sequence[tuple[Any, ...]], line: str) -> tuple[Any, ...] | None:
    return next((row for row in table if re.search(row[0], line)), None)


def expected_end(command: Documented) -> tuple[int, str]:
    row = matching(ENDINGS, command.line)
    return (0, "") if row is None else (row[1], row[2])


def is_mention(command: Documented) -> bool:
    """Whether a span names a command or an option without what has to follow."""
    if command.kind != "span":
        return False
    try:
        with contextlib.redirect_stdout(None):
            parse(command)
    except (click.MissingParameter, click.exceptions.NoArgsIsHelpError):
        return True
    except click.BadOptionUsage as error:
        return "requires an argument" in str(error)
    except (click.ClickException, click.exceptions.Exit, TarmacError):
        # It is typed, and what it says is looked at.
        return False
    return False


def parse(command: Documented) -> None:
    """Let click parse a command, down to what it would call."""
    words, parent, inner = list(command.arguments), None, root
    name = "tarmac"
    while True:
        context = inner.make_context(name, list(words), parent=parent)
        if not isinstance(inner, click.Group):
            return
        rest = [*context._protected_args, *context.args]
        if not rest:
            return
        name, chosen, words = inner.resolve_command(context, rest)
        assert name is not None
        assert chosen is not None
        parent, inner = context, chosen


def typed(command: Documented, here: Path, machine: Path) -> list[str]:
    """Return the arguments as they are typed here."""
    words = [
        word for shown in command.arguments for word in _standing(shown, command, here, machine)
    ]
    more = (matching(BEHIND, command.line) or ("", ""))[1].split()
    for network, smaller in SMALLER:
        if network in words:
            more += smaller.split()
    if "--" in words:
        return words
    return [*words, *more]


def _standing(word: str, command: Documented, here: Path, machine: Path) -> list[str]:
    """Return the words here for a shell's, a reader's or another machine's word."""
    verb_name, *rest = command.arguments
    names = {
        "COMMAND": "train",
        "CODE": "oom",
        "WORKLOAD": "digits-mlp",
        "FILE": "check.html" if "--html" in rest else "job.yaml",
        "FOLDER": "IMAGES" if verb_name == "data" else "recipe",
        "PATH": f"{machine}/home/PATH/python",
        "job.yaml": "image.yaml" if rest[-1:] == ["hkube"] else "job.yaml",
    }
    if verb_name == "train":
        is_own = "my_model.py:workload" in rest
        names |= {"NAME": "digits-mlp", "RUN": "OWN" if is_own else "latest"}
    if verb_name in ("run", "cancel"):
        names |= dict.fromkeys(("NAME", "RUN"), "runs/sweep-20261122-101500-ab12")
    if word == "..." or (word == "--set" and rest[-1] == "..."):
        return []
    if word.startswith("$("):
        echo = ["bash", "-c", f"echo {word}"]
        return subprocess.run(echo, capture_output=True, text=True, check=True).stdout.split()
    if word == "*.json":
        return sorted(path.name for path in here.glob("n0*.json"))
    places = {
        "~/": f"{machine}/home/",
        "/mnt/usb": f"{machine}/usb",
        "/media/usb": f"{machine}/usb",
        "/data/runs": "runs",
        "/run/": f"{here}/",
        "unix:/run/user/1000/": f"unix:{here}/",
    }
    far = next((place for place in places if word.startswith(place)), None)
    return [names.get(word, word) if far is None else word.replace(far, places[far], 1)]


def _kept(function: Callable[..., Any], key: Callable[..., Hashable]) -> Callable[..., Any]:
    """Return a function that does the same work once."""
    results: dict[Hashable, Any] = {}

    @functools.wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        name = key(*arguments, **options)
        if name not in results:
            results[name] = function(*arguments, **options)
        return results[name]

    return call


# A probe is a process with PyTorch in it: each framework's is run once, of any depth.
_first_probe = _kept(verb.run_probe, lambda framework, target, **_: framework.name)


def _probe(framework: Any, target: Any, **options: Any) -> Any:
    return _first_probe(framework, target, **options).model_copy(update={"where": target.name})


_soak = _kept(verb.soak, lambda target, **_: target)


def _interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


class _OneLook:
    """A feed whose second look is Ctrl-C."""

    def __init__(self, feed: Any) -> None:
        self._feed = feed
        self._has_looked = False

    def next(self) -> Any:
        if self._has_looked:
            raise KeyboardInterrupt
        self._has_looked = True
        return self._feed.next()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._feed, name)


def end_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupt what serves as soon as it does, and probe no framework twice."""
    # 300 MiB of noise take 2 s.
    monkeypatch.setattr("tarmac.data.noise._NUM_TRAIN", 64)
    monkeypatch.setattr(verb, "run_probe", _probe)
    monkeypatch.setattr(verb, "soak", _soak)
    serve, dashboard = tarmac.server.serve, tarmac.studies.serve_dashboard
    metrics, open_feed = tarmac.monitor.serve_metrics, watching.open_feed

    def then_interrupt(say: Callable[[Any], object]) -> Callable[[Any], None]:
        def call(place: Any) -> None:
            say(place)
            _interrupt()

        return call

    for room, name, function in (
        (
            tarmac.server,
            "serve",
            lambda *places, ready, **options: serve(
                *places, ready=then_interrupt(ready), **(options | {"port": 0})
            ),
        ),
        (
            tarmac.studies,
            "serve_dashboard",
            lambda study, host, port, ready: dashboard(study, host, 0, then_interrupt(ready)),
        ),
        (
            tarmac.monitor,
            "serve_metrics",
            lambda feed, where, tell, **options: metrics(
                feed, dataclasses.replace(where, port=0), tell=then_interrupt(tell), **options
            ),
        ),
        # A server of its own in a process of its own, which tests/monitor opens in a browser.
        (tarmac.monitor, "serve_in_browser", lambda arguments, port: None),
        (
            watching,
            "open_feed",
            lambda asked: open_feed(asked) if asked.replay else _OneLook(open_feed(asked)),
        ),
    ):
        monkeypatch.setattr(room, name, function)
