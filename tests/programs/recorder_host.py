"""A recorder with a short training under it; killed by its test at a random moment."""

import os
import subprocess
import sys

from ramledger.agent.launch_environment import environment_with_agent
from ramledger.events import Header
from ramledger.recorder.run_recorder import RunRecorder
from ramledger.recording import RecordingWriter

TRAINING = """
import sys, time
import ramledger
ledger = ramledger.record()
for generation in range(20):
    with ledger.phase("train", generation=generation):
        time.sleep(0.1)
open(sys.argv[1], "w").write("done")
"""


def main(out: str, marker: str) -> None:
    recorder = RunRecorder(RecordingWriter(out, Header()), every_seconds=0.05)
    environment = environment_with_agent(os.environ, {"recorder": recorder.socket_path})
    process = subprocess.Popen([sys.executable, "-c", TRAINING, marker], env=environment)
    recorder.start(process.pid)
    print("started", flush=True)
    recorder.finish(process.wait(), None)


main(*sys.argv[1:])
