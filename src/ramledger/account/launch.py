"""The environment in which every Python process starts its agent by itself."""

import os
from collections.abc import Mapping

_BOOTSTRAP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bootstrap")


def environment_with_agent(environment: Mapping[str, str]) -> dict[str, str]:
    """`environment` with our sitecustomize in front; the user's own still runs after it."""
    paths = [_BOOTSTRAP]
    if environment.get("PYTHONPATH"):
        paths.append(environment["PYTHONPATH"])
    return {**environment, "PYTHONPATH": os.pathsep.join(paths)}
