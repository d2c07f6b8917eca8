"""`make gpu` spends a budget on stages, survives their failures and its own end, and goes on."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import textwrap
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

import gpu
from forked import run_python
from gpu_driver import CannotRunError
from gpu_driver.look import Machine, machine_of
from gpu_driver.records import Records
from gpu_driver.table import STAGES, Stage

pytest.importorskip("optuna", reason="needs pip install 'tarmac-gpu[search]'")

ROOT = Path(gpu.__file__).parents[1]
BENCH = ROOT / "bench"
H200 = Machine(
    device="NVIDIA H200", torch="2.11.0", cuda="13.0", num_gpus=1, import_s=1.0, context_s=0.1
)
# What a stage that hangs is given to begin: much, as machines that run tests are busy.
_TIME_TO_START_S = 12
# A stage's program sees what all of them see, and does one thing.
_HEAD = f"""
import os, signal, sys, time
from pathlib import Path
sys.path.insert(0, {str(BENCH)!r})
from gpu_stages._report import Report, Skip
directory, seconds = Path(sys.argv[1]), float(sys.argv[2])
report = Report(directory, seconds)
"""


@dataclasses.dataclass
class Bed:
    """A repository of stages that tests write, and what runs them."""

    root: Path
    stages: list[Stage] = dataclasses.field(default_factory=list)

    def stage(self, name: str, body: str, seconds: float = 1.0, limit_s: float = 60.0) -> None:
        path = self.root / f"{name}.py"
        path.write_text(_HEAD + textwrap.dedent(body))
        found = Stage(
            name, seconds, limit_s, "", rests_on=(path.name,), program=(sys.executable, str(path))
        )
        self.stages = [*(s for s in self.stages if s.name != name), found]

    def run(self, *words: str, ask: Callable = lambda _environment: H200) -> int:
        return gpu.main([*words], root=self.root, stages=self.stages, ask=ask)

    def states(self) -> dict[str, str]:
        return {name: record.status for name, record in self.records().items()}

    def records(self) -> dict:
        return Records(self.root / ".gpu" / "stages").read()

    def ran(self) -> list[str]:
        """The stages that have run since this was last asked, in order."""
        path = self.root / "ran.txt"
        names = path.read_text().split() if path.exists() else []
        path.unlink(missing_ok=True)
        return names


@pytest.fixture
def bed(tmp_path: Path) -> Bed:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return Bed(tmp_path)


def is_running(pid: int) -> bool:
    """Whether a process runs; one that has ended may wait to be collected by an init process."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


NOTE = "Path('ran.txt').open('a').write(Path(__file__).stem + '\\n')\n"


def test_every_stage_has_a_module_and_names_files_that_exist():
    for stage in STAGES:
        module = BENCH / "gpu_stages" / f"{stage.name.replace('-', '_')}.py"
        assert "\ndef run(report: Report) -> None:" in module.read_text()
        for pattern in stage.files:
            assert any(ROOT.glob(pattern)), (stage.name, pattern)


def test_stages_run_in_order_and_a_later_run_only_does_what_is_left(bed):
    bed.stage("first", NOTE + "report.keep('us', 3.5)")
    bed.stage("second", NOTE)
    assert bed.run() == 0
    assert bed.ran() == ["first", "second"]
    assert bed.records()["first"].result == {"us": 3.5}
    assert bed.run() == 0
    assert bed.ran() == []
    assert bed.run("--again", "--stages", "second") == 0
    assert bed.ran() == ["second"]


def test_a_stage_that_does_not_fit_in_the_budget_is_left(bed, capsys):
    bed.stage("short", NOTE, seconds=1)
    bed.stage("long", NOTE, seconds=1000)
    bed.stage("other", NOTE, seconds=2)
    assert bed.run("--budget", "120") == gpu.LEFT
    assert bed.ran() == ["short", "other"]
    assert "long: left, takes some 1000 s" in capsys.readouterr().out
    # Nothing else is left that could have the time.
    assert bed.run("--budget", "120") == 0
    assert bed.ran() == ["long"]


def test_what_a_stage_measured_before_the_budget_ended_is_kept_and_it_runs_again(bed):
    bed.stage("hangs", NOTE + "report.keep('half', 1)\ntime.sleep(1000)", seconds=1000)
    assert bed.run("--budget", str(gpu._RESERVE_S + _TIME_TO_START_S)) == gpu.LEFT
    record = bed.records()["hangs"]
    assert (record.status, record.why) == ("unfinished", "the budget ended")
    assert record.result == {"half": 1}
    bed.stage("hangs", NOTE + "report.keep('whole', 2)")
    assert bed.run() == 0


def test_a_stage_over_its_limit_is_ended_with_all_that_it_started(bed):
    bed.stage(
        "hangs",
        """
        import subprocess
        # Out of the stage's session, as workers are.
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"],
                                 start_new_session=True)
        report.keep("child", child.pid)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(1000)
        """,
        limit_s=_TIME_TO_START_S,
    )
    bed.stage("next", "report.keep('ran', True)")
    assert bed.run() == 1
    records = bed.records()
    assert records["hangs"].status == "out of time"
    assert f"its limit is {_TIME_TO_START_S} s" in records["hangs"].why
    assert not is_running(records["hangs"].result["child"])
    assert records["next"].status == "passed"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "it crashed: signal SIGSEGV"),
        ("sys.exit(3)", "it crashed: exit code 3"),
        ("(directory / 'answer.json').unlink()", "it left no answer"),
        (
            "with report.part('fp32'):\n    raise ValueError('no')\nsys.exit(1)",
            "fp32: ValueError: no",
        ),
    ],
)
def test_a_stage_that_fails_says_why_and_costs_no_other(bed, body, why):
    bed.stage("bad", "print('before it')\n" + body)
    bed.stage("good", "")
    assert bed.run() == 1
    records = bed.records()
    assert (records["bad"].status, records["bad"].why) == ("failed", why)
    assert "before it" in records["bad"].output
    assert records["good"].status == "passed"


def test_what_failed_runs_after_what_is_new_and_before_it_once_its_sources_changed(bed):
    bed.stage("bad", NOTE + "sys.exit(3)")
    assert bed.run() == 1
    bed.stage("new", NOTE)
    bed.ran()
    assert bed.run() == 1
    assert bed.ran() == ["new", "bad"]
    bed.stages.reverse()
    bed.stage("newer", NOTE)
    (bed.root / "bad.py").write_text(_HEAD + NOTE)
    assert bed.run() == 0
    assert bed.ran() == ["bad", "newer"]


def test_another_gpu_or_other_sources_make_a_stage_run_again(bed):
    bed.stage("first", NOTE)
    assert bed.run() == 0
    bed.ran()
    assert bed.run(ask=lambda _: dataclasses.replace(H200, device="NVIDIA L4")) == 0
    assert bed.ran() == ["first"]
    bed.stage("first", NOTE + "# changed")
    assert bed.run(ask=lambda _: dataclasses.replace(H200, device="NVIDIA L4")) == 0
    assert bed.ran() == ["first"]


def test_a_skipped_stage_says_what_is_missing_and_is_done_once_it_is_there(bed):
    bed.stage("cifar", "report.skip('CIFAR-10 is not under TARMAC_DATA')")
    assert bed.run() == 0
    record = bed.records()["cifar"]
    assert (record.status, record.why) == ("skipped", "CIFAR-10 is not under TARMAC_DATA")
    bed.stage("cifar", "")
    assert bed.run() == 0
    assert bed.states() == {"cifar": "passed"}


def start(bed: Bed, *words: str) -> subprocess.Popen[str]:
    """Run the stages in a process that can be killed."""
    program = textwrap.dedent(f"""
        import sys
        sys.path.insert(0, {str(BENCH)!r})
        import gpu
        from pathlib import Path
        from gpu_driver.look import Machine
        from gpu_driver.table import Stage
        stages = {bed.stages!r}
        machine = {H200!r}
        sys.exit(gpu.main({[*words]!r}, root=Path({str(bed.root)!r}), stages=stages,
                          ask=lambda _: machine))
    """)
    return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)


# The stage says that it runs through a pipe, and ends when nobody listens any more.
_WAITS = """
report.keep("pid", os.getpid())
with open("begun", "w") as pipe:
    pipe.write(str(os.getpid()))
time.sleep(1000)
"""


def begun(bed: Bed) -> int:
    """Wait until a stage runs, and return its process id."""
    return int((bed.root / "begun").read_text())


def test_a_run_that_is_killed_leaves_whole_records_and_the_next_goes_on(bed):
    os.mkfifo(bed.root / "begun")
    bed.stage("first", NOTE)
    bed.stage("second", NOTE + _WAITS)
    driver = start(bed, "--out", str(bed.root / "out"))
    stage = psutil.Process(begun(bed))
    driver.kill()
    driver.wait()
    driver.stdout.close()
    # The guardian ends it, though nobody is left to tell it to.
    psutil.wait_procs([stage], timeout=60)
    assert not stage.is_running()
    assert bed.states() == {"first": "passed"}
    assert json.loads((bed.root / "out/state.json").read_text())["stages"].keys() == {"first"}
    bed.ran()
    bed.stage("second", NOTE)
    assert bed.run() == 0
    assert bed.ran() == ["second"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_run_that_is_asked_to_end_keeps_what_was_measured(bed, number):
    os.mkfifo(bed.root / "begun")
    bed.stage("waits", _WAITS)
    driver = start(bed, "--out", str(bed.root / "out"))
    stage = begun(bed)
    driver.send_signal(number)
    said, _ = driver.communicate()
    assert driver.returncode == 128 + number
    assert "run it again to go on" in said
    assert not is_running(stage)
    record = bed.records()["waits"]
    assert (record.status, record.result) == ("unfinished", {"pid": stage})
    assert (bed.root / "out/log.txt").exists()


def test_two_runs_do_not_measure_at_the_same_time(bed, capsys):
    os.mkfifo(bed.root / "begun")
    bed.stage("waits", _WAITS)
    driver = start(bed)
    begun(bed)
    assert bed.run() == 2
    assert "Another run is at work" in capsys.readouterr().out
    driver.terminate()
    driver.communicate()


PAGE = "report.page('mnist-mlp', {'seconds': 1}, 'a table')\n"


def test_results_and_what_is_done_travel_to_another_checkout(bed, tmp_path, capsys):
    bed.stage(
        "mnist-mlp",
        PAGE
        + "report.artifact('junit.xml').write_text('<x/>')\n"
        + "report.file('tests/checks/machines/nvidia-h200.txt', 'count 1')\n",
    )
    bed.stage("cifar", "report.skip('no data')")
    out = tmp_path / "out"
    assert bed.run("--out", str(out)) == 0
    assert {path.name for path in out.iterdir()} == {
        *("results.tar.gz", "state.json", "junit.xml", "log.txt")
    }
    other = Bed(tmp_path / "other", bed.stages)
    other.root.mkdir()
    for path in (*bed.root.glob("*.py"), bed.root / "pyproject.toml"):
        shutil.copy(path, other.root)
    assert other.run("--adopt", str(out)) == 0
    assert other.states() == {"mnist-mlp": "passed", "cifar": "skipped"}
    written = {path.relative_to(other.root).as_posix() for path in other.root.glob("*/**/*.*")}
    pages = {name for name in written if name.startswith("bench/results/mnist-mlp-")}
    assert {Path(name).suffix for name in pages} == {".json", ".md"}
    assert "tests/checks/machines/nvidia-h200.txt" in written
    # On the first machine they are in place already, and nothing of it is run again here.
    assert all((bed.root / name).exists() for name in pages)
    other.ran()
    assert other.run() == 0
    assert "passed" in capsys.readouterr().out


def test_a_machine_goes_on_from_what_is_in_the_directory_for_results(bed, tmp_path):
    bed.stage("first", NOTE)
    bed.stage("second", NOTE)
    assert bed.run("--out", str(tmp_path / "out"), "--stages", "first") == 0
    shutil.rmtree(bed.root / ".gpu")
    bed.ran()
    assert bed.run("--out", str(tmp_path / "out")) == 0
    assert bed.ran() == ["second"]


def test_a_failed_stage_writes_no_results(bed):
    bed.stage("mnist-mlp", PAGE + "sys.exit(1)")
    assert bed.run() == 1
    assert not (bed.root / "bench").exists()


def test_a_disk_that_is_full_loses_no_result(bed, small_disk):
    bed.stage("first", "report.artifact('anatomy.json').write_text('x' * 2**21)")
    bed.stage("second", "")
    out = small_disk("1m")
    assert bed.run("--out", str(out)) == 1
    assert bed.states() == {"first": "passed", "second": "passed"}
    # What fits is there, and whole.
    assert json.loads((out / "state.json").read_text())["stages"].keys() == {"first", "second"}
    assert not (out / "anatomy.json").exists()
    assert not list(out.glob(".*"))


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("results.tar.gz", b"no archive"),
        ("state.json", b"{}"),
        ("state.json", b'{"stages": {"first": {"stage": "first", "status": "fine"}}}'),
    ],
)
def test_nothing_is_adopted_of_what_another_program_wrote(bed, tmp_path, capsys, name, data):
    bed.stage("first", PAGE)
    out = tmp_path / "out"
    assert bed.run("--out", str(out)) == 0
    (out / name).write_bytes(data)
    other = Bed(tmp_path / "other", bed.stages)
    other.root.mkdir()
    assert other.run("--adopt", str(out)) == 2
    assert "is not what" in capsys.readouterr().out
    assert not (other.root / "bench").exists()
    assert other.states() == {}


def test_an_archive_that_leads_elsewhere_is_refused(bed, tmp_path):
    bed.stage("first", "")
    out = tmp_path / "out"
    assert bed.run("--out", str(out)) == 0
    with tarfile.open(out / "results.tar.gz", "w:gz") as archive:
        archive.add(__file__, "bench/results/../../src/tarmac/errors.py")
    other = Bed(tmp_path / "other", bed.stages)
    other.root.mkdir()
    assert other.run("--adopt", str(out)) == 2
    assert not (other.root / "src").exists()


def test_without_a_gpu_nothing_runs_and_the_reason_is_said(tmp_path):
    # The whole program, as it is called: this machine's PyTorch is built for CPUs, or finds no GPU.
    env = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    done = run_python(BENCH / "gpu.py", "--out", tmp_path / "out", env=env)
    assert (done.returncode, done.stderr) == (2, "")
    assert "PyTorch" in done.stdout
    assert "Nothing was run." in done.stdout
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"error": "ModuleNotFoundError: no torch"}, "Name a Python that has it"),
        ({"torch": "2.13.0+cpu", "cuda": None, "num_gpus": 0}, "on CPUs alone"),
        (
            {"torch": "2.11.0", "cuda": "13.0", "num_gpus": 0, "warnings": ["driver too old"]},
            "- driver too old\n- CUDA_VISIBLE_DEVICES is '9'",
        ),
        (
            {"torch": "2.11.0", "cuda": "13.0", "num_gpus": 1, "error": "no kernel image"},
            "does not compute on the GPU: no kernel image",
        ),
    ],
)
def test_why_no_gpu_can_be_used_is_said_with_what_to_do(answer, words):
    with pytest.raises(CannotRunError) as caught:
        machine_of(answer, {"CUDA_VISIBLE_DEVICES": "9"})
    assert words in str(caught.value)


def test_the_list_shows_every_stage_with_its_last_state(bed, capsys):
    bed.stage("first", "")
    bed.stage("second", "sys.exit(3)")
    assert bed.run("--stages", "first") == 0
    capsys.readouterr()
    assert bed.run("--list") == 0
    first, second = capsys.readouterr().out.splitlines()
    assert "passed in" in first
    assert "NVIDIA H200" in first
    assert "~1 s, not run" in second


def test_an_unknown_stage_is_refused_with_those_there_are(bed, capsys):
    bed.stage("first", "")
    assert bed.run("--stages", "fist") == 2
    assert "There is no stage fist; there are: first" in capsys.readouterr().out
