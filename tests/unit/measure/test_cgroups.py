"""Control groups are located by what /proc says; the limits in them have a test of their own."""

import os
from pathlib import Path

import pytest

from ramledger.measure import cgroups
from ramledger.measure.cgroups import Level


@pytest.mark.parametrize(
    ("content", "number"), [("17\n", 17), ("max\n", None), ("", None), ("-1\n", None), ("a", None)]
)
def test_number(tmp_path: Path, content: str, number: int | None) -> None:
    (tmp_path / "file").write_text(content)
    assert cgroups.read_number(str(tmp_path / "file")) == number


def test_number_of_no_file(tmp_path: Path) -> None:
    assert cgroups.read_number(str(tmp_path / "file")) is None
    assert cgroups.read_table(str(tmp_path)) == {}


def test_table() -> None:
    text = "anon 12\nMemTotal:   34 kB\nlonely\nword word\n\n"
    assert cgroups.parse_table(text) == {"anon": 12, "MemTotal": 34}


def test_levels_from_the_own_group_up_to_the_mount(tmp_path: Path) -> None:
    (tmp_path / "mnt/b/c").mkdir(parents=True)
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/9").mkdir()
    (tmp_path / "proc/9/cgroup").write_text("3:cpu:/x\n0::/a/b/c\n")
    mount = "1 1 0:1 /a /mnt rw - cgroup2 none rw\ngarbage\n2 1 0:2 / /proc rw - proc proc rw\n"
    (tmp_path / "proc/self/mountinfo").write_text(mount)
    root = str(tmp_path)
    found = cgroups.memory_group(9, root)
    assert found is not None
    assert (found.version, cgroups.group_of(9, 1, root)) == (2, None)
    assert found.levels == (
        Level("/a/b/c", f"{root}/mnt/b/c"),
        Level("/a/b", f"{root}/mnt/b"),
        Level("/a", f"{root}/mnt"),
    )


def test_own_groups_hold_this_process() -> None:
    group = cgroups.memory_group(os.getpid())
    if group is None:
        pytest.skip("no control groups here")
    members = cgroups.read_file(f"{group.levels[0].directory}/cgroup.procs") or ""
    assert str(os.getpid()) in members.split()
