"""Experience bounded in bytes: stored once, saved without a spike, resumed without a loss."""

from ramledger.replay.batch import Batch, Sequences
from ramledger.replay.buffer import ReplayBuffer
from ramledger.replay.checkpoints.exporting import export
from ramledger.replay.checkpoints.inspection import inspect, verify
from ramledger.replay.checkpoints.saved_buffers import Save, saves
from ramledger.replay.hindsight import Hindsight
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
from ramledger.replay.storage.backing import Folder, Memory
from ramledger.replay.storage.sum_tree import Prioritized
from ramledger.replay.upload.downloading import download
from ramledger.replay.upload.remote_store import open_store
from ramledger.replay.upload.uploading import upload, upload_in_background

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
    "Save",
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
    "open_store",
    "saves",
    "upload",
    "upload_in_background",
    "verify",
]
