"""Run the benchmarks, each in a fresh process, one after the other.

`python benchmarks/run.py [NAME…]`; each prints its table and fails by its exit code. One alone:
`python -m benchmarks.NAME`.
"""

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
# other replay buffers are in an environment of their own, made by `make bench`
PEERS = FOLDER.parent / ".venv-peers" / "bin" / "python"
WITH_PEERS = frozenset({"replay_speed", "replay_checkpoint"})


def main(wanted: list[str]) -> int:
    scripts = {path.stem: path for path in sorted(FOLDER.glob("*.py")) if path != Path(__file__)}
    unknown = set(wanted) - scripts.keys()
    if unknown:
        print(f"no such benchmark: {', '.join(sorted(unknown))}", file=sys.stderr)
        print(f"  there are: {', '.join(scripts) or 'none yet'}", file=sys.stderr)
        return 2
    failed = [name for name in wanted or scripts if not run(scripts[name])]
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def run(script: Path) -> bool:
    """Run one script with our streams; whether it succeeded."""
    print(f"== {script.stem}", flush=True)
    python = str(PEERS) if script.stem in WITH_PEERS and PEERS.exists() else sys.executable
    command = [python, "-m", f"benchmarks.{script.stem}"]
    return subprocess.run(command, check=False, cwd=FOLDER.parent).returncode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
