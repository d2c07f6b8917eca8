"""Environments of conda's packages, of a channel on this machine."""

from __future__ import annotations

import functools
import hashlib
import http.server
import platform
import re
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import tarmac
from conda_channel import index, make_package, write_lock
from tarmac.environments import CondaSpec, ProjectSpec, activated, build_venv, list_venvs
from tarmac.environments.conda.problems import problem_of
from tarmac.errors import TarmacError
from tarmac.files import OwnerLock

pytest.importorskip("rattler", reason="needs pip install 'tarmac-gpu[conda]'")


@pytest.fixture(scope="module")
def channel(tmp_path_factory):
    """Return a channel with a program, a library of two versions, and what does not fit."""
    path = tmp_path_factory.mktemp("conda") / "channel"
    make_package(
        path,
        "tool",
        files={
            "bin/tool": '#!/bin/sh\necho "tool at $TOOL_HOME"\n',
            "etc/conda/activate.d/tool.sh": 'export TOOL_HOME="$CONDA_PREFIX/share"\n',
        },
        depends=("base-lib >=2",),
    )
    for version in ("1.0", "2.1"):
        make_package(path, "base-lib", version, files={"lib/version.txt": version})
    make_package(path, "needs-old", depends=("base-lib <2",))
    make_package(path, "of-a-gpu", depends=("__cuda >=99",))
    make_package(path, "native", subdir="linux-64", files={"share/native": "yes"})
    index(path)
    return path


@pytest.fixture
def build(tmp_path, channel, monkeypatch):
    """Return a function that builds an environment of packages, in conda's form."""
    monkeypatch.setenv("RATTLER_CACHE_DIR", str(tmp_path / "packages"))

    def make(*packages, text=None, name="environment.yml"):
        content = text or f"channels: [{channel}]\ndependencies: [{', '.join(packages)}]\n"
        (tmp_path / name).write_text(content)
        return build_venv(CondaSpec(file=name), tmp_path, tmp_path / "venvs")

    return make


def test_an_environment_has_its_packages_and_what_they_need_and_is_built_once(build, tmp_path):
    path = build("tool", "native")
    assert subprocess.check_output([path / "bin/tool"], env={"TOOL_HOME": "x"}) == b"tool at x\n"
    assert (path / "lib/version.txt").read_text() == "2.1"
    assert (path / "share/native").exists()
    assert list_venvs(tmp_path / "venvs") == [(path, "native=1.0=0\ntool=1.0=0\nbase-lib=2.1=0")]
    inode = (path / "lib/version.txt").stat().st_ino
    assert build("tool", "native") == path
    assert (path / "lib/version.txt").stat().st_ino == inode


@pytest.mark.parametrize("name", ["0123456789abcdef", "0123456789abcdef.packages"])
def test_what_a_killed_builder_left_is_removed_by_the_next_one(build, tmp_path, name):
    left = tmp_path / "venvs" / name
    (left / "lib").mkdir(parents=True)
    lock = OwnerLock(tmp_path / "venvs" / "0123456789abcdef.lock")
    assert lock.acquire()
    kept = build("base-lib")
    assert left.exists()
    lock.release()
    build("tool")
    assert not left.exists()
    assert (kept / "lib/version.txt").exists()


def test_environments_share_the_files_of_their_packages(build):
    first, second = build("base-lib"), build("tool")
    assert first != second
    assert (first / "lib/version.txt").samefile(second / "lib/version.txt")


@pytest.mark.parametrize(
    "form",
    [
        *("base-lib=1.0", "base-lib==1.0", "base-lib <2", "'base-lib=1'", "base-lib=1.*"),
        *("base-lib=1.0=0", "base-lib 1.0 0", "base-lib ==1.*", "base-lib 0.9|1.0"),
    ],
)
def test_versions_are_asked_for_in_condas_forms(build, form):
    assert (build(form) / "lib/version.txt").read_text() == "1.0"


@pytest.mark.parametrize(
    ("line", "is_there"),
    [
        ("native  # [linux]", True),
        ("native # [ linux64 ]", True),
        ("native  # [unix]", True),
        ("native  # [not win]", True),
        ("native  # because of [it]", True),
        ("native  # [py36]", True),
        ("native  # [osx]", False),
        ("native  # [not linux]", False),
        ("no-such-thing  # [win]", False),
    ],
)
def test_lines_for_other_platforms_are_passed_over(build, channel, line, is_there):
    path = build(text=f"channels: [{channel}]\ndependencies:\n  - base-lib\n  - {line}\n")
    assert (path / "share/native").exists() == is_there


@pytest.mark.parametrize("form", ["environment.yml", "list.txt"])
def test_a_channel_that_never_answers_is_not_waited_for(build, monkeypatch, form):
    monkeypatch.setattr("tarmac.environments.conda.answers.ANSWER_TIMEOUT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://a:secret@127.0.0.1:{silent.getsockname()[1]}/c"
        text = f"channels: ['{url}']\ndependencies: [x]\n"
        if form == "list.txt":
            text = f"@EXPLICIT\n{url}/noarch/x-1-0.conda\n"
        with pytest.raises(TarmacError, match=r"does not answer in 0\.2 s") as raised:
            build(text=text, name=form)
    assert raised.value.message.startswith("environment: ")
    assert "secret" not in str(raised.value)


def test_one_that_was_cut_short_is_built_again(build):
    path = build("tool")
    (path / "requirements.txt").unlink()
    (path / "lib/version.txt").unlink()
    assert (build("tool") / "lib/version.txt").exists()


@pytest.mark.parametrize(
    ("packages", "words", "hint"),
    [
        (["tol"], "no package tol in .*channel", "Similar: tool"),
        (["base-lib=3"], r"no base-lib 3\.\* in .*channel", "Available: 2.1, 1.0"),
        (
            ["tool", "needs-old"],
            "needs-old 1.0 needs base-lib <2, and tool 1.0 needs base-lib >=2",
            "Ask for other versions of one of them.",
        ),
        (["__cuda>=99"], "one of the packages needs a driver with CUDA >=99", "a newer driver"),
        (["of-a-gpu"], "of-a-gpu 1.0 needs a driver with CUDA >=99", "a newer driver"),
        (["tool", "'tool = = 3'"], "2:22: 'tool = = 3': unable to parse version spec", None),
        (["tool", "{pip: [six]}"], "pip packages need python among the conda packages", None),
    ],
)
def test_what_is_wrong_is_told_in_a_line(build, tmp_path, packages, words, hint):
    with pytest.raises(TarmacError, match=rf"environment: .*environment\.yml:\s?{words}") as raised:
        build(*packages)
    assert "\n" not in raised.value.message
    assert (hint or "") in (raised.value.hint or "")
    assert not [
        path for path in (tmp_path / "venvs").iterdir() if path.is_dir() and not path.suffix
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("dependency: [x]", "environment.yml:1:1: dependencies: is missing"),
        ("dependencies: [[x]]", "environment.yml:1:16"),
        ("dependencies: [", "environment.yml:1:"),
        ("platforms: [win-64]\ndependencies: [x]", "yml:1:1: platforms: is for win-64, and this"),
        ("- a\n", "is not a conda environment"),
        ("dependencies: [{hello: 1}]", "environment.yml:1:17: dependencies[0].hello: unknown key"),
        ("dependencies: []\nvariables: [1]\n", "environment.yml:2:1: variables: expected keys"),
        ("dependencies: []\nvariables: {A=B: 1}", "environment.yml:2:13: variables"),
        ("@EXPLICIT\n", "no URL of a package follows @EXPLICIT"),
        ("@EXPLICIT\nhello=1.0\n", "environment.yml:2: no URL of a package"),
        ("@EXPLICIT\n\nh://a/noarch/b-1-0.conda#12\n", "environment.yml:3: no URL of a package"),
        ("@EXPLICIT\nh://a/osx-arm64/b-1-0.conda\n", "yml:2: b is for osx-arm64, not for linux-64"),
        ("@EXPLICIT\n/a/noarch/b-1-0.conda\n/a/noarch/b-2-0.conda\n", "yml:3: b is there twice"),
        ("channels: [./nowhere]\ndependencies: [x]", "No such file"),
        ("channels: [http://127.0.0.1:9/c]\ndependencies: [x]", "cannot be reached: Connection"),
    ],
)
def test_a_file_of_another_form_is_refused_and_a_channel_that_is_not_there(build, text, words):
    with pytest.raises(TarmacError) as raised:
        build(text=text)
    assert words in raised.value.message


def test_an_explicit_list_installs_what_it_lists_and_nothing_else(build, channel):
    urls = [
        f"{channel.as_uri()}/noarch/base-lib-1.0-0.tar.bz2",
        f"{channel}/noarch/tool-1.0-0.tar.bz2",
    ]
    path = build(text="# a comment\n@EXPLICIT\n" + "\n".join(urls) + "\n")
    assert (path / "lib/version.txt").read_text() == "1.0"
    assert (path / "bin/tool").exists()


def test_keys_without_a_value_say_nothing(build):
    text = "channels:\ndependencies:\nvariables:\n"
    assert (build(text=text) / "conda-meta").exists()


def md5_of(channel, name):
    return hashlib.md5((channel / "noarch" / name).read_bytes()).hexdigest()


def test_a_list_of_another_channel_or_digest_gets_what_it_names(build, channel, tmp_path):
    """Packages of one name, version and build, which differ."""
    other = tmp_path / "other"
    packed = make_package(other, "base-lib", "1.0", files={"lib/version.txt": "of the other"})
    urls = [f"{place}/noarch/{packed}#{md5_of(place, packed)}" for place in (channel, other)]
    texts = [f"@EXPLICIT\n{url}\n" for url in urls]
    versions = [(build(text=text) / "lib/version.txt").read_text() for text in texts]
    assert versions == ["1.0", "of the other"]


@pytest.mark.parametrize(
    ("status", "hint"),
    [
        (401, "Log in as part of the channel's URL"),
        (404, "URL is right"),
        (503, "has a problem: try again later"),
    ],
)
def test_what_a_server_answers_is_told(build, status, hint):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_error(status)

        do_HEAD = do_GET  # noqa: N815 - the server's name

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        text = f"channels: [http://127.0.0.1:{server.server_port}/c]\ndependencies: [x]\n"
        with pytest.raises(TarmacError, match=f"answers {status} ") as raised:
            build(text=text)
        server.shutdown()
    assert hint in raised.value.hint


def test_a_path_that_is_too_long_for_packages_is_told():
    text = "failed to link: target prefix cannot be longer than the placeholder prefix (...)"
    problem = problem_of(text, [])
    assert "more than 255 bytes" in problem.words
    assert "XDG_CACHE_HOME" in problem.hint


@pytest.mark.parametrize("secret", ["me:s3cret@", "s3cret-token"])
def test_a_login_of_a_channel_stays_in_its_file(build, channel, tmp_path, url, secret):
    place = url.replace("://", f"://{secret}") if "@" in secret else f"{url}/t/{secret}/c"
    path = build(text=f"channels: ['{place}']\ndependencies: [tool]\n")
    with pytest.raises(TarmacError) as raised:
        build(text=f"channels: ['{place}']\ndependencies: [tol]\n")
    assert "s3cret" not in f"{raised.value.message}{raised.value.hint}"
    records = [*path.glob("conda-meta/*.json")]
    assert records
    assert not [file for file in records if "s3cret" in file.read_text()]


@pytest.fixture
def url(channel):
    """Serve the channel, and return its URL."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def translate_path(self, path):
            # As anaconda.org has private channels.
            return super().translate_path(re.sub(r"^/t/[^/]+/c/", "/", path))

    handler = functools.partial(Handler, directory=channel)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("digest", ["0" * 32, "0" * 64, f"sha256:{'0' * 64}"])
def test_a_package_of_another_content_than_a_list_tells_is_refused(build, url, digest):
    with pytest.raises(TarmacError, match=r"base-lib-1\.0-0\.tar\.bz2.*: hash mismatch"):
        build(text=f"@EXPLICIT\n{url}/noarch/base-lib-1.0-0.tar.bz2#{digest}\n")


def test_packages_come_from_a_server(build, url):
    text = f"channels: [{url}]\ndependencies: [tool]\n"
    assert (build(text=text) / "bin/tool").exists()


def test_a_lock_is_installed_as_it_stands(build, channel, tmp_path):
    write_lock(tmp_path / "pixi.lock", channel, "base-lib=1.0")
    path = build(text=(tmp_path / "pixi.lock").read_text(), name="pixi.lock")
    assert (path / "lib/version.txt").read_text() == "1.0"


def test_of_conda_locks_categories_main_and_dev_are_installed(build, channel, tmp_path):
    entries = ""
    for name, version, category in (
        ("base-lib", "2.1", "main"),
        ("tool", "1.0", "dev"),
        ("needs-old", "1.0", "plots"),
    ):
        path = channel / f"noarch/{name}-{version}-0.tar.bz2"
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        entries += (
            f"- {{name: {name}, version: '{version}', manager: conda, platform: linux-64,\n"
            f"   dependencies: {{}}, url: '{path.as_uri()}', hash: {{sha256: {digest}}},\n"
            f"   category: {category}, optional: {'false' if category == 'main' else 'true'}}}\n"
        )
    build(
        text="version: 1\nmetadata:\n  content_hash: {linux-64: x}\n"
        "  channels: [{url: conda-forge, used_env_vars: []}]\n  platforms: [linux-64]\n"
        f"  sources: [environment.yml]\npackage:\n{entries}",
        name="conda-lock.yml",
    )
    ((_, packages),) = list_venvs(tmp_path / "venvs")
    assert sorted(packages.splitlines()) == ["base-lib=2.1=0", "tool=1.0=0"]


@pytest.mark.parametrize("place", ["a file", "/proc/nowhere"])
def test_a_cache_that_cannot_be_written_is_told_with_what_to_set(
    build, tmp_path, monkeypatch, place
):
    (tmp_path / "a file").touch()
    monkeypatch.setenv("RATTLER_CACHE_DIR", str(tmp_path / place))
    with pytest.raises(TarmacError, match="create directory") as raised:
        build("base-lib")
    assert "RATTLER_CACHE_DIR" in raised.value.hint


@pytest.fixture(scope="module")
def with_python(channel):
    """Return the channel with a Python that is this one, in a place of its own."""
    real = Path(sys.executable).resolve()
    settings = f"home = {real.parent}\nversion = {platform.python_version()}\n"
    make_package(
        channel, "python", "3.0", files={"pyvenv.cfg": settings}, links={"bin/python": str(real)}
    )
    index(channel)
    return channel


def has_tool(path):
    command = [path / "bin/python", "-I", "-m", "tool"]
    done = subprocess.run(command, capture_output=True, check=False)
    return done.stdout == b"hello\n"


def test_pips_part_of_a_file_is_installed(build, with_python, make_wheel):
    wheel = make_wheel("print('hello')\n")
    path = build("python", f"{{pip: ['{wheel}']}}")
    assert has_tool(path)
    ((_, packages),) = list_venvs(path.parent)
    assert packages == f"python=3.0=0\npip: {wheel}"
    assert not has_tool(build("python"))


def test_pips_part_of_a_lock_is_installed(build, with_python, make_wheel, tmp_path):
    wheel = make_wheel("print('hello')\n")
    write_lock(tmp_path / "made.lock", with_python, "python=3.0", pip={"tool": wheel.as_uri()})
    assert has_tool(build(text=(tmp_path / "made.lock").read_text(), name="pixi.lock"))


@pytest.fixture
def project(tmp_path):
    """Return the directory of a project whose lock a test writes."""
    path = tmp_path / "my project"
    path.mkdir()
    (path / "pyproject.toml").write_text(
        '[project]\nname = "tool"\nversion = "1.0"\n'
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    )
    return path


@pytest.mark.parametrize("is_directory", [True, False])
def test_a_project_has_what_its_lock_of_pixis_says_and_itself(
    build, with_python, project, make_wheel, is_directory
):
    wheel = make_wheel("print('hello')\n")
    shutil.copy(wheel, project)
    (project / "backend.py").write_text(
        "import shutil\n"
        "def build_editable(directory, *_):\n"
        f"    shutil.copy({str(wheel)!r}, directory)\n"
        f"    return {wheel.name!r}\n"
    )
    location = "./" if is_directory else f"./{wheel.name}"
    write_lock(
        project / "pixi.lock",
        with_python,
        "python=3.0",
        pip={"tool": location},
        named={"test": ("base-lib=2.1",)},
    )
    assert has_tool(build_venv(ProjectSpec("."), project, project.parent / "venvs"))
    named = build_venv(ProjectSpec(".", environment="test"), project, project.parent / "venvs")
    assert (named / "lib/version.txt").read_text() == "2.1"
    named = ProjectSpec("pixi.lock", environment="test")
    assert build_venv(named, project, project.parent / "venvs").exists()
    with pytest.raises(TarmacError, match=r"no environment 'tset'") as raised:
        build_venv(ProjectSpec(".", environment="tset"), project, project.parent / "venvs")
    assert raised.value.hint == "It has default, test"
    with pytest.raises(TarmacError, match=r"pixi\.lock: its environment 'default' is taken"):
        build_venv(ProjectSpec(".", groups=("test",)), project, project.parent / "venvs")


def test_variables_of_the_file_and_of_packages_are_set(build, channel):
    path = build(
        text=f"name: mine\nchannels: [{channel}]\ndependencies: [tool]\n"
        "variables: {COLOUR: blue, N: 1.10}\n"
    )
    found = activated(path, {"PATH": "/usr/bin:/bin"})
    assert found == {
        "COLOUR": "blue",
        "N": "1.10",
        "CONDA_PREFIX": str(path),
        "CONDA_DEFAULT_ENV": "mine",
        "CONDA_SHLVL": "1",
        "PATH": f"{path}/bin:/usr/bin:/bin",
        "TOOL_HOME": f"{path}/share",
    }


@pytest.mark.parametrize(
    "environment", ["{kind: conda, file: environment.yml}", "{path: my project}"]
)
def test_a_task_runs_where_its_environment_is_active(
    channel, tmp_path, monkeypatch, project, environment
):
    write_lock(project / "pixi.lock", channel, "base-lib=2.1", "tool=1.0")
    monkeypatch.setenv("RATTLER_CACHE_DIR", str(tmp_path / "packages"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "environment.yml").write_text(
        f"channels: [{channel}]\ndependencies: [tool]\nvariables: {{COLOUR: blue}}\n"
    )
    (tmp_path / "job.yaml").write_text(
        f"name: x\nenvironment: {environment}\ncommand: 'tool && echo $COLOUR $CONDA_PREFIX'\n"
    )
    run = tarmac.run(tmp_path / "job.yaml", output=tmp_path / "runs")
    (stdout,) = Path(run.path).glob("tasks/*/stdout")
    tool, other = stdout.read_text().splitlines()
    prefix = other.removeprefix("blue ")
    assert tool == f"tool at {prefix}/share"
    assert Path(prefix).is_relative_to(tmp_path / "cache")


def test_what_the_solver_tells_otherwise_stays_whole():
    told = "Cannot solve the request because of: something\n  else\n"
    assert problem_of(told, ["c"]).words == "something else"
