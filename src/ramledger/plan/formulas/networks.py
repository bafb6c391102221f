"""Networks by arithmetic: parameters and activations of MLPs, NatureCNN, LSTM; no torch.

Exact for the policies of stable-baselines3 2.9 (tests compare them with the real modules).
"""

from dataclasses import dataclass
from itertools import pairwise

from ramledger.errors import ConfigError
from ramledger.plan.formulas.spaces import Action, Box, Observation
from ramledger.plan.plan_config import Network

# NatureCNN: channels, kernel, stride (Mnih et al. 2015; stable_baselines3/common/torch_layers.py)
_NATURE = ((32, 8, 4), (64, 4, 2), (64, 3, 1))


@dataclass(frozen=True, slots=True)
class Extractor:
    """What turns an observation into features; `convolutions` are outputs per sample."""

    parameters: int
    features: int
    convolutions: tuple[int, ...] = ()
    largest_parameter: int = 0
    input_channels: int = 0
    input_pixels: int = 0


@dataclass(frozen=True, slots=True)
class Modules:
    """All networks of one algorithm, in parameters; `trained` ones have gradients."""

    by_name: dict[str, int]
    trained: int
    tower_widths: int
    widest: int
    largest_parameter: int
    extractor: Extractor
    lstm_width: int = 0

    @property
    def total(self) -> int:
        return sum(self.by_name.values())


def linear(inputs: int, outputs: int) -> int:
    """Parameters of one layer with its bias."""
    return inputs * outputs + outputs


def mlp(inputs: int, hidden: tuple[int, ...], outputs: int | None = None) -> int:
    """Parameters of a stack of layers."""
    sizes = (inputs, *hidden, *(() if outputs is None else (outputs,)))
    return sum(linear(a, b) for a, b in pairwise(sizes))


def lstm(inputs: int, hidden: int, layers: int) -> int:
    """Parameters of torch.nn.LSTM: four gates, two biases each."""
    first = 4 * hidden * (inputs + hidden + 2)
    return first + (layers - 1) * 4 * hidden * (2 * hidden + 2)


def channels_of(box: Box) -> tuple[int, int, int]:
    """Channels, height and width; the smallest dimension is the channels, as SB3 decides."""
    if len(box.shape) != 3:
        raise ConfigError(
            f"a CNN needs three dimensions, and the observation is {box}",
            hint="use MlpPolicy, or give the image's shape: observation = '84x84x4:uint8'",
        )
    a, b, c = box.shape
    return (a, b, c) if a <= min(b, c) else (c, a, b)


def nature_cnn(box: Box, features: int) -> Extractor:
    """The convolutional extractor of the Nature paper."""
    channels, height, width = channels_of(box)
    parameters, outputs, depth = 0, [], channels
    largest = 0
    high, wide = height, width
    for out, kernel, stride in _NATURE:
        high, wide = (high - kernel) // stride + 1, (wide - kernel) // stride + 1
        if high < 1 or wide < 1:
            raise ConfigError(
                f"the observation {box} is too small for NatureCNN, which needs 36x36 pixels",
                hint="use MlpPolicy, or resize the image",
            )
        size = out * depth * kernel * kernel
        parameters += size + out
        largest = max(largest, size)
        outputs.append(out * high * wide)
        depth = out
    parameters += linear(outputs[-1], features)
    largest = max(largest, outputs[-1] * features)
    return Extractor(
        parameters, features, tuple(outputs), largest, channels, height * width
    )  # fmt: skip


def flatten(box: Box) -> Extractor:
    """No parameters: the observation as it is."""
    return Extractor(0, box.network_inputs)


def combined(observation: Observation, cnn_features: int) -> Extractor:
    """CombinedExtractor: a NatureCNN for each image, the rest flattened beside it."""
    parameters = features = largest = channels = pixels = 0
    outputs: tuple[int, ...] = ()
    for box in observation.values():
        part = nature_cnn(box, cnn_features) if box.is_image else flatten(box)
        parameters += part.parameters
        features += part.features
        largest = max(largest, part.largest_parameter)
        outputs += part.convolutions
        channels, pixels = channels + part.input_channels, max(pixels, part.input_pixels)
    return Extractor(parameters, features, outputs, largest, channels, pixels)


@dataclass(frozen=True, slots=True)
class Arch:
    """Hidden widths of policy and value (or Q) networks."""

    pi: tuple[int, ...]
    vf: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Options:
    """What changes the networks beyond their widths."""

    n_critics: int = 1
    n_quantiles: int = 0
    has_targets: bool = False
    shares_features: bool = True
    lstm_hidden: int = 0
    lstm_layers: int = 1
    critic_lstm: bool = True
    shared_lstm: bool = False
    use_sde: bool = False
    critic_heads: bool = False
    """One critic network with a head a critic, and normalization constants (ElegantRL)."""


def actor_critic(extractor: Extractor, arch: Arch, action: Action, options: Options) -> Modules:
    """PPO, A2C, TRPO, RecurrentPPO: two towers on shared features, no targets."""
    features = extractor.features
    names: dict[str, int] = {}
    copies = 1 if options.shares_features else 2
    if extractor.parameters:
        names["features_extractor"] = copies * extractor.parameters
    lstm_width = 0
    if options.lstm_hidden:
        one = lstm(features, options.lstm_hidden, options.lstm_layers)
        names["lstm_actor"] = one
        lstm_width = options.lstm_hidden * options.lstm_layers
        if options.critic_lstm and not options.shared_lstm:
            names["lstm_critic"] = one
            lstm_width *= 2
        elif not options.shared_lstm:
            names["critic"] = linear(features, options.lstm_hidden)
        features = options.lstm_hidden
    names["mlp_extractor"] = mlp(features, arch.pi) + mlp(features, arch.vf)
    last_pi = arch.pi[-1] if arch.pi else features
    names["action_net"] = linear(last_pi, action.outputs)
    if action.is_continuous:
        names["log_std"] = action.outputs * (last_pi if options.use_sde else 1)
    names["value_net"] = linear(arch.vf[-1] if arch.vf else features, 1)
    return _modules(names, extractor, (arch.pi, arch.vf), features, sum(names.values()), lstm_width)


def q_network(extractor: Extractor, arch: Arch, action: Action, options: Options) -> Modules:
    """DQN and QR-DQN: one network and its target."""
    outputs = action.outputs * (options.n_quantiles or 1)
    size = extractor.parameters + mlp(extractor.features, arch.vf, outputs)
    names = {"q_net": size}
    if options.has_targets:
        names["q_net_target"] = size
    return _modules(names, extractor, (arch.vf,), extractor.features, size)


def soft_actor_critic(
    extractor: Extractor, arch: Arch, action: Action, options: Options
) -> Modules:
    """SAC, TQC and CrossQ: targets for the critics alone."""
    last = arch.pi[-1] if arch.pi else extractor.features
    heads = 2 * linear(last, action.outputs)
    if options.use_sde:
        heads = linear(last, action.outputs) + last * action.outputs
    actor = extractor.parameters + mlp(extractor.features, arch.pi) + heads
    critic = _critics(extractor, arch, action, options)
    names = {"actor": actor, "critic": critic}
    if options.has_targets:
        names["critic_target"] = critic
    towers = (arch.pi,) + (arch.vf,) * options.n_critics
    found = _modules(names, extractor, towers, extractor.features, actor + critic)
    return found


def deterministic_actor_critic(
    extractor: Extractor, arch: Arch, action: Action, options: Options
) -> Modules:
    """TD3 and DDPG: targets for actor and critics."""
    actor = extractor.parameters + mlp(extractor.features, arch.pi, action.outputs)
    critic = _critics(extractor, arch, action, options)
    names = {"actor": actor, "actor_target": actor, "critic": critic, "critic_target": critic}
    if options.critic_heads:
        # mean and deviation of the state in every network, of the value in the critics
        names = {k: v + 2 * extractor.features for k, v in names.items()}
        names |= {k: v + 2 for k, v in names.items() if "critic" in k}
    towers = (arch.pi,) + (arch.vf,) * (1 if options.critic_heads else options.n_critics)
    return _modules(names, extractor, towers, extractor.features, actor + critic)


def linear_policy(extractor: Extractor, arch: Arch, action: Action, options: Options) -> Modules:
    """ARS: a policy that is perturbed, without gradients."""
    size = extractor.parameters + mlp(extractor.features, arch.pi, action.outputs)
    return _modules({"action_net": size}, extractor, (arch.pi,), extractor.features, 0)


def _critics(extractor: Extractor, arch: Arch, action: Action, options: Options) -> int:
    inputs = extractor.features + action.outputs
    if options.critic_heads:
        return extractor.parameters + mlp(inputs, arch.vf, options.n_critics)
    one = mlp(inputs, arch.vf, options.n_quantiles or 1)
    return extractor.parameters + options.n_critics * one


def _modules(
    names: dict[str, int],
    extractor: Extractor,
    towers: tuple[tuple[int, ...], ...],
    features: int,
    trained: int,
    lstm_width: int = 0,
) -> Modules:
    widths = [width for tower in towers for width in tower]
    matrices = [a * b for tower in towers for a, b in zip((features, *tower), tower, strict=False)]
    return Modules(
        by_name={name: size for name, size in names.items() if size},
        trained=trained,
        tower_widths=sum(widths),
        widest=max(widths, default=0),
        largest_parameter=max([extractor.largest_parameter, *matrices]),
        extractor=extractor,
        lstm_width=lstm_width,
    )


def own_networks(own: list[Network], observation: Observation) -> Modules:
    """Networks of code that is written from scratch, as its layers say."""
    by_name: dict[str, int] = {}
    for network in own:
        by_name[network.name] = network.parameters * network.copies
    trained = sum(network.parameters * network.trained for network in own)
    convolutions = tuple(size for network in own[:1] for size in network.convolutions)
    channels = pixels = 0
    box = next(iter(observation.values()))
    if convolutions and len(box.shape) == 3:
        channels, height, width = channels_of(box)
        pixels = height * width
    return Modules(
        by_name,
        trained,
        # what a layer gives, its activation, and the gradients of both
        tower_widths=sum(3 * network.outputs * network.trained for network in own),
        widest=max((network.outputs for network in own), default=0),
        largest_parameter=max((network.largest for network in own), default=0),
        extractor=Extractor(0, 0, convolutions if pixels else (), 0, channels, pixels),
    )
