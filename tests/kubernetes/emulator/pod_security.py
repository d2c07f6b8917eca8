"""What the restricted Pod Security Standard demands of a pod, field by field.

The lists are those of https://kubernetes.io/docs/concepts/security/pod-security-standards/ as of
1.36, Baseline and Restricted, for Linux. The words are those of the server's own plug-in
(k8s.io/pod-security-admission/policy), as a real server of 1.36.2 has said them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_VOLUMES = {
    *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral"),
    *("persistentVolumeClaim", "projected", "secret"),
}


def violations(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the restricted standard has against a pod's spec."""
    pod = spec.get("securityContext") or {}
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(name):
            yield f"host namespaces ({name}=true)"
    for volume in spec.get("volumes") or ():
        if not (set(volume) - {"name"} <= _VOLUMES):
            yield f"restricted volume types ({volume['name']})"
    if pod.get("sysctls"):
        yield "forbidden sysctls"
    for container in [*(spec.get("initContainers") or ()), *spec["containers"]]:
        for words in _of_container(pod, container):
            yield f"{words} ({container['name']})"


def _of_container(pod: Mapping[str, Any], container: Mapping[str, Any]) -> Iterator[str]:
    own = container.get("securityContext") or {}
    capabilities = own.get("capabilities") or {}
    profile = own.get("seccompProfile") or pod.get("seccompProfile") or {}
    if own.get("privileged"):
        yield "privileged"
    if own.get("allowPrivilegeEscalation") is not False:
        yield "allowPrivilegeEscalation != false"
    if "ALL" not in (capabilities.get("drop") or ()):
        yield "unrestricted capabilities"
    if not set(capabilities.get("add") or ()) <= {"NET_BIND_SERVICE"}:
        yield "non-default capabilities"
    if own.get("procMount", "Default") != "Default":
        yield "procMount"
    if own.get("runAsNonRoot", pod.get("runAsNonRoot")) is not True:
        yield "runAsNonRoot != true"
    if own.get("runAsUser", pod.get("runAsUser")) == 0:
        yield "runAsUser=0"
    if profile.get("type") not in ("RuntimeDefault", "Localhost"):
        yield "seccompProfile"
    if any(port.get("hostPort") for port in container.get("ports") or ()):
        yield "hostPort"
