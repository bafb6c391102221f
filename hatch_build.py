"""Compiles the one part in C, where a compiler and Python's headers are; all else works without."""

import os
import subprocess
import sys
import sysconfig
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = "src/ramledger/interpreter/heap_walk.c"
TARGET = "src/ramledger/interpreter/heap_walk.abi3.so"


class CompileHook(BuildHookInterface):  # type: ignore[type-arg]
    """One wheel for all Pythons from 3.11 on: the stable ABI."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if not self._compile():
            return
        build_data["pure_python"] = False
        build_data["artifacts"].append(TARGET)
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"cp311-abi3-{platform}"

    def _compile(self) -> bool:
        headers = sysconfig.get_path("include")
        if not sys.platform.startswith("linux") or not headers:
            return False
        if not os.path.exists(os.path.join(headers, "Python.h")):
            self.app.display_warning("without the compiled part: Python.h is missing")
            return False
        compiler = os.environ.get("CC") or "cc"
        target = os.path.join(self.root, TARGET)
        command = [*compiler.split(), "-O2", "-shared", "-fPIC", f"-I{headers}"]
        command += ["-o", target, os.path.join(self.root, SOURCE)]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)
        except (OSError, subprocess.CalledProcessError) as error:
            trouble = getattr(error, "stderr", "") or str(error)
            self.app.display_warning(f"without the compiled part: {trouble.strip()[-500:]}")
            return False
        return True
