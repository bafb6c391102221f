"""Plans against three real trainings, small ones; `make accuracy` measures them all.

How much of a library is resident depends on how the kernel caches its file, by tens of MiB from
one installation to the next: so what imports take is measured first, as `--calibrate` does.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ramledger.plan.baseline import calibrate
from tests.support.planned_jobs import jobs, measure

# one for each way to need memory: an update, a copied rollout, a replay buffer
QUICK = ["ppo-multibinary-mlp50", "ppo-dict-64x64x3-vec40-4dummy", "dqn-cnn96x96x3-buf3k-b64"]


@pytest.fixture(scope="module", autouse=True)
def calibrated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        folder: Path = tmp_path_factory.mktemp("cache")
        patch.setenv("XDG_CACHE_HOME", str(folder))
        calibrate()
        yield


@pytest.mark.parametrize("name", QUICK)
def test_a_plan_comes_true(name: str) -> None:
    outcome = measure(name, jobs("seen")[name])
    assert outcome.parameter_bytes == outcome.measured["parameter_bytes"]
    # the code that updates touch is not calibrated, and versions differ between machines
    assert abs(outcome.error) < 0.12, outcome.error
