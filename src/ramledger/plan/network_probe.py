"""`--network module:function`: the user's network, sized by torch itself without allocating it.

A subprocess builds it and trains it for two steps on FakeTensors, which have shapes and no memory,
and counts every storage that is alive. This is exact; the formulas cover known networks only.
"""

import json
import re
import subprocess
import sys
from dataclasses import replace
from typing import Any

import msgspec

from ramledger.errors import ConfigError, MeasureError
from ramledger.plan.complete_config import complete
from ramledger.plan.formulas.spaces import Box
from ramledger.plan.job import Job
from ramledger.plan.sources.source_result import Reading

_SECONDS = 300
_PROGRAM = """
import ast, importlib, json, os, sys
name, batch = sys.argv[1], int(sys.argv[2])
shapes = json.loads(sys.argv[3])
sys.path.insert(0, os.getcwd())
answer, sys.stdout = sys.stdout, sys.stderr
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

class Alive(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.sizes, self.known, self.peak = {}, set(), 0
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(found):
            if isinstance(tensor, torch.Tensor):
                self.see(tensor.untyped_storage())
        self.sizes = {ref: size for ref, size in self.sizes.items() if not ref.expired()}
        self.peak = max(self.peak, sum(self.sizes.values()))
        return found
    def see(self, storage):
        ref = StorageWeakRef(storage)
        if ref.cdata not in self.known and ref not in self.sizes:
            self.sizes[ref] = storage.nbytes()

module, _, function = name.partition(":")
function, _, given = function.partition("(")
given = ast.literal_eval("(" + given[:-1] + ",)") if given.strip(") ") else ()
make = importlib.import_module(module)
for part in function.split("."):
    make = getattr(make, part)
with FakeTensorMode():
    network = make(*given)
    trained = [p for p in network.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(trained)
    def inputs():
        found = {}
        for key, (shape, dtype) in shapes.items():
            x = torch.zeros((batch, *shape), dtype=getattr(torch, dtype))
            found[key] = (x.float() / 255.0) if dtype == "uint8" else x.float()
        return found if "" not in found else found[""]
    def step():
        outputs = network(inputs())
        loss = sum(o.float().pow(2).mean() for o in tree_leaves(outputs)
                   if isinstance(o, torch.Tensor))
        optimizer.zero_grad()
        loss.backward()
        del outputs, loss
        optimizer.step()
    step()
    alive = Alive()
    alive.known = {StorageWeakRef(p.untyped_storage()).cdata for p in network.parameters()}
    alive.known |= {StorageWeakRef(v.untyped_storage()).cdata
                    for state in optimizer.state.values() for v in state.values()
                    if isinstance(v, torch.Tensor)}
    for p in trained:
        if p.grad is not None:
            alive.see(p.grad.untyped_storage())
    with alive:
        step()
print(json.dumps({"trained_parameters": sum(p.numel() for p in trained),
                  "activation_bytes": alive.peak}), file=answer)
answer.flush()
os._exit(0)
"""


def with_network(reading: Reading, name: str) -> Reading:
    """The same training, with the sizes of the network that `name` makes."""
    job = complete(reading.config, reading.places)
    config = msgspec.structs.replace(reading.config, **network_sizes(job, name))
    return replace(reading, config=config)


def network_sizes(job: Job, name: str) -> dict[str, int]:
    """Trained parameters, and the most tensor bytes alive in one update."""
    if not re.fullmatch(r"[\w.]+:[\w.]+(\(.*\))?", name):
        raise ConfigError(
            f"--network must be module:function or module:Class(4, 2), got {name}",
            hint="--network 'my_package.nets:QNet(4, 2)'",
        )
    shapes = {key: (_channels_first(box), box.dtype) for key, box in job.observation.items()}
    command = [sys.executable, "-c", _PROGRAM, name, str(job.effective_batch), json.dumps(shapes)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
        found: dict[str, Any] = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        raise MeasureError(
            f"--network {name} did not finish within {_SECONDS} s",
            hint="make it build its network without reading data",
        ) from None
    except ValueError:
        lines = [line for line in done.stderr.strip().splitlines() if line.strip()]
        raise MeasureError(
            f"--network {name}: {lines[-1] if lines else 'no answer'}",
            hint="it must take one batch of observations (a dict of them for Dict spaces), "
            "images with their channels first",
        ) from None
    return {key: int(value) for key, value in found.items()}


def _channels_first(box: Box) -> tuple[int, ...]:
    if not box.is_image or box.shape[0] <= min(box.shape[1:]):
        return box.shape
    high, wide, depth = box.shape
    return depth, high, wide
