"""Two machines that upload to one place: one is refused, and nothing of the other is lost."""

import signal
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ramledger import CheckpointError
from ramledger.replay import ReplayBuffer, download, upload
from ramledger.replay.upload.remote_store import RemoteStore, TakenError
from ramledger.replay.upload.uploading import UploadJob
from tests.support.numbered_transitions import add, assert_true, filled
from tests.support.object_stores import GoogleWire, azurite, gcs_at, moto, s3_at
from tests.support.places import DATA

pytestmark = pytest.mark.xdist_group("object-stores")

pytest.importorskip("obstore")

FORMAT_1 = DATA / "replay_format_1.zip"  # written by the first version


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, str]]]:
    with moto() as url, GoogleWire(url) as wire, azurite(tmp_path_factory.mktemp("az")) as azure:
        yield {"s3": s3_at(url), "gs": gcs_at(wire.url), "az": azure}


@pytest.fixture(params=["folder", "s3", "gs", "az"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "folder":
        return str(tmp_path / "store")
    stores = request.getfixturevalue("stores")
    for name, value in stores[request.param].items():
        monkeypatch.setenv(name, value)
    return f"{request.param}://runs/{tmp_path.name}"


class Machine:
    """A folder and the buffer that saves to it; what it adds tells who it was."""

    def __init__(self, folder: Path, buffer: ReplayBuffer) -> None:
        self.folder, self.buffer = folder, buffer

    @classmethod
    def fetched(cls, place: str, folder: Path) -> "Machine":
        download(place, folder)
        return cls(folder, ReplayBuffer.load(folder))

    def go_on(self, count: int) -> None:
        add(self.buffer, self.buffer.total_added, count)
        self.buffer.rng.random(count)
        self.buffer.save(self.folder)

    @property
    def state(self) -> Any:
        return self.buffer.state()


def two_machines(place: str, tmp_path: Path) -> tuple[Machine, Machine]:
    """Both continue from the save that the first one uploaded, with transitions of their own."""
    first = Machine(tmp_path / "a", filled(400))
    first.buffer.save(first.folder)
    upload(first.folder, place)
    second = Machine.fetched(place, tmp_path / "b")
    for machine in (first, second):
        machine.go_on(60)
    return first, second


def fetched_state(place: str, folder: Path) -> Any:
    machine = Machine.fetched(place, folder)
    assert machine.buffer.restored is not None and not machine.buffer.restored.lost
    assert_true(machine.buffer)
    return machine.state


def test_the_second_is_refused_and_the_first_is_whole(place: str, tmp_path: Path) -> None:
    first, second = two_machines(place, tmp_path)
    upload(first.folder, place)
    before = RemoteStore(place).sizes()
    with pytest.raises(CheckpointError, match="another run") as caught:
        upload(second.folder, place)
    assert "overwrite=True" in caught.value.hint
    assert RemoteStore(place).sizes() == before
    assert fetched_state(place, tmp_path / "c") == first.state


def test_forced_it_is_the_newest_and_nothing_of_the_other_goes(place: str, tmp_path: Path) -> None:
    first, second = two_machines(place, tmp_path)
    upload(first.folder, place)
    theirs = set(RemoteStore(place).sizes())
    upload(second.folder, place, overwrite=True)
    assert fetched_state(place, tmp_path / "c") == second.state
    for _ in range(4):  # it goes on without force, and tidies up its own saves only
        second.go_on(2000)
        upload(second.folder, place, keep=1)
    there = set(RemoteStore(place).sizes())
    # the first upload is one that both continued from: it was the second's to remove
    assert "uploads/00000002.json" in theirs <= there | {"uploads/00000001.json"}
    newest = max(name for name in there if name.startswith("uploads/"))
    for name in [name for name in there if name > "uploads/00000002.json" and "uploads" in name]:
        RemoteStore(place).delete(name)
    assert newest == "uploads/00000007.json"
    assert fetched_state(place, tmp_path / "d") == first.state


def slowed(job: UploadJob, before_request: Callable[[], None]) -> None:
    """Call something before each request of an upload."""

    def passed(do: Callable[..., Any], *arguments: Any) -> Any:
        before_request()
        return do(*arguments)

    for name in ("sizes", "read", "put", "create", "delete"):
        setattr(job._remote, name, partial(passed, getattr(job._remote, name)))


class Meanwhile:
    """Counts requests, and does something before one of them."""

    def __init__(self, step: int, act: Callable[[], None]) -> None:
        self.requests, self._step, self._act = 0, step, act

    def __call__(self) -> None:
        self.requests += 1
        if self.requests == self._step:
            self._act()


def accepted(job: UploadJob) -> bool:
    try:
        job.run()
    except CheckpointError as error:
        assert "another run" in error.message
        return False
    return True


def interleave(place: str, folder: Path, step: int, forced: bool) -> bool:
    """One uploads as a whole before request `step` of the other; whether there was such a one."""
    first, second = two_machines(place, folder)
    is_in: list[bool] = []
    meanwhile = Meanwhile(
        step,
        lambda: is_in.append(accepted(UploadJob(second.folder, place, overwrite=forced))),
    )
    job = UploadJob(first.folder, place)
    slowed(job, meanwhile)
    is_first_in = accepted(job)
    if not forced:
        assert [is_first_in, *is_in].count(True) == 1
    newest = second if is_in == [True] else first
    assert fetched_state(place, folder / "c") == newest.state
    # the next upload of whoever is the newest is accepted, and whole again
    newest.go_on(30)
    upload(newest.folder, place)
    assert fetched_state(place, folder / "d") == newest.state
    return bool(is_in)


@pytest.mark.parametrize("forced", [False, True])
def test_interleaved_at_every_step(place: str, tmp_path: Path, forced: bool) -> None:
    step = 1
    while interleave(f"{place}/{step}", tmp_path / str(step), step, forced):
        step += 1
    assert step > 6


def test_only_one_creates_an_object(place: str) -> None:
    remote = RemoteStore(place)
    remote.create("uploads/x", b"one")
    remote.create("uploads/x", b"one")  # the answer to the first attempt was lost
    with pytest.raises(TakenError):
        remote.create("uploads/x", b"two")
    assert remote.read("uploads/x") == b"one"


def test_at_the_same_moment_one_gets_the_number(place: str, tmp_path: Path) -> None:
    """Both have seen the same newest upload, and create the next one together."""
    machines = two_machines(place, tmp_path)
    barrier = threading.Barrier(2)
    winners: list[Machine] = []

    def send(machine: Machine) -> None:
        job = UploadJob(machine.folder, place)
        create = job._remote.create

        def together(name: str, data: bytes) -> None:
            barrier.wait(60)
            create(name, data)

        job._remote.create = together  # type: ignore[method-assign]
        if accepted(job):
            winners.append(machine)

    threads = [threading.Thread(target=send, args=(machine,)) for machine in machines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = winners
    assert fetched_state(place, tmp_path / "c") == winner.state


def test_when_the_newest_is_not_whole_the_one_before_is_fetched(place: str, tmp_path: Path) -> None:
    machine = Machine(tmp_path / "a", filled(400))
    machine.buffer.save(machine.folder)
    upload(machine.folder, place)
    before = machine.state
    old = set(RemoteStore(place).sizes())
    machine.go_on(60)
    upload(machine.folder, place)
    remote = RemoteStore(place)
    (segment,) = (name for name in remote.sizes().keys() - old if name.startswith("segments/"))
    whole = remote.read(segment)
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 1
    for number, bad in enumerate((None, whole[:-100], bytes(damaged), b"")):
        remote.delete(segment)
        if bad is not None:
            remote.create(segment, bad)
        assert fetched_state(place, tmp_path / f"c{number}") == before
    # and a manifest that is none
    remote.delete(segment)
    remote.create(segment, whole)
    remote.delete("uploads/00000002.json")
    remote.create("uploads/00000002.json", b"no manifest")
    assert fetched_state(place, tmp_path / "d") == before
    # whoever continues from it does not get into its way
    machine.go_on(10)
    upload(machine.folder, place)
    assert fetched_state(place, tmp_path / "e") == machine.state


def test_what_is_in_a_folder_is_not_overwritten_by_a_download(tmp_path: Path) -> None:
    place = str(tmp_path / "store")
    first, second = two_machines(place, tmp_path)
    upload(first.folder, place)
    before = {path.name: path.read_bytes() for path in second.folder.iterdir() if path.is_file()}
    with pytest.raises(CheckpointError, match="does not continue from") as caught:
        download(place, second.folder)
    assert "another folder" in caught.value.hint
    after = {path.name: path.read_bytes() for path in second.folder.iterdir() if path.is_file()}
    assert after == before
    # what it continues from is no obstacle
    third = Machine.fetched(place, tmp_path / "c")
    third.go_on(5)
    upload(third.folder, place)
    download(place, first.folder)
    assert ReplayBuffer.load(first.folder).state() == third.state


def test_extra_files_that_exist_are_not_overwritten(tmp_path: Path) -> None:
    place, weights = str(tmp_path / "store"), tmp_path / "weights.bin"
    weights.write_text("uploaded")
    filled(100).save(tmp_path / "a")
    upload(tmp_path / "a", place, extra=[weights])
    weights.write_text("mine")
    with pytest.raises(CheckpointError, match="other content"):
        download(place, tmp_path / "b", extra=tmp_path)
    assert weights.read_text() == "mine"
    weights.write_text("uploaded")
    assert download(place, tmp_path / "b", extra=tmp_path) == 1
    assert not list(tmp_path.rglob(".download-*"))


def test_a_later_save_of_the_same_run_is_not_replaced_by_an_earlier(tmp_path: Path) -> None:
    place = str(tmp_path / "store")
    machine = Machine(tmp_path / "a", filled(100))
    machine.buffer.save(machine.folder)
    download_from = str(tmp_path / "a-copy")
    upload(machine.folder, download_from)
    download(download_from, tmp_path / "b")
    machine.go_on(10)
    upload(machine.folder, place)
    with pytest.raises(CheckpointError, match="a later save, 2"):
        upload(tmp_path / "b", place)


# ---- what the first version wrote ----------------------------------------------------------------


@pytest.fixture
def first_version(tmp_path: Path) -> Path:
    with zipfile.ZipFile(FORMAT_1) as archive:
        archive.extractall(tmp_path / "old")
    return tmp_path / "old"


def test_saves_of_the_first_version_load_and_go_on(first_version: Path) -> None:
    folder = first_version / "folder"
    loaded = ReplayBuffer.load(folder)
    assert loaded.total_added == 180
    assert_true(loaded)
    assert_true(ReplayBuffer.load(folder, number=1, lazy=True))
    for _ in range(3):
        add(loaded, loaded.total_added, 90)
        saved = loaded.save(folder)
        assert not saved.is_full
        assert_true(ReplayBuffer.load(folder))
    # what the first version wrote goes when nothing needs it
    assert len(list(folder.glob("save-*.json"))) == 2


def test_a_store_of_the_first_version(first_version: Path, tmp_path: Path) -> None:
    store, sent = first_version / "store", first_version / "sent"
    assert download(str(store), tmp_path / "a", extra=tmp_path / "beside") == 2
    assert (tmp_path / "beside" / "weights.bin").read_bytes() == b"weights" * 10
    assert_true(ReplayBuffer.load(tmp_path / "a"))
    # the run that uploaded there goes on, although the save that it has was never sent
    ours = Machine(sent, ReplayBuffer.load(sent))
    assert ours.buffer.total_added == 200
    # another one continues from what was sent
    theirs = Machine(tmp_path / "a", ReplayBuffer.load(tmp_path / "a"))
    for machine in (ours, theirs):
        machine.go_on(150)
    upload(ours.folder, str(store))
    with pytest.raises(CheckpointError, match="another run"):
        upload(theirs.folder, str(store))
    upload(theirs.folder, str(store), overwrite=True)
    assert fetched_state(str(store), tmp_path / "b") == theirs.state
    (store / "uploads" / "00000002.json").unlink()
    assert fetched_state(str(store), tmp_path / "c") == ours.state
    for _ in range(3):
        ours.go_on(400)
        upload(ours.folder, str(store), overwrite=True)
    assert not list(store.glob("*.seg")) and not list(store.glob("extra-*"))
    assert not list(store.glob("save-*"))


def test_the_newest_save_of_the_first_version_is_sent_as_it_is(
    first_version: Path, tmp_path: Path
) -> None:
    upload(first_version / "sent", str(tmp_path / "store"))
    upload(first_version / "sent", str(tmp_path / "store"))
    assert len(list((tmp_path / "store" / "uploads").iterdir())) == 1
    assert download(str(tmp_path / "store"), tmp_path / "a") == 3
    assert_true(ReplayBuffer.load(tmp_path / "a"))


def test_a_killed_upload_leaves_no_links(tmp_path: Path) -> None:
    filled(100).save(tmp_path / "a")
    program = """
import os, signal, sys
from ramledger.replay.upload.uploading import UploadJob
job = UploadJob(sys.argv[1], sys.argv[2])
os.kill(os.getpid(), signal.SIGKILL)
"""
    command = [sys.executable, "-c", program, str(tmp_path / "a"), str(tmp_path / "store")]
    assert subprocess.run(command, timeout=100).returncode == -signal.SIGKILL
    assert len(list((tmp_path / "a").glob(".upload-*"))) == 1
    (tmp_path / "a" / ".upload-mine").mkdir()
    job = UploadJob(tmp_path / "a", str(tmp_path / "store"))
    # what is in use, and what somebody else called so, stays
    upload(tmp_path / "a", str(tmp_path / "store"))
    assert len(list((tmp_path / "a").glob(".upload-*"))) == 2
    job.run()
    assert [path.name for path in (tmp_path / "a").glob(".upload-*")] == [".upload-mine"]
