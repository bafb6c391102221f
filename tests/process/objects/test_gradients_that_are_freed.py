"""A program that frees its gradients while they are looked at: it must not crash.

torch frees a gradient while the parameter still points to it, and without the GIL. Read by torch's
own getters, the first of these programs ended with SIGSEGV.
"""

import subprocess
import sys

import pytest

pytest.importorskip("torch")

PROGRAM = """
import threading, time, torch
from ramledger.objects.process_objects import read_process_objects

torch.set_num_threads(1)
layers = [torch.nn.Parameter(torch.zeros(200_000)) for _ in range(4)]
state = torch.zeros(1000, requires_grad=True)
end = time.monotonic() + 6
looks = []

def look():
    while time.monotonic() < end:
        found = read_process_objects()
        looks.append(sum(h.objects for h in found.holdings if h.account == "gradients"))

thread = threading.Thread(target=look)
thread.start()
while thread.is_alive():
    CHANGE
print(len(looks), max(looks))
"""

SETS_TO_NONE = """
    for layer in layers:
        layer.grad = torch.empty_like(layer)
    for layer in layers:
        layer.grad = None
"""
TRAINS = """
    loss = sum((layer * 2).sum() for layer in layers)
    loss.backward()
    for layer in layers:
        layer.grad = None
"""
DETACHES_IN_PLACE = """
    kept = state * 2
    for _ in range(200):
        kept = kept + 1
    for layer in layers:
        layer.grad = torch.empty_like(layer)
    kept.detach_()
"""


@pytest.mark.parametrize("change", [SETS_TO_NONE, TRAINS, DETACHES_IN_PLACE])
def test_it_goes_on(change: str) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", PROGRAM.replace("    CHANGE", change)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    looks, most = map(int, done.stdout.split())
    assert looks >= 3
    assert most > 0
