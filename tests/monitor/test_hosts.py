"""Several machines in one view, over an ssh that runs commands here."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import threading

import pytest
from watched_machine import HOST, SNAPSHOT, TRAINING, later

from tarmac.errors import RequestError, TarmacError
from tarmac.monitor import HostsFeed, ray_hosts, slurm_hosts, to_line
from tarmac.monitor.drawing.belonging import all_work
from tarmac.monitor.ranks import ranks_together
from waiting import wait_until

# No test waits so long; one that fails does.
_PATIENCE_S = 120.0


@pytest.fixture
def says(fake_ssh, tmp_path):
    """Return a function that lets ``tarmac`` print given text there, and then do something."""

    def say(text: str, then: str = "exec sleep 600") -> None:
        words = tmp_path / "words"
        words.write_text(text)
        fake_ssh("tarmac", f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\ncat {words}\n{then}\n')

    return say


def until(feed, condition):
    """Return the first snapshot that fulfils a condition."""
    found = None
    limit = threading.Event()
    timer = threading.Timer(_PATIENCE_S, limit.set)
    timer.start()
    try:
        while not limit.is_set():
            found = feed.next()
            if condition(found):
                return found
    finally:
        timer.cancel()
    raise AssertionError(f"never came: {found}")


def hosts_of(*names, **options):
    options = {"interval_s": 0.02, "is_patient": True, "patience_s": _PATIENCE_S} | options
    return contextlib.closing(HostsFeed(names, **options))


def test_each_host_is_shown_under_the_name_that_it_was_given(says):
    says(to_line(SNAPSHOT) + "\n")
    with hosts_of("a", "b") as feed:
        first = feed.next()
    assert [host.host.name for host in first.hosts] == ["a", "b"]
    assert [host.problem for host in first.hosts] == ["", ""]
    assert first.hosts[0].gpus == HOST.gpus


def test_a_host_is_asked_for_what_was_asked_here(says, tmp_path):
    says(to_line(SNAPSHOT) + "\n")
    with hosts_of("a", command=("tarmac", "--user", "o'brien", "--mine"), interval_s=2.5) as feed:
        feed.next()
    assert (tmp_path / "asked").read_text() == "top --json --watch 2.5 --user o'brien --mine\n"


def test_the_newest_line_of_a_host_is_shown(says):
    says("".join(f"{to_line(later(i))}\n" for i in range(5)))
    with hosts_of("a") as feed:
        until(feed, lambda snapshot: snapshot.hosts[0].at == later(4).at)


def test_a_host_that_cannot_be_reached_says_why_and_the_others_are_shown(says):
    says(to_line(SNAPSHOT) + "\n")
    with hosts_of("refused", "b") as feed:
        refused, good = feed.next().hosts
    assert refused.problem == "ssh: connect to host refused port 22: Connection refused"
    assert (refused.gpus, refused.age_s) == ((), None)
    assert good.problem == ""


def test_a_host_that_hangs_keeps_nobody_waiting(says):
    says(to_line(SNAPSHOT) + "\n")
    with hosts_of("silent", "b", is_patient=False) as feed:
        found = until(feed, lambda snapshot: not snapshot.hosts[1].problem)
    assert found.hosts[0].problem == "not reached yet"


def test_a_host_that_dies_is_shown_as_it_was_last_seen(says):
    says(to_line(SNAPSHOT) + "\n", then='echo "Connection reset" >&2; exit 255')
    with hosts_of("a") as feed:
        found = until(feed, lambda snapshot: snapshot.hosts[0].problem)
    (host,) = found.hosts
    assert host.problem == "Connection reset"
    assert host.gpus == HOST.gpus
    assert host.age_s is not None
    assert host.age_s >= 0


def test_a_host_that_says_nothing_any_more_is_shown_as_silent(says):
    says(to_line(SNAPSHOT) + "\n")
    with hosts_of("a", silent_after_s=0.1) as feed:
        found = until(feed, lambda snapshot: snapshot.hosts[0].problem)
    assert re.fullmatch(r"no answer for \d+ s", found.hosts[0].problem)
    assert found.hosts[0].gpus == HOST.gpus


def test_a_line_that_is_cut_off_with_the_connection_is_no_news(says):
    says(to_line(SNAPSHOT) + "\n" + to_line(later(1))[:200], then="exit 0")
    with hosts_of("a") as feed:
        found = until(feed, lambda snapshot: snapshot.hosts[0].problem)
    assert (found.hosts[0].at, found.hosts[0].problem) == (SNAPSHOT.at, "the connection ended")


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("Welcome to n01!\n", "printed text that is not a snapshot: Welcome to n01!"),
        ('{"schema_version": 999}\n', "schema_version 999"),
        ("[]\n", "this is not a snapshot"),
        ("[" * 100_000 + "\n", "printed text that is not a snapshot: [[["),
    ],
)
def test_what_is_no_snapshot_is_said(says, said, problem):
    says(said)
    with hosts_of("a") as feed:
        assert problem in feed.next().hosts[0].problem


def test_an_error_of_tarmacs_there_is_said_without_its_hint(says):
    says("", then='echo "error: no option --x" >&2; echo "  See: tarmac top --help" >&2; exit 2')
    with hosts_of("a") as feed:
        assert feed.next().hosts[0].problem == "no option --x"


def test_a_host_without_tarmac_says_so(fake_ssh):
    with hosts_of("a", command=("no-such-program",)) as feed:
        assert "no-such-program" in feed.next().hosts[0].problem


def test_all_that_was_started_has_ended_when_it_is_closed(says, trace):
    says(to_line(SNAPSHOT) + "\n")
    with hosts_of("a", "b", "silent", is_patient=False) as feed:
        until(feed, lambda snapshot: not snapshot.hosts[1].problem)
        assert trace.processes()
    # They are killed; until the kernel has taken each away it may be seen.
    wait_until(
        lambda: not [process for process in trace.processes() if process.name() == "sleep"],
        "the end of the silent host's program",
    )


@pytest.mark.parametrize("name", ["-oProxyCommand=touch /tmp/x", "a b", "a\nb"])
def test_a_name_that_ssh_would_take_for_something_else_is_refused(name):
    with pytest.raises(RequestError, match="is not a host name"):
        HostsFeed([name])


def test_the_ranks_of_one_training_are_together_the_slowest_first():
    def on(name, *ranks):
        work = dataclasses.replace(TRAINING, ranks=ranks)
        here = dataclasses.replace(HOST.host, name=name)
        return dataclasses.replace(HOST, host=here, work=(work,))

    a = on("a", {"rank": 0, "samples_per_s": 50.0}, {"rank": 1, "samples_per_s": 20.0})
    b = on("b", {"rank": 2, "samples_per_s": 10.0}, {"rank": 3})
    ranks = [host.work[0].ranks for host in ranks_together([a, b])]
    assert ranks[0] == ranks[1]
    assert [(rank["rank"], rank["host"]) for rank in ranks[0]] == [
        *((2, "b"), (1, "a"), (0, "a"), (3, "b")),
    ]
    assert ranks_together([a]) == (a,)


def test_the_host_that_has_a_rank_knows_more_of_it_than_the_record_that_another_shows():
    def on(name, *ranks):
        work = dataclasses.replace(TRAINING, ranks=ranks)
        here = dataclasses.replace(HOST.host, name=name)
        return dataclasses.replace(HOST, host=here, work=(work,))

    def recorded(rank, host, speed):
        return {"rank": rank, "host": host, "samples_per_s": speed}

    facts = {"pid": 7, "utilization_ratio": None, "power_watts": 90.0}
    a = on("a", recorded(0, "a.site", 50.0) | {"pid": 3}, recorded(1, "b.site", 20.0))
    b = on("b", recorded(0, "a.site", 50.0), recorded(1, "b.site", 20.0) | facts)
    found = ranks_together([a, b])
    expected = (
        {"rank": 1, "host": "b", "samples_per_s": 20.0, **facts},
        {"rank": 0, "host": "a", "samples_per_s": 50.0, "pid": 3},
    )
    assert [host.work[0].ranks for host in found] == [expected, expected]
    # The view of all hosts has each of them once, too.
    (owned,) = all_work(found)
    assert owned.work.ranks == expected


def test_the_nodes_of_my_jobs_are_named_by_slurm(fake_ssh):
    fake_ssh(
        "squeue",
        "#!/bin/sh\n"
        "echo 'tarmac|JOBID|NAME|STATE|NODELIST|REASON'\n"
        "echo 'tarmac|7|train|RUNNING|n[1-3]|None'\n"
        "echo 'tarmac|8|more|RUNNING|m1|None'\n"
        "echo 'tarmac|9|again|RUNNING|n[1-3]|None'\n",
    )
    fake_ssh("scontrol", '#!/bin/sh\n[ "$3" = "n[1-3],m1" ] && printf "n1\\nn2\\nn3\\nm1\\n"\n')
    assert slurm_hosts() == ("n1", "n2", "n3", "m1")


def test_no_job_has_no_nodes_and_a_silent_slurm_says_so(fake_ssh):
    fake_ssh("squeue", "#!/bin/sh\necho 'tarmac|JOBID|NAME|STATE|NODELIST|REASON'\n")
    assert slurm_hosts() == ()
    fake_ssh("squeue", "#!/bin/sh\necho 'slurm_load_jobs error: Unable to contact' >&2; exit 1\n")
    with pytest.raises(TarmacError, match="Unable to contact"):
        slurm_hosts()


def test_the_nodes_of_a_ray_cluster_are_those_that_are_alive(fake_ssh):
    nodes = [
        {"node_ip": "10.0.0.1", "state": "ALIVE"},
        {"node_ip": "10.0.0.2", "state": "DEAD"},
        {"node_ip": "10.0.0.3", "state": "ALIVE"},
    ]
    fake_ssh("ray", f"#!/bin/sh\necho '{json.dumps(nodes)}'\n")
    assert ray_hosts() == ("10.0.0.1", "10.0.0.3")
    fake_ssh("ray", "#!/bin/sh\necho 'Ray is not running' >&2; exit 1\n")
    with pytest.raises(TarmacError, match="Ray is not running"):
        ray_hosts()
