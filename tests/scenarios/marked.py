"""Runs a scenario program with its phases marked, as a user of the ledger would mark them."""

import importlib.util
import os
import sys

import ramledger

sys.path.insert(0, os.path.dirname(sys.argv[1]))  # as where it is run itself
spec = importlib.util.spec_from_file_location("program", sys.argv[1])
assert spec is not None
assert spec.loader is not None
program = importlib.util.module_from_spec(spec)
sys.modules["program"] = program
spec.loader.exec_module(program)

if __name__ == "__main__":  # processes that it spawns import it again, for its functions
    ledger = ramledger.record()
    program.run(on_phase=lambda generation, name: ledger.phase(name, generation=generation))
