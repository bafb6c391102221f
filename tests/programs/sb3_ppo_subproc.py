"""stable-baselines3 PPO with four environments in worker processes."""

from holding import hold, open_ledger

ledger = open_ledger()

import torch  # noqa: E402
from stable_baselines3 import PPO  # noqa: E402
from stable_baselines3.common.env_util import make_vec_env  # noqa: E402
from stable_baselines3.common.vec_env import SubprocVecEnv  # noqa: E402

WORKERS = 4


def main() -> None:
    torch.set_num_threads(1)
    env = make_vec_env("CartPole-v1", n_envs=WORKERS, vec_env_cls=SubprocVecEnv)
    model = PPO("MlpPolicy", env, n_steps=256, policy_kwargs={"net_arch": [256, 256]})
    model.learn(2048)
    if ledger is not None:
        ledger.claim("networks/policy", model.policy)
        ledger.claim("rollout", model.rollout_buffer)
    observation, actions = 4, 2
    trunk = observation * 256 + 256 + 256 * 256 + 256
    policy = 4 * (2 * trunk + (256 * actions + actions) + (256 + 1))
    truth = {
        "networks_bytes": policy,
        "gradients_bytes": policy,
        "optimizer_bytes": 2 * policy,
        "modules": sum(1 for _ in model.policy.modules()),
        "parameters": 12,
        "workers": WORKERS,
    }
    hold(truth, ledger)
    env.close()


if __name__ == "__main__":
    main()
