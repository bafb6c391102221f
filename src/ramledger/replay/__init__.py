"""Experience bounded in bytes: stored once, saved without a spike, resumed without a loss."""

from ramledger.replay.backing import Folder, Memory
from ramledger.replay.batch import Batch, Sequences
from ramledger.replay.buffer import ReplayBuffer
from ramledger.replay.downloading import download
from ramledger.replay.exporting import export
from ramledger.replay.hindsight import Hindsight
from ramledger.replay.inspection import inspect, verify
from ramledger.replay.schema import (
    Field,
    Frames,
    Goals,
    Schema,
    TableWindow,
    bytes_per_transition,
    bytes_per_transition_with_history,
)
from ramledger.replay.sharing import SharedReader, SharedReplayBuffer
from ramledger.replay.sum_tree import Prioritized
from ramledger.replay.uploading import upload, upload_in_background

__all__ = [
    "Batch",
    "Field",
    "Folder",
    "Frames",
    "Goals",
    "Hindsight",
    "Memory",
    "Prioritized",
    "ReplayBuffer",
    "Schema",
    "Sequences",
    "SharedReader",
    "SharedReplayBuffer",
    "TableWindow",
    "bytes_per_transition",
    "bytes_per_transition_with_history",
    "download",
    "export",
    "inspect",
    "upload",
    "upload_in_background",
    "verify",
]
