"""Runs a script of CleanRL to its end: `cleanrl_training.py SCRIPT [OPTION …]`.

Prints steps a second of processor time and a hash of the parameters of its `q_network`. It needs
nothing but torch, so it runs in the environment of that script.
"""

import hashlib
import json
import os
import runpy
import sys
import time


def main() -> None:
    script = sys.argv[1]
    sys.argv = sys.argv[1:]
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    started = time.process_time()
    names = runpy.run_path(script, run_name="__main__")
    seconds = time.process_time() - started
    found = hashlib.sha256()
    for parameter in names["q_network"].parameters():
        found.update(parameter.detach().cpu().numpy().tobytes())
    result = {
        "steps_per_second": names["args"].total_timesteps / seconds,
        "parameters": found.hexdigest()[:16],
    }
    print("RESULT " + json.dumps(result))


if __name__ == "__main__":
    main()
