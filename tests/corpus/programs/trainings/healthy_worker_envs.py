"""PPO of stable-baselines3 on environments that run in two worker processes."""

from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import SubprocVecEnv


def main() -> None:
    envs = make_vec_env("Acrobot-v1", n_envs=2, seed=1, vec_env_cls=SubprocVecEnv)
    model = PPO("MlpPolicy", envs, n_steps=512, batch_size=64, seed=1)
    model.learn(24_000)
    envs.close()


if __name__ == "__main__":
    main()
