"""Has a sitecustomize and a usercustomize of its own; both must have run, and be found again."""

import os
import sys
import time

import sitecustomize

time.sleep(float(os.environ.get("TORTURE_SECONDS", "0.5")))
print("OK", sys.own_sitecustomize, getattr(sys, "own_usercustomize", "no user site"))
print(os.path.basename(os.path.dirname(sitecustomize.__file__)), sitecustomize.__name__)
