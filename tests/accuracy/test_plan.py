"""Plans against three real trainings, small ones; `make accuracy` measures them all."""

import pytest

from tests.accuracy.planned import jobs, measure

# one for each way to need memory: an update, a copied rollout, a replay buffer
QUICK = ["ppo-multibinary-mlp50", "ppo-dict-64x64x3-vec40-4dummy", "dqn-cnn96x96x3-buf3k-b64"]


@pytest.mark.serial
@pytest.mark.parametrize("name", QUICK)
def test_a_plan_comes_true(name: str) -> None:
    outcome = measure(name, jobs("seen")[name])
    assert outcome.parameter_bytes == outcome.measured["parameter_bytes"]
    assert outcome.is_inside
    # ten percent, here: versions of torch and of the C library differ between machines
    assert abs(outcome.error) < 0.10
