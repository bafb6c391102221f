"""docs/safety.md lists every change to a program's process: the table is compared with the code."""

import ast
import re
from collections.abc import Iterable
from contextlib import suppress

import pytest

from tests.support.places import ROOT

PACKAGE = ROOT / "src" / "ramledger"
# what may run in the process of a program; `cli` and the reading half have their own process
PARTS = (
    "api.py", "process_session.py", "agent", "attach", "hooks", "integrations", "interpreter",
    "measure", "objects", "phases", "recorder", "remedies", "statement",
)  # fmt: skip

CALLS = {
    "os.register_at_fork", "atexit.register", "atexit._run_exitfuncs", "_thread.start_new_thread",
    "threading.Thread", "sys.setswitchinterval", "sys.setprofile", "sys.settrace",
    "sys.setrecursionlimit", "sys.addaudithook", "sys.set_int_max_str_digits",
    "threading.setprofile", "threading.settrace", "threading.stack_size", "signal.signal",
    "signal.pthread_sigmask", "signal.set_wakeup_fd", "signal.setitimer", "signal.alarm",
    "signal.siginterrupt", "faulthandler.enable", "faulthandler.register", "gc.collect",
    "gc.freeze", "gc.unfreeze", "gc.disable", "gc.enable", "gc.set_threshold", "gc.set_debug",
    "tracemalloc.start", "os.umask", "os.setsid", "os.chdir", "os.nice", "os.dup2", "os.putenv",
    "os.unsetenv", "os.sched_setaffinity", "resource.setrlimit", "warnings.filterwarnings",
    "warnings.simplefilter", "logging.basicConfig", "socket.setdefaulttimeout", "setattr",
    "set_attribute", "heap_walk.new_walk",
    "fcntl.fcntl", "forkserver.set_forkserver_preload",
}  # fmt: skip
# the last part of a call on whatever object: functions of C libraries
NATIVE = {"ptrace", "malloc_trim", "mallopt", "mallctl", "prctl", "Py_AddPendingCall", "fflush"}
CHANGED = {"os.environ", "sys.path", "sys.modules", "sys.meta_path", "sys.path_hooks"}
CHANGES = {"append", "insert", "remove", "pop", "update", "setdefault", "clear", "extend"}
HOOKS = {"gc.callbacks", "sys.monitoring", "sys.excepthook", "sys.unraisablehook", "sys.meta_path",
         "sys.path_hooks", "sys.displayhook", "threading.excepthook", "builtins.__import__",
         "builtins.open"}  # fmt: skip
VARIABLE = re.compile(r"RAMLEDGER_[A-Z_]+")
INTERPRETER = re.compile(r"(PYTHON|MALLOC_|LD_|OMP_|GLIBC_)[A-Z_]+")
ATEXIT = "\nimport atexit\n\n\natexit.register(f)\n"
KERNEL = {"clear_refs": "/proc/self/clear_refs", "/comm": "/proc/self/task/TID/comm"}


def dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return "?"


class Finder(ast.NodeVisitor):
    """What a module does that a program could notice; `known`: attributes of our own classes."""

    def __init__(self, known: set[str]) -> None:
        self.found: set[str] = set()
        self._known = known

    def visit_Call(self, node: ast.Call) -> None:
        name = dotted(node.func)
        owner, _, method = name.rpartition(".")
        if name in CALLS:
            self.found.add(name)
        elif owner in CHANGED and method in CHANGES:
            self.found.add(owner)
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if dotted(node) in HOOKS:
            self.found.add(dotted(node))
        elif node.attr in NATIVE:
            self.found.add(node.attr)
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if node.id == "_F_SETSIG":
            self.found.add("F_SETSIG")

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self.found |= {name for part, name in KERNEL.items() if part in node.value}
            if VARIABLE.fullmatch(node.value):
                self.found.add(node.value)
            if node.value.count("\n") > 3:  # code that is run elsewhere
                with suppress(SyntaxError):
                    self.visit(ast.parse(node.value))

    def visit_Assign(self, node: ast.Assign) -> None:
        self._targets(node.targets)
        self.generic_visit(node)

    def visit_Delete(self, node: ast.Delete) -> None:
        self._targets(node.targets)
        self.generic_visit(node)

    def visit_Dict(self, node: ast.Dict) -> None:
        names = {str(key.value) for key in node.keys if isinstance(key, ast.Constant)}
        self.found |= {name for name in names if INTERPRETER.fullmatch(name)}
        self.generic_visit(node)

    def _targets(self, targets: list[ast.expr]) -> None:
        for target in targets:
            if isinstance(target, ast.Tuple):
                self._targets(target.elts)
            elif isinstance(target, ast.Subscript) and dotted(target.value) in CHANGED:
                self.found.add(dotted(target.value))
            elif isinstance(target, ast.Attribute) and target.attr not in self._known:
                self.found.add(f".{target.attr}")


def parsed() -> dict[str, ast.Module]:
    """What may run in a program's process, by its path in the package."""
    paths = [*PACKAGE.glob("*.py"), *(p for part in PARTS for p in (PACKAGE / part).rglob("*.py"))]
    return {
        str(path.relative_to(PACKAGE)): ast.parse(path.read_text(encoding="utf-8"))
        for path in paths
    }


def own_attributes(modules: Iterable[ast.Module]) -> set[str]:
    """What our own classes declare, or set in `self`."""
    found = {"argtypes", "restype", "depth", "frames", "open"}  # of C functions and thread locals
    for node in (node for module in modules for node in ast.walk(module)):
        if isinstance(node, ast.Attribute) and dotted(node.value) in ("self", "cls"):
            found.add(node.attr)
        elif isinstance(node, ast.ClassDef):
            fields = (one.target for one in node.body if isinstance(one, ast.AnnAssign))
            found |= {field.id for field in fields if isinstance(field, ast.Name)}
    return found


def done_by_the_code() -> set[tuple[str, str]]:
    """(what is done, the module that does it)."""
    modules = parsed()
    known = own_attributes(modules.values())
    found = set()
    for path, module in modules.items():
        finder = Finder(known)
        finder.visit(module)
        found |= {(what, path) for what in finder.found}
    return found


def listed() -> set[tuple[str, str]]:
    """The same, from the second column of the table: groups of names `in` groups of modules."""
    found = set()
    lines = (ROOT / "docs" / "safety.md").read_text(encoding="utf-8").splitlines()
    rows = [line.split("|") for line in lines if line.startswith("| ") and line.count("|") == 5]
    for group in (group for row in rows for group in row[2].split(",")):
        names = re.findall(r"`([^`]+)`", group)
        modules = [name for name in names if name.endswith(".py")]
        found |= {(what, module) for what in names if what not in modules for module in modules}
    return found


def test_every_change_is_listed() -> None:
    assert done_by_the_code() - listed() == set()


def test_nothing_is_listed_that_is_not_done() -> None:
    assert listed() - done_by_the_code() == set()


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("gc.callbacks.append(print)", "gc.callbacks"),
        ("sys.meta_path.insert(0, finder)", "sys.meta_path"),
        ("os.environ['OMP_NUM_THREADS'] = '1'", "os.environ"),
        ("del os.environ['A']", "os.environ"),
        ("signal.signal(10, print)", "signal.signal"),
        ("sys.setswitchinterval(1)", "sys.setswitchinterval"),
        ("def patch(module):\n    module.Env.reset = counted", ".reset"),
        ("setattr(owner, name, wrapped)", "setattr"),
        ("_thread.start_new_thread(f, ())", "_thread.start_new_thread"),
        ("ctypes.CDLL(None).prctl(1)", "prctl"),
        ("changed = {**environment, 'PYTHONMALLOC': 'malloc'}", "PYTHONMALLOC"),
        ("NAME = 'RAMLEDGER_MORE'", "RAMLEDGER_MORE"),
        (f"CODE = {ATEXIT!r}", "atexit.register"),
    ],
)
def test_a_new_hook_would_be_found(code: str, what: str) -> None:
    finder = Finder(set())
    finder.visit(ast.parse(code))
    assert what in finder.found
