"""Memory pressure of the host, of a real control group, and of kernels without it."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ramledger.errors import ProcessGoneError
from ramledger.measure.pressure_stalls import Pressure, memory_pressure, parse_pressure

PID = 4711
UNIFIED = "41 31 0:38 / {point} rw - cgroup2 cgroup2 rw\n"


def text(some: str, full: str) -> str:
    return (
        f"some avg10={some} avg60=1.00 avg300=2.00 total=12345\n"
        f"full avg10={full} avg60=0.50 avg300=1.00 total=2345\n"
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path, "proc/self/mountinfo", UNIFIED.format(point="/sys/fs/cgroup"))
    write(tmp_path, f"proc/{PID}/cgroup", "0::/jobs/one\n")
    write(tmp_path, "proc/pressure/memory", text("3.10", "1.20"))
    write(tmp_path, "sys/fs/cgroup/jobs/one/cgroup.procs", "")
    return tmp_path


def write(root: Path, path: str, content: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(content)


def test_of_the_host(root: Path) -> None:
    assert memory_pressure(str(root)) == Pressure(3.1, 1.2, "host")


def test_of_the_processs_own_group(root: Path) -> None:
    write(root, "sys/fs/cgroup/jobs/one/memory.pressure", text("55.00", "44.50"))
    assert memory_pressure(str(root), PID) == Pressure(55.0, 44.5, "cgroup /jobs/one")


def test_of_the_nearest_group_that_has_one(root: Path) -> None:
    write(root, "sys/fs/cgroup/jobs/memory.pressure", text("7.00", "6.00"))
    assert memory_pressure(str(root), PID) == Pressure(7.0, 6.0, "cgroup /jobs")


def test_of_the_host_where_no_group_has_one(root: Path) -> None:
    assert memory_pressure(str(root), PID) == Pressure(3.1, 1.2, "host")


def test_none_without_psi(root: Path) -> None:
    (root / "proc/pressure/memory").unlink()
    assert memory_pressure(str(root)) is None
    assert memory_pressure(str(root), PID) is None


@pytest.mark.parametrize(
    "content", ["", "nonsense\n", "some avg10=1.0\n", "full avg10=1.0\n", "some\nfull\n"]
)
def test_none_from_half_a_file(content: str) -> None:
    assert parse_pressure(content, "host") is None


def test_no_such_process(root: Path) -> None:
    with pytest.raises(ProcessGoneError):
        memory_pressure(str(root), PID + 1)


def test_this_kernel() -> None:
    try:
        first = Path("/proc/pressure/memory").read_text().split()[:2]
    except OSError:
        pytest.skip("this kernel counts no pressure")
    found = memory_pressure()
    assert found is not None
    assert found.some_avg10 == pytest.approx(float(first[1].removeprefix("avg10=")), abs=5)
    assert 0 <= found.full_avg10 <= found.some_avg10 <= 100
    own = memory_pressure(pid=os.getpid())
    assert own is not None
    assert 0 <= own.full_avg10 <= own.some_avg10 <= 100


@pytest.fixture
def real_group() -> Iterator[Path]:
    """A real version 2 group without processes in it."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    points = [fields[1] for fields in mounts if fields[2] == "cgroup2"]
    if not points:
        pytest.skip("no version 2 groups here")
    group = Path(points[0]) / f"ramledger-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"cannot make a version 2 group: {error}")
    try:
        yield group
    finally:
        with suppress(OSError):
            group.rmdir()


def test_a_real_group_of_the_kernel(tmp_path: Path, real_group: Path) -> None:
    if not (real_group / "memory.pressure").exists():
        pytest.skip("this kernel counts no pressure in groups")
    (tmp_path / "sys").symlink_to("/sys")
    write(tmp_path, "proc/self/mountinfo", UNIFIED.format(point=real_group.parent))
    write(tmp_path, f"proc/{PID}/cgroup", f"0::/{real_group.name}\n")
    expected = Pressure(0.0, 0.0, f"cgroup /{real_group.name}")
    assert memory_pressure(str(tmp_path), PID) == expected
