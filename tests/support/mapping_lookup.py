"""The mapping that holds an address, found by going through all of them."""

from collections.abc import Iterable

from ramledger.measure.mappings import Mapping


def mapping_at(mappings: Iterable[Mapping], address: int) -> Mapping | None:
    return next((one for one in mappings if one.start <= address < one.stop), None)
