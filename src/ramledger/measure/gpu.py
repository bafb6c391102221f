"""GPU memory of a process: from torch's allocator, NVML, and Linux's DRM and KFD drivers.

CUDA is never initialized and torch never imported: only what is loaded already is read. Written
without a GPU: tests use imitations of NVML and of the drivers' files.
"""

import ctypes
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any, Final

from ramledger.descriptors import list_folder
from ramledger.measure.cgroups import read_file, read_number

_TOO_SMALL: Final = 7  # NVML_ERROR_INSUFFICIENT_SIZE
_NOT_AVAILABLE: Final = (1 << 64) - 1  # NVML_VALUE_NOT_AVAILABLE
_MOST_PROCESSES: Final = 4096


@dataclass(frozen=True, slots=True)
class GpuUse:
    """What one process holds on one device; `total_bytes` is the device's memory, 0 if unknown."""

    device: str
    name: str
    used_bytes: int
    total_bytes: int


def torch_cuda() -> dict[str, Any] | None:
    """Allocated, reserved and idle pool bytes by device, if this process uses torch's CUDA now.

    `pool_bytes` is what torch's caching allocator holds and no tensor uses.
    """
    torch = sys.modules.get("torch")
    # read from the module's dictionary: an object that imitates torch could run code
    cuda: Any = torch.__dict__.get("cuda") if type(torch) is ModuleType else None
    if not issubclass(type(cuda), ModuleType):
        return None
    try:
        if not cuda.is_initialized():
            return None
        devices = [_torch_device(cuda, index) for index in range(cuda.device_count())]
    except Exception:  # a half-imported or broken torch must not end a measurement
        return None
    return {"devices": devices}


def _torch_device(cuda: Any, index: int) -> dict[str, Any]:
    allocated_bytes, reserved_bytes = cuda.memory_allocated(index), cuda.memory_reserved(index)
    return {
        "device": index,
        "name": str(cuda.get_device_name(index)),
        "allocated_bytes": int(allocated_bytes),
        "reserved_bytes": int(reserved_bytes),
        "pool_bytes": int(reserved_bytes) - int(allocated_bytes),
        "peak_allocated_bytes": int(cuda.max_memory_allocated(index)),
        "peak_reserved_bytes": int(cuda.max_memory_reserved(index)),
    }


def gpu_use(pid: int, root: str = "/") -> list[GpuUse]:
    """What a process holds on any GPU that some driver reports.

    AMD's compute memory may also show in the files of its graphics driver; it counts once.
    """
    return nvml(pid) + (kfd(pid, root) or drm(pid, root))


class _Memory(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_ulonglong) for name in ("total", "free", "used"))


class _ProcessInfo(ctypes.Structure):
    _fields_ = (
        ("pid", ctypes.c_uint),
        ("used_bytes", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


def nvml(pid: int, library: str = "libnvidia-ml.so.1") -> list[GpuUse]:
    """GPU memory of a process by NVML; empty without NVML, or if NVML does not list the process.

    In a container NVML uses the host's pids, so the process may not be found.
    """
    try:
        api = _library(library)
        if api is None or api.nvmlInit_v2() != 0:
            return []
    except AttributeError:
        return []
    try:
        return list(_nvml_uses(api, pid))
    except AttributeError:
        return []
    finally:
        api.nvmlShutdown()


@cache
def _library(name: str) -> Any:
    """A library of the system; None if there is none: to look for it takes long."""
    try:
        return ctypes.CDLL(name)
    except OSError:
        return None


def _nvml_uses(api: Any, pid: int) -> Iterator[GpuUse]:
    count = ctypes.c_uint()
    if api.nvmlDeviceGetCount_v2(ctypes.byref(count)) != 0:
        return
    for index in range(count.value):
        device = ctypes.c_void_p()
        if api.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(device)) != 0:
            continue
        used = [use.used_bytes for use in _nvml_processes(api, device) if use.pid == pid]
        known = [size for size in used if size != _NOT_AVAILABLE]
        if known:
            yield GpuUse(str(index), _nvml_name(api, device), sum(known), _nvml_total(api, device))


def _nvml_processes(api: Any, device: ctypes.c_void_p) -> list[_ProcessInfo]:
    function = getattr(api, "nvmlDeviceGetComputeRunningProcesses_v3", None)
    # version 2 fills the same records; drivers before 510 have no version 3
    function = function or api.nvmlDeviceGetComputeRunningProcesses_v2
    room = 64
    while room <= _MOST_PROCESSES:
        records = (_ProcessInfo * room)()
        count = ctypes.c_uint(room)
        status = function(device, ctypes.byref(count), records)
        if status == 0:
            return list(records[: count.value])
        if status != _TOO_SMALL:
            return []
        room = max(2 * room, count.value)
    return []


def _nvml_name(api: Any, device: ctypes.c_void_p) -> str:
    buffer = ctypes.create_string_buffer(96)
    failed = api.nvmlDeviceGetName(device, buffer, ctypes.c_uint(len(buffer)))
    return "" if failed else buffer.value.decode("utf-8", "replace")


def _nvml_total(api: Any, device: ctypes.c_void_p) -> int:
    memory = _Memory()
    failed = api.nvmlDeviceGetMemoryInfo(device, ctypes.byref(memory))
    return 0 if failed else int(memory.total)


def drm(pid: int, root: str = "/") -> list[GpuUse]:
    """Video memory by graphics driver (amdgpu, i915, xe, nouveau): /proc/PID/fdinfo.

    One client may be open through several descriptors and counts once (drm-usage-stats.rst).
    """
    clients: dict[tuple[str, str], tuple[str, int]] = {}
    for text in _fdinfo(pid, root):
        lines = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
        fields = {name.strip(): value.strip() for name, value in lines.items()}
        if "drm-driver" in fields:
            client = (fields.get("drm-pdev", ""), fields.get("drm-client-id", ""))
            clients[client] = (fields["drm-driver"], _video_bytes(fields))
    used: dict[tuple[str, str], int] = {}
    for (device, _), (driver, size) in clients.items():
        used[device, driver] = used.get((device, driver), 0) + size
    return [
        GpuUse(device, driver, size, _video_total(device, root))
        for (device, driver), size in sorted(used.items())
        if size
    ]


def _fdinfo(pid: int, root: str) -> Iterator[str]:
    directory = os.path.join(root, "proc", str(pid), "fdinfo")
    try:
        names = list_folder(directory)
    except OSError:
        return
    for name in names:
        text = read_file(os.path.join(directory, name))
        if text and "drm-driver" in text:
            yield text


def _video_bytes(fields: dict[str, str]) -> int:
    """The first region that a driver reports as its own memory, resident before total."""
    for region in ("vram", "vram0", "local0"):
        for kind in ("resident", "memory", "total"):
            value = fields.get(f"drm-{kind}-{region}")
            if value is not None:
                return _sized(value)
    return 0


def _sized(text: str) -> int:
    number, _, unit = text.partition(" ")
    factor = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20}.get(unit.strip(), 0)
    return int(number) * factor if number.isdecimal() else 0


def _video_total(device: str, root: str) -> int:
    path = os.path.join(root, "sys/bus/pci/devices", device, "mem_info_vram_total")
    return read_number(path) or 0 if device else 0


def kfd(pid: int, root: str = "/") -> list[GpuUse]:
    """Video memory by AMD's compute driver (ROCm): /sys/class/kfd/kfd/proc/PID/vram_GPUID."""
    directory = os.path.join(root, "sys/class/kfd/kfd/proc", str(pid))
    try:
        names = sorted(list_folder(directory))
    except OSError:
        return []
    gpus = [name.removeprefix("vram_") for name in names if name.startswith("vram_")]
    uses = (GpuUse(gpu, "kfd", read_number(f"{directory}/vram_{gpu}") or 0, 0) for gpu in gpus)
    return [use for use in uses if use.used_bytes]
