"""Gradients and graphs of tensors, as torch itself would tell them."""

from collections.abc import Callable
from typing import Any

import pytest

from ramledger.interpreter.own_memory import OwnMemory
from ramledger.interpreter.tensor_fields import (
    Block,
    gradient_block,
    graph_depth,
    has_graph,
    is_trained,
    may_be_listed,
)

torch = pytest.importorskip("torch")


def block_of(tensor: Any) -> Block | None:
    with OwnMemory() as memory:
        return gradient_block(tensor, memory)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("shape", [(), (3,), (4, 5), (2, 3, 4, 5, 6)])
def test_a_gradient_is_the_one_that_torch_has(dtype: Any, shape: tuple[int, ...]) -> None:
    weight = torch.nn.Parameter(torch.ones(shape, dtype=dtype))
    assert block_of(weight) is None
    (weight * weight).sum().backward()
    storage = weight.grad.untyped_storage()
    assert block_of(weight) == (storage.data_ptr(), storage.nbytes())
    weight.grad = None
    assert block_of(weight) is None


def test_a_gradient_in_a_larger_block_is_the_whole_block() -> None:
    bucket = torch.zeros(100)
    weight = torch.nn.Parameter(torch.ones(10))
    weight.grad = bucket[20:30]
    assert block_of(weight) == (bucket.data_ptr(), 400)


def test_a_sparse_gradient_has_no_block_of_its_own() -> None:
    rows = torch.nn.Embedding(10, 3, sparse=True)
    rows(torch.tensor([1])).sum().backward()
    assert rows.weight.grad.is_sparse
    assert block_of(rows.weight) is None


@pytest.mark.parametrize("make", [torch.zeros, torch.nn.Parameter], ids=["plain", "parameter"])
def test_a_tensor_without_gradient_has_none(make: Callable[..., Any]) -> None:
    assert block_of(make(torch.zeros(3)) if make is torch.nn.Parameter else make(3)) is None


def test_who_is_trained_and_who_has_a_graph() -> None:
    weight = torch.ones(3, requires_grad=True)
    base = weight * 2
    assert (is_trained(weight), has_graph(weight)) == (True, False)
    assert (is_trained(base), has_graph(base)) == (False, True)
    assert has_graph(base[1:])
    for plain in (torch.ones(3), base.detach(), torch.arange(3)):
        assert not is_trained(plain)
        assert not has_graph(plain)


def test_code_of_a_subclass_is_not_run() -> None:
    calls = []

    class Odd(torch.Tensor):  # type: ignore[name-defined, misc]
        @classmethod
        def __torch_function__(cls, *arguments: Any, **_: Any) -> Any:
            calls.append(arguments)
            raise RuntimeError

    odd = torch.ones(3).as_subclass(Odd)
    assert not has_graph(odd)
    assert not is_trained(odd)
    assert calls == []


def test_tensors_of_this_torch_may_be_taken_from_lists() -> None:
    assert may_be_listed() == (tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 10))


def test_a_state_that_is_handed_on_gets_deeper() -> None:
    weight = torch.ones(3, requires_grad=True)
    state, depths = torch.zeros(3), []
    for _ in range(5):
        state = torch.tanh(state + weight)
        depths.append(graph_depth([state]))
    assert depths == sorted(set(depths))
    assert graph_depth([state.detach()]) == 0
    assert graph_depth([]) == 0


def test_the_depth_is_that_of_torchs_own_graph() -> None:
    weight = torch.ones(3, requires_grad=True)
    layer = torch.nn.Linear(3, 3)
    state = torch.cat([layer(weight * 2), layer(weight).relu()]).sum()

    def depth(node: Any) -> int:
        if node is None:
            return 0
        return 1 + max((depth(following) for following, _ in node.next_functions), default=0)

    assert graph_depth([state]) == depth(state.grad_fn)


def test_a_very_long_history_is_not_followed_to_its_end() -> None:
    state = torch.zeros(1, requires_grad=True)
    for _ in range(20_000):
        state = state + 1
    assert 1_000 < graph_depth([state, state]) <= 3_000
