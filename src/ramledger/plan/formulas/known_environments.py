"""Spaces of environments that many trainings use, so that a plan need not ask for them."""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Environment:
    """Spaces of one environment as text, and what an instance of it holds."""

    observation: dict[str, str]
    action: str
    memory_bytes: int = 0


def _plain(observation: str, action: str) -> Environment:
    return Environment({"": observation}, action)


def _goal(observation: int, goal: int, action: int) -> Environment:
    boxes = {
        "observation": f"{observation}:float64",
        "achieved_goal": f"{goal}:float64",
        "desired_goal": f"{goal}:float64",
    }
    return Environment(boxes, f"box:{action}")


# gymnasium 1.2 and its predecessors: versions share a row unless their spaces differ
_BY_NAME = {
    "CartPole": _plain("4", "discrete:2"),
    "MountainCar": _plain("2", "discrete:3"),
    "MountainCarContinuous": _plain("2", "box:1"),
    "Acrobot": _plain("6", "discrete:3"),
    "Pendulum": _plain("3", "box:1"),
    "FrozenLake": _plain("discrete:16", "discrete:4"),
    "FrozenLake8x8": _plain("discrete:64", "discrete:4"),
    "CliffWalking": _plain("discrete:48", "discrete:4"),
    "Taxi": _plain("discrete:500", "discrete:6"),
    "Blackjack": _plain("discrete:32,11,2", "discrete:2"),
    "LunarLander": _plain("8", "discrete:4"),
    "LunarLanderContinuous": _plain("8", "box:2"),
    "BipedalWalker": _plain("24", "box:4"),
    "BipedalWalkerHardcore": _plain("24", "box:4"),
    "CarRacing": _plain("96x96x3:uint8", "box:3"),
    "Ant": _plain("27:float64", "box:8"),
    "HalfCheetah": _plain("17:float64", "box:6"),
    "Hopper": _plain("11:float64", "box:3"),
    "Walker2d": _plain("17:float64", "box:6"),
    "Swimmer": _plain("8:float64", "box:2"),
    "Humanoid": _plain("376:float64", "box:17"),
    "HumanoidStandup": _plain("376:float64", "box:17"),
    "Reacher": _plain("11:float64", "box:2"),
    "Pusher": _plain("23:float64", "box:7"),
    "InvertedPendulum": _plain("4:float64", "box:1"),
    "InvertedDoublePendulum": _plain("11:float64", "box:1"),
    "HalfCheetahBulletEnv": _plain("26", "box:6"),
    "AntBulletEnv": _plain("28", "box:8"),
    "HopperBulletEnv": _plain("15", "box:3"),
    "Walker2DBulletEnv": _plain("22", "box:6"),
    "ReacherBulletEnv": _plain("9", "box:2"),
    "HumanoidBulletEnv": _plain("44", "box:17"),
    "InvertedDoublePendulumBulletEnv": _plain("9", "box:1"),
    "InvertedPendulumSwingupBulletEnv": _plain("5", "box:1"),
    "MinitaurBulletEnv": _plain("28", "box:8"),
    "MinitaurBulletDuckEnv": _plain("28", "box:8"),
    "FetchReach": _goal(10, 3, 4),
    "FetchPush": _goal(25, 3, 4),
    "FetchSlide": _goal(25, 3, 4),
    "FetchPickAndPlace": _goal(25, 3, 4),
    "PointMaze_UMaze": _goal(4, 2, 2),
    "PointMaze_Open": _goal(4, 2, 2),
    "PointMaze_Medium": _goal(4, 2, 2),
    "PointMaze_Large": _goal(4, 2, 2),
    "PandaReach": _goal(6, 3, 3),
    "PandaPush": _goal(18, 3, 3),
    "PandaSlide": _goal(18, 3, 3),
    "PandaPickAndPlace": _goal(19, 3, 4),
    "PandaStack": _goal(31, 6, 4),
    "parking": Environment(
        {
            "observation": "6:float64",
            "achieved_goal": "6:float64",
            "desired_goal": "6:float64",
        },
        "box:2",
    ),
    "highway-fast": _plain("5x5", "discrete:5"),
    "highway": _plain("5x5", "discrete:5"),
    "donkey-generated-track": _plain("120x160x3:uint8", "box:2"),
    "A1Walking": _plain("28", "box:12"),
    "A1Jumping": _plain("28", "box:12"),
    "NeckEnv": _plain("13", "box:4"),
    "CartpoleBulletEnv": _plain("4", "discrete:2"),
}
_BY_VERSION = {
    "Ant-v5": _plain("105:float64", "box:8"),
    "Humanoid-v5": _plain("348:float64", "box:17"),
    "HumanoidStandup-v5": _plain("348:float64", "box:17"),
    "Reacher-v5": _plain("10:float64", "box:2"),
    "InvertedDoublePendulum-v5": _plain("9:float64", "box:1"),
    "CartPole-v0": _plain("4", "discrete:2"),
}
_MINIGRID = _plain("7x7x3:uint8", "discrete:7")
# actions of the games' minimal sets, ale-py 0.12
_ATARI_ACTIONS = {
    "Pong": 6, "Breakout": 4, "BeamRider": 9, "Enduro": 9, "Qbert": 6, "Seaquest": 18,
    "SpaceInvaders": 6, "Asteroids": 14, "MsPacman": 9, "Freeway": 3, "RoadRunner": 18,
}  # fmt: skip
_ATARI = re.compile(r"(?:ALE/)?([A-Z]\w*?)(?:NoFrameskip|Deterministic)?-(?:ram-)?v\d+")
_ATARI_NAMES = re.compile(r"(?:ALE/)|NoFrameskip-|Deterministic-")
# measured: a second wrapped Pong, ale-py 0.12
ATARI_BYTES = 1_400_000


def known_environment(name: str) -> Environment | None:
    """Spaces of an environment by its id, or None."""
    if not name:
        return None
    if name in _BY_VERSION:
        return _BY_VERSION[name]
    short = name.rpartition("/")[2] if not name.startswith("ALE/") else name
    root = re.sub(r"(?:-v\d+)$", "", short)
    if root in _BY_NAME:
        return _BY_NAME[root]
    # NoVel masks velocities and keeps the shape
    for ending in ("NoVel", "Dense", "Continuous"):
        if root.removesuffix(ending) in _BY_NAME:
            return _BY_NAME[root.removesuffix(ending)]
    if root.startswith("MiniGrid-"):
        return _MINIGRID
    if is_atari(name):
        match = _ATARI.fullmatch(name)
        actions = _ATARI_ACTIONS.get(match[1] if match else "", 18)
        return Environment({"": "84x84x1:uint8"}, f"discrete:{actions}", ATARI_BYTES)
    return None


def is_atari(name: str) -> bool:
    """Whether the id is one of the Arcade Learning Environment's; its frames come wrapped."""
    return bool(_ATARI_NAMES.search(name))
