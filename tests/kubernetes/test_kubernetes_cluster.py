"""Requests and watches against a server that does what servers do to them."""

from __future__ import annotations

import contextlib
import http.server
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from emulator import JOB, Emulator

from tarmac.kubernetes import Cluster, NoAnswer, Refused, Right, Version, Watch, connect
from waiting import limit_s


@pytest.fixture
def server(start_cluster: Callable[..., Emulator]) -> Emulator:
    """A cluster without nodes: its pods stay as they are made."""
    return start_cluster(nodes=0)


@pytest.fixture
def client(server: Emulator) -> Iterator[Cluster]:
    with connect(kubeconfig=server.kubeconfig, environ={}, patience_s=20) as cluster:
        yield cluster


def pod(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"run": "r1"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}
        | fields,
    }


def settles(watch: Watch[Any], is_so: Callable[[Any], bool], timeout_s: float = 20) -> Any:
    """Return what a watch shows once it is as expected."""
    end = time.monotonic() + limit_s(timeout_s)
    while not is_so(seen := watch.look()):
        assert time.monotonic() < end, seen
        watch.wait_for_change(1)
    return seen


def names(*expected: str) -> Callable[[Any], bool]:
    return lambda seen: not isinstance(seen, NoAnswer) and sorted(seen) == sorted(expected)


def test_what_is_created_is_got_listed_changed_and_deleted(client: Cluster) -> None:
    assert isinstance(client.version(), Version)
    assert client.get("Pod", "a") is None
    made = client.create(pod("a"))
    assert isinstance(made, dict)
    assert made["metadata"]["uid"]
    listed = client.list("Pod", labels="run=r1")
    assert [one["metadata"]["name"] for one in listed.items] == ["a"]
    assert client.list("Pod", labels="run=other").items == ()
    changed = client.patch("Pod", "a", {"metadata": {"annotations": {"x": "é"}}})
    assert changed["metadata"]["annotations"]["x"] == "é"
    assert client.delete("Pod", "a", grace_s=0) is None
    assert client.delete("Pod", "a") is None
    assert client.get("Pod", "a") is None


def test_a_dry_run_asks_and_creates_nothing(client: Cluster) -> None:
    assert isinstance(client.create(pod("a"), dry_run=True), dict)
    assert client.get("Pod", "a") is None


def test_every_creation_asks_for_strict_validation(server: Emulator, client: Cluster) -> None:
    client.create(pod("a"))
    assert "fieldValidation=Strict" in server.requests.entries[-1].path


def test_a_name_that_is_taken_is_a_conflict(client: Cluster) -> None:
    client.create(pod("a"))
    second = client.create(pod("a"))
    assert isinstance(second, Refused)
    assert second.is_conflict
    assert second.reason == "AlreadyExists"


@pytest.mark.parametrize("code", [429, 500, 503, 504])
def test_a_busy_server_is_asked_again(server: Emulator, client: Cluster, code: int) -> None:
    server.faults.answer(code, 2, verb="create", resource="pods")
    assert isinstance(client.create(pod("a")), dict)
    assert server.requests.count("create", "pods") == 3


def test_a_server_that_says_when_is_asked_then(server: Emulator, client: Cluster) -> None:
    server.faults.answer(429, 1, verb="list", resource="pods", retry_after_s=1)
    begun = time.monotonic()
    client.list("Pod")
    assert time.monotonic() - begun >= 1


def test_an_answer_that_is_lost_leaves_one_object_and_a_conflict(
    server: Emulator, client: Cluster
) -> None:
    server.faults.drop(1, verb="create", resource="pods", is_done=True)
    again = client.create(pod("a"))
    assert isinstance(again, Refused)
    assert again.is_conflict
    assert len(client.list("Pod").items) == 1


def test_a_server_without_an_end_to_its_trouble_is_a_silence(server: Emulator) -> None:
    server.faults.answer(503, 100, message="etcd has no leader")
    with connect(kubeconfig=server.kubeconfig, environ={}, patience_s=1) as client:
        first = client.get("Pod", "a")
        assert isinstance(first, NoAnswer)
        assert "etcd has no leader" in first.words
        assert server.url in first.words
        second = client.list("Pod")
        assert isinstance(second, NoAnswer)
        assert second.since == first.since
        server.faults.clear()
        assert client.get("Pod", "a") is None


def test_a_server_that_says_nothing_is_a_silence(server: Emulator) -> None:
    server.faults.silence(100)
    with connect(kubeconfig=server.kubeconfig, environ={}, patience_s=1) as client:
        answer = client.delete("Pod", "a")
        assert isinstance(answer, NoAnswer)
        assert "did not answer" in answer.words


def test_one_that_is_closed_says_so_and_does_not_wait(client: Cluster) -> None:
    client.close()
    for answer in (client.list("Pod"), client.log("a", "main", follow=True)):
        assert isinstance(answer, NoAnswer)
        assert "its connections are closed" in answer.words


def test_a_token_that_was_rotated_is_read_anew(server: Emulator, client: Cluster) -> None:
    assert client.get("Pod", "a") is None
    server.rotate_token()
    assert client.get("Pod", "a") is None


def test_a_login_that_is_no_longer_accepted_is_told_without_it(
    server: Emulator, client: Cluster
) -> None:
    before = server.kubeconfig.read_text()
    token = server.token
    server.rotate_token()
    server.kubeconfig.write_text(before)
    for _ in range(3):
        answer = client.get("Pod", "a")
        assert isinstance(answer, NoAnswer)
        assert "expired" in answer.words
        assert str(server.kubeconfig) in answer.words
        assert token not in answer.words
    # Read anew once a minute at most, so the second and third ask once.
    assert server.requests.count() <= 4


def test_rights_that_lack_are_named(server: Emulator, client: Cluster) -> None:
    wanted = [Right("create", "jobs", "batch"), Right("get", "pods/log"), Right("list", "pods")]
    assert client.may(*wanted) == ()
    server.access.deny("create", "jobs", "batch")
    server.access.deny("get", "pods/log")
    assert client.may(*wanted) == tuple(wanted[:2])
    refused = client.create(
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {}}
    )
    assert isinstance(refused, Refused)
    assert refused.status == 403


def test_a_watch_shows_what_there_is_now(server: Emulator, client: Cluster) -> None:
    client.create(pod("a"))
    with client.watch("Pod", "run=r1", keep=lambda item: item["metadata"]["uid"]) as pods:
        settles(pods, names("a"))
        client.create(pod("b"))
        seen = settles(pods, names("a", "b"))
        assert all(isinstance(kept, str) for kept in seen.values())
        client.delete("Pod", "a", grace_s=0)
        settles(pods, names("b"))
    assert server.requests.count("list", "pods") == 1
    assert server.requests.count("watch", "pods") == 1
    assert server.requests.count("get", "pods") == 0


def test_a_watch_that_is_cut_goes_on_from_where_it_stood(server: Emulator, client: Cluster) -> None:
    with client.watch("Pod") as pods:
        settles(pods, names())
        for number in range(5):
            client.create(pod(f"p{number}"))
            server.faults.cut_watches()
        settles(pods, names("p0", "p1", "p2", "p3", "p4"))
    assert server.requests.count("list", "pods") <= 2


@pytest.mark.parametrize("inside_event", [False, True])
def test_a_watch_that_is_cut_or_ended_takes_each_event_in_once(
    inside_event: bool, server: Emulator, client: Cluster
) -> None:
    taken: list[tuple[str, str]] = []

    def keep(item: Mapping[str, Any]) -> None:
        taken.append((item["metadata"]["name"], item["metadata"]["resourceVersion"]))

    with client.watch("Pod", keep=keep) as pods:
        settles(pods, names())
        # What comes after the list, the watch has told.
        client.create(pod("a"))
        settles(pods, names("a"))
        if inside_event:
            server.faults.cut_watches(inside_event=True)
        else:
            server.faults.end_watches()
        client.create(pod("b"))
        settles(pods, names("a", "b"))
    assert {name for name, _ in taken} == {"a", "b"}
    assert len({*taken}) == len(taken)
    assert server.requests.count("list", "pods") == 1
    assert server.requests.count("watch", "pods") == 2


def test_a_version_that_is_too_old_leads_to_a_list(server: Emulator, client: Cluster) -> None:
    with client.watch("Pod") as pods:
        settles(pods, names())
        server.faults.answer(410, 1, verb="watch", resource="pods")
        server.faults.cut_watches()
        client.create(pod("a"))
        settles(pods, names("a"))
        server.compact()
        server.faults.cut_watches()
        client.create(pod("b"))
        settles(pods, names("a", "b"))


def test_a_watch_without_a_word_lists_again(server: Emulator, client: Cluster) -> None:
    with client.watch("Pod", silence_s=1.5) as pods:
        settles(pods, names())
        server.faults.freeze_watches()
        client.create(pod("a"))
        settles(pods, names("a"))


def test_bookmarks_alone_keep_a_watch(server: Emulator, client: Cluster) -> None:
    with client.watch("Pod", silence_s=3) as pods:
        settles(pods, names())
        # The list itself is a change, which may have come before anybody waited for one.
        pods.wait_for_change(0)
        assert not any(pods.wait_for_change(1.2) for _ in range(5))
    assert server.requests.count("list", "pods") == 1
    assert server.requests.count("watch", "pods") == 1


def test_a_watch_says_that_it_does_not_know(server: Emulator) -> None:
    with connect(kubeconfig=server.kubeconfig, environ={}, patience_s=0.5) as client:
        client.create(pod("a"))
        with client.watch("Pod") as pods:
            settles(pods, names("a"))
            server.faults.answer(503, 1000)
            server.faults.cut_watches()
            silence = settles(pods, lambda seen: isinstance(seen, NoAnswer))
            assert "503" in silence.words
            server.faults.clear()
            settles(pods, names("a"))


def test_a_refused_watch_makes_no_busy_loop(server: Emulator, client: Cluster) -> None:
    server.access.deny("watch", "pods")
    with client.watch("Pod") as pods:
        settles(pods, names())
        pods.wait_for_change(0)
        pods.wait_for_change(3)
    assert server.requests.count() <= 10


def test_the_log_of_a_pod_comes_as_it_is(cluster: Emulator) -> None:
    with connect(kubeconfig=cluster.kubeconfig, environ={}, patience_s=10) as client:
        container = {"name": "main", "image": "busybox", "command": ["sh", "-c", "printf 'é\\n2'"]}
        client.create(pod("a", containers=[container]))
        with client.watch("Pod", keep=lambda item: item["status"].get("phase")) as pods:
            settles(pods, lambda seen: seen == {"a": "Succeeded"})
        pieces = client.log("a", "main")
        assert b"".join(pieces).decode() == "é\n2"
        missing = client.log("b", "main")
        assert isinstance(missing, Refused)
        assert missing.status == 404
    assert cluster.get(JOB, "a") is None


def test_a_proxys_page_is_no_word_on_whether_an_object_exists(tmp_path: Path) -> None:
    with serve(404, b"<html>nothing here</html>") as url:
        config = write_config(tmp_path, url)
        with connect(kubeconfig=config, environ={}, patience_s=1) as client:
            answer = client.get("Pod", "a")
            assert isinstance(answer, NoAnswer)
            assert "proxy" in answer.words
            assert isinstance(client.delete("Pod", "a"), NoAnswer)


def test_a_kind_that_lacks_is_no_object_that_lacks(tmp_path: Path) -> None:
    with serve(404, b"404 page not found\n") as url:
        config = write_config(tmp_path, url)
        with connect(kubeconfig=config, environ={}, patience_s=1) as client:
            assert isinstance(client.list("LocalQueue"), Refused)
            assert isinstance(client.get("LocalQueue", "a"), Refused)


def test_a_page_of_success_that_is_no_json_is_a_silence(tmp_path: Path) -> None:
    with serve(200, b"<html>Please log in</html>") as url:
        config = write_config(tmp_path, url)
        with connect(kubeconfig=config, environ={}, patience_s=1) as client:
            assert isinstance(client.create(pod("a")), NoAnswer)
            assert isinstance(client.list("Pod"), NoAnswer)
            assert isinstance(client.may(Right("list", "pods")), NoAnswer)


def write_config(directory: Path, url: str) -> Path:
    path = directory / "config"
    path.write_text(
        f"current-context: a\ncontexts: [{{name: a, context: {{cluster: a}}}}]\n"
        f"clusters: [{{name: a, cluster: {{server: '{url}'}}}}]\n"
    )
    return path


@contextlib.contextmanager
def serve(status: int, body: bytes) -> Iterator[str]:
    """Answer every request alike, as what stands in front of a cluster may do."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_DELETE = answer  # noqa: N815 - their names are the library's

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()
