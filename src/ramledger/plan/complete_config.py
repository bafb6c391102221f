"""From a config to a Job: every default filled in, every space known, networks sized."""

from collections.abc import Mapping

from ramledger.errors import ConfigError
from ramledger.plan.formulas import networks
from ramledger.plan.formulas.algorithms import Algorithm
from ramledger.plan.formulas.known_environments import known_environment
from ramledger.plan.formulas.networks import Arch, Extractor, Modules, Options
from ramledger.plan.formulas.process_costs import LIBRARY_MB
from ramledger.plan.formulas.spaces import Action, Box, Observation, parse_action, parse_box
from ramledger.plan.frameworks.all_frameworks import FRAMEWORKS
from ramledger.plan.job import Framework, Job
from ramledger.plan.plan_config import Config
from ramledger.plan.target_machine import named_bytes


def complete(config: Config, where: Mapping[str, str] | None = None) -> Job:
    """Fill in what the config leaves open; raise a ConfigError for what cannot be known."""
    places = where or {}
    framework = FRAMEWORKS[config.framework]
    algorithm = framework.algorithm(config.algorithm, places.get("algorithm", "algorithm"))
    assumed: list[str] = []
    observation, action = _spaces(config, algorithm, assumed)
    _check_actions(algorithm, action, places)
    modules = _modules(config, framework, algorithm, observation, action)
    if config.library in LIBRARY_MB and config.library != "numpy":
        size = LIBRARY_MB[config.library]
        assumed.append(
            f"{config.library}: {size:.0f} MB for imports and one compiled step, measured once; "
            "what is compiled for other shapes comes on top"
        )
    given = {
        name: getattr(config, name) if getattr(config, name) is not None else default
        for name, default in (
            ("n_steps", algorithm.n_steps),
            ("batch_size", algorithm.batch_size),
            ("n_epochs", algorithm.n_epochs),
            ("buffer_size", algorithm.buffer_size),
            ("learning_starts", algorithm.learning_starts),
            ("train_freq", algorithm.train_freq),
            ("gradient_steps", algorithm.gradient_steps),
        )
    }
    if not algorithm.is_on_policy:
        given["n_steps"] = 0
    return Job(
        config=config,
        framework=framework,
        algorithm=algorithm,
        observation=observation,
        action=action,
        modules=modules,
        total_steps=config.total_steps,
        env_bytes=named_bytes("env_memory", config.env_memory) or _known_env_bytes(config),
        assumed=tuple(assumed),
        **given,
    )


def _known_env_bytes(config: Config) -> int:
    known = known_environment(config.env)
    return known.memory_bytes if known else 0


def _spaces(config: Config, algorithm: Algorithm, assumed: list[str]) -> tuple[Observation, Action]:
    known = known_environment(config.env)
    if config.observation is None and known is None:
        raise ConfigError(
            "the observation's shape is not known"
            + (f": {config.env!r} is not among the known environments" if config.env else ""),
            hint='give it: --obs 144x160x3:uint8, observation = "…" in a config, or --probe',
        )
    if config.observation is None and known is not None:
        boxes = {name: parse_box(text) for name, text in known.observation.items()}
    elif isinstance(config.observation, dict):
        boxes = {
            name: parse_box(text, f"observation.{name}")
            for name, text in config.observation.items()
        }
    else:
        boxes = {"": parse_box(config.observation or "")}
    if not boxes:
        raise ConfigError(
            "observation must have at least one entry, got an empty table",
            hint='observation = { image = "84x84x3:uint8" }',
        )
    stacked = {
        name: box.stacked(config.frame_stack, _is_channels_first(box))
        for name, box in boxes.items()
    }
    if config.action is not None:
        action = parse_action(config.action)
    elif known is not None:
        action = parse_action(known.action)
    else:
        action = parse_action("box:6" if algorithm.actions == "box" else "discrete:8")
        assumed.append(f"action space {action}: give it with --action")
    return stacked, action


def _is_channels_first(box: Box) -> bool:
    return len(box.shape) == 3 and box.shape[0] <= min(box.shape[1:])


def _check_actions(algorithm: Algorithm, action: Action, places: Mapping[str, str]) -> None:
    wanted = algorithm.actions
    if wanted == "box" and not action.is_continuous:
        raise ConfigError(
            f"{places.get('algorithm', 'algorithm')}: {algorithm.name} needs continuous actions, "
            f"and the action space is {action}",
            hint="use PPO or DQN, or give a box: action = 'box:6'",
        )
    if wanted == "discrete" and action.kind != "discrete":
        raise ConfigError(
            f"{places.get('algorithm', 'algorithm')}: {algorithm.name} needs discrete actions, "
            f"and the action space is {action}",
            hint="use SAC, TD3 or PPO, or give discrete actions: action = 'discrete:8'",
        )


_BUILDERS = {
    "actor-critic": networks.actor_critic,
    "q": networks.q_network,
    "sac": networks.soft_actor_critic,
    "td3": networks.deterministic_actor_critic,
    "linear": networks.linear_policy,
}


def _modules(
    config: Config,
    framework: Framework,
    algorithm: Algorithm,
    observation: Observation,
    action: Action,
) -> Modules:
    if config.networks:
        return networks.own_networks(config.networks, observation)
    extractor = _extractor(config, framework, observation)
    # SB3 gives CombinedExtractor the hidden layers of an MLP policy
    is_cnn = bool(extractor.convolutions) and "" in observation
    arch = _arch(config, algorithm, is_cnn)
    is_shared = config.share_features_extractor and not algorithm.separate_critic_features
    options = Options(
        n_critics=config.n_critics or algorithm.n_critics,
        n_quantiles=config.n_quantiles or algorithm.n_quantiles,
        has_targets=algorithm.has_targets,
        shares_features=is_shared,
        lstm_hidden=config.lstm_hidden_size if _is_recurrent(config, algorithm) else 0,
        lstm_layers=config.n_lstm_layers,
        critic_lstm=config.enable_critic_lstm,
        shared_lstm=config.shared_lstm,
        use_sde=config.use_sde,
        critic_heads=framework.critic_heads,
    )
    return _BUILDERS[algorithm.shape](extractor, arch, action, options)


def _is_recurrent(config: Config, algorithm: Algorithm) -> bool:
    return algorithm.is_recurrent or "lstm" in (config.policy or "").lower()


def _extractor(config: Config, framework: Framework, observation: Observation) -> Extractor:
    if framework.extractor is not None:
        return framework.extractor(config, observation)
    policy = (config.policy or _default_policy(observation)).lower()
    if len(observation) > 1 or "" not in observation:
        return networks.combined(observation, config.features_dim or 256)
    box = observation[""]
    is_cnn = not framework.chooses_cnn_by_policy and _looks_like_an_image(box)
    if is_cnn or "cnn" in policy:
        return networks.nature_cnn(box, config.features_dim or 512)
    return networks.flatten(box)


def policy_of(job: Job) -> str:
    """The policy's name in stable-baselines3."""
    if job.config.policy is not None:
        return job.config.policy
    name = _default_policy(job.observation)
    return name.replace("Policy", "LstmPolicy") if job.algorithm.is_recurrent else name


def _default_policy(observation: Observation) -> str:
    box = observation.get("")
    if box is None:
        return "MultiInputPolicy"
    return "CnnPolicy" if box.is_image and min(channels_and_size(box)) >= 36 else "MlpPolicy"


def channels_and_size(box: Box) -> tuple[int, int]:
    """Height and width of an image."""
    _, height, width = networks.channels_of(box)
    return height, width


def _looks_like_an_image(box: Box) -> bool:
    return len(box.shape) == 3 and min(channels_and_size(box)) >= 36


def _arch(config: Config, algorithm: Algorithm, has_cnn: bool) -> Arch:
    default = algorithm.cnn_arch if has_cnn else algorithm.mlp_arch
    given = config.net_arch
    if given is None:
        return Arch(default, algorithm.critic_arch or default)
    if isinstance(given, dict):
        unknown = set(given) - {"pi", "vf", "qf"}
        if unknown:
            raise ConfigError(
                f"net_arch: unknown part {sorted(unknown)[0]!r}", hint="parts: pi, vf, qf"
            )
        value = given.get("vf") or given.get("qf") or []
        return Arch(tuple(given.get("pi", ())), tuple(value))
    return Arch(tuple(given), tuple(given))
