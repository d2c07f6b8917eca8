"""Forked processes do as processes of the interpreter do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from forked import forked_interpreter, process_behind, run_python, start_python


def run_by_interpreter(*words, **options):
    command = [sys.executable, *words]
    return subprocess.run(command, check=False, capture_output=True, text=True, **options)


@pytest.mark.parametrize(
    "program",
    [
        "print('out'); import sys; print('err', file=sys.stderr)",
        "import sys; print(sys.argv[1:], sys.stdin.read()); sys.exit(3)",
        "import sys; sys.exit('a text')",
        "import sys; sys.exit()",
        "import os; print(os.environ['MARK'], os.getcwd()); os._exit(7)",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "import atexit, threading; atexit.register(print, 'last'); first = threading.Event(); "
        "then = lambda: first.wait() and print('from a thread'); "
        "threading.Thread(target=then).start(); print('first'); first.set()",
        "import sys; print(sys.path[0], __name__, sys.stdin.isatty())",
        "import os; print(sorted(os.listdir('/proc/self/fd'))[:3])",
    ],
)
def test_a_fork_answers_as_an_interpreter_does(program, tmp_path):
    options = {"cwd": tmp_path, "env": {"MARK": "here", "PATH": "/usr/bin:/bin"}, "input": "in"}
    words = ("-c", program, "--argument", "two words")
    forked, started = run_python(*words, **options), run_by_interpreter(*words, **options)
    assert forked.returncode == started.returncode
    assert (forked.stdout, forked.stderr) == (started.stdout, started.stderr)


def test_an_error_ends_a_fork_with_its_traceback():
    done = run_python("-c", "raise ValueError('why')")
    assert done.returncode == 1
    assert done.stderr.endswith("ValueError: why\n")


def test_a_module_and_a_file_run_as_the_main_one(tmp_path):
    path = tmp_path / "program.py"
    path.write_text("import sys; print(__name__, sys.argv[1:], sys.path[0])")
    assert run_python(path, "a").stdout == f"__main__ ['a'] {tmp_path}\n"
    assert run_python("-m", "program", "b", cwd=tmp_path).stdout == f"__main__ ['b'] {tmp_path}\n"
    assert run_python("-m", "tarmac", "--version").stdout.startswith("tarmac ")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_a_fork(number):
    program = "import signal; print('ready', flush=True); signal.pause()"
    with start_python("-c", program, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == "ready\n"
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        process.send_signal(number)
        assert process.wait() == -number
        assert process.poll() == -number


def test_what_a_child_prints_is_read_while_it_runs_however_much_it_is():
    done = run_python("-c", "print('x' * 10_000_000)")
    assert len(done.stdout) == 10_000_001


def test_output_goes_to_a_file_and_errors_beside_it(tmp_path):
    with (tmp_path / "log").open("w") as log:
        program = "import sys; print(1, flush=True); print(2, file=sys.stderr)"
        run_python("-c", program, capture_output=False, stdout=log, stderr=subprocess.STDOUT)
    assert (tmp_path / "log").read_text() == "1\n2\n"


@pytest.fixture
def interpreter():
    return forked_interpreter()


def test_what_a_fork_starts_by_its_executable_is_forked_too(interpreter):
    program = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import sys; {}'])"
    inner = "print(sys.executable, len(sys.modules) > 1000)"
    assert run_python("-c", program.format(inner)).stdout == f"{interpreter} True\n"


@pytest.mark.parametrize("options", [["-V"], ["-X", "utf8", "-c", "print(1)"]])
def test_what_only_an_interpreter_can_do_is_done_by_one(interpreter, options):
    command = [interpreter, *options]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout == run_by_interpreter(*options).stdout


@pytest.mark.parametrize("options", [[], ["-P"], ["-u"]])
def test_options_change_a_fork_as_they_change_an_interpreter(interpreter, options, tmp_path):
    program = "import sys; print('' in sys.path, sys.stdout.write_through, sys.argv)"
    command = [interpreter, *options, "-c", program, "a"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout == run_by_interpreter(*options, "-c", program, "a", cwd=tmp_path).stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_fork_ends_with_the_process_that_stands_for_it(interpreter, number):
    reader, writer = os.pipe()
    # The pipe's end is reached when the fork has gone, too.
    program = "import signal; print('ready', flush=True); signal.pause()"
    with subprocess.Popen(
        [interpreter, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        pass_fds=[writer],
        text=True,
    ) as process:
        os.close(writer)
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        assert process.wait() == -number
    assert os.read(reader, 1) == b""
    os.close(reader)


def test_a_fork_has_the_files_that_are_passed_to_it(interpreter):
    reader, writer = os.pipe()
    program = f"import os; os.write({writer}, b'here')"
    subprocess.run([interpreter, "-c", program], check=True, pass_fds=[writer])
    assert os.read(reader, 9) == b"here"
    os.close(reader)
    os.close(writer)


def test_the_process_behind_one_that_stands_for_it_is_known(interpreter):
    program = "import os; print(os.getpid(), flush=True); input()"
    with subprocess.Popen(
        [interpreter, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert int(process.stdout.readline()) == process_behind(process.pid)
        process.communicate("\n")


@pytest.mark.parametrize("variables", [{}, {"PYTHONUNBUFFERED": "1"}])
def test_output_that_cannot_be_written_fails_at_the_end_where_it_was_kept(variables):
    program = (
        "import contextlib\nwith contextlib.suppress(OSError): print('x', flush=True)\nexit(3)"
    )
    env = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"} | variables
    with open("/dev/full", "w") as full:  # noqa: PTH123
        options = {"env": env, "stdout": full, "stderr": subprocess.DEVNULL}
        forked = run_python("-c", program, **options)
        real = subprocess.run([sys.executable, "-c", program], check=False, **options)
    assert forked.returncode == real.returncode


def test_a_fork_has_the_parent_of_the_process_that_stands_for_it(interpreter):
    words = [interpreter, "-c", "import os; print(os.getppid())"]
    assert int(subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout) == os.getpid()


SLEEP = "import time; time.sleep(600)"


@pytest.mark.parametrize(
    "start",
    [
        lambda: start_python("-c", SLEEP),
        lambda: subprocess.Popen([sys.executable, "-c", SLEEP]),
    ],
    ids=["fork", "process"],
)
@pytest.mark.parametrize("failure", [AssertionError, pytest.fail.Exception])
def test_a_failed_test_does_not_wait_for_its_program(start, failure):
    with pytest.raises(failure), start() as program:
        raise failure("at its time limit")
    assert program.returncode == -signal.SIGKILL


def test_a_failed_test_leaves_none_of_its_forks_running(request):
    conftest = str(Path(__file__).with_name("conftest.py"))
    hook = request.config.pluginmanager.get_plugin(conftest).pytest_runtest_call(request.node)
    next(hook)
    process = start_python("-c", SLEEP)
    with pytest.raises(AssertionError, match="of the test"):
        hook.throw(AssertionError("of the test"))
    assert process.wait() == -signal.SIGKILL


def test_a_fork_is_killed_while_another_thread_waits_for_it():
    process = start_python("-c", SLEEP)
    waits = threading.Thread(target=process.wait, daemon=True)
    waits.start()
    process.kill()
    waits.join()
    assert process.returncode == -signal.SIGKILL
