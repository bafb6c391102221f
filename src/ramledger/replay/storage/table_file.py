"""A table that observations are windows of, kept in a .npy file: mapped, never read at once."""

from typing import Any

import numpy as np

from ramledger.errors import ConfigError
from ramledger.user_files import open_to_read

_HINT = "NAME=FILE.npy, as np.save writes it"


def read_table(path: str) -> "np.ndarray[Any, np.dtype[Any]]":
    """The array in a .npy file; its pages are read when they are used."""
    # checked here: numpy would wait for a FIFO, or unpickle
    open_to_read(path, ConfigError, _HINT).close()
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError, OverflowError, MemoryError) as error:
        raise ConfigError(f"{path} is not a .npy file: {error}", hint=_HINT) from None
    if not isinstance(found, np.ndarray):
        raise ConfigError(f"{path} is not a .npy file", hint=_HINT)
    return found
