"""Says how its interpreter was set up: options, paths, hooks, and what was imported for it."""

import gc
import os
import sys
import time

time.sleep(float(os.environ.get("TORTURE_SECONDS", "0.5")))
# without site nobody takes the folder out again that PYTHONPATH had put there
paths = [path for path in sys.path if not (sys.flags.no_site and path.endswith("/bootstrap"))]
print("OK", sys.flags, paths, sorted(sys._xoptions), sys.warnoptions)
print([type(finder).__name__ for finder in sys.meta_path if "ramledger" not in repr(finder)])
print("site" in sys.modules, gc.get_threshold(), sys.getswitchinterval(), __debug__)
print(sys.getrecursionlimit(), sys.dont_write_bytecode, sys.gettrace(), sys.getprofile())
print(sorted(globals()))
