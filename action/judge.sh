#!/usr/bin/env bash
# Judges the recording in $RAMLEDGER_FOLDER, beside a baseline where there is one: annotations, the
# job's summary, a comment as Markdown, and outputs. Then the recording is the next baseline.
# It fails only where ramledger does; whether a leak fails the job is an output, `fails`.
set -euo pipefail

case "$RAMLEDGER_FAIL_ON" in
    leak | worse | never) ;;
    *) echo "::error::fail-on is leak, worse or never"; exit 2 ;;
esac

recording="$RAMLEDGER_FOLDER/run.ledger.jsonl"
comment="$RAMLEDGER_FOLDER/comment.md"
document="$RAMLEDGER_FOLDER/diagnosis.json"
kept="$RAMLEDGER_FOLDER/baseline.ledger.jsonl"
baseline="${RAMLEDGER_BASELINE:-$kept}"

against=()
if [ -f "$baseline" ]; then
    against=(--compare "$baseline")
elif [ -n "$RAMLEDGER_BASELINE" ]; then
    echo "::error::the baseline does not exist"
    exit 1
else
    echo "No baseline yet: the first run on the default branch makes it."
fi

# 3 is a leak, which is an answer here
diagnose() {
    local code=0
    ramledger diagnose "$recording" "${against[@]}" "$@" || code=$?
    [ "$code" -eq 0 ] || [ "$code" -eq 3 ] || exit "$code"
}

diagnose --format github
diagnose --format markdown > "$comment"
diagnose --json > "$document"

field() {
    python -c 'import json, sys
document = json.load(open(sys.argv[1]))
for name in sys.argv[2].split("."):
    document = document.get(name, "") if isinstance(document, dict) else ""
print(document)' "$document" "$1"
}

if [ ${#against[@]} -gt 0 ]; then
    verdict="$(field this.verdict)"
    change="$(field comparison.change)"
else
    verdict="$(field verdict)"
    change=""
fi

fails=""
if [ "$RAMLEDGER_FAIL_ON" = leak ] && [ "$verdict" = leak ]; then
    fails="the run leaks memory"
elif [ "$RAMLEDGER_FAIL_ON" = worse ] && [ "$change" = worse ]; then
    fails="the change makes memory worse"
fi

cp "$recording" "$kept"
{
    echo "recording=$recording"
    echo "comment-file=$comment"
    echo "verdict=$verdict"
    echo "change=$change"
    echo "fails=$fails"
} >> "${GITHUB_OUTPUT:-/dev/stdout}"
