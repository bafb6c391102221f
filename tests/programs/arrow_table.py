"""Arrow tables that share a column, a batch and a plain buffer: memory that only C++ refers to."""

import numpy as np
import pyarrow as pa
from holding import hold

ROWS = 2_000_000


class Store:
    """A table, a slice of it, and a buffer."""

    def __init__(self) -> None:
        values = np.random.default_rng(0).random(ROWS)
        self.table = pa.table({"price": pa.array(values), "size": pa.array(values + 1)})
        self.recent = self.table.slice(ROWS - 10)
        self.batches = [pa.record_batch({"n": pa.array(np.arange(100_000))}) for _ in range(20)]


def main() -> None:
    store = Store()
    sizes = {"price": store.table["price"].nbytes, "size": store.table["size"].nbytes}
    hold({**sizes, "batches": sum(batch.nbytes for batch in store.batches)})


main()
