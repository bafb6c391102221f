"""Run the benchmarks, each a script of its own in a fresh process, one after the other.

`python benchmarks/run.py [NAME…]`; a script prints its table and fails by its exit code.
"""

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent


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
    return subprocess.run([sys.executable, script], check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
