"""Probes: a collection and a trim, and how often they are taken."""

import gc

from ramledger.agent.release_probe import LiveProbes, probe
from ramledger.measure.own_memory import Meter
from ramledger.units import MIB


class Knot:
    def __init__(self) -> None:
        self.data = bytearray(b"k") * (4 * MIB)
        self.itself = self


def test_what_a_collection_gives_back_is_told() -> None:
    was_on = gc.isenabled()
    gc.disable()
    try:
        for _ in range(8):
            Knot()
        found = probe(Meter())
    finally:
        if was_on:
            gc.enable()
    assert found.collected_objects >= 8
    assert found.anon_bytes - found.after_trim_bytes >= 24 * MIB


def test_live_probes_become_rarer() -> None:
    probes = LiveProbes(wanted=True)
    taken = [generation for generation in range(1, 40) if probes.is_due()]
    assert taken == [4, 8, 16, 32]


def test_nobody_is_probed_unasked() -> None:
    probes = LiveProbes(wanted=False)
    assert not any(probes.is_due() for _ in range(40))
