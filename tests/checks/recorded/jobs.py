"""Recorded failures of ``failures/jobs.toml``, by code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recorded.evidence import text

if TYPE_CHECKING:
    from tarmac.checks.evidence import Evidence

RECORDED: dict[str, list[Evidence]] = {
    "disk-full": [
        text(
            "[rank0]: RuntimeError: [enforce fail at inline_container.cc:778] . PytorchStreamWriter"
            " failed writing file data.pkl: file write failed"
        ),
        text(
            "RuntimeError: [enforce fail at inline_container.cc:319] . unexpected pos 9926808960 "
            "vs 9926808856"
        ),
        text("OSError: [Errno 28] No space left on device"),
        text("npm error ENOSPC: no space left on device, write"),
    ],
    "disk-quota": [text("OSError: [Errno 122] Disk quota exceeded")],
    "disk-broken": [
        text("OSError: [Errno 5] Input/output error"),
        text("OSError: [Errno 116] Stale file handle"),
        text("OSError: [Errno 30] Read-only file system"),
        text("ls: cannot access: Transport endpoint is not connected"),
    ],
    "time-limit": [
        text(
            "slurmstepd: error: *** JOB 123 ON n1 CANCELLED AT 2026-01-02T03:04:05 DUE TO "
            "TIME LIMIT ***"
        ),
        text(
            "Warning  DeadlineExceeded  job-controller  Job was active longer than "
            "specified deadline"
        ),
    ],
    "preempted": [
        text(
            "slurmstepd: error: *** JOB 123 ON n1 CANCELLED AT 2026-01-02T03:04:05 DUE TO "
            "PREEMPTION ***"
        ),
        text("Normal  Preempted  default-scheduler  Preempted by pod 6f1c on node n1"),
        text("  PreemptionByScheduler: preempting to accommodate a higher priority pod"),
    ],
    "node-lost": [
        text("srun: error: Node failure on n1"),
        text(
            "The node with node id: 9f2c and address: 10.0.0.2 and node name: 10.0.0.2 has been "
            "marked dead because the detector has missed too many heartbeats from it."
        ),
        text("Owner worker exit type: SYSTEM_ERROR Worker exit detail: Owner's node has crashed."),
        text(
            "slurmstepd: error: *** JOB 9 ON n1 CANCELLED AT 2026-01-02T03:04:05 DUE TO "
            "NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***"
        ),
        text("Warning  NodeNotReady  pod/a  Node is not ready"),
    ],
    "slurm-request": [
        text(
            "srun: error: Unable to create step for job 9: Memory required by task is not available"
        ),
        text("srun: error: Step requested GRES (gpu:(null)) not found in the job"),
        text(
            "sbatch: error: Batch job submission failed: Invalid generic resource (gres) "
            "specification"
        ),
        text(
            "srun: error: Unable to allocate resources: Requested node configuration is "
            "not available"
        ),
        text(
            "srun: fatal: SLURM_MEM_PER_CPU, SLURM_MEM_PER_GPU, and SLURM_MEM_PER_NODE are "
            "mutually exclusive."
        ),
        text(
            "sbatch: error: Batch job submission failed: Invalid account or "
            "account/partition combination specified"
        ),
        text(
            "srun: error: Unable to create step for job 3: More processors requested than permitted"
        ),
        text("sbatch: error: Requested partition configuration not available now"),
        text(
            "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job "
            "submit limit, user's size and/or time limits)"
        ),
        text(
            "sbatch: error: Batch job submission failed: Requested time limit is invalid (missing "
            "or exceeds some limit)"
        ),
        text("salloc: error: Unable to allocate resources: Invalid partition name specified"),
        text("srun: error: Unable to create step for job 7: Requested nodes are busy"),
        text("sbatch: error: QOSMaxGRESPerUser"),
        text("sbatch: error: AssocGrpGRES"),
    ],
    "slurm-silent": [
        text("slurm_load_jobs error: Unable to contact slurm controller (connect failure)"),
        text("sbatch: error: Batch job submission failed: Socket timed out on send/recv operation"),
        text("srun: error: Zero Bytes were transmitted or received"),
        text("srun: error: Protocol authentication error"),
        text("srun: error: Task launch for 36.0 failed on node n1: Job credential expired"),
    ],
    "k8s-image": [
        text("Warning  Failed  kubelet  Error: ErrImagePull"),
        text("Warning  Failed  kubelet  Error: ImagePullBackOff"),
        text("Failed to apply default image tag: InvalidImageName"),
        text(
            "Error response from daemon: manifest for a/b:c not found: manifest unknown: "
            "manifest unknown"
        ),
        text("pull access denied for a/b, repository does not exist"),
        text("docker: no matching manifest for linux/arm64/v8 in the manifest list entries"),
    ],
    "k8s-evicted": [
        text("Message: The node was low on resource: ephemeral-storage. Threshold quantity: 1Gi"),
        text(
            "Message: Pod ephemeral local storage usage exceeds the total limit of containers 10Gi."
        ),
        text('Warning  Evicted  kubelet  Usage of EmptyDir volume "shm" exceeds the limit "8Gi".'),
        text("Message: The node had condition: [DiskPressure]."),
    ],
    "pyxis": [
        text("slurmstepd: error: pyxis: couldn't start container"),
        text(
            "slurmstepd: error: spank: required plugin spank_pyxis.so: task_init() failed with "
            "rc=-1"
        ),
    ],
    "k8s-claim": [
        text(
            "Warning  FailedPrepareDynamicResources  kubelet  Failed to prepare dynamic resources: "
            "failed to fetch ResourceClaim a referenced by pod b: the server could not find the "
            "requested resource"
        ),
        text("0/2 nodes are available: 2 cannot allocate all claims."),
    ],
    "nvshmem": [
        text(
            "/src/main_nvshmem/src/modules/transport/ibgda/ibgda.cpp:2234: NULL value Unable to "
            "create ah."
        ),
        text(
            "/w/nvshmem/src/host/init/init.cu:327: non-zero status: 7 bootstrap_init failed\n"
            "aborting due to error in nvshmemi_init_thread"
        ),
        text("NVSHMEM API called before NVSHMEM initialization has completed"),
    ],
    "k8s-gpu-unhealthy": [
        text(
            "Warning  UnexpectedAdmissionError  kubelet  Allocate failed due to no healthy "
            "devices present; cannot allocate unhealthy devices nvidia.com/gpu, which is "
            "unexpected"
        ),
        text(
            "Allocate failed due to device plugin GetPreferredAllocation rpc failed with "
            "err: rpc error"
        ),
    ],
    "k8s-refused": [
        text("Warning  FailedScheduling  volcano  queue resource quota insufficient"),
        text(
            'Error creating: pods "a" is forbidden: exceeded quota: gpu, requested: '
            "requests.nvidia.com/gpu=8"
        ),
        text(
            'pods "a" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true'
        ),
        text(
            'jobs.batch is forbidden: User "u" cannot create resource "jobs" in API group "batch"'
        ),
        text('admission webhook "v.kueue.x-k8s.io" denied the request: spec.x'),
    ],
    "k8s-mount": [
        text("Warning  FailedMount  kubelet  Unable to attach or mount volumes"),
        text("Warning  FailedAttachVolume  attachdetach-controller  Multi-Attach error"),
        text('MountVolume.SetUp failed for volume "a" : secret "b" not found'),
        text("0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims."),
    ],
    "k8s-taint": [
        text(
            "0/5 nodes are available: 1 node(s) had untolerated taint "
            "{node-role.kubernetes.io/control-plane: }, 4 node(s) had untolerated taint "
            "{nvidia.com/gpu: present}. preemption: 0/5 nodes are available"
        ),
        text("0/1 nodes are available: 1 node(s) had taints that the pod didn't tolerate."),
    ],
    "rendezvous-timeout": [
        text(
            "Stopping coordination service as cluster registration failed. This may be due to 1) "
            "some tasks crashed earlier before connecting, 2) some tasks were never scheduled"
        ),
        text(
            "torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for "
            "clients. 1/3 clients joined."
        ),
        text(
            "torch.distributed.DistNetworkError: The client socket has timed out after "
            "600000ms while trying to connect to (10.0.0.1, 29500)."
        ),
        text("torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError"),
        text(
            "E external/xla/xla/service/rendezvous.cc:38] This thread has been waiting for "
            "`initialize clique for rank 6` for 10 seconds and may be stuck. Expected 8 threads "
            "to join the rendezvous, but not all of them arrived on time."
        ),
        text("torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection"),
        text(
            "[Rank 0]: Rank 1 successfully reached monitoredBarrier, but received errors "
            "while waiting for send/recv from rank 0."
        ),
        text(
            "jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. "
            "Id: PjRT_Client_Connect"
        ),
        text(
            "torch.distributed.DistStoreError: wait timeout after 600000ms, keys: "
            "/default_pg/0//cuda//0"
        ),
    ],
    "rank-variables": [
        text(
            "ValueError: Error initializing torch.distributed using env:// rendezvous: "
            "environment variable RANK expected, but not set"
        ),
        text(
            "ValueError: Default process group has not been initialized, please make sure "
            "to call init_process_group."
        ),
        text("init.cc:1 NCCL WARN Invalid rank requested : 9/8"),
    ],
    "collectives-differ": [
        text(
            "RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is "
            "running collective: CollectiveFingerPrint"
        ),
        text("proxy.cc:1 NCCL WARN Message truncated : received 8 bytes instead of 4"),
    ],
    "ib-broken": [
        text("NCCL WARN NET/IB : Got async event : port error"),
        text(
            "transport/net_ib.cc:101 NCCL WARN NET/IB : mlx5_0:1 Got async event : local access "
            "violation work queue error"
        ),
        text(
            "n1:9:9 [4] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from "
            "peer 10.0.0.2<54862> with status=12 opcode=0 len=0 vendor err 129 (Recv)"
        ),
        text("NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out"),
        text("net_ib.cc:1 NCCL WARN NET/IB : mlx5_0:1 async fatal event: port error"),
        text("NCCL WARN Call to ibv_poll_cq() returned -1"),
    ],
    "nccl-nvls": [
        text("n1:9:9 [0] transport/nvls.cc:254 NCCL WARN Cuda failure 1 'invalid argument'"),
        text(
            "transport/nvls.cc:1 NCCL WARN Failed to bind NVLink SHARP (NVLS) Multicast "
            "memory of size 2097152 : CUDA error 801"
        ),
    ],
    "nccl-warn": [
        text(
            "n1:9:9 [0] init.cc:1 NCCL WARN Attempt to use communicator before the previous "
            "operation returned ncclSuccess\nRuntimeError: NCCL error: invalid usage (run with "
            "NCCL_DEBUG=WARN for details)"
        )
    ],
    "mpi-init": [
        text(
            "pml_ucx.c:431  Error: ucp_ep_create(proc=509) failed: Out of memory\n"
            "It looks like MPI_INIT failed for some reason; your parallel process is\n"
            "likely to abort."
        ),
        text("*** An error occurred in MPI_Init_thread"),
        text("  PML add procs failed\n  --> Returned Error (-1) instead of Success (0)"),
    ],
    "mpi-start": [
        text("There are not enough slots available in the system to satisfy the 8 slots"),
        text("mpirun has detected an attempt to run as root."),
        text("ORTE was unable to reliably start one or more daemons."),
        text("Host key verification failed."),
        text("git@x: Permission denied (publickey)."),
    ],
    "image-processor": [text("exec /usr/bin/python: exec format error")],
    "engine-silent": [
        text(
            "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the "
            "docker daemon running?"
        ),
        text(
            "permission denied while trying to connect to the Docker daemon socket at "
            "unix:///var/run/docker.sock"
        ),
    ],
    "dcgm-unreachable": [
        text("Error: unable to establish a connection to the specified host: localhost"),
        text("Error: nv-hostengine is not running"),
    ],
    "nvidia-permission": [
        text("Failed to initialize NVML: Insufficient Permissions"),
        text("nvidia-modprobe: /dev/nvidia0: Operation not permitted"),
        text("open(/dev/nvidiactl) failed: Permission denied"),
    ],
    "slurm-node-gpus": [
        text(
            "slurmd: error: Waiting for gres.conf file /dev/nvidia0\n"
            "slurmd: fatal: can't stat gres.conf file /dev/nvidia0: No such file or directory"
        ),
        text(
            "error: _slurm_rpc_node_registration node=n1: gres/gpu count reported lower than "
            "configured (7 < 8)"
        ),
    ],
    "ray-no-gpu": [
        text(
            "Error: No available node types can fulfill resource request {'GPU': 1.0}. Add "
            "suitable node types to this cluster"
        ),
        text(
            "ValueError: The number of required GPUs exceeds the total number of available "
            "GPUs in the placement group."
        ),
        text(
            "The actor or task with ID f cannot be scheduled right now. It requires "
            "{'CPU': 1.0, 'GPU': 1.0} for placement"
        ),
    ],
}
