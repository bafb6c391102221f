"""Storages: each block once, at its real address and size."""

import mmap
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from ramledger.interpreter.array_storage import array_kind, storage_of, untracked_array_types


def test_an_array_is_its_own_block() -> None:
    array = np.zeros((100, 7), np.float32)
    storage = storage_of(array)
    assert storage is not None
    assert storage.address == array.ctypes.data
    assert storage.reserved_bytes == 100 * 7 * 4
    assert (storage.dtype, storage.shape) == ("float32", (100, 7))
    assert not storage.pinned_by_view


def test_a_view_of_a_view_is_booked_at_its_base() -> None:
    base = np.zeros(1_000_000, np.uint8)
    view = base[10:][5:20]
    storage = storage_of(view)
    assert storage is not None
    assert storage.address == base.ctypes.data
    assert storage.reserved_bytes == 1_000_000
    assert storage.shape == (15,)
    assert storage.pinned_by_view


def test_a_memmap_is_located_in_its_file(tmp_path: Path) -> None:
    array = np.memmap(tmp_path / "data.npy", np.float64, "w+", shape=(5000,))
    storage = storage_of(array)
    assert storage is not None
    assert storage.reserved_bytes == 40_000
    assert storage.address == array.ctypes.data
    assert storage.type == "numpy.memmap"


def test_tensors_are_measured_by_their_storage_not_by_getsizeof() -> None:
    tensor = torch.zeros(1 << 20)
    assert sys.getsizeof(tensor) < 1000
    storage = storage_of(tensor[3:10].view(7, 1))
    assert storage is not None
    assert storage.address == tensor.data_ptr()
    assert storage.reserved_bytes == 4 << 20
    assert storage.pinned_by_view


def test_a_tensor_and_the_array_it_was_made_of_share_one_block() -> None:
    array = np.ones(4096, np.float32)
    tensor = torch.from_numpy(array)
    ours, theirs = storage_of(array), storage_of(tensor)
    assert ours is not None and theirs is not None
    assert ours.address == theirs.address


@pytest.mark.parametrize(
    "odd",
    [
        torch.zeros(3, device="meta"),
        torch.sparse_coo_tensor(
            torch.tensor([[0]]), torch.tensor([1.0]), (2,), check_invariants=True
        ),
    ],
)
def test_tensors_without_memory_here_have_no_storage(odd: torch.Tensor) -> None:
    assert storage_of(odd) is None


def test_bytes_are_located_and_bytearrays_sized() -> None:
    blob = bytes(100_000)
    found = storage_of(blob)
    assert found is not None and found.address == id(blob)
    assert found.reserved_bytes >= 100_000
    grown = storage_of(bytearray(5000))
    assert grown is not None and grown.address is None and grown.reserved_bytes >= 5000


def test_a_subclass_that_raises_is_no_storage() -> None:
    class Broken(np.ndarray):
        @property
        def nbytes(self) -> int:
            raise RuntimeError("user code ran")

    storage = storage_of(np.zeros(10).view(Broken))
    assert storage is not None and storage.reserved_bytes == 80


def test_array_types_follow_subclasses_without_importing() -> None:
    found = untracked_array_types([])
    assert {id(np.ndarray), id(np.memmap), id(bytes)} <= found.keys()
    assert id(torch.Tensor) not in found
    assert array_kind(int) == "" and array_kind(mmap.mmap) == ""
