"""Tables of import costs: what is counted for a process, what is kept, what is not believed."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ramledger.attach import calibration
from ramledger.attach.calibration import ImportTable, calibrate
from ramledger.attach.calibration_cache import (
    MOST_FILES,
    cache_folder,
    keep_document,
    kept_document,
)
from ramledger.attach.trusted_files import why_not_trusted
from ramledger.errors import MeasureError
from ramledger.interpreter.loaded_packages import LoadedPackages, loaded_packages

MIB = 1 << 20

DOCUMENT: dict[str, Any] = {
    "steps": [
        {"name": "numpy", "loaded": ["numpy", "numpy.linalg"], "costs": {"numpy": [5, 7]}},
        {"name": "torch", "loaded": ["torch"], "costs": {"torch": [100, 50], "numpy": [1, -1]}},
        {"name": "torch._dynamo", "loaded": ["torch._dynamo"], "costs": {"torch": [30, 40]}},
        {"name": "csv", "loaded": ["csv"], "costs": {"": [2, 3]}},
    ],
    "startup": [10, 20],
    "tool": [1, 2],
    "versions": {"numpy": "2.0", "torch": "2.5"},
}


def loaded(*modules: str, **versions: str) -> LoadedPackages:
    return LoadedPackages(
        executable=sys.executable,
        python=sys.version,
        sites=(),
        modules=modules,
        versions=versions or {"numpy": "2.0", "torch": "2.5"},
    )


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    yield Path(cache_folder())


def test_only_what_the_process_has_imported_is_counted() -> None:
    table = ImportTable.from_dict(DOCUMENT)
    costs = table.costs_of(loaded("numpy", "torch", "csv"))
    assert costs == {"": (12, 23), "numpy": (6, 6), "torch": (100, 50)}
    assert table.costs_of(loaded("torch._dynamo"))["torch"] == (30, 40)


def test_a_package_of_another_version_is_left_out() -> None:
    table = ImportTable.from_dict(DOCUMENT)
    costs = table.costs_of(loaded("numpy", "torch", numpy="1.9", torch="2.5"))
    assert costs == {"": (10, 20), "torch": (100, 50)}


def test_a_module_that_was_not_tried_needs_a_new_table() -> None:
    table = ImportTable.from_dict(DOCUMENT)
    assert table.covers(loaded("numpy.linalg", "torch"))
    assert table.covers(loaded("numpy", "json"))  # the standard library is no reason
    assert not table.covers(loaded("numpy", "torch.compiler"))


@pytest.mark.parametrize(
    "broken",
    [
        None,
        [],
        {},
        {**DOCUMENT, "steps": 3},
        {**DOCUMENT, "startup": [1.5, 2]},
        {**DOCUMENT, "startup": [1]},
        {**DOCUMENT, "tool": [True, 1]},
        {**DOCUMENT, "tool": [1 << 60, 1]},
        {**DOCUMENT, "versions": []},
        {**DOCUMENT, "steps": [{"name": "x", "loaded": [], "costs": [1]}]},
    ],
)
def test_what_is_no_table_is_not_believed(broken: Any) -> None:
    with pytest.raises(ValueError):
        ImportTable.from_dict(broken)


def test_a_kept_table_is_found_again_for_the_same_libraries_only() -> None:
    keep_document(loaded("torch"), DOCUMENT)
    assert kept_document(loaded("torch", "torch._dynamo")) == DOCUMENT
    assert kept_document(loaded("torch", numpy="2.0", torch="2.6")) is None
    assert kept_document(loaded("torch", numpy="2.0")) is None


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"x" * (5 << 20)])
def test_a_broken_file_is_as_good_as_none(cache: Path, content: bytes) -> None:
    keep_document(loaded("torch"), DOCUMENT)
    (path,) = cache.iterdir()
    path.write_bytes(content)
    assert kept_document(loaded("torch")) is None
    keep_document(loaded("torch"), DOCUMENT)
    assert kept_document(loaded("torch")) == DOCUMENT


def test_a_cache_that_cannot_be_written_does_no_harm(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "ramledger").write_text("in the way")
    keep_document(loaded("torch"), DOCUMENT)
    assert kept_document(loaded("torch")) is None


def test_the_cache_is_bounded_and_holds_no_parts(cache: Path) -> None:
    for number in range(MOST_FILES + 5):
        keep_document(loaded("torch", torch=str(number)), DOCUMENT)
    files = list(cache.iterdir())
    assert len(files) == MOST_FILES
    assert {path.suffix for path in files} == {".json"}
    assert kept_document(loaded("torch", torch=str(MOST_FILES + 4))) == DOCUMENT


def test_a_reinstalled_package_is_measured_anew(tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    (site / "torch").mkdir(parents=True)
    init = site / "torch" / "__init__.py"
    init.write_text("")
    here = LoadedPackages(sys.executable, sys.version, (str(site),), ("torch",), {"torch": "1"})
    keep_document(here, DOCUMENT)
    assert kept_document(here) == DOCUMENT
    os.utime(init, ns=(1, 1))
    assert kept_document(here) is None


def test_a_kept_table_needs_no_second_process(monkeypatch: pytest.MonkeyPatch) -> None:
    here = loaded("torch")
    monkeypatch.setattr(calibration, "_measured", lambda *_: json.loads(json.dumps(DOCUMENT)))
    first = calibrate(os.getpid(), here, MIB)
    monkeypatch.setattr(calibration, "_measured", lambda *_: pytest.fail("measured twice"))
    assert calibrate(os.getpid(), here, MIB) == first


def test_no_second_process_where_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "_measured", lambda *_: pytest.fail("started"))
    monkeypatch.setattr(calibration, "ENOUGH_BYTES", 1 << 60)
    with pytest.raises(MeasureError, match="are left"):
        calibrate(os.getpid(), loaded("torch"), 1 << 60)


def test_an_interpreter_that_is_not_the_one_running_is_not_started(tmp_path: Path) -> None:
    for path in ("python3", str(tmp_path / "python3"), "/bin/sh"):
        here = LoadedPackages(path, sys.version, (), ("torch",), {"torch": "1"})
        with pytest.raises(MeasureError, match="interpreter"):
            calibrate(os.getpid(), here, MIB)


def test_files_that_another_user_can_change_are_not_run(tmp_path: Path) -> None:
    theirs = {"Uid": "12345\t12345\t12345\t12345"}
    ours = {"Uid": "\t".join([str(os.geteuid())] * 4)}
    changeable = tmp_path / "python"
    changeable.write_text("")
    changeable.chmod(0o777)
    assert why_not_trusted(ours, [str(changeable)]) == ""
    assert str(changeable) in why_not_trusted(theirs, [str(changeable)])
    assert why_not_trusted(theirs, ["/"]) == ""
    ours_alone = tmp_path / "private"
    ours_alone.mkdir(0o755)
    assert why_not_trusted(theirs, [str(ours_alone)]) == ""
    (ours_alone / "link").symlink_to(changeable)
    assert str(changeable) in why_not_trusted(theirs, [str(ours_alone / "link")])
    tmp_path.chmod(0o777)
    assert str(tmp_path) in why_not_trusted(theirs, [str(ours_alone)])


def test_a_setuid_process_is_another_users() -> None:
    mixed = {"Uid": f"{os.geteuid()}\t0\t0\t0" if os.geteuid() else "0\t1\t1\t1"}
    assert why_not_trusted(mixed, ["/nonexistent/python"])


def test_what_a_process_tells_is_names_and_nothing_else() -> None:
    told = json.loads(json.dumps(loaded_packages().to_dict()))
    again = LoadedPackages.from_dict(told)
    assert again == loaded_packages()
    assert "hypothesis" in again.versions and "hypothesis" in again.modules
    assert "ramledger" not in again.versions and "tests" not in again.versions
    for name in (
        "os; import x",
        "../x",
        "",
        "antigravity",
        "__main__",
        "a.__main__",
        "ramledger.x",
    ):
        with pytest.raises(ValueError):
            LoadedPackages.from_dict({**told, "modules": ["json", name]})
    for field in ("sites", "modules", "versions"):
        with pytest.raises(ValueError):
            LoadedPackages.from_dict({**told, field: 3})


def test_the_folder_is_the_users_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == str(tmp_path / ".cache/ramledger/imports")
