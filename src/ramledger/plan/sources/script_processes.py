"""What a script does that no formula counts: processes of its own, results that JAX stacks."""

from ramledger.plan.sources.expressions import name_of
from ramledger.plan.sources.script_scopes import Script
from ramledger.plan.sources.source_result import rehearsal_of

_STARTS = ("Process", "Pool", "ProcessPoolExecutor", "spawn")
_TUNE = ("Tuner", "run_rllib_example_script_experiment", "run_experiments")
_MODULES = ("multiprocessing", "concurrent")


def not_counted(script: Script) -> list[str]:
    """A sentence for each, with its line and the command that measures it."""
    found = []
    scripts = (script, *script.modules)
    for source in scripts:
        for call in source.find(*_STARTS):
            if any(one.imports & {"torch", *_MODULES} for one in scripts):
                found.append(
                    f"{source.place(call.line)}: processes that {call.last} starts are not counted"
                )
                break
    for source in scripts:
        stacks = [call for call in source.find("scan") if "lax" in call.name]
        if stacks:
            found.append(
                f"{source.place(stacks[0].line)}: what lax.scan stacks over all updates is not "
                "counted"
            )
        for node in source.classes():
            if any(name_of(base).rpartition(".")[2] == "Process" for base in node.bases):
                found.append(
                    f"{source.place(node.lineno)}: {node.name} is a process; those that are "
                    "started are not counted"
                )
        for call in source.find(*_TUNE):
            found.append(
                f"{source.place(call.line)}: Tune runs the algorithm in a process beside this one, "
                "whose imports (about 270 MiB) are not counted"
            )
            break
    measure = rehearsal_of(script.path)
    return [f"{line}: {measure} measures it" for line in found]
