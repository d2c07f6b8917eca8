"""Recorded failures of ``failures/containers.toml``, by code."""

from __future__ import annotations

from recorded.evidence import ABSENT, CARD, DOCKER, machine, text, with_gpu
from tarmac.checks.evidence import Container, Driver, Evidence, Limits

RECORDED: dict[str, list[Evidence]] = {
    "no-gpus-flag": [
        Evidence(
            inventory=machine(
                container=Container(kind="docker"),
                driver=Driver(
                    nvml_error="NVML: NVML Shared Library Not Found", modules=("nvidia",)
                ),
                cards=(CARD,),
            )
        )
    ],
    "toolkit-missing": [
        text(
            "docker: Error response from daemon: could not select device driver "
            '"" with capabilities: [[gpu]].'
        ),
        text('could not select device driver "nvidia" with capabilities: [[gpu]]'),
        text(
            "Warning  FailedCreatePodSandBox  12s (x10 over 2m11s)  kubelet  Failed to create pod "
            "sandbox: rpc error: code = Unknown desc = failed to get sandbox runtime: no runtime "
            'for "nvidia" is configured'
        ),
        text(
            'level=error msg="RunPodSandbox failed" error="failed to get sandbox runtime: no '
            'runtime for \\"nvidia\\" is configured"'
        ),
        text(
            "docker: Error response from daemon: failed to discover GPU vendor from CDI: no known "
            "GPU vendor found"
        ),
        text("Error: setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=all"),
        text(
            'level=error error="CDI device injection failed: unresolvable CDI devices '
            'nvidia.com/pgpu=vfio1"'
        ),
    ],
    "cdi-stale": [
        text(
            "Error: setting up CDI devices: failed to inject devices: failed to stat CDI host "
            'device "/dev/dri/renderD129": no such file or directory'
        )
    ],
    "image-needs-driver": [
        text(
            "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8, please "
            "update your driver to a newer version, or use an earlier cuda container: unknown"
        )
    ],
    "host-driver-missing": [
        text("INFO:    Could not find any nv files on this host!"),
        text(
            "nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1: "
            "cannot open shared object file: no such file or directory: unknown"
        ),
    ],
    "nvml-unknown": [
        Evidence(
            inventory=machine(container=DOCKER, driver=Driver(nvml_error="NVML: Unknown Error"))
        ),
        text("Failed to initialize NVML: Unknown Error"),
        Evidence(inventory=machine(driver=Driver(nvml_error="NVML: Unknown Error"))),
    ],
    "driver-caps": [
        Evidence(
            inventory=machine(
                container=Container(kind="docker", device_nodes=("nvidia0", "nvidiactl")),
                driver=Driver(
                    nvml_error="NVML: NVML Shared Library Not Found", modules=("nvidia",)
                ),
                environment={"NVIDIA_DRIVER_CAPABILITIES": "graphics"},
            )
        )
    ],
    "k8s-no-plugin": [
        text("0/3 nodes are available: 3 Insufficient nvidia.com/gpu. preemption: 0/3 nodes")
    ],
    "container-command": [
        text(
            "docker: Error response from daemon: OCI runtime create failed: runc create failed: "
            'unable to start container process: exec: "python": executable file not found in $PATH'
        ),
        text(
            'OCI runtime create failed: container_linux.go:345: starting container process caused "'
            'exec: \\"ffprobe\\": executable file not found in $PATH": unknown.'
        ),
        text(
            'unable to start container process: exec: "./run_and_time.sh": stat ./run_and_time.sh: '
            "no such file or directory: unknown."
        ),
        text("Error: crun: executable file `python` not found in $PATH: No such file or directory"),
    ],
    "wsl-libcuda": [
        Evidence(
            inventory=machine(
                container=Container(kind="wsl", device_nodes=("dxg",)),
                driver=Driver(nvml_error="NVML: NVML Shared Library Not Found"),
            )
        )
    ],
    "cgroup-cpu": [Evidence(inventory=with_gpu(limits=Limits(cpus=1.0)))],
}

RECORDED["wsl-libcuda"] += [
    text("Failed to initialize NVML: GPU access blocked by the operating system")
]
RECORDED["toolkit-missing"] += [
    text("Error response from daemon: unknown or invalid runtime name: nvidia"),
    text("docker: Error response from daemon: Unknown runtime specified nvidia."),
    text('exec: "nvidia-container-runtime": executable file not found in $PATH'),
]
RECORDED["k8s-no-plugin"] += [text("0/3 nodes are available: 3 Insufficient amd.com/gpu.")]

RECORDED |= {
    "container-devices": [
        text(
            "nvidia-container-cli: mount error: failed to add device rules: unable to find any "
            "existing device filters attached to the cgroup: operation not permitted: unknown."
        )
    ],
    "container-toolkit": [
        text(
            'Error: OCI runtime error: crun: {"msg":"error executing hook '
            '`/usr/bin/nvidia-cdi-hook` (exit code: 1)","level":"error"}'
        ),
        text("nvidia-container-cli: device error: 1: unknown device: unknown"),
        text("nvidia-ctk: generating the CDI specification failed"),
        text("error running prestart hook #0: exit status 1, stderr: nvidia-container-runtime"),
    ],
    "nvml-error": [text("Failed to initialize NVML: Timeout")],
}

# What comes close, and is no such failure, by code.
CLOSE: dict[str, list[Evidence]] = {
    "no-gpus-flag": [
        # The host has no NVIDIA driver either.
        Evidence(inventory=machine(container=DOCKER, driver=ABSENT)),
        Evidence(inventory=with_gpu(container=Container(kind="docker", device_nodes=("nvidia0",)))),
    ],
    "toolkit-missing": [
        text("docker: 'gpu' is not a docker command."),
        text("Error: setting up CDI devices: unresolvable CDI devices vendor.com/nic=all"),
    ],
    "cdi-stale": [text('level=info msg="generated CDI spec for host device /dev/dri/renderD129"')],
    "image-needs-driver": [text("pip: unsatisfied condition: numpy>=1.26")],
    "host-driver-missing": [text("load library failed: libnvidia-encode.so.1")],
    "nvml-unknown": [Evidence(inventory=machine(driver=ABSENT))],
    "driver-caps": [
        Evidence(
            inventory=with_gpu(
                container=Container(kind="docker", device_nodes=("nvidia0", "nvidiactl")),
                environment={"NVIDIA_DRIVER_CAPABILITIES": "compute,utility"},
            )
        )
    ],
    "k8s-no-plugin": [text("0/3 nodes are available: 3 Insufficient cpu.")],
    "container-command": [
        # The toolkit itself is not there.
        text('exec: "nvidia-container-runtime": executable file not found in $PATH: unknown'),
        text('exec: "python": looking for it in $PATH'),
    ],
    "wsl-libcuda": [
        Evidence(
            inventory=with_gpu(container=Container(kind="wsl", device_nodes=("dxg",))),
        ),
        Evidence(inventory=machine(container=Container(kind="wsl"), driver=ABSENT)),
    ],
    "cgroup-cpu": [
        Evidence(inventory=with_gpu(limits=Limits(cpus=2.0))),
        Evidence(inventory=machine(limits=Limits(cpus=1.0))),
    ],
}
