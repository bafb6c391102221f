"""Which types a table shows, and in which order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ramledger.type_ranks import MOST_ROWS, TypeRank, listed_types, type_rank

USERS = {"envs.TradingEnvironment", "envs.Candle", "deep.Transition"}

RANKS = {
    "envs.TradingEnvironment": TypeRank.USER_ROLE,
    "__main__.DDPGAgent": TypeRank.USER_ROLE,
    "__main__.ReplayBuffer": TypeRank.USER_ROLE,
    "envs.Candle": TypeRank.USER,
    "__main__.train.<locals>.Row": TypeRank.USER,
    "gymnasium.wrappers.common.TimeLimit": TypeRank.ROLE,
    "gymnasium.envs.classic_control.cartpole.CartPoleEnv": TypeRank.ROLE,
    "gymnasium.envs.registration.EnvSpec": TypeRank.OTHER,
    "stable_baselines3.common.buffers.ReplayBuffer": TypeRank.ROLE,
    "stable_baselines3.common.vec_env.dummy_vec_env.DummyVecEnv": TypeRank.ROLE,
    "stable_baselines3.dqn.dqn.DQN": TypeRank.ROLE,
    "torch.nn.modules.linear.Linear": TypeRank.ROLE,
    "torch.optim.adam.Adam": TypeRank.ROLE,
    "ramledger.replay.buffer.ReplayBuffer": TypeRank.ROLE,
    "torch.Tensor": TypeRank.ARRAY,
    "torch.nn.parameter.Parameter": TypeRank.ARRAY,
    "numpy.ndarray": TypeRank.ARRAY,
    "pandas.core.frame.DataFrame": TypeRank.ARRAY,
    "pyarrow.lib.Table": TypeRank.ARRAY,
    "jaxlib._jax.ArrayImpl": TypeRank.ARRAY,
    "tensorflow.python.ops.resource_variable_ops.ResourceVariable": TypeRank.ARRAY,
    "list": TypeRank.DATA,
    "dict": TypeRank.DATA,
    "collections.deque": TypeRank.DATA,
    "datetime.datetime": TypeRank.DATA,
    "generator": TypeRank.OTHER,
    "logging.LogRecord": TypeRank.OTHER,
    "sympy.core.symbol.Symbol": TypeRank.OTHER,
    "function": TypeRank.CODE,
    "functools.partial": TypeRank.CODE,
    "weakref.ReferenceType": TypeRank.CODE,
    "inspect.Parameter": TypeRank.HIDDEN,
    "typing.ForwardRef": TypeRank.HIDDEN,
    "typing._GenericAlias": TypeRank.HIDDEN,
    "typing_extensions.TypeVar": TypeRank.HIDDEN,
    "importlib._bootstrap_external.SourceFileLoader": TypeRank.HIDDEN,
    "_frozen_importlib.ModuleSpec": TypeRank.HIDDEN,
    "_abc._abc_data": TypeRank.HIDDEN,
    "types.GenericAlias": TypeRank.HIDDEN,
    "re.Pattern": TypeRank.HIDDEN,
    "ramledger.agent.server._Tick": TypeRank.HIDDEN,
}


@pytest.mark.parametrize("name", RANKS)
def test_the_rank_of_a_type(name: str) -> None:
    assert type_rank(name, USERS) is RANKS[name]


def test_what_the_user_wrote_is_never_hidden() -> None:
    assert type_rank("typing.Mine", {"typing.Mine"}) is TypeRank.USER


@given(st.lists(st.sampled_from(sorted(RANKS)), unique=True))
def test_a_table_is_in_the_order_of_ranks_and_bounded(names: list[str]) -> None:
    listed = listed_types(names, USERS)
    ranks = [RANKS[name] for name in listed]
    assert ranks == sorted(ranks)
    assert TypeRank.HIDDEN not in ranks
    assert set(listed) <= set(names)
    for rank, most in MOST_ROWS.items():
        of_rank = [name for name in names if RANKS[name] is rank]
        assert [name for name in listed if RANKS[name] is rank] == of_rank[:most]
