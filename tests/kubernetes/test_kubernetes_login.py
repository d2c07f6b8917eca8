"""Kubeconfigs and logins: found and merged as kubectl does it, and told in words otherwise."""

from __future__ import annotations

import base64
import datetime
import os
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from emulator import Emulator

from tarmac.errors import RequestError, TarmacError
from tarmac.kubernetes import NoAnswer, Version, connect
from tarmac.kubernetes.credentials import read_credentials, tls_of
from tarmac.kubernetes.kubeconfig import find_place

NOW = 1_000_000.0


def write(path: Path, *contexts: str, current: str = "", **user: Any) -> Path:
    """Write a kubeconfig whose contexts have clusters and users of the same name."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": current,
        "contexts": [
            {"name": name, "context": {"cluster": name, "user": name, "namespace": f"of-{name}"}}
            for name in contexts
        ],
        "clusters": [
            {"name": name, "cluster": {"server": f"https://{name}.test:6443/"}} for name in contexts
        ],
        "users": [{"name": name, "user": user or {"token": "s3cret"}} for name in contexts],
    }
    path.write_text(yaml.safe_dump(config))
    return path


def test_several_files_are_one_and_the_first_decides(tmp_path: Path) -> None:
    first = write(tmp_path / "1", "a", current="a")
    second = write(tmp_path / "2", "a", "b", current="b", token="other")
    environ = {"KUBECONFIG": f"{first}:{tmp_path / 'missing'}:{second}"}
    place = find_place(environ)
    assert (place.server, place.namespace) == ("https://a.test:6443", "of-a")
    assert place.login is not None
    assert place.login.file == first
    assert find_place(environ, context="b").server == "https://b.test:6443"
    assert find_place(environ, namespace="mine").namespace == "mine"


def test_a_context_that_is_split_over_files_is_put_together(tmp_path: Path) -> None:
    first, second = tmp_path / "1", write(tmp_path / "2", "a")
    context = {"name": "x", "context": {"cluster": "a", "user": "a"}}
    first.write_text(yaml.safe_dump({"current-context": "x", "contexts": [context]}))
    place = find_place({"KUBECONFIG": f"{first}:{second}"})
    assert (place.server, place.namespace) == ("https://a.test:6443", "default")


def test_the_home_directorys_is_the_last_resort(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    write(tmp_path / ".kube" / "config", "a", current="a")
    assert find_place({"HOME": str(tmp_path)}).namespace == "of-a"


def test_a_pod_has_a_service_account(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t1\n")
    (tmp_path / "namespace").write_text("team")
    environ = {
        "HOME": str(tmp_path),
        "KUBERNETES_SERVICE_HOST": "10.0.0.1",
        "KUBERNETES_SERVICE_PORT": "443",
    }
    place = find_place(environ, service_account=tmp_path)
    assert (place.server, place.namespace) == ("https://10.0.0.1:443", "team")
    assert read_credentials(place, {}, NOW).header == "Bearer t1"
    (tmp_path / "token").write_text("t2")
    assert read_credentials(place, {}, NOW).header == "Bearer t2"


def test_what_is_wrong_with_a_kubeconfig_is_said_without_its_secrets(tmp_path: Path) -> None:
    file = tmp_path / "config"
    told: list[str] = []

    def refuse(**asked: Any) -> str:
        with pytest.raises(RequestError) as caught:
            find_place({"KUBECONFIG": str(file)}, **asked)
        told.append(str(caught.value))
        return told[-1]

    assert "KUBECONFIG=FILE" in refuse()
    file.write_text("users:\n- token: [s3cret\n")
    assert "line" in refuse()
    file.write_text("- s3cret")
    assert "is not a kubeconfig" in refuse()
    write(file, "team-a", "team-b")
    assert "use-context" in refuse()
    assert "did you mean 'team-a'" in refuse(context="taem-a")
    write(file, "a", current="a")
    config = yaml.safe_load(file.read_text())
    config["contexts"][0]["context"]["user"] = "nobody"
    file.write_text(yaml.safe_dump(config))
    assert "'nobody', which is not in" in refuse()
    assert all(str(file) in words for words in told)
    assert not any("s3cret" in words for words in told)


def plugin(tmp_path: Path, body: str, **entry: Any) -> Any:
    """Write a kubeconfig whose user logs in by a script beside it."""
    script = tmp_path / "login.py"
    script.write_text(f'#!/usr/bin/env -S "{sys.executable}"\nimport json, os, sys\n{body}\n')
    script.chmod(0o755)
    fields = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "./login.py",
        "interactiveMode": "IfAvailable",
    } | entry
    write(tmp_path / "config", "a", current="a", exec=fields)
    return find_place({"KUBECONFIG": str(tmp_path / "config")})


def test_a_plug_in_gives_a_token_until_it_expires(tmp_path: Path) -> None:
    place = plugin(
        tmp_path,
        "info = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
        "token = '-'.join([*sys.argv[1:], os.environ['WHO'], info['spec']['cluster']['server']])\n"
        "status = {'token': token, 'expirationTimestamp': '2030-01-01T00:00:00Z'}\n"
        "json.dump({'apiVersion': info['apiVersion'], 'kind': 'ExecCredential', "
        "'status': status}, sys.stdout)",
        args=["x"],
        env=[{"name": "WHO", "value": "me"}],
        provideClusterInfo=True,
    )
    given = read_credentials(place, dict(os.environ), NOW)
    assert given.header == "Bearer x-me-https://a.test:6443"
    assert given.expires == datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC).timestamp()


@pytest.mark.parametrize(
    ("body", "entry", "words"),
    [
        ("sys.exit('the session is over: run `cloud login`')", {}, "run `cloud login`"),
        ("print('s3cret')", {}, "no ExecCredential"),
        ("print('{\"status\": {}}')", {}, "no ExecCredential"),
        ("", {"command": "no-such-plugin", "installHint": "Install cloud."}, "Install cloud."),
        ("", {"apiVersion": "client.authentication.k8s.io/v1alpha1"}, "v1alpha1"),
        ("", {"interactiveMode": "Always"}, "needs an interactive login"),
    ],
)
def test_a_plug_in_that_fails_is_quoted(
    tmp_path: Path, body: str, entry: dict[str, Any], words: str
) -> None:
    with pytest.raises(RequestError) as caught:
        read_credentials(plugin(tmp_path, body, **entry), dict(os.environ), NOW)
    assert words in str(caught.value)
    assert "s3cret" not in str(caught.value)


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for the name ``right.test`` and its key."""
    if not shutil.which("openssl"):
        pytest.skip("makes certificates by openssl; run: apt-get install openssl")
    key, crt = tmp_path / "key.pem", tmp_path / "crt.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-nodes", "-keyout", str(key), "-out", str(crt), "-subj", "/CN=right.test"]
    command += ["-addext", "subjectAltName=DNS:right.test", "-days", "2"]
    subprocess.run(command, check=True, capture_output=True)
    return crt, key


def test_keys_given_inline_are_in_no_file(
    tmp_path: Path, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = [base64.b64encode(path.read_bytes()).decode() for path in certificate]
    fields = {"client-certificate-data": data[0], "client-key-data": data[1]}
    write(tmp_path / "config", "a", current="a", **fields)
    # Nor are they while they are read, which a process may not live to the end of.
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    place = find_place({"KUBECONFIG": str(tmp_path / "config")})
    assert isinstance(tls_of(place, read_credentials(place, {}, NOW)), ssl.SSLContext)


def test_certificates_are_found_beside_the_kubeconfig(
    tmp_path: Path, certificate: tuple[Path, Path]
) -> None:
    fields = {"client-certificate": certificate[0].name, "client-key": certificate[1].name}
    write(tmp_path / "config", "a", current="a", **fields)
    place = find_place({"KUBECONFIG": str(tmp_path / "config")})
    tls_of(place, read_credentials(place, {}, NOW))
    certificate[1].unlink()
    with pytest.raises(RequestError, match=r"client-key .*key.pem"):
        read_credentials(place, {}, NOW)


def test_an_address_that_does_not_answer_is_told(tmp_path: Path) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        server = f"https://127.0.0.1:{reserved.getsockname()[1]}"
        write(tmp_path / "config", "a", current="a")
        config = yaml.safe_load((tmp_path / "config").read_text())
        config["clusters"][0]["cluster"]["server"] = server
        (tmp_path / "config").write_text(yaml.safe_dump(config))
        with connect(kubeconfig=tmp_path / "config", environ={}) as cluster:
            silence = cluster.version()
    assert isinstance(silence, NoAnswer)
    assert server in silence.words
    assert "is the server up?" in silence.words
    assert "s3cret" not in silence.words


def changed(server: Emulator, tmp_path: Path, **fields: Any) -> Path:
    """Write a server's kubeconfig with another entry for its cluster."""
    config = yaml.safe_load(server.kubeconfig.read_text())
    cluster = config["clusters"][0]["cluster"]
    for key, value in fields.items():
        cluster[key.replace("_", "-")] = value
    cluster = {key: value for key, value in cluster.items() if value is not None}
    config["clusters"][0]["cluster"] = cluster
    path = tmp_path / "changed"
    path.write_text(yaml.safe_dump(config))
    return path


def test_a_certificate_decides_whom_we_talk_to(
    start_cluster: Callable[..., Emulator], tmp_path: Path
) -> None:
    server = start_cluster(nodes=0, tls=True)

    def asked(**fields: Any) -> Version | NoAnswer:
        with connect(kubeconfig=changed(server, tmp_path, **fields), environ={}) as cluster:
            return cluster.version()

    assert isinstance(asked(), Version)
    # A real cluster's may be named as a file.
    untold = {"certificate_authority_data": None, "certificate_authority": None}
    unknown = asked(**untold)
    assert isinstance(unknown, NoAnswer)
    assert "certificate" in unknown.words
    assert str(tmp_path / "changed") in unknown.words
    wrong = asked(tls_server_name="wrong.test")
    assert isinstance(wrong, NoAnswer)
    assert "wrong.test" in wrong.words
    assert isinstance(asked(**untold, insecure_skip_tls_verify=True), Version)


def test_a_proxy_is_asked_and_told(start_cluster: Callable[..., Emulator], tmp_path: Path) -> None:
    server = start_cluster(nodes=0)
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        proxy = f"http://127.0.0.1:{reserved.getsockname()[1]}"
        with connect(kubeconfig=changed(server, tmp_path, proxy_url=proxy), environ={}) as cluster:
            assert isinstance(cluster.version(), NoAnswer)
    with pytest.raises(TarmacError, match="proxy-url"):
        connect(kubeconfig=changed(server, tmp_path, proxy_url="nonsense"), environ={})


def test_no_secret_is_shown_by_what_is_printed_of_a_login(tmp_path: Path) -> None:
    write(tmp_path / "config", "a", current="a")
    place = find_place({"KUBECONFIG": str(tmp_path / "config")})
    shown = repr([place, place.login, read_credentials(place, {}, NOW)])
    assert "s3cret" not in shown
