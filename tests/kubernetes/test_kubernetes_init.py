"""`tarmac cluster init kubernetes` prints what a cluster takes, and no more than is needed."""

from __future__ import annotations

from typing import Any

import kubernetes_validate
import pytest
import yaml
from click.testing import CliRunner

from tarmac.cli.commands.cluster import command
from tarmac.errors import RequestError
from tarmac.kubernetes import RIGHTS

VERSIONS = ("1.35", "1.36", "1.37")
EVERYTHING = (
    "--namespace team --user me --group us --service-account runner --volume runs --size 1Ti "
    "--storage-class nfs --check-daemonset registry.test/tarmac:1 --problem-detector"
)


def printed(words: str) -> list[dict[str, Any]]:
    arguments = ["init", "kubernetes", *words.split()]
    done = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return list(yaml.safe_load_all(done.output))


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_printed_is_valid_in_the_newest_versions(version: str) -> None:
    manifests = printed(EVERYTHING)
    assert [it["kind"] for it in manifests] == [
        "ServiceAccount",
        "Role",
        "RoleBinding",
        "PersistentVolumeClaim",
        "DaemonSet",
        "ServiceAccount",
        "ClusterRoleBinding",
        "DaemonSet",
    ]
    for manifest in manifests:
        kubernetes_validate.validate(manifest, version, strict=True)


def test_the_least_is_a_role_and_who_has_it() -> None:
    role, binding = printed("--namespace team --group us")
    given = {
        (verb, resource, group)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert given == set(RIGHTS)
    assert binding["metadata"]["namespace"] == "team"
    assert [(it["kind"], it["name"]) for it in binding["subjects"]] == [("Group", "us")]


def test_somebody_has_to_be_named() -> None:
    with pytest.raises(RequestError, match="no user or group is named"):
        CliRunner().invoke(command, ["init", "kubernetes"], catch_exceptions=False)
