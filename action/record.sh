#!/usr/bin/env bash
# Runs $RAMLEDGER_COMMAND and records it into $RAMLEDGER_FOLDER; its exit code is the command's.
set -euo pipefail

mkdir -p "$RAMLEDGER_FOLDER"
cd "$RAMLEDGER_WORKING_DIRECTORY"
exec ramledger run --quiet --force --out "$RAMLEDGER_FOLDER/run.ledger.jsonl" \
    -- bash -c "$RAMLEDGER_COMMAND"
