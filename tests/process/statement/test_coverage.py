"""How much of RSS has a name and an owner, and whether the names are true.

Five trainings, each once with claims and once without a line changed. The truth comes from the
kernel, from arithmetic or from a second process, never from the package under test.
"""

import pytest

from ramledger.ledger import Statement
from tests.support.held_program import HeldProgram, Observation, observe
from tests.support.kernel_truth import (
    PAGE_BYTES,
    library_paths,
    smaps,
    stack_mappings,
    total,
    zeroed_bytes,
)

pytestmark = pytest.mark.xdist_group("coverage")

MIB = 1 << 20

IMPORTS = {
    "numpy_ring": ("numpy",),
    "ddpg_population": ("torch",),
    "sb3_dqn_pong": (
        *("ale_py", "torch", "stable_baselines3"),
        *("stable_baselines3.common.env_util", "stable_baselines3.common.atari_wrappers"),
    ),
    "sb3_ppo_subproc": ("torch", "stable_baselines3", "stable_baselines3.common.env_util"),
    "sleeping_threads": ("threading",),
}
WAYS = ("claimed", "bare")
BARS = {"claimed": (0.97, 0.88), "bare": (0.95, 0.80)}

EVERY = [(name, way) for name in IMPORTS for way in WAYS]
WITH_REPLAY = [(name, way) for name in ("numpy_ring", "sb3_dqn_pong") for way in WAYS]
WITH_NETWORKS = [
    ("ddpg_population", "bare"),
    *((name, way) for name in ("sb3_dqn_pong", "sb3_ppo_subproc") for way in WAYS),
]

# Python objects that go with the blocks: a module and its dictionaries, a parameter's state
TENSOR_BYTES = 352  # what malloc keeps beside the data of one
MODULE_BYTES = 3 * 1024 + 2 * TENSOR_BYTES
PARAMETER_BYTES = 1024 + 3 * TENSOR_BYTES  # two moments and a step


@pytest.fixture
def seen(request: pytest.FixtureRequest) -> Observation:
    return observe(*request.param)


def of(cases: list[tuple[str, str]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("seen", cases, indirect=True, ids="-".join)


@pytest.mark.parametrize(("name", "way"), EVERY)
def test_named_and_owned_are_above_the_bar(name: str, way: str) -> None:
    statement = observe(name, way).statement
    named, owned = BARS[way]
    assert statement.named_fraction >= named
    assert statement.owned_fraction >= owned


@of(EVERY)
def test_the_books_balance_to_the_byte(seen: Observation) -> None:
    document = seen.document
    booked = sum(entry["resident_bytes"] for entry in document["accounts"])
    assert booked + document["unexplained_bytes"] == document["rss_bytes"]
    assert all(entry["resident_bytes"] >= 0 for entry in document["accounts"])
    kinds = document["anon_bytes"] + document["file_bytes"] + document["shmem_bytes"]
    assert kinds == document["rss_bytes"]


@of(EVERY)
def test_rss_is_what_the_kernel_said_just_before(seen: Observation) -> None:
    """Half a MiB is for what answering takes before the ledger reads: a thread, a socket."""
    assert 0 <= seen.statement.rss_bytes - total(seen.before) <= MIB // 2


@of(EVERY)
def test_library_pages_are_those_of_their_files(seen: Observation) -> None:
    """Above what smaps says of the paths there may only be .bss, which ELF headers bound.

    The compiled part of ramledger is not the program's.
    """
    paths = {path for path in library_paths(seen.after) if "/heap_walk." not in path}
    of_files = [[m for m in side if m["path"] in paths] for side in (seen.before, seen.after)]
    zeroed = sum(map(zeroed_bytes, paths))
    ours = seen.statement.total("libraries")
    assert total(of_files[0]) <= ours <= total(of_files[1]) + zeroed


@of([case for case in EVERY if case[0] != "sleeping_threads"])
def test_library_pages_are_booked_to_their_package(seen: Observation) -> None:
    """All in its own folder; at most what its wheel brought besides, CUDA's libraries for one."""
    code = library_paths(seen.after)
    for package in ("torch", "numpy", "ale_py"):
        own = {path for path in code if f"/site-packages/{package}/" in path}
        wheel = {path for path in code if f"/site-packages/{package}" in path}
        if own:
            low = total([m for m in seen.before if m["path"] in own])
            high = total([m for m in seen.after if m["path"] in wheel])
            ours = seen.statement.total(f"libraries/{package}")
            assert low <= ours <= high + sum(map(zeroed_bytes, wheel)), package


@of(WITH_NETWORKS)
def test_networks_gradients_and_optimizers_are_their_arithmetic(seen: Observation) -> None:
    """Gradients are blocks and nothing else; the others have Python objects beside them."""
    truth, statement = seen.truth, seen.statement
    slack = {
        "networks": truth["modules"] * MODULE_BYTES,
        "gradients": 0,
        "optimizer": truth["parameters"] * PARAMETER_BYTES,
    }
    for account, beside in slack.items():
        exact = truth[f"{account}_bytes"]
        assert exact <= statement.total(account) <= exact + beside, account


def test_claimed_agents_are_their_arithmetic() -> None:
    """One claim for all of a population: its networks, gradients and moments in one sum."""
    seen = observe("ddpg_population", "claimed")
    truth = seen.truth
    exact = sum(truth[f"{part}_bytes"] for part in ("networks", "gradients", "optimizer"))
    beside = truth["modules"] * MODULE_BYTES + truth["parameters"] * PARAMETER_BYTES
    assert exact <= seen.statement.total("agents") <= exact + beside


@of(WITH_REPLAY)
def test_replay_is_resident_where_the_page_table_says_so(seen: Observation) -> None:
    for field, (_, size) in seen.truth["arrays"].items():
        (entry,) = (e for e in seen.statement.entries if _leaf(e.account) == field)
        assert entry.reserved_bytes == size
        assert entry.resident_bytes == pytest.approx(seen.resident[field], rel=0.01)
        # pages are written whole and huge pages two MiB at a time: not below what was written
        assert seen.truth["written_bytes"] <= entry.resident_bytes <= size * 0.55


@of([("numpy_ring", "claimed"), ("sb3_dqn_pong", "claimed"), ("sb3_dqn_pong", "bare")])
def test_replay_is_as_full_as_it_is(seen: Observation) -> None:
    entries = [e for e in seen.statement.entries if _leaf(e.account) in seen.truth["arrays"]]
    assert entries
    assert {entry.fill for entry in entries} == {seen.truth["fill"]}


def _leaf(account: str) -> str:
    return account.rpartition("/")[2].rpartition(".")[2]


@of(EVERY)
def test_stacks_are_the_touched_pages_under_the_stack_pointers(seen: Observation) -> None:
    ours = seen.statement.total("threads/stacks")
    assert abs(ours - seen.stacks) <= 2 * PAGE_BYTES * seen.statement.threads


def test_fifty_sleeping_threads_reserve_much_and_touch_little() -> None:
    entry = observe("sleeping_threads", "bare").statement.get("threads/stacks")
    assert entry is not None and entry.objects is not None
    assert entry.objects >= 51
    assert entry.reserved_bytes >= 50 * 8 * MIB
    assert entry.resident_bytes < 2 * MIB


@pytest.mark.parametrize("name", IMPORTS)
def test_imports_cost_what_they_cost_a_process_that_only_imports(name: str) -> None:
    """So that nobody's bytes end up with imports: an independent process has only those.

    Modules of the standard library are booked to who imported them first. Where that was our own
    package, they are missing among the imports, but not in the sum of both.
    """
    with HeldProgram("only_imports", "alone", *IMPORTS[name]) as program:
        mappings = smaps(program.pid)
        stacks = {mapping["start"] for mapping in stack_mappings(program.pid, mappings)}
        anonymous = [
            m for m in mappings if m["path"] in ("", "[heap]") and m["start"] not in stacks
        ]
        alone = total(anonymous, "Anonymous")
    for way in WAYS:
        statement = observe(name, way).statement
        ours = statement.total("imports") + statement.total("python/startup")
        assert ours <= alone * 1.15, way
        assert ours + statement.total("ramledger") >= alone * 0.85, way


@pytest.mark.parametrize("way", WAYS)
def test_what_nobody_owns_is_booked_to_nobody(way: str) -> None:
    """Blocks from malloc show as native memory in use, objects that no name leads to as Python's,
    a direct mmap as unexplained."""
    with HeldProgram("planted_native", way) as program:
        truth = program.truth
        statement = Statement.from_dict(program.statement())
    assert abs(statement.total("native/in use") - truth["malloc_bytes"]) <= 2 * MIB
    assert abs(statement.unexplained_bytes - truth["mapped_bytes"]) <= 2 * MIB
    assert abs(statement.total("python/objects") - truth["object_bytes"]) <= 2 * MIB
    assert [note for note in statement.notes if "likely blocks of native code" in note]
