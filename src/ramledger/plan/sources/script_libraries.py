"""Which library computes a script's networks: torch, jax or TensorFlow."""

from collections.abc import Sequence

from ramledger.plan.sources.script_fields import Fields
from ramledger.plan.sources.script_scopes import Script

_LIBRARIES = (("jax", ("jax", "flax", "haiku", "equinox")), ("tensorflow", ("tensorflow", "keras")))
_BRINGS_TORCH = ("torch", "stable_baselines3", "cleanrl_utils", "sb3_contrib", "tianshou")


def put_library(scripts: Sequence[Script], fields: Fields) -> None:
    """What computes the networks, and whether torch is imported beside it."""
    imports = set().union(*(script.imports for script in scripts))
    uses_torch_networks = any(
        name.startswith(("torch.nn", "torch.optim")) for script in scripts
        for name in (*script.aliases.values(), *(call.name for call in script.calls))
    )  # fmt: skip
    found = next((name for name, signs in _LIBRARIES if imports.intersection(signs)), "")
    has_torch = bool(imports.intersection(_BRINGS_TORCH))
    if not found or uses_torch_networks:
        found = "torch" if has_torch else found or "numpy"
    fields.put("library", found, 1)
    fields.places.pop("library", None)
    if found != "torch" and has_torch:
        fields.put("imports", ["torch"], 1)
