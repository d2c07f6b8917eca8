"""One training on the CPU and on each GPU: how many times faster?"""

from __future__ import annotations

import json

import pytest

from tarmac.checks import Race, Racer, race, racing
from tarmac.checks.evidence import Probe
from tarmac.cli.entry import main
from tarmac.cli.views.race import print_race
from tarmac.errors import RequestError, TarmacError

_CPU = {"name": "cpu", "kind": "cpu", "first_loss": 2.31, "images_per_s": 2000.0}
_GPU = {
    "name": "cuda:0",
    "kind": "gpu",
    "chip": "Tesla T4",
    "first_loss": 2.32,
    "images_per_s": 25000.0,
}


@pytest.fixture
def probed(monkeypatch):
    """Return a function that sets what the probe comes to."""

    def come_to(outcome="done", detail="", **result):
        whole = {"version": "2.13.0", "threads": 4, "stage": "done", **result}
        probe = Probe(
            framework="race", where="this Python", outcome=outcome, detail=detail, result=whole
        )
        monkeypatch.setattr(racing, "run_probe", lambda *_, **__: probe)

    return come_to


def test_the_cpu_trains_alone_where_no_gpu_is():
    raced = race(devices=["cpu"], seconds=0.01)
    (cpu,) = raced.racers
    assert (cpu.device, cpu.times, cpu.is_right) == ("cpu", 1.0, True)
    assert cpu.chip
    assert cpu.images_per_s > 0
    assert raced.threads >= 1


@pytest.mark.parametrize(
    ("first_loss", "is_right"), [(2.31, True), (2.33, True), (2.4, False), (float("nan"), False)]
)
def test_a_gpu_is_compared_with_the_cpu(probed, first_loss, is_right):
    probed(devices=[_CPU, _GPU | {"first_loss": first_loss}])
    assert race().racers[1] == Racer(
        device="cuda:0", chip="Tesla T4", images_per_s=25000.0, times=12.5, is_right=is_right
    )


@pytest.mark.parametrize("device", ["cuda:1", "cuda"])
def test_a_gpu_that_was_named_and_is_not_there_is_refused(probed, device):
    probed(devices=[_CPU])
    with pytest.raises(RequestError, match=f"{device} took no part"):
        race(devices=[device])


@pytest.mark.parametrize("timeout_s", [0.0, -1.0, float("nan")])
def test_a_time_limit_that_is_none_is_refused(timeout_s):
    with pytest.raises(RequestError, match="timeout is"):
        race(timeout_s=timeout_s)
    with pytest.raises(RequestError, match="seconds is"):
        race(seconds=timeout_s)


def test_a_race_that_takes_too_long_says_what_gives_it_longer(probed):
    probed("hung", "its limit of 12 s", devices=[_CPU], stage="training on cuda:0")
    with pytest.raises(TarmacError, match="took more than 12 s in this Python, during") as late:
        race(timeout_s=12)
    assert "--timeout" in str(late.value.hint)


def test_a_race_without_pytorch_says_what_brings_it(probed):
    probed("not installed")
    with pytest.raises(RequestError, match="PyTorch is not installed in this Python") as refusal:
        race()
    assert "tarmac-gpu[train]" in str(refusal.value.hint)


@pytest.mark.parametrize(
    ("detail", "error", "words"),
    [
        ("SIGSEGV, during import", None, "this Python: SIGSEGV, during import"),
        (
            "",
            {"type": "RuntimeError", "message": "no kernel image is available"},
            "RuntimeError: no kernel image is available, during training on cuda:0",
        ),
    ],
)
def test_a_race_that_fails_says_why(probed, detail, error, words):
    probed("failed", detail, devices=[_CPU], error=error, stage="training on cuda:0")
    with pytest.raises(TarmacError, match=words):
        race()


@pytest.mark.parametrize("is_right", [True, False])
def test_a_line_for_each_device_says_how_many_times_faster_it_is(capsys, is_right):
    racers = (
        Racer("cpu", "AMD EPYC", 2000.0, 1.0, is_right=True),
        Racer("cuda:0", "Tesla T4", 25000.0, 12.5, is_right=is_right),
    )
    print_race(Race("2.13.0", "this Python", 3.0, 4, racers), as_json=False)
    lines = capsys.readouterr().out.splitlines()[1:]
    words = "12.5 times the CPU" if is_right else "its results differ from the CPU's"
    assert lines[0] == "  cpu     AMD EPYC, 4 threads   2,000 images/s"
    assert lines[1].startswith(f"  cuda:0  Tesla T4             25,000 images/s  {words}")
    assert len(lines) == 2


@pytest.mark.parametrize(
    ("words", "refused"),
    [
        (["--quick"], "--quick"),
        (["torch"], "a framework"),
        (["--python", "a", "--image", "b"], "several --python or --image"),
        (["--soak", "10s"], "--soak"),
        (["--verbose"], "--verbose"),
    ],
)
def test_what_is_no_matter_of_a_race_is_refused(capsys, words, refused):
    with pytest.raises(SystemExit, match="2"):
        main(["check", "--race", *words])
    assert f"--race does not go with {refused}" in capsys.readouterr().err


def test_other_numbers_than_the_cpus_end_with_1(probed, capsys):
    probed(devices=[_CPU, _GPU | {"first_loss": 9.0}])
    with pytest.raises(SystemExit, match="1"):
        main(["check", "--race", "--json"])
    assert [one["is_right"] for one in json.loads(capsys.readouterr().out)["racers"]] == [
        True,
        False,
    ]
