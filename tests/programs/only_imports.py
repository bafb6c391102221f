"""Imports what it is told to and nothing else; with torch, the first optimizer too.

That first optimizer imports torch's compiler: a part of the price of the package.
"""

import sys
from importlib import import_module

from holding import hold


def main() -> None:
    for name in sys.argv[1:]:
        import_module(name)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)
        torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))])
    hold({})


main()
