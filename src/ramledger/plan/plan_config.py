"""What is planned: one flat description that every reader (file, script, zoo) fills in.

The names are stable-baselines3's own. A field that is not given takes the algorithm's default.
The same class is the schema of our TOML, YAML and JSON files: docs/plan.schema.json.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from ramledger.errors import ConfigError

Count = Annotated[int, Meta(ge=1, le=10**12)]
Amount = Annotated[int, Meta(ge=0, le=10**15)]
Few = Annotated[int, Meta(ge=1, le=1_000_000)]
Width = Annotated[int, Meta(ge=1, le=1_000_000)]
Widths = Annotated[list[Width], Meta(max_length=1000)]

FrameworkName = Literal["sb3", "cleanrl", "elegantrl", "rllib", "ramledger", "custom"]
Library = Literal["torch", "jax", "tensorflow", "numpy"]


class Machine(Struct, kw_only=True, forbid_unknown_fields=True, frozen=True):
    """Where it will run; sizes such as "32GiB". What is missing is read from this machine."""

    ram: str | int | None = None
    vram: str | int | None = None
    cores: Few | None = None


class Callbacks(Struct, kw_only=True, forbid_unknown_fields=True, frozen=True):
    """What happens beside the training: checkpoints and evaluations."""

    checkpoint_every: Count | None = None
    """Calls of the callback between two checkpoints; one call is one step of every env."""
    checkpoints_kept: Count | None = None
    save_replay_buffer: bool = False
    evaluate: bool = False
    evaluation_envs: Few = 1


class Versions(Struct, kw_only=True, forbid_unknown_fields=True, frozen=True):
    """Versions that change a size."""

    stable_baselines3: str | None = None


class Trainer(Struct, kw_only=True, forbid_unknown_fields=True, frozen=True):
    """What only our own trainer has; its TOML file is read as it is."""

    learners: Annotated[int, Meta(ge=0, le=100_000)] = 0
    """Agents that learn by gradients; 0: all of them."""
    agents_per_chunk: Annotated[int, Meta(ge=0, le=100_000)] = 0
    shared_batch: bool = False
    evaluations: Few = 1
    """Environments for validation."""
    is_windowed: bool = False
    """Whether an observation is a window over a table, stored as its position."""
    window: Few = 1
    columns: Few = 1
    """Numbers in a row of the table."""
    table_rows: Amount = 0
    n_step: Few = 1


class Buffer(Struct, kw_only=True, forbid_unknown_fields=True, frozen=True):
    """A buffer of code that is written from scratch."""

    name: str
    rows: Count | None = None
    """How many elements it takes; without it, buffer_size."""
    row_bytes: Amount | None = None
    """Bytes of one element; without it, those of a transition as Python objects."""
    held_as: Literal["numpy", "torch", "list", "arrays"] = "numpy"
    """What an observation is in such a transition; arrays: one array for each part of all."""
    observations: Annotated[int, Meta(ge=0, le=100)] = 2
    """Observations that a transition adds: 1 where the next one is the same object later on."""
    elements: Annotated[int, Meta(ge=0, le=1000)] = 5
    eager: bool = False
    """Whether it is touched as soon as it is made."""
    source: str = ""
    """The expression that makes it, and where: "deque(maxlen=50_000), train.py:31"."""


class Network(Struct, kw_only=True, forbid_unknown_fields=True, frozen=True):
    """A network of code that is written from scratch."""

    name: str
    parameters: Amount
    copies: Few = 1
    trained: Annotated[int, Meta(ge=0, le=1_000_000)] = 1
    """Copies that have gradients; targets have none."""
    outputs: Amount = 0
    """Numbers that all its layers give for one observation."""
    convolutions: list[Amount] = []
    """Those of each convolution."""
    largest: Amount = 0
    """Parameters of its largest layer."""


class Config(Struct, kw_only=True, forbid_unknown_fields=True, frozen=True):
    """One training, as its author wrote it down."""

    framework: FrameworkName = "sb3"
    algorithm: str = "PPO"
    env: str = ""
    """A registered environment; its spaces are known for common ones."""
    observation: str | dict[str, str] | None = None
    """"144x160x3:uint8"; a table of them for Dict observations."""
    action: str | None = None
    """"discrete:7", "box:6", "multidiscrete:3,5,2" or "multibinary:4"."""
    env_memory: str | int = 0
    """Bytes that one environment holds for itself."""
    frame_stack: Few = 1
    episode_length: Count | None = None

    n_envs: Few = 1
    vec_env: Literal["dummy", "subproc"] = "dummy"
    start_method: Literal["fork", "forkserver", "forkserver-preload", "spawn"] = "forkserver"

    total_steps: Count | None = None
    n_steps: Count | None = None
    batch_size: Count | None = None
    n_epochs: Count | None = None
    buffer_size: Count | None = None
    learning_starts: Amount | None = None
    train_freq: Count | None = None
    gradient_steps: Annotated[int, Meta(ge=-1, le=10**9)] | None = None
    optimize_memory_usage: bool = False
    handle_timeout_termination: bool = True
    replay_frames_once: bool = False
    """Whether the buffer stores single frames and stacks them when sampling."""
    rollout_frames_once: bool = False
    """Whether `run --apply rollout` stores frames once and rollouts are not copied."""
    her: bool = False
    """Hindsight replay (HerReplayBuffer)."""

    policy: str | None = None
    net_arch: Widths | dict[str, Widths] | None = None
    features_dim: Width | None = None
    n_critics: Annotated[int, Meta(ge=1, le=100)] | None = None
    n_quantiles: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    lstm_hidden_size: Width = 256
    n_lstm_layers: Annotated[int, Meta(ge=1, le=100)] = 1
    enable_critic_lstm: bool = True
    shared_lstm: bool = False
    share_features_extractor: bool = True
    use_sde: bool = False
    normalize_images: bool = True
    optimizer: Literal["adam", "adamw", "rmsprop", "sgd"] | None = None
    population: Few = 1
    """Agents that are held at the same time (evolution)."""
    trained_parameters: Count | None = None
    """Of a network of your own: parameters with a gradient."""
    activation_bytes: Amount | None = None
    """Of a network of your own: the most tensor bytes alive in one update."""

    buffers: Annotated[list[Buffer], Meta(max_length=1000)] = []
    """Of code that is written from scratch (framework custom)."""
    networks: Annotated[list[Network], Meta(max_length=1000)] = []
    library: Library = "torch"
    """What computes the networks."""

    device: Literal["cpu", "cuda"] = "cpu"
    torch_threads: Few | None = None
    mmap_threshold: bool = False
    """Whether it runs with MALLOC_MMAP_THRESHOLD_=1048576."""
    imports: list[str] = []
    """Other heavy libraries that the training imports: pandas, matplotlib, cv2."""
    steps_per_second: Annotated[float, Meta(gt=0, le=1e12)] | None = None
    num_env_runners: Annotated[int, Meta(ge=0, le=100_000)] = 0
    num_learners: Annotated[int, Meta(ge=0, le=10_000)] = 0
    object_store_memory: str | int | None = None

    callbacks: Callbacks = Callbacks()
    trainer: Trainer = Trainer()
    versions: Versions = Versions()
    machine: Machine = Machine()


FIELDS = tuple(field.name for field in msgspec.structs.fields(Config))


def config_from(data: Any, where: str = "config") -> Config:
    """Check plain data (a table read from a file) against the schema."""
    if isinstance(data, dict):
        _refuse_unknown(data, where)
    try:
        return msgspec.convert(data, Config)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `")
        key = path.rstrip("`").removeprefix("$.")
        place = f"{where}: {key}" if key and key != "$" else where
        raise ConfigError(
            f"{place}: {message[:1].lower()}{message[1:]}", hint=_hint_for(key)
        ) from None


def merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`over` on top of `under`; tables such as `machine` are merged key by key."""
    found = {**under, **over}
    for name in ("callbacks", "machine", "trainer", "versions"):
        if isinstance(under.get(name), Mapping) and isinstance(over.get(name), Mapping):
            found[name] = {**under[name], **over[name]}
    return found


def _refuse_unknown(data: dict[Any, Any], where: str) -> None:
    from difflib import get_close_matches

    for key in data:
        if key not in FIELDS:
            near = get_close_matches(str(key), FIELDS, 1, 0.6)
            raise ConfigError(
                f"{where}: unknown key {key!r}",
                hint=f"did you mean {near[0]!r}?" if near else "keys: " + ", ".join(FIELDS),
            )


_HINTS = {
    "observation": 'observation = "144x160x3:uint8"',
    "action": 'action = "discrete:7" or "box:6"',
    "net_arch": "net_arch = [256, 256], or { pi = [64], vf = [64] }",
    "n_envs": "n_envs is a whole number from 1 to 1000000",
}


def _hint_for(key: str) -> str:
    root = key.split(".")[0].split("[")[0]
    return _HINTS.get(root, "the keys and their types: docs/plan.md")


def json_schema() -> dict[str, Any]:
    """The schema of our files, for editors."""
    schema = msgspec.json.schema(Config)
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "ramledger plan"
    return schema
