"""Tests of `.ci/uv`, which hands pip's settings to uv."""

from __future__ import annotations

import subprocess

import pytest

from scripts import import_script


@pytest.fixture(scope="module")
def script():
    return import_script("uv")


def test_uv_takes_packages_from_the_indexes_that_pip_takes_them_from(script):
    settings = (
        "global.index-url='https://index.example/simple'\n"
        "global.extra-index-url='\\nhttps://a.example/simple\\nfile:///b/simple'\n"
        "global.find-links='/wheels https://c.example/wheels'\n"
    )
    assert script.translated(settings) == {
        "UV_DEFAULT_INDEX": "https://index.example/simple",
        "UV_INDEX": "https://a.example/simple file:///b/simple",
        "UV_FIND_LINKS": "/wheels,https://c.example/wheels",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
    }


def test_the_environment_comes_before_a_command_s_section_and_this_before_the_global_one(script):
    settings = ":env:.cert='/env'\nglobal.cert='/global'\ninstall.cert='/install'\n"
    assert script.translated(settings)["SSL_CERT_FILE"] == "/env"
    settings = "install.timeout='7'\nglobal.timeout='8'\nwheel.timeout='9'\n"
    assert script.translated(settings)["UV_HTTP_TIMEOUT"] == "7"


def test_settings_of_pip_alone_are_not_for_uv(script):
    settings = "global.disable-pip-version-check='1'\nfreeze.all='1'\n"
    assert script.translated(settings) == {"UV_INDEX_STRATEGY": "unsafe-best-match"}


def test_what_pip_prints_is_understood(script, monkeypatch, tmp_path):
    pytest.importorskip("pip", reason="needs pip: python -m ensurepip")
    config = tmp_path / "pip.conf"
    config.write_text(
        "[global]\nextra-index-url =\n    https://a.example/it's\n    https://b.example\n"
    )
    monkeypatch.setenv("PIP_CONFIG_FILE", str(config))
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://c.example https://d.example")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    variables = script.translated(script.pip("config", "list").stdout)
    assert variables["UV_INDEX"] == "https://c.example https://d.example"
    assert variables["UV_NO_INDEX"] == "1"
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL")
    printed = script.pip("config", "list").stdout
    assert script.translated(printed)["UV_INDEX"] == "https://a.example/it's https://b.example"


def test_pip_does_the_work_where_there_is_no_uv(script, monkeypatch, capsys):
    calls = []
    monkeypatch.setattr(script, "uv_here", lambda: None)
    monkeypatch.setattr(
        script, "pip", lambda *words: calls.append(words) or subprocess.CompletedProcess(words, 3)
    )
    monkeypatch.setattr(script.sys, "argv", [".ci/uv", "pip", "install", "-e", "."])
    assert script.main() == 3
    assert calls == [("install", "--quiet", "-e", ".")]
    assert "pip takes some minutes" in capsys.readouterr().err


def test_a_home_that_cannot_be_written_costs_the_cache_alone(script, monkeypatch, tmp_path):
    uv = script.uv_here()
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    assert script.without_cache(uv, dict(script.os.environ)) == {}
    (tmp_path / "file").touch()
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "file" / "cache"))
    assert script.without_cache(uv, dict(script.os.environ)) == {"UV_NO_CACHE": "1"}
