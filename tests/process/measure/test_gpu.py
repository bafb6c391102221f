"""GPU memory against imitations: a torch that would tell, an NVML built by gcc, driver files."""

import os
import shutil
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from ramledger.measure import gpu
from ramledger.measure.gpu import GpuUse

MIB = 1 << 20
PID = 4711


class Cuda(types.ModuleType):
    """torch.cuda of a machine with two devices; every use before initialization is an error."""

    def __init__(self, initialized: bool) -> None:
        super().__init__("torch.cuda")
        self._initialized = initialized

    def is_initialized(self) -> bool:
        return self._initialized

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not self._initialized:
            raise AttributeError(name)
        answers: dict[str, list[Any]] = {
            "get_device_name": ["first", "second"],
            "memory_allocated": [300 * MIB, 0],
            "memory_reserved": [512 * MIB, 2 * MIB],
            "max_memory_allocated": [400 * MIB, 1 * MIB],
            "max_memory_reserved": [600 * MIB, 2 * MIB],
        }
        if name == "device_count":
            return lambda: 2
        return lambda device: answers[name][device]


def with_torch(monkeypatch: pytest.MonkeyPatch, cuda: object) -> None:
    module = types.ModuleType("torch")
    module.cuda = cuda  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", module)


class TestTorch:
    def test_by_device(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with_torch(monkeypatch, Cuda(initialized=True))
        found = gpu.torch_cuda()
        assert found is not None
        first, second = found["devices"]
        assert first == {
            "device": 0,
            "name": "first",
            "allocated_bytes": 300 * MIB,
            "reserved_bytes": 512 * MIB,
            "pool_bytes": 212 * MIB,
            "peak_allocated_bytes": 400 * MIB,
            "peak_reserved_bytes": 600 * MIB,
        }
        assert (second["device"], second["pool_bytes"]) == (1, 2 * MIB)

    def test_is_not_initialized_by_looking(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with_torch(monkeypatch, Cuda(initialized=False))
        assert gpu.torch_cuda() is None

    def test_is_not_imported(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delitem(sys.modules, "torch", raising=False)
        assert gpu.torch_cuda() is None
        assert "torch" not in sys.modules

    def test_half_imported(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "torch", types.ModuleType("torch"))
        assert gpu.torch_cuda() is None

    def test_that_fails(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Broken(Cuda):
            def device_count(self) -> int:
                raise RuntimeError("CUDA driver error")

        with_torch(monkeypatch, Broken(initialized=True))
        assert gpu.torch_cuda() is None

    def test_real_torch_stays_as_it_is(self) -> None:
        """In a process of its own: the real torch, whose CUDA nobody has used."""
        program = (
            "import torch\nfrom ramledger.measure import gpu\n"
            "print(gpu.torch_cuda(), torch.cuda.is_initialized())"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        if "ModuleNotFoundError" in done.stderr:
            pytest.skip("torch is not installed")
        assert done.stdout == "None False\n", done.stderr


NVML = """
#include <string.h>
typedef struct { unsigned int pid; unsigned long long used; unsigned int gpu, compute; } process;
typedef struct { unsigned long long total, free, used; } memory;
int running = 0;
int nvmlInit_v2(void) { running++; return INIT; }
int nvmlShutdown(void) { running--; return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 3; return running == 1 ? 0 : 1; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **device) {
    *device = (void *)(long)(i + 1); return i == 2 ? 15 : 0;
}
int nvmlDeviceGetName(void *device, char *name, unsigned size) {
    strncpy(name, device == (void *)1 ? "NVIDIA One" : "NVIDIA Two", size); return 0;
}
int nvmlDeviceGetMemoryInfo(void *device, memory *m) { m->total = 24ull << 30; return 0; }
int PROCESSES(void *device, unsigned *count, process *out) {
    if (device != (void *)1) {
        out[0] = (process){4711, ~0ull, 0, 0}; out[1] = (process){99, 1, 0, 0};
        *count = 2; return 0;
    }
    if (*count < 100) { *count = 100; return 7; }
    for (unsigned i = 0; i < 100; i++) out[i] = (process){i, 1000, 0, 0};
    out[98] = (process){4711, 5ull << 30, 0, 0}; out[99] = (process){4711, 1 << 20, 1, 0};
    *count = 100; return 0;
}
"""


def built_nvml(folder: Path, *, initialize: int = 0, version: str = "_v3") -> str:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    source, library = folder / "nvml.c", folder / "libnvidia-ml.so.1"
    source.write_text(NVML)
    function = f"nvmlDeviceGetComputeRunningProcesses{version}"
    defined = [f"-DINIT={initialize}", f"-DPROCESSES={function}"]
    subprocess.run(["gcc", "-shared", "-fPIC", *defined, source, "-o", library], check=True)
    return str(library)


class TestNvml:
    @pytest.mark.parametrize("version", ["_v3", "_v2"])
    def test_finds_a_process_on_its_device(self, tmp_path: Path, version: str) -> None:
        """Among 100 processes, two entries of ours; the second device does not know the size."""
        library = built_nvml(tmp_path, version=version)
        expected = [GpuUse("0", "NVIDIA One", (5 << 30) + MIB, 24 << 30)]
        assert gpu.nvml(PID, library) == expected
        assert gpu.nvml(PID, library) == expected  # shut down after the first time

    def test_a_process_without_gpu_memory(self, tmp_path: Path) -> None:
        assert gpu.nvml(123456, built_nvml(tmp_path)) == []

    def test_a_driver_that_does_not_start(self, tmp_path: Path) -> None:
        assert gpu.nvml(PID, built_nvml(tmp_path, initialize=9)) == []

    def test_a_driver_that_is_too_old(self, tmp_path: Path) -> None:
        assert gpu.nvml(PID, built_nvml(tmp_path, version="")) == []

    def test_no_library(self) -> None:
        assert gpu.nvml(os.getpid(), "libthere-is-no-such-nvml.so.1") == []


def write(root: Path, path: str, content: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(content)


def client(device: str, number: int, *memory: str) -> str:
    lines = ["pos:\t0", "drm-driver:\tamdgpu", f"drm-pdev:\t{device}", f"drm-client-id:\t{number}"]
    return "\n".join([*lines, *memory, ""])


class TestDriverFiles:
    def test_drm_counts_each_client_once(self, tmp_path: Path) -> None:
        first = client("0000:03:00.0", 5, "drm-memory-vram:\t2048 KiB", "drm-memory-gtt: 9 KiB")
        write(tmp_path, f"proc/{PID}/fdinfo/3", first)
        write(tmp_path, f"proc/{PID}/fdinfo/4", first)
        second = client("0000:03:00.0", 6, "drm-total-vram:\t7 MiB", "drm-resident-vram:\t1 MiB")
        write(tmp_path, f"proc/{PID}/fdinfo/5", second)
        other = client("0000:04:00.0", 7, "drm-resident-vram:\t3 MiB")
        write(tmp_path, f"proc/{PID}/fdinfo/6", other)
        idle = client("0000:05:00.0", 8, "drm-resident-vram:\t0")
        write(tmp_path, f"proc/{PID}/fdinfo/7", idle)
        write(tmp_path, f"proc/{PID}/fdinfo/0", "pos:\t0\nflags:\t0100002\n")
        total = "sys/bus/pci/devices/0000:03:00.0/mem_info_vram_total"
        write(tmp_path, total, f"{16 << 30}\n")
        assert gpu.drm(PID, str(tmp_path)) == [
            GpuUse("0000:03:00.0", "amdgpu", 3 * MIB, 16 << 30),
            GpuUse("0000:04:00.0", "amdgpu", 3 * MIB, 0),
        ]

    def test_kfd(self, tmp_path: Path) -> None:
        folder = f"sys/class/kfd/kfd/proc/{PID}"
        write(tmp_path, f"{folder}/vram_2433", f"{700 * MIB}\n")
        write(tmp_path, f"{folder}/vram_1001", "0\n")
        write(tmp_path, f"{folder}/sdma_2433", "17\n")
        assert gpu.kfd(PID, str(tmp_path)) == [GpuUse("2433", "kfd", 700 * MIB, 0)]

    def test_no_driver(self, tmp_path: Path) -> None:
        assert gpu.drm(PID, str(tmp_path)) == gpu.kfd(PID, str(tmp_path)) == []

    def test_the_same_memory_is_not_told_twice(self, tmp_path: Path) -> None:
        write(tmp_path, f"proc/{PID}/fdinfo/3", client("a", 1, "drm-memory-vram: 1 KiB"))
        assert [use.used_bytes for use in gpu.gpu_use(PID, str(tmp_path))] == [1024]
        write(tmp_path, f"sys/class/kfd/kfd/proc/{PID}/vram_1", "5000\n")
        assert [use.used_bytes for use in gpu.gpu_use(PID, str(tmp_path))] == [5000]
