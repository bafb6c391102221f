"""The machine a training is planned for: this one's limits, or what the user says."""

import os
from dataclasses import dataclass

from ramledger.errors import ConfigError
from ramledger.measure.limits import largest_reservation, tightest
from ramledger.plan.plan_config import Machine
from ramledger.units import parse_bytes


@dataclass(frozen=True, slots=True)
class Hardware:
    """RAM, VRAM and cores, and where each was read."""

    ram_bytes: int | None
    ram_source: str
    vram_bytes: int | None
    vram_source: str
    cores: int
    reservable_bytes: int | None = None
    """The largest single reservation that the kernel grants; None: any."""
    reservable_source: str = ""


def hardware(wanted: Machine) -> Hardware:
    """This machine (the container's limit, not the host's), unless the config says otherwise."""
    ram_bytes, ram_source = None, "unknown"
    if wanted.ram is not None:
        ram_bytes, ram_source = named_bytes("machine.ram", wanted.ram), "given"
    else:
        limit = tightest(os.getpid())
        if limit is not None:
            ram_bytes, ram_source = limit.bytes, limit.source
    vram_bytes = None if wanted.vram is None else named_bytes("machine.vram", wanted.vram)
    return Hardware(
        ram_bytes,
        ram_source,
        vram_bytes,
        "unknown" if vram_bytes is None else "given",
        wanted.cores or available_cores(),
        *_reservable(ram_bytes if wanted.ram is not None else None),
    )


def _reservable(given_bytes: int | None) -> tuple[int | None, str]:
    """What Linux promises to one mapping: Documentation/mm/overcommit-accounting."""
    if given_bytes is not None:
        return given_bytes, "that RAM, with vm.overcommit_memory = 0 and no swap"
    limit = largest_reservation()
    return (None, "") if limit is None else limit


def named_bytes(field: str, value: str | int) -> int:
    """A size, or an error that names its field."""
    try:
        return parse_bytes(value)
    except ConfigError as error:
        raise ConfigError(f"{field}: {error.message}", hint=error.hint) from None


def available_cores() -> int:
    """Cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
