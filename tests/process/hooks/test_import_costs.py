"""Imports: booked to the package that was loaded, tracebacks and semantics unchanged."""

import subprocess
import sys
from pathlib import Path


def run(code: str, *folders: Path) -> str:
    """Run code in a fresh interpreter that watches imports; return what it prints."""
    paths = ":".join(map(str, folders))
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": paths, "PATH": "/usr/bin:/bin"},
    )
    return result.stdout + result.stderr


WATCH = """
from ramledger.hooks.import_costs import start_tracking, installed_costs
t = start_tracking()
"""


def packages(tmp_path: Path) -> Path:
    """Two installed packages: `outer` imports `inner`, each makes objects of known size."""
    folder = tmp_path / "site-packages"
    for name, body in {
        "inner": "kept = [bytes(100_000) for _ in range(50)]",
        "outer": "import inner\nimport json\nkept = [bytes(100_000) for _ in range(20)]",
        "broken": "raise ValueError('inside broken')",
    }.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(body)
    return folder


def test_nested_imports_are_booked_to_the_package_they_load(tmp_path: Path) -> None:
    code = WATCH + "import outer\nprint({c.package: c.native_bytes for c in installed_costs(t)})"
    costs = eval(run(code, packages(tmp_path)))
    assert 5_000_000 <= costs["inner"] < 5_400_000
    assert 2_000_000 <= costs["outer"] < 2_600_000
    assert "json" not in costs


def test_numpy_has_a_cost_and_the_start_was_seen() -> None:
    code = WATCH + (
        "import numpy\nc = {c.package: c for c in installed_costs(t)}['numpy']\n"
        "print(t.saw_start, c.native_bytes > 500_000, c.python_bytes > 500_000)"
    )
    assert run(code).split() == ["True", "True", "True"]


def test_coming_late_is_known() -> None:
    code = "import numpy, torch\n" + WATCH + "print(t.saw_start)"
    assert run(code).strip() == "False"


def test_a_failing_import_looks_as_it_always_did(tmp_path: Path) -> None:
    folder = packages(tmp_path)
    for name in ("missing_module_x", "broken"):
        plain = run(f"import {name}", folder)
        watched = run(f"from ramledger.hooks.import_costs import start_tracking; start_tracking()\n"
                      f"import {name}", folder)  # fmt: skip
        assert watched.replace("line 2", "line 1") == plain


def test_modules_of_the_users_own_keep_their_data_by_owner(tmp_path: Path) -> None:
    (tmp_path / "my_module.py").write_text("kept = [bytes(100_000) for _ in range(50)]")
    code = WATCH + "import my_module\nprint([c.package for c in installed_costs(t)])"
    assert "my_module" not in run(code, tmp_path)
