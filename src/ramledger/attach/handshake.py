"""The folder in which a process that we enter finds our script and writes its result."""

import os
import time
from contextlib import suppress

from ramledger.attach import bootstrap
from ramledger.errors import MeasureError, ProcessGoneError
from ramledger.measure import proc

_TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm")
_POLL_SECONDS = 0.005


class Handshake:
    """One attempt to enter. Paths are as the process sees them; we open them below its root."""

    def __init__(self, pid: int, starter: str) -> None:
        self._pid = pid
        self._root = f"/proc/{pid}/root"
        self._require_our_files()
        self._folder = self._make_folder()
        self._script_is_pending = False
        self.script_path = f"{self._folder}/enter.py"
        self.source = bootstrap.bootstrap_source(f"{self._folder}/report", starter)

    def write_script(self) -> str:
        """Write the source to a file that the interpreter may run later; its path."""
        self._write(self.source)
        self._script_is_pending = True
        return self.script_path

    def script_is_done(self) -> None:
        """The script has run, or will never run: it may be removed."""
        self._script_is_pending = False

    def wait(self, until: float) -> str:
        """The path of the agent's socket, or "" if nothing happened in time."""
        while True:
            report = self._report()
            if report:
                break
            if time.monotonic() > until:
                return ""
            if proc.read_stat(self._pid).is_zombie:
                raise ProcessGoneError(
                    f"process {self._pid} ended before the agent started", pid=self._pid
                )
            time.sleep(_POLL_SECONDS)
        outcome, _, text = report.partition(" ")
        if outcome != "ok":
            raise MeasureError(
                f"our code failed inside process {self._pid}: {text or report}", pid=self._pid
            )
        return text

    def close(self) -> None:
        """Remove the folder. If our thread starts later, it finds no folder and does nothing."""
        folder = self._root + self._folder
        with suppress(OSError):
            if self._script_is_pending:
                # the interpreter would print an error about a missing script: leave one that
                # only removes itself
                paths = (self.script_path, self._folder)
                code = "import os\nos.unlink({!r})\nos.rmdir({!r})".format(*paths)
                self._write(bootstrap.one_statement(code))
            for name in os.listdir(folder):
                if not (self._script_is_pending and name == "enter.py"):
                    os.unlink(f"{folder}/{name}")
            os.rmdir(folder)

    def _require_our_files(self) -> None:
        ours = bootstrap.__file__
        try:
            if os.path.samefile(ours, self._root + ours):
                return
        except PermissionError:
            raise
        except OSError:
            proc.read_stat(self._pid)
        raise MeasureError(
            f"process {self._pid} does not see ramledger's files: it runs in a container or "
            "another root directory",
            pid=self._pid,
            hint="run ramledger in that container: docker exec, kubectl exec",
        )

    def _make_folder(self) -> str:
        owner = os.stat(f"/proc/{self._pid}")
        for parent in _TEMPORARY:
            folder = f"{parent}/ramledger-{os.urandom(8).hex()}"
            with suppress(OSError):
                os.mkdir(self._root + folder, 0o700)
                if owner.st_uid != os.geteuid():
                    os.chown(self._root + folder, owner.st_uid, owner.st_gid)
                return folder
        raise MeasureError(
            f"process {self._pid} has no folder for temporary files that this user may write to",
            pid=self._pid,
        )

    def _report(self) -> str:
        try:
            with open(f"{self._root}{self._folder}/report", encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def _write(self, source: str) -> None:
        path = self._root + self.script_path
        with open(f"{path}.new", "w", encoding="ascii") as file:
            file.write(source)
        os.chmod(f"{path}.new", 0o644)  # nobody else can enter the folder
        os.rename(f"{path}.new", path)
