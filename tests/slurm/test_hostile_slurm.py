"""Sites that print notices, controllers that answer garbage or nothing: real commands, wrapped."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime, timedelta

import pytest

from tarmac.slurm import (
    NoAnswer,
    Request,
    Shape,
    SlurmCommands,
    Submitted,
    Unit,
    job_variables,
    write_script,
)


@pytest.fixture
def wrapped(cluster, tmp_path):
    """Return a function that puts a script before a command, and what asks the cluster then.

    In the script, ``"$REAL"`` is the command itself.
    """
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    own = os.environ | dict(cluster.variables)

    def wrap(name: str, text: str, **options) -> SlurmCommands:
        wrapper = bin_folder / name
        wrapper.write_text(f"#!/bin/sh\nREAL={shutil.which(name)}\n{text}\n")
        wrapper.chmod(0o755)
        return SlurmCommands(own | {"PATH": f"{bin_folder}:{own['PATH']}"}, **options)

    return wrap


@pytest.fixture
def script(tmp_path, request):
    return write_script(
        Request(
            name=f"tarmac-{abs(hash(request.node.nodeid)) % 10**8}-0001",
            shape=Shape(memory_bytes=64 * 2**20),
            command="true",
            directory=tmp_path,
            output="%A_%a.engine",
            elements=2,
        )
    )


def ago() -> datetime:
    return datetime.now(UTC) - timedelta(minutes=1)


@pytest.fixture
def vault(monkeypatch):
    """Have a secret among one's own variables."""
    monkeypatch.setenv("VAULT", "hunter2")


@pytest.mark.slurm
def test_slurm_is_not_sent_ones_own_variables_to_test_a_script(vault, wrapped, script, tmp_path):
    slurm = wrapped("sbatch", f'env > {tmp_path}/sent; exec "$REAL" "$@"')
    assert slurm.test(script) is None
    sent = (tmp_path / "sent").read_text()
    assert "SLURM_CONF=" in sent
    assert "hunter2" not in sent


@pytest.mark.slurm
def test_notices_before_the_number_do_not_hide_it(wrapped, script):
    slurm = wrapped("sbatch", 'echo "You have used 12 of 40 GPU hours."; echo 2026; "$REAL" "$@"')
    answer = slurm.submit(script, job_variables(os.environ))
    assert isinstance(answer, Submitted), answer
    assert slurm.find(script.name, ago()) == answer


@pytest.mark.slurm
@pytest.mark.parametrize(
    "wrapper",
    [
        '"$REAL" "$@" >/dev/null; echo "sbatch: error: Batch job submission failed: Socket timed '
        'out on send/recv operation" >&2; exit 1',
        '"$REAL" "$@"; exit 1',
        '"$REAL" "$@" >/dev/null',
        '"$REAL" "$@" >/dev/null; echo "sbatch: a wrapper broke" >&2; exit 1',
        '"$REAL" "$@" >/dev/null; kill -9 $$',
    ],
    ids=["timed out", "number and failure", "nothing", "unknown words", "killed"],
)
def test_a_doubtful_answer_to_a_submission_is_silence_and_the_job_is_found(
    wrapped, script, wrapper
):
    slurm = wrapped("sbatch", wrapper)
    answer = slurm.submit(script, job_variables(os.environ))
    assert isinstance(answer, NoAnswer), answer
    found = slurm.find(script.name, ago())
    assert isinstance(found, Submitted), found


@pytest.mark.slurm
def test_a_submission_that_hangs_is_given_up_with_all_that_it_started(
    wrapped, slurm, script, tmp_path
):
    # The pipe is held by what the wrapper starts, and by nothing else.
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    hasty = wrapped("sbatch", f"sleep 600 > {pipe} & wait", timeout_s=1)
    answer = hasty.submit(script, job_variables(os.environ))
    assert answer == NoAnswer("sbatch", "did not answer within 1 s")
    os.set_blocking(reader, True)
    assert os.read(reader, 1) == b""
    os.close(reader)
    assert slurm.find(script.name, ago()) is None


@pytest.mark.slurm
@pytest.mark.parametrize(
    ("wrapper", "words"),
    [
        ("exit 0", "printed nothing"),
        ("echo '<html>503</html>'", "<html>503</html>"),
        ("head -c 100000 /dev/urandom", ""),
        ('"$REAL" "$@" | head -c 60', ""),
        ("echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1", "contact"),
    ],
    ids=["nothing", "garbage", "bytes", "cut off", "error"],
)
def test_a_queue_that_is_not_answered_is_silence(wrapped, script, wrapper, words):
    slurm = wrapped("squeue", wrapper)
    assert isinstance(slurm.submit(script, job_variables(os.environ)), Submitted)
    for answer in (slurm.queue([script.name]), slurm.find(script.name, ago())):
        assert isinstance(answer, NoAnswer), answer
        assert answer.command == "squeue"
        assert words in answer.words
        assert len(answer.words) < 1000


@pytest.mark.slurm
def test_notices_of_squeue_are_no_jobs(wrapped, script):
    slurm = wrapped("squeue", 'echo "maintenance on Monday"; "$REAL" "$@"; echo bye')
    assert slurm.queue([script.name]) == []


@pytest.mark.slurm
def test_a_controller_that_remembers_nothing_in_words_is_silence(wrapped):
    slurm = wrapped("scontrol", 'case "$*" in *config*) exec "$REAL" "$@";; esac')
    assert isinstance(slurm.ended([Unit(1, 0)], ago()), NoAnswer)


@pytest.mark.slurm
def test_limits_that_were_not_answered_are_asked_again(wrapped, tmp_path):
    slurm = wrapped("scontrol", f'[ -e {tmp_path}/well ] || exit 0; exec "$REAL" "$@"')
    assert isinstance(slurm.limits(), NoAnswer)
    (tmp_path / "well").touch()
    assert slurm.limits().max_array_size == 1001


def test_a_machine_without_slurm_says_so(tmp_path):
    slurm = SlurmCommands({"PATH": str(tmp_path)})
    answer = slurm.limits()
    assert isinstance(answer, NoAnswer)
    assert "not in PATH" in answer.words


@pytest.mark.slurm
@pytest.mark.parametrize("text", ["not a program", "#!/no/such/shell\n"])
def test_a_command_that_cannot_be_started_is_silence(wrapped, tmp_path, text):
    slurm = wrapped("squeue", "")
    (tmp_path / "bin/squeue").write_text(text)
    answer = slurm.queue(["tarmac-of-nobody"])
    assert isinstance(answer, NoAnswer)
    assert "cannot be started" in answer.words
