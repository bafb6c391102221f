"""What an account is, in words that need no glossary; the same in a terminal and on the page."""

_WHOLE = {
    "allocator/free": "freed, kept by malloc for later",
    "arrays/no owner found": "arrays that no variable leads to",
    "files/other": "other files in memory",
    "gradients": "gradients of the networks",
    "imports/other": "what importing other packages costs",
    "kernel": "pages of the kernel",
    "libraries/other": "other library files",
    "native/in use": "memory of libraries, no owner found",
    "optimizer": "state of the optimizers",
    "env": "environments",
    "python/free": "free room in Python's own allocator",
    "python/objects": "Python objects, no owner found",
    "python/startup": "what Python itself needs to start",
    "ramledger": "this tool",
    "threads/stacks": "stacks of threads",
    "unexplained": "not attributed to anything yet",
    "variables/other": "small variables together",
}
_BELOW = {
    "env": "environments",
    "files": "a file in memory",
    "heap": "malloc's heap, seen from outside",
    "imports": "what importing {name} costs",
    "libraries": "library files of {name}",
    "networks": "parameters of a network",
    "replay": "a replay buffer",
    "rollout": "a rollout buffer",
    "shared memory": "memory that processes share",
    "devices": "a device in memory",
    "anonymous": "a mapping that its maker has named",
    "variables": "held by a variable of the program",
    "tensorflow": "graphs of TensorFlow",
}


def meaning(account: str) -> str:
    """`what importing torch costs` of `imports/torch`; '' where nothing is to be added."""
    known = _WHOLE.get(account)
    if known is not None:
        return known
    family, _, name = account.partition("/")
    return _BELOW.get(family, "").format(name=name)
