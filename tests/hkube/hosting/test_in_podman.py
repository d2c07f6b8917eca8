"""Algorithms in containers of a real Podman."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from pools import IMPATIENT, each, make
from test_in_containers import define, hosted

from busybox import import_busybox, remove_busybox

pytestmark = pytest.mark.containers

PODMAN = {"engine": "podman"}


# Where this process may not raise limits, as in a container, Podman's own are above its.
LIMITS = '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]\n'
# crun, which it takes where it is, refuses hosts that have both versions of control groups.
CONFIGURATIONS = ("", LIMITS, f'{LIMITS}[engine]\nruntime = "runc"\n')


@pytest.fixture(scope="module")
def podman_image(tmp_path_factory):
    podman = shutil.which("podman")
    if podman is None:
        pytest.skip("Podman is not here; provide it: sudo apt install podman catatonit")
    # One that answers may still be kept from starting anything.
    image = f"localhost/{import_busybox(podman)}"
    run = [podman, "run", "--rm", "--init", "--network", "host", image, "true"]
    configuration = tmp_path_factory.mktemp("podman") / "containers.conf"
    with pytest.MonkeyPatch.context() as patch:
        for text in CONFIGURATIONS:
            if text:
                configuration.write_text(text)
                patch.setenv("CONTAINERS_CONF", str(configuration))
            done = subprocess.run(run, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                break
        else:
            said = (done.stderr.strip().splitlines() or ["no output"])[-1]
            pytest.skip(f"Podman starts no container: {said}; try: {' '.join(run)}")
        yield image
        remove_busybox(podman)


def test_an_algorithm_in_podmans_container_reaches_its_worker(host, podman_image):
    algorithm = hosted(podman_image, environment=PODMAN)
    works = [make("echo", n, index=n) for n in range(3)]
    endings = host([algorithm], each(*works), concurrency=1)
    assert [ending.value for ending in endings] == [[0], [1], [2]], endings


def test_a_plain_program_in_podmans_container_reads_and_writes_files(host, podman_image):
    algorithm = define(
        podman_image,
        command=["sh", "-c", "cat $TARMAC_INPUT > $TARMAC_RESULT"],
        own={"protocol": "plain"},
        environment={**PODMAN, "network": "none"},
    )
    (ending,) = host([algorithm], each(make({"a": "ü"}, 2)))
    assert ending.value == [{"a": "ü"}, 2], ending


def test_podmans_container_that_ignores_stop_is_killed(host, podman_image, trace):
    async def use(pool):
        late = await pool.submit(make("deaf", ttl_s=0.5))
        return late, await pool.submit(make("echo", 1, index=1))

    late, again = host([hosted(podman_image, environment=PODMAN)], use, timers=IMPATIENT)
    assert (late.why, again.value) == ("ttl", [1])
    listing = ["podman", "ps", "--quiet", "--filter", f"ancestor={podman_image}"]
    assert subprocess.run(listing, capture_output=True, check=True).stdout == b""
    assert not trace.processes()


def test_memory_that_podman_limits_is_a_crash(host, podman_image):
    algorithm = hosted(podman_image, environment=PODMAN, mem="64Mi")
    (ending,) = host([algorithm], each(make("eat", 2**28, retry="Never")))
    assert (ending.why, ending.exit_code) == ("crash", 137)


def test_an_image_that_podman_does_not_have_fails_its_tasks_at_once(host, podman_image):
    algorithm = define(
        "localhost/tarmac-none", command=["true"], environment={**PODMAN, "pull": "never"}
    )
    (ending,) = host([algorithm], each(make(1)))
    assert (ending.why, ending.attempts) == ("image", 0)
    assert "image localhost/tarmac-none cannot be pulled: " in ending.message


def test_a_network_of_podmans_is_refused(host, podman_image):
    algorithm = hosted(podman_image, environment={**PODMAN, "network": "podman"})
    (ending,) = host([algorithm], each(make("echo", 7)))
    assert ending.why == "refused"
    assert "in a Podman network a container cannot reach its worker" in ending.message
