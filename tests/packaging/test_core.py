"""Without extras, all commands but train and search work; those name what brings them."""

from __future__ import annotations

import json

import pytest

from tarmac.distribution import install_hint

_FRAMEWORKS = ("torch", "optuna", "sklearn", "safetensors", "obstore", "tensorboard")


def test_the_core_has_no_framework(in_core):
    program = "import importlib.util as u, sys; print([n for n in sys.argv[1:] if u.find_spec(n)])"
    assert in_core("-c", program, *_FRAMEWORKS).stdout == "[]\n"


def test_help_and_version_need_only_the_core(in_core):
    for option in ("--help", "--version"):
        done = in_core("-m", "tarmac", option)
        assert (done.returncode, done.stderr) == (0, "")


def test_code_that_is_on_the_path_works_without_being_installed(from_source):
    assert from_source("-m", "tarmac", "--version").stdout.startswith("tarmac 0")
    done = from_source("-c", "from tarmac.checks import quick_check; print(quick_check().ok)")
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


@pytest.mark.parametrize(
    "command",
    [
        "check",
        "run",
        "submit",
        "ps",
        "logs",
        "cancel",
        "convert",
        "env",
        "data",
        "runs",
        "train",
        "search",
    ],
)
def test_every_command_explains_itself_without_extras(in_core, command):
    done = in_core("-m", "tarmac", command, "--help")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_check_without_any_framework_says_that_none_is_here(in_core):
    done = in_core("-m", "tarmac", "check", "--quick", "--json")
    report = json.loads(done.stdout)
    assert not [verdict for verdict in report["frameworks"] if verdict.get("status") == "ok"]
    assert "Traceback" not in done.stderr


def test_a_job_runs_without_extras(in_core, tmp_path):
    (tmp_path / "job.yaml").write_text("name: hello\ncommand: [echo, hello]\n")
    for arguments in (
        ["run", "job.yaml", "--dry-run"],
        ["run", "job.yaml"],
        ["ps", "--all"],
        ["logs", "latest"],
        ["convert", "job.yaml", "--to", "tarmac"],
        ["env", "list"],
    ):
        done = in_core("-m", "tarmac", *arguments)
        assert done.returncode == 0, (arguments, done.stderr)


def test_runs_and_datasets_are_listed_without_extras(in_core):
    for arguments in (["runs", "list"], ["data", "list"], ["data", "verify", "digits"]):
        done = in_core("-m", "tarmac", *arguments)
        assert done.returncode == 0, (arguments, done.stderr)


def test_the_digits_load_without_extras(in_core):
    program = "from tarmac import data; print(data.load('digits').fingerprint)"
    assert in_core("-c", program).stdout == "6f56af1f71baca0f\n"


@pytest.mark.parametrize(
    ("arguments", "message", "extra"),
    [
        (["train", "digits-mlp"], "training needs PyTorch, which is not installed", "train"),
        (["train", "--list"], "training needs PyTorch, which is not installed", "train"),
        (["train", "--resume", "latest"], "training needs PyTorch", "train"),
        (["search", "mlp-evolve"], "which is not installed", "search"),
        (["search", "list"], "which is not installed", "search"),
    ],
)
def test_a_command_of_an_extra_names_what_brings_it(in_core, arguments, message, extra):
    done = in_core("-m", "tarmac", *arguments)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr.splitlines()[0]
    for line in install_hint(extra).splitlines():
        assert line in done.stderr
    assert "https://pytorch.org/get-started/locally/" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["serve"], "tarmac serve: its server needs Starlette, which is not installed"),
        (["top", "--serve"], "metrics need prometheus-client, which is not installed"),
        (["top", "--web"], "tarmac top --web needs textual-serve, which is not installed"),
    ],
)
def test_what_watching_needs_is_named_with_what_brings_it(in_core, arguments, message):
    done = in_core("-m", "tarmac", *arguments)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr.splitlines()[0]
    assert install_hint("watch") in done.stderr


def test_one_picture_of_top_needs_no_extra(in_core):
    for arguments in (["--once"], ["--json"], ["--csv"], []):
        done = in_core("-m", "tarmac", "top", *arguments)
        assert done.returncode == 0, (arguments, done.stderr)
        assert "GPU" in done.stdout or arguments == ["--csv"]


@pytest.mark.parametrize(("verb", "extra"), [("train", "train"), ("search", "search")])
def test_a_verb_of_an_extra_names_what_brings_it_in_python_too(in_core, verb, extra):
    program = (
        "import tarmac\n"
        f"try: tarmac.{verb}('digits-mlp')\n"
        "except tarmac.RequestError as error: print(isinstance(error, ImportError), error)"
    )
    done = in_core("-c", program)
    assert done.stdout.startswith("True ")
    assert install_hint(extra) in done.stdout


@pytest.mark.parametrize(
    "place", ["outputs: [{path: out, to: 's3://bucket/out'}]", "inputs: [{from: 's3://bucket/in'}]"]
)
def test_an_object_store_names_its_extra_before_anything_runs(in_core, tmp_path, place):
    (tmp_path / "job.yaml").write_text(f"name: far\ncommand: [touch, ran]\n{place}\n")
    done = in_core("-m", "tarmac", "run", "job.yaml")
    assert done.returncode == 2, done.stderr
    assert install_hint("objects") in done.stderr
    assert not (tmp_path / "runs").exists()
