"""`ramledger serve RECORDING`: the page of a run on this machine, live while it goes on."""

import os
import select
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter, validators

from ramledger.errors import ConfigError, RamledgerError

if TYPE_CHECKING:
    from ramledger.report.html.page_server import PageServer

_PATIENCE_SECONDS = 10.0  # for a server that is started beside a run
_LINGER_SECONDS = 15.0  # after the end of the run, so that open pages see it
_CHECK_SECONDS = 0.5

Flag = Annotated[bool, Parameter(negative="", show_default=False)]
Path = Annotated[str, Parameter(required=True, metavar="RECORDING")]
Port = Annotated[int, Parameter(validator=validators.Number(gte=0, lte=65535))]


def serve(*recordings: Path, port: Port = 0, until_end: Flag = False) -> int:
    """Serve the page of a recording on 127.0.0.1, at a secret address.

    Parameters
    ----------
    recordings
        A file that `ramledger run` writes or has written; give two to compare them.
    port
        The port to listen on; by default a free one.
    until_end
        Stop a moment after the run is over.
    """
    # not at the top: `run` imports this module, and needs no server of its own
    from ramledger.report.html.page_server import PageServer

    if len(recordings) > 2:
        raise ConfigError(
            "a page shows one recording or compares two", hint="give at most two recordings"
        )
    # started by `run`, which holds signals back for the sake of its command
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
    with PageServer(recordings, port) as server:
        print(server.url, flush=True)
        if until_end:
            threading.Thread(target=_stop_at_the_end, args=(server,), daemon=True).start()
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return 0
    return 0


def _stop_at_the_end(server: "PageServer") -> None:
    parent, over_at = os.getppid(), None
    while over_at is None or time.monotonic() - over_at < _LINGER_SECONDS:
        time.sleep(_CHECK_SECONDS)
        with suppress(RamledgerError):  # the recording was deleted: what was read stays
            server.live.refresh()
        if over_at is None and (server.live.is_over or os.getppid() != parent):
            over_at = time.monotonic()
    server.shutdown()


def start_beside(path: str) -> str:
    """Serve a recording from a process of its own; the address, or '' if there is none."""
    command = [sys.executable, "-m", "ramledger", "serve", path, "--until-end"]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdout is not None
    with process.stdout as answer:
        ready, _, _ = select.select([answer], [], [], _PATIENCE_SECONDS)
        url = answer.readline().decode().strip() if ready else ""
    if not url:
        process.kill()
    return url
