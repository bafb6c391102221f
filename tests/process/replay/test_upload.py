"""Uploads to a folder and to real server processes that speak S3, GCS and Azure, and back."""

import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ramledger import CheckpointError, ConfigError
from ramledger.replay import ReplayBuffer, download, upload, upload_in_background
from ramledger.replay.upload import remote_store
from ramledger.replay.upload.remote_store import RemoteStore
from ramledger.replay.upload.uploading import UploadJob
from tests.support.numbered_transitions import add, assert_true, filled
from tests.support.object_stores import Wire, azurite, free_port, gcs_at, moto, s3_at
from tests.support.places import ROOT

pytestmark = pytest.mark.xdist_group("object-stores")

obstore = pytest.importorskip("obstore")

KILLS = 3


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with moto() as url:
        yield url


@pytest.fixture(scope="module")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with azurite(tmp_path_factory.mktemp("azurite")) as environment:
        yield environment


@pytest.fixture
def wire(server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    """A wire to the server that speaks S3."""
    with Wire(server) as found:
        for name, value in s3_at(found.url).items():
            monkeypatch.setenv(name, value)
        yield found


@pytest.fixture(params=["folder", "s3", "gs", "az"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of an empty place in each kind of store."""
    if request.param == "folder":
        return str(tmp_path / "store")
    if request.param == "az":
        environment = request.getfixturevalue("azure")
    else:
        at = s3_at if request.param == "s3" else gcs_at
        environment = at(request.getfixturevalue("server"))
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return f"{request.param}://runs/{tmp_path.name}"


def test_a_checkpoint_goes_there_and_comes_back(place: str, tmp_path: Path) -> None:
    buffer = filled(4000)
    buffer.save(tmp_path / "here")
    first = upload(tmp_path / "here", place)
    add(buffer, 4000, 150)
    buffer.save(tmp_path / "here")
    second = upload(tmp_path / "here", place)
    assert second.number == 2
    # what was there is not sent again
    assert second.objects_there_before >= 1
    assert second.uploaded_bytes < 0.2 * first.uploaded_bytes
    assert download(place, tmp_path / "there") == 2
    loaded = ReplayBuffer.load(tmp_path / "there")
    assert_true(loaded)
    assert loaded.sample(32).index.tolist() == buffer.sample(32).index.tolist()
    assert not list((tmp_path / "here").glob(".upload-*"))


def test_what_no_kept_save_needs_is_removed(place: str, tmp_path: Path) -> None:
    buffer = filled(1000, 1000)
    for _ in range(5):
        buffer.save(tmp_path / "here", keep=1)
        upload(tmp_path / "here", place, keep=1)
        add(buffer, buffer.total_added, 1000)
    there = RemoteStore(place).sizes()
    here = {f"segments/{path.name}" for path in (tmp_path / "here").glob("*.seg")}
    assert there.keys() == here | {"uploads/00000005.json"}


def test_files_that_belong_to_a_save_come_and_go_with_it(place: str, tmp_path: Path) -> None:
    buffer = filled(500)
    weights = tmp_path / "weights.bin"
    for number in range(1, 4):
        buffer.save(tmp_path / "here")
        weights.write_bytes(bytes([number]) * 1000)
        upload(tmp_path / "here", place, keep=2, extra=[weights])
        add(buffer, buffer.total_added, 100)
    extra = sorted(name for name in RemoteStore(place).sizes() if name.startswith("extra/"))
    assert [name[:15] + name[-12:] for name in extra] == [
        "extra/00000002-/weights.bin", "extra/00000003-/weights.bin"
    ]  # fmt: skip
    assert download(place, tmp_path / "there", extra=tmp_path / "beside") == 3
    assert (tmp_path / "beside" / "weights.bin").read_bytes() == bytes([3]) * 1000
    assert not list((tmp_path / "there").glob("*weights*"))
    # what a later save does not bring along stays with the earlier one
    upload(tmp_path / "here", place)
    assert extra[1] in RemoteStore(place).sizes()


def test_an_extra_file_may_be_replaced_while_it_is_on_its_way(tmp_path: Path) -> None:
    filled(500).save(tmp_path / "here")
    state = tmp_path / "state.json"
    state.write_text("as saved")
    job = UploadJob(tmp_path / "here", str(tmp_path / "store"), extra=[state])
    state.unlink()
    state.write_text("later")
    job.run()
    (sent,) = (tmp_path / "store" / "extra").glob("00000001-*/state.json")
    assert sent.read_text() == "as saved"


def test_extra_files_that_cannot_be_sent(tmp_path: Path) -> None:
    filled(10).save(tmp_path / "here")
    (tmp_path / "a").mkdir()
    for path in (tmp_path / "a" / "same", tmp_path / "same"):
        path.write_text("")
    for extra in ([tmp_path / "none"], [tmp_path / "a"], [tmp_path / "a/same", tmp_path / "same"]):
        with pytest.raises(ConfigError) as caught:
            upload(tmp_path / "here", str(tmp_path / "store"), extra=extra)
        assert caught.value.hint
    assert not list((tmp_path / "here").glob(".upload-*"))


def test_training_and_saving_go_on_meanwhile(tmp_path: Path) -> None:
    buffer = filled(3000)
    buffer.save(tmp_path / "here", keep=1)
    job = upload_in_background(tmp_path / "here", str(tmp_path / "store"))
    for _ in range(3):
        add(buffer, buffer.total_added, 3000)
        buffer.save(tmp_path / "here", keep=1)  # removes the files that are on their way
    job.wait()
    download(str(tmp_path / "store"), tmp_path / "there")
    loaded = ReplayBuffer.load(tmp_path / "there")
    assert loaded.total_added == 3000
    assert_true(loaded)


def test_a_wire_that_is_cut(wire: Wire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dropped connections are tried again; what was sent before a cut is not sent again."""
    monkeypatch.setattr(remote_store, "ATTEMPTS", 1)
    buffer = filled(100)
    for _ in range(5):
        buffer.save(tmp_path / "here")
        add(buffer, buffer.total_added, 100)
    buffer.save(tmp_path / "here")
    segments = sorted(path.name for path in (tmp_path / "here").glob("*.seg"))
    assert len(segments) > 3
    place = f"s3://runs/{tmp_path.name}"

    wire.to_drop, wire.cut_at = 2, segments[2].removesuffix(".seg")
    with pytest.raises(CheckpointError, match="cannot upload") as caught:
        upload(tmp_path / "here", place)
    assert wire.to_drop == 0
    assert caught.value.hint
    wire.is_cut, wire.cut_at, before = False, "", len(wire.put)
    with pytest.raises(CheckpointError, match="no intact checkpoint"):
        download(place, tmp_path / "there")
    done = upload(tmp_path / "here", place)
    assert done.objects_there_before == 2
    sent = [name.replace("%2E", ".") for name in wire.put[before:]]
    # every segment once, the manifest last
    assert sent == [*segments[2:], "00000001.json"]
    download(place, tmp_path / "there")
    assert_true(ReplayBuffer.load(tmp_path / "there"))


def test_a_cancelled_upload_goes_on(place: str, tmp_path: Path) -> None:
    buffer = filled(100)
    for _ in range(6):
        buffer.save(tmp_path / "here")
        add(buffer, buffer.total_added, 100)
    buffer.save(tmp_path / "here")
    store = place
    job = UploadJob(tmp_path / "here", store, progress=lambda done, total: job.cancel())
    with pytest.raises(CheckpointError, match="cancelled"):
        job.run()
    with pytest.raises(CheckpointError, match="no intact checkpoint"):
        download(store, tmp_path / "there")
    done = upload(tmp_path / "here", store)
    assert done.objects_there_before == 1
    download(store, tmp_path / "there")
    assert_true(ReplayBuffer.load(tmp_path / "there"))


def test_the_checkpoint_of_another_buffer_is_not_overwritten(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    filled(500).save(tmp_path / "a")
    filled(700).save(tmp_path / "b")
    upload(tmp_path / "a", store)
    with pytest.raises(CheckpointError, match="another buffer"):
        upload(tmp_path / "b", store)
    upload(tmp_path / "b", store, overwrite=True)
    download(store, tmp_path / "c")
    assert ReplayBuffer.load(tmp_path / "c").total_added == 700


def test_a_server_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_store, "ATTEMPTS", 1)
    filled(100).save(tmp_path / "here")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    before = sorted((tmp_path / "here").iterdir())
    with pytest.raises((CheckpointError, ConfigError)) as caught:
        upload(tmp_path / "here", "s3://runs/x")
    assert caught.value.hint
    assert sorted((tmp_path / "here").iterdir()) == before


def test_addresses_that_make_no_sense(tmp_path: Path) -> None:
    filled(10).save(tmp_path)
    with pytest.raises(ConfigError, match="cannot open"):
        upload(tmp_path, "ftp://somewhere/else")


KILLED = """
import sys
from ramledger.replay import upload
upload(sys.argv[1], sys.argv[2], progress=lambda done, total: print(done, flush=True))
"""


def test_a_killed_upload_leaves_nothing_half(tmp_path: Path) -> None:
    buffer = filled(100)
    moments = random.Random(5)
    for number in range(KILLS):
        for _ in range(4):
            buffer.save(tmp_path / "here", keep=6)
            add(buffer, buffer.total_added, 90)
        store = str(tmp_path / f"store{number % 3}")
        command = [sys.executable, "-c", KILLED, str(tmp_path / "here"), store]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as process:
            assert process.stdout is not None
            for _ in range(moments.randint(0, 4)):
                process.stdout.readline()
            time.sleep(moments.uniform(0, 0.01))
            process.kill()
        try:
            download(store, tmp_path / "there")
        except CheckpointError as error:
            assert "no intact checkpoint" in error.message
        else:
            assert_true(ReplayBuffer.load(tmp_path / "there"))
        shutil.rmtree(tmp_path / "there", ignore_errors=True)
    upload(tmp_path / "here", store)
    download(store, tmp_path / "there")
    assert_true(ReplayBuffer.load(tmp_path / "there"))


def test_uploading_takes_little_memory(place: str, tmp_path: Path) -> None:
    """Segments of 32 MiB pass through in parts."""
    program = """
import sys
import numpy as np
from ramledger.replay import Field, ReplayBuffer, Schema, upload
def peak():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) << 10
buffer = ReplayBuffer(Schema(Field((1 << 20,), "uint8")), 40)
rng = np.random.default_rng(0)
for _ in range(40):
    buffer.add(*(rng.integers(0, 256, 1 << 20, dtype=np.uint8) for _ in (1,)), 0.0, 0.0,
               rng.integers(0, 256, 1 << 20, dtype=np.uint8), True)
buffer.save(sys.argv[1])
del buffer
open("/proc/self/clear_refs", "w").write("5")
before = peak()
done = upload(sys.argv[1], sys.argv[2])
print(done.uploaded_bytes, peak() - before)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "here"), place],
        capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    size, peak = map(int, done.stdout.split())
    assert size > 80 << 20
    assert peak < 48 << 20
