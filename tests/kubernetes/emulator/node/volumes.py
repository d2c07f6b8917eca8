"""The volumes of a pod, as directories of this machine, and its environment variables."""

from __future__ import annotations

import base64
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..quantities import amount
from .client import Client
from .containers import Mount

_CONTENTS = {"secret", "configMap", "projected"}
_REFERENCE = re.compile(r"\$(\$?)\(([-A-Za-z0-9_.]+)\)")


class ConfigError(Exception):
    """A container's configuration names what is not there (CreateContainerConfigError)."""


class MountError(Exception):
    """A volume cannot be had yet (event FailedMount)."""


class Volumes:
    """The volumes of one pod, under a directory."""

    def __init__(
        self, client: Client, pod: Mapping[str, Any], directory: Path, claims: Path
    ) -> None:
        self._client = client
        self._namespace = pod["metadata"]["namespace"]
        self._volumes = {it["name"]: it for it in pod["spec"].get("volumes") or ()}
        self._pod = pod
        self._directory = directory
        self._claims = claims
        self._mounted: list[Path] = []

    def make(self) -> None:
        """Make all.

        Raises:
            MountError: One cannot be made yet.
        """
        for name, volume in self._volumes.items():
            place = self._directory / name
            if not place.exists():
                try:
                    self._make(place, name, volume)
                except MountError:
                    shutil.rmtree(place, ignore_errors=True)
                    raise

    def mounts(self, container: Mapping[str, Any]) -> list[Mount]:
        """Return where a container sees them."""
        found = []
        for mount in container.get("volumeMounts") or ():
            source = (self._directory / mount["name"]).resolve()
            if mount.get("subPath"):
                source /= mount["subPath"]
                if not source.exists():
                    source.mkdir(parents=True)
            volume = self._volumes[mount["name"]]
            only = bool(mount.get("readOnly")) or bool(_CONTENTS & set(volume))
            found.append(Mount(source, mount_point(mount["mountPath"]), only))
        return found

    def remove(self) -> None:
        """Take away all that was the pod's own."""
        for place in self._mounted:
            subprocess.run(["umount", "-l", place], check=False, capture_output=True)
        shutil.rmtree(self._directory, ignore_errors=True)

    def _make(self, place: Path, name: str, volume: Mapping[str, Any]) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        if "emptyDir" in volume:
            place.mkdir()
            place.chmod(0o777)
            empty = volume["emptyDir"] or {}
            if empty.get("medium") == "Memory":
                size = int(amount(empty["sizeLimit"])) if empty.get("sizeLimit") else 0
                options = f"mode=1777,size={size}" if size else "mode=1777"
                command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
                subprocess.run(command, check=True)
                self._mounted.append(place)
        elif "hostPath" in volume:
            there = Path(volume["hostPath"]["path"])
            kind = volume["hostPath"].get("type") or ""
            if kind == "DirectoryOrCreate":
                there.mkdir(parents=True, exist_ok=True)
            if not there.exists():
                raise MountError(
                    f'MountVolume.SetUp failed for volume "{name}" : hostPath type check failed: '
                    f"{there} is not a {kind.lower() or 'directory'}"
                )
            place.symlink_to(there)
        elif "persistentVolumeClaim" in volume:
            claim = volume["persistentVolumeClaim"]["claimName"]
            place.symlink_to(self._claims / self._namespace / claim)
            (self._claims / self._namespace / claim).mkdir(parents=True, exist_ok=True)
        elif "secret" in volume or "configMap" in volume:
            place.mkdir()
            self._project(place, name, volume)
        elif "projected" in volume:
            place.mkdir()
            for source in volume["projected"]["sources"]:
                self._project_source(place, name, source)
        else:
            raise MountError(f'MountVolume.SetUp failed for volume "{name}" : unknown kind')

    def _project_source(self, place: Path, name: str, source: Mapping[str, Any]) -> None:
        if "serviceAccountToken" in source:
            self._project_token(place, name, source["serviceAccountToken"])
        elif "downwardAPI" in source:
            for item in source["downwardAPI"]["items"]:
                text = self._field(item["fieldRef"]["fieldPath"], {})
                (place / item["path"]).write_text(text, encoding="utf-8")
        else:
            self._project(place, name, source)

    def _project(self, place: Path, name: str, volume: Mapping[str, Any]) -> None:
        is_secret = "secret" in volume
        asked = volume["secret" if is_secret else "configMap"]
        wanted = asked["secretName"] if "secretName" in asked else asked["name"]
        values = self.values("secrets" if is_secret else "configmaps", wanted)
        if values is None:
            if not asked.get("optional"):
                kind = "secret" if is_secret else "configmap"
                raise MountError(
                    f'MountVolume.SetUp failed for volume "{name}" : {kind} "{wanted}" not found'
                )
            values = {}
        items = asked.get("items") or [{"key": key, "path": key} for key in values]
        for item in items:
            file = place / item["path"]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(values[item["key"]])
            file.chmod(item.get("mode", asked.get("defaultMode", 0o644)))

    def _project_token(self, place: Path, name: str, asked: Mapping[str, Any]) -> None:
        account = self._pod["spec"].get("serviceAccountName") or "default"
        metadata = self._pod["metadata"]
        bound = {"kind": "Pod", "apiVersion": "v1"}
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "audiences": [asked["audience"]] if "audience" in asked else [],
                "expirationSeconds": asked.get("expirationSeconds", 3600),
                "boundObjectRef": bound | {"name": metadata["name"], "uid": metadata["uid"]},
            },
        }
        path = f"/api/v1/namespaces/{self._namespace}/serviceaccounts/{account}/token"
        answer = self._client.post(path, request)
        if answer is None:
            raise MountError(
                f'MountVolume.SetUp failed for volume "{name}" : failed to fetch token'
            )
        file = place / asked["path"]
        file.touch(0o600)
        file.write_text(answer["status"]["token"], encoding="ascii")

    def values(self, plural: str, name: str) -> dict[str, bytes] | None:
        """Return what a secret or a config map holds; None where it is not there."""
        found = self._client.get(f"/api/v1/namespaces/{self._namespace}/{plural}/{name}")
        if found is None:
            return None
        data = found.get("data") or {}
        if plural == "secrets":
            return {key: base64.b64decode(value) for key, value in data.items()}
        plain = {key: value.encode() for key, value in data.items()}
        binary = found.get("binaryData") or {}
        return plain | {key: base64.b64decode(value) for key, value in binary.items()}

    def environment(
        self, container: Mapping[str, Any], fields: Mapping[str, str]
    ) -> dict[str, str]:
        """Return the variables of a container.

        Raises:
            ConfigError: One names what is not there.
        """
        result: dict[str, str] = {}
        for source in container.get("envFrom") or ():
            plural = "secrets" if "secretRef" in source else "configmaps"
            asked = source["secretRef" if "secretRef" in source else "configMapRef"]
            values = self.values(plural, asked["name"])
            if values is None and not asked.get("optional"):
                raise ConfigError(f'{plural[:-1]} "{asked["name"]}" not found')
            prefix = source.get("prefix", "")
            result |= {prefix + key: value.decode() for key, value in (values or {}).items()}
        for variable in container.get("env") or ():
            value = self._value(variable, fields, container)
            if value is not None:
                result[variable["name"]] = expanded(value, result)
        return result

    def _value(
        self, variable: Mapping[str, Any], fields: Mapping[str, str], container: Mapping[str, Any]
    ) -> str | None:
        source = variable.get("valueFrom")
        if not source:
            return variable.get("value") or ""
        if "fieldRef" in source:
            return self._field(source["fieldRef"]["fieldPath"], fields)
        if "resourceFieldRef" in source:
            side, _, what = source["resourceFieldRef"]["resource"].partition(".")
            return str(int(amount((container["resources"].get(side) or {}).get(what, 0))))
        is_secret = "secretKeyRef" in source
        asked = source["secretKeyRef" if is_secret else "configMapKeyRef"]
        kind = "secret" if is_secret else "configmap"
        values = self.values(f"{kind}s", asked["name"])
        if values is None or asked["key"] not in values:
            if asked.get("optional"):
                return None
            if values is None:
                raise ConfigError(f'{kind} "{asked["name"]}" not found')
            told = "Secret" if is_secret else "ConfigMap"
            raise ConfigError(
                f"couldn't find key {asked['key']} in {told} {self._namespace}/{asked['name']}"
            )
        return values[asked["key"]].decode()

    def _field(self, path: str, fields: Mapping[str, str]) -> str:
        if path in fields:
            return fields[path]
        metadata = self._pod["metadata"]
        if found := re.fullmatch(r"metadata\.(labels|annotations)\['(.+)'\]", path):
            return str((metadata.get(found[1]) or {}).get(found[2], ""))
        at: Any = self._pod
        for part in path.split("."):
            at = at.get(part, "") if isinstance(at, Mapping) else ""
        return str(at)


def expanded(text: str, values: Mapping[str, str]) -> str:
    """Return text with ``$(NAME)`` filled in; names of nothing stay, ``$$(NAME)`` loses a $."""

    def fill(found: re.Match[str]) -> str:
        if found[1]:
            return found[0][1:]
        return values.get(found[2], found[0])

    return _REFERENCE.sub(fill, text)


def mount_point(path: str) -> str:
    """Return where to mount what a container sees at a path."""
    # /var/run is mostly another name for /run, by which nothing is mounted.
    rest = path.removeprefix("/var/run/")
    return path if rest == path else str(Path("/var/run").resolve() / rest)


def interpreter_path() -> str:
    """Return the PATH of an image: the usual one, and the tests' own Python behind it."""
    usual = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return f"{usual}:{Path(sys.executable).parent}"
