"""Source code that loads our package in another process and starts the agent there.

`bootstrap_source` is made outside and runs inside, in any thread. It prints nothing, and leaves
__main__ and `sys.path` unchanged. It writes its result to a small report file.
"""

import _thread
import os
import sys
from typing import Any

from ramledger.agent.fork_guard import GATE
from ramledger.agent.server import open_agent

# A thread that imports while the interpreter ends may crash it: so the exit waits up to 5 seconds.
# {arguments}: the package's folder, the report file, and "module:function" to call at the end.
# The report is not written by `open` or functions of `os`: the program may have replaced them.
_BOOTSTRAP = """
def enter(package, report, starter):
    import sys, _imp, _thread, _frozen_importlib
    atexit = sys.modules.get('atexit')
    if atexit is None:  # not by import: its lock is freed at the end while we may wait for it
        spec = _frozen_importlib.ModuleSpec('atexit', _frozen_importlib.BuiltinImporter)
        atexit = _imp.create_builtin(spec)
        _imp.exec_builtin(atexit)
        sys.modules['atexit'] = atexit
    at_work = _thread.allocate_lock()
    at_work.acquire()
    atexit.register(at_work.acquire, True, 5.0)
    try:
        work(package, report, starter)
    finally:
        at_work.release()
        atexit.unregister(at_work.acquire)
def work(package, report, starter):
    import sys, posix
    import _frozen_importlib, _frozen_importlib_external
    def load(name, *path, **more):
        if name not in sys.modules:
            spec = _frozen_importlib_external.spec_from_file_location(name, '/'.join(path), **more)
            module = _frozen_importlib.module_from_spec(spec)
            sys.modules[name] = module
            try:
                spec.loader.exec_module(module)
            except BaseException:
                del sys.modules[name]
                raise
        return sys.modules[name]
    def tell(text):
        flags = posix.O_WRONLY | posix.O_CREAT | posix.O_TRUNC | posix.O_CLOEXEC
        file = posix.open(report + '.part', flags, 0o600)
        try:
            posix.write(file, text.encode('utf-8', 'backslashreplace'))
        finally:
            posix.close(file)
        posix.rename(report + '.part', report)
    try:
        posix.stat(report.rpartition('/')[0])
    except OSError:
        pass  # the other side no longer waits
    else:
        try:
            with load('ramledger.agent.fork_guard', package, 'agent', 'fork_guard.py').GATE:
                load('ramledger', package, '__init__.py', submodule_search_locations=[package])
                from ramledger.attach.bootstrap import start_agent
                tell('ok ' + start_agent(starter))
        except BaseException as error:
            try:
                tell('failed ' + type(error).__name__ + ': ' + str(error))
            except BaseException:
                pass
try:
    enter(*{arguments})
except BaseException:
    pass  # the interpreter would print it on the program's stderr
"""


def bootstrap_source(report_path: str, starter: str) -> str:
    """ASCII source to run in the process; it does nothing if the report's folder is gone."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    code = _BOOTSTRAP.replace("{arguments}", repr((package, report_path, starter)))
    return one_statement(code)


def one_statement(code: str) -> str:
    """One statement that runs `code` in a namespace of its own."""
    return f"__import__('builtins').exec({code!a}, {{}})\n"


def start_agent(starter: str) -> str:
    """In the process: start the agent and call the starter; the path of the agent's socket."""
    _load_threading()
    path = open_agent()
    if starter:
        from importlib import import_module

        module, _, function = starter.partition(":")
        getattr(import_module(module), function)()
    if _thread.get_native_id() != os.getpid():
        GATE.announce_end()
    return path


def _load_threading() -> None:
    """Import `threading` so that it takes the right thread for the main thread.

    Until Python 3.12 it takes the thread that imports it first, which would be ours.
    """
    if "threading" in sys.modules:
        return
    import threading

    if sys.version_info >= (3, 13):
        return
    # frames are listed from the newest thread to the oldest
    main_ident = list(sys._current_frames())[-1]
    main: Any = threading.main_thread()
    active: dict[int, Any] = vars(threading)["_active"]
    active.pop(main.ident, None)
    main._ident, main._native_id = main_ident, os.getpid()
    main._tstate_lock = _thread.allocate_lock()
    main._tstate_lock.acquire()
    active[main_ident] = main
