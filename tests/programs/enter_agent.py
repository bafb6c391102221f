"""A program with an agent and a few verbs; it does what the lines on its input tell it to do."""

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from ramledger.agent import server


def fail(request: dict[str, Any]) -> dict[str, Any]:
    raise RuntimeError("on purpose")


def slow(request: dict[str, Any]) -> dict[str, Any]:
    with open(request.get("marker", os.devnull), "w"):
        pass  # whoever asked sees that it has begun
    time.sleep(0.5)
    return {"slept": True}


def fork() -> str:
    """Fork a child that ends through all its exit handlers."""
    child = os.fork()
    if child == 0:
        server.start_agent()
        sys.stdout.write(f"child {os.getpid()} {os.path.exists(server.socket_path(os.getpid()))}\n")
        sys.stdout.flush()
        raise SystemExit(0)
    return f"status {os.waitpid(child, 0)[1]}"


def fork_and_stay() -> str:
    """Fork a child that keeps all its descriptors until it is killed."""
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    return str(child)


def start() -> str:
    server.start_agent()
    return "started"


COMMANDS: dict[str, Callable[[], str]] = {
    "start": start,
    "threads": lambda: " ".join(thread.name for thread in threading.enumerate()),
    "fork": fork,
    "fork and stay": fork_and_stay,
    "exit": lambda: sys.exit(5),
    "exec": lambda: os.execv(sys.executable, [sys.executable, *sys.argv]),
}

server._CLIENT_SECONDS = 0.5
server.register_handler("fail", fail)
server.register_handler("slow", slow)
server.register_handler("odd", lambda request: {"value": object()})
server.register_handler("large", lambda request: {"value": "x" * (65 << 20)})
print("ready", flush=True)
for line in iter(sys.stdin.readline, ""):
    print(COMMANDS[line.strip()](), flush=True)
