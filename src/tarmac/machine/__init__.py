"""The hardware of this machine: GPUs, chips and processors, and how much of them may be used.

Each source has one reader: `nvml_calls` queries NVML, `visible` reads ``CUDA_VISIBLE_DEVICES``,
`limits` reads affinity and control groups. `obstacles` decides what keeps PyTorch from computing on
a GPU, and `builds` decides which build of PyTorch suits the machine.

Example:
    >>> from tarmac.machine import find_devices
    >>> [device.torch_name for device in find_devices("cpu:2")]
    ['cpu', 'cpu']
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tarmac.lazy import lazy_names

if TYPE_CHECKING:
    from tarmac.machine.amd_files import KfdNode as KfdNode
    from tarmac.machine.amd_files import count_ras_errors as count_ras_errors
    from tarmac.machine.amd_files import find_kfd_nodes as find_kfd_nodes
    from tarmac.machine.amd_files import read_sensor as read_sensor
    from tarmac.machine.amd_files import text_of as text_of
    from tarmac.machine.asking import Asker as Asker
    from tarmac.machine.asking import NoAnswerError as NoAnswerError
    from tarmac.machine.builds import RELEASES as RELEASES
    from tarmac.machine.builds import BuildChoice as BuildChoice
    from tarmac.machine.builds import Capability as Capability
    from tarmac.machine.builds import Releases as Releases
    from tarmac.machine.builds import choose_build as choose_build
    from tarmac.machine.builds import is_driver_too_old as is_driver_too_old
    from tarmac.machine.builds import runs_on as runs_on
    from tarmac.machine.chips import Chip as Chip
    from tarmac.machine.chips import find_chip as find_chip
    from tarmac.machine.chips import read_chips as read_chips
    from tarmac.machine.device import Device as Device
    from tarmac.machine.device import name_cpu as name_cpu
    from tarmac.machine.device import read_cpuinfo as read_cpuinfo
    from tarmac.machine.device_request import UNUSABLE as UNUSABLE
    from tarmac.machine.device_request import find_devices as find_devices
    from tarmac.machine.device_request import name_devices as name_devices
    from tarmac.machine.device_request import name_left_out as name_left_out
    from tarmac.machine.device_request import why_on_cpu as why_on_cpu
    from tarmac.machine.driver import read_module_version as read_module_version
    from tarmac.machine.driver import wake_driver as wake_driver
    from tarmac.machine.gpu import Fabric as Fabric
    from tarmac.machine.gpu import Gpu as Gpu
    from tarmac.machine.gpu import GpuProcess as GpuProcess
    from tarmac.machine.gpu import MigDevice as MigDevice
    from tarmac.machine.gpu_types import fitting_names as fitting_names
    from tarmac.machine.gpu_types import is_of_type as is_of_type
    from tarmac.machine.limits import ProcessLimits as ProcessLimits
    from tarmac.machine.limits import read_limits as read_limits
    from tarmac.machine.live import LiveGpu as LiveGpu
    from tarmac.machine.live import LiveHost as LiveHost
    from tarmac.machine.live import LiveProcess as LiveProcess
    from tarmac.machine.live_host import HostReader as HostReader
    from tarmac.machine.live_reader import LiveReader as LiveReader
    from tarmac.machine.live_reader import open_live_reader as open_live_reader
    from tarmac.machine.live_xids import XidSeen as XidSeen
    from tarmac.machine.nvlink import NvlinkPair as NvlinkPair
    from tarmac.machine.nvml import Nvml as Nvml
    from tarmac.machine.nvml import has_exclusive_gpu as has_exclusive_gpu
    from tarmac.machine.nvml import open_nvml as open_nvml
    from tarmac.machine.nvml_calls import NvmlProblem as NvmlProblem
    from tarmac.machine.nvml_load import Counters as Counters
    from tarmac.machine.nvml_load import LoadReader as LoadReader
    from tarmac.machine.nvml_load import LoadSample as LoadSample
    from tarmac.machine.obstacles import CudaBuild as CudaBuild
    from tarmac.machine.obstacles import Obstacle as Obstacle
    from tarmac.machine.obstacles import find_obstacle as find_obstacle
    from tarmac.machine.obstacles import name_holders as name_holders
    from tarmac.machine.obstacles import why_hidden as why_hidden
    from tarmac.machine.obstacles import why_withheld as why_withheld
    from tarmac.machine.pcie import PciePath as PciePath
    from tarmac.machine.pcie import PciePort as PciePort
    from tarmac.machine.pcie import count_nvswitches as count_nvswitches
    from tarmac.machine.pcie import read_pcie_path as read_pcie_path
    from tarmac.machine.peers import lists_peers as lists_peers
    from tarmac.machine.peers import owner_of_peer as owner_of_peer
    from tarmac.machine.surveyed import MAX_NODES as MAX_NODES
    from tarmac.machine.surveyed import NodeFindings as NodeFindings
    from tarmac.machine.surveyed import group_alike as group_alike
    from tarmac.machine.surveyed import survey_exit_code as survey_exit_code
    from tarmac.machine.visible import GpuInfo as GpuInfo
    from tarmac.machine.visible import list_gpus as list_gpus
    from tarmac.machine.visible import names_nothing as names_nothing
    from tarmac.machine.visible import newest_cuda as newest_cuda
    from tarmac.machine.visible import read_gpus_in_time as read_gpus_in_time
    from tarmac.machine.visible import visible_gpus as visible_gpus
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
