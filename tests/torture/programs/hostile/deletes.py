"""Deletes the recording, every socket, the folder they are in, and its own directory."""

import glob
import os
import shutil
import time

SECONDS = float(os.environ.get("TORTURE_SECONDS", "0.5"))
time.sleep(SECONDS / 2)
for path in glob.glob("*.ledger.jsonl"):
    os.unlink(path)
shutil.rmtree(os.path.join(os.environ["XDG_RUNTIME_DIR"], "ramledger"), ignore_errors=True)
os.mkdir("gone")
os.chdir("gone")
os.rmdir(os.path.join(os.path.dirname(os.getcwd()), "gone"))
time.sleep(SECONDS / 2)
print("OK")
