"""The history of a tensor: deeper with every step it is handed on, and cut by detach."""

import pytest

from ramledger.objects.census.autograd_depth import graph_depth

torch = pytest.importorskip("torch")


def test_a_state_that_is_handed_on_gets_deeper() -> None:
    weight = torch.ones(3, requires_grad=True)
    state, depths = torch.zeros(3), []
    for _ in range(5):
        state = torch.tanh(state + weight)
        depths.append(graph_depth([state]))
    assert depths == sorted(set(depths))
    assert graph_depth([state.detach()]) == 0
    assert graph_depth([]) == 0


def test_a_very_long_history_is_not_followed_to_its_end() -> None:
    state = torch.zeros(1, requires_grad=True)
    for _ in range(20_000):
        state = state + 1
    assert 1_000 < graph_depth([state, state]) <= 6_000
