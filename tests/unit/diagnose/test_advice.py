"""Each rule fires on a statement made for it, with the saving it promises, and not on a near miss.

Whether those savings are real is measured in tests/process/cli/test_savings.py.
"""

import json
from typing import Any

import pytest

from ramledger.diagnose import advice as rules
from ramledger.diagnose.advice import Advice, advise
from ramledger.ledger import Entry, LargeObject, Source, Statement, in_printing_order
from ramledger.units import GIB, MIB

FORKSERVER = "python -c 'from multiprocessing.forkserver import main; main(11, 14)'"


def statement(*entries: Entry, **more: Any) -> Statement:
    rss_bytes = sum(entry.resident_bytes for entry in entries) + 100 * MIB
    fields: dict[str, Any] = {
        "pid": 1,
        "command": "python train.py",
        "at": 0.0,
        "rss_bytes": rss_bytes,
        "entries": in_printing_order(entries),
        "threads": 65,
        "inside": True,
    }
    return Statement(**(fields | more))


def entry(account: str, resident: int, reserved: int | None = None, **more: Any) -> Entry:
    source = more.pop("source", Source.RECOGNIZED)
    return Entry(account, resident, resident if reserved is None else reserved, source, **more)


def array(
    path: str, resident: int, dtype: str, shape: tuple[int, ...], account: str = "", **more: Any
) -> LargeObject:
    account = account or f"variables/{path}"
    reserved = more.pop("reserved", resident)
    return LargeObject(path, account, "numpy.ndarray", resident, reserved, dtype, shape, **more)


# ---- the allocator -----------------------------------------------------------------------------

FREE = entry("allocator/free", 90 * MIB, source=Source.ALLOCATOR)


def malloc_facts(arenas: int, main_free: int, thread_free: int, **settings: str) -> dict[str, Any]:
    return {
        "settings": settings,
        "malloc": {
            "arenas": arenas,
            "free_bytes": main_free + thread_free,
            "largest_arenas": [
                {"index": 0, "in_use_bytes": 0, "free_bytes": main_free},
                {"index": 7, "in_use_bytes": 0, "free_bytes": thread_free // 2},
            ],
        },
    }


def test_freed_memory_is_given_back_by_trim() -> None:
    found = rules.allocator_free(statement(FREE))
    assert found is not None
    assert found.saves_bytes == 90 * MIB
    assert not found.at_most
    assert "malloc_trim(0)" in found.do[0]
    assert any("MALLOC_MMAP_THRESHOLD_=1048576" in step for step in found.do)
    assert not any("MALLOC_ARENA_MAX" in step for step in found.do)


def test_nothing_freed_needs_no_advice() -> None:
    assert rules.allocator_free(statement(entry("native/in use", 90 * MIB))) is None


def test_a_setting_that_is_there_is_not_advised_again() -> None:
    facts = malloc_facts(16, 10 * MIB, 80 * MIB, MALLOC_TRIM_THRESHOLD_="1", MALLOC_ARENA_MAX="2")
    found = rules.allocator_free(statement(FREE, facts=facts))
    assert found is not None
    assert len(found.do) == 1


def test_arenas_are_named_where_their_free_bytes_are_measured() -> None:
    found = rules.allocator_free(statement(FREE, facts=malloc_facts(16, 20 * MIB, 70 * MIB)))
    assert found is not None
    assert "65 threads made 16 arenas" in found.why
    assert "70.0 MiB" in found.why
    step = next(step for step in found.do if "MALLOC_ARENA_MAX=2" in step)
    assert "compare" in step and "raise" in step  # it is no sure win, and that is said


@pytest.mark.parametrize(
    ("arenas", "main_free", "thread_free"),
    [(2, 20 * MIB, 70 * MIB), (16, 89 * MIB, 1 * MIB)],
    ids=["few arenas", "free in the main arena"],
)
def test_arenas_are_not_blamed_for_what_they_do_not_hold(
    arenas: int, main_free: int, thread_free: int
) -> None:
    facts = malloc_facts(arenas, main_free, thread_free)
    found = rules.allocator_free(statement(FREE, facts=facts))
    assert found is not None
    assert "arena" not in found.why
    assert not any("ARENA" in step for step in found.do)


# ---- buffers and arrays ------------------------------------------------------------------------


def test_next_observations_that_repeat_are_found() -> None:
    found = rules.repeated_observations(
        statement(
            entry("replay/observations", 69 * MIB, 269 * MIB, fill=0.25),
            entry("replay/next_observations", 68 * MIB, 269 * MIB, fill=0.25),
        )
    )
    assert found is not None
    assert found.saves_bytes == 68 * MIB
    assert "269.0 MiB once it is full" in found.why
    assert "optimize_memory_usage=True" in found.do[0]
    assert "handle_timeout_termination" in found.do[0]


def test_they_are_found_under_a_claimed_name_too() -> None:
    buffer = [entry("memory/states", 40 * MIB), entry("memory/next_states", 40 * MIB)]
    found = rules.repeated_observations(statement(*buffer))
    assert found is not None
    assert found.saves_bytes == 40 * MIB
    assert "full" not in found.why


@pytest.mark.parametrize(
    "accounts",
    [
        ["replay/observations"],
        ["replay/next_observations"],
        ["replay/observations", "other/next_observations"],
    ],
)
def test_an_observation_array_alone_repeats_nothing(accounts: list[str]) -> None:
    entries = [entry(account, 40 * MIB) for account in accounts]
    assert rules.repeated_observations(statement(*entries)) is None


def test_a_next_array_of_another_size_is_no_twin() -> None:
    buffer = [entry("replay/observations", 40 * MIB), entry("replay/next_observations", 10 * MIB)]
    assert rules.repeated_observations(statement(*buffer)) is None


def test_float64_halves() -> None:
    objects = (
        array("train.py:main.history", 64 * MIB, "float64", (1, 2)),
        array("train.py:main.prices", 32 * MIB, "float64", (1, 2)),
        array("train.py:main.frames", 99 * MIB, "float32", (1, 2)),
    )
    found = rules.wide_floats(statement(large_objects=objects))
    assert found is not None
    assert found.saves_bytes == 48 * MIB
    assert "train.py:main.history (64.0 MiB)" in found.why
    assert "frames" not in found.why


@pytest.mark.parametrize("dtype", ["float32", "int64", "complex128", "uint8"])
def test_other_types_stay(dtype: str) -> None:
    objects = (array("x.py:a", 64 * MIB, dtype, (1, 2)),)
    assert rules.wide_floats(statement(large_objects=objects)) is None


def test_float_images_in_a_buffer_shrink_to_a_quarter() -> None:
    frames = array("m.rollout.observations", 80 * MIB, "float32", (2048, 1, 3, 84, 84), "rollout/o")
    found = rules.float_images(statement(large_objects=(frames,)))
    assert found is not None
    assert found.saves_bytes == 60 * MIB


@pytest.mark.parametrize(
    ("dtype", "shape", "account"),
    [
        ("uint8", (2048, 1, 3, 84, 84), "rollout/observations"),
        ("float32", (2048, 1, 71), "rollout/observations"),
        ("float32", (2048, 4, 128), "rollout/observations"),
        ("float32", (2048, 3, 84, 84), "networks/encoder"),
    ],
    ids=["already uint8", "a vector", "a vector of several envs", "no buffer"],
)
def test_what_is_no_float_image(dtype: str, shape: tuple[int, ...], account: str) -> None:
    item = array("x", 80 * MIB, dtype, shape, account)
    assert rules.float_images(statement(large_objects=(item,))) is None


def test_a_small_view_of_a_large_array_is_found() -> None:
    view = array("train.py:main.last", 100 * MIB, "float32", (1024, 256))  # shows 1 MiB
    found = rules.small_views(statement(large_objects=(view,)))
    assert found is not None
    assert found.at_most  # somebody else may need the whole array
    assert found.saves_bytes == 99 * MIB
    assert "copy()" in found.do[0]


@pytest.mark.parametrize(
    ("dtype", "shape", "account"),
    [
        ("float32", (1024, 25_600), ""),
        ("float32", (1024, 8_000), ""),
        ("float32", (1024, 256), "replay/observations"),
        ("object", (1024, 256), ""),
    ],
    ids=["all of it", "a third of it", "a buffer's own", "size unknown"],
)
def test_what_is_no_small_view(dtype: str, shape: tuple[int, ...], account: str) -> None:
    item = array("train.py:main.x", 100 * MIB, dtype, shape, account)
    assert rules.small_views(statement(large_objects=(item,))) is None


def containers(**found: Any) -> dict[str, Any]:
    row = {"path": "train.py:log", "type": "list", "length": 90_000, "of": "builtins.dict"}
    return {"containers": [row | {"bytes": 40 * MIB} | found]}


def test_a_long_list_is_named_with_what_it_holds() -> None:
    found = rules.endless_containers(statement(facts=containers()))
    assert found is not None
    assert found.at_most
    assert found.saves_bytes == 40 * MIB
    assert "train.py:log (90,000 × dict, 40.0 MiB)" in found.why


@pytest.mark.parametrize(
    "found",
    [
        {"type": "deque", "capacity": 100_000},
        {"type": "tuple"},
        {"bytes": 4 * MIB},
        {"account": "replay/episodes"},
    ],
    ids=["bounded", "cannot grow", "small", "a buffer"],
)
def test_what_is_bounded_or_small_is_left_alone(found: dict[str, Any]) -> None:
    assert rules.endless_containers(statement(facts=containers(**found))) is None


# ---- networks, imports, workers ----------------------------------------------------------------


def test_gradients_are_said_to_leave_the_peak_alone() -> None:
    found = rules.kept_gradients(statement(entry("gradients", 30 * MIB)))
    assert found is not None
    assert found.saves_bytes == 30 * MIB
    assert "peak" in found.why
    assert "set_to_none=True" in found.do[0] and "malloc_trim" in found.do[0]
    assert rules.kept_gradients(statement(entry("optimizer", 30 * MIB))) is None


def test_imports_that_came_along_are_summed() -> None:
    found = rules.optional_imports(
        statement(
            entry("imports/pandas", 31 * MIB, source=Source.IMPORT),
            entry("imports/matplotlib", 27 * MIB, source=Source.IMPORT),
            entry("imports/torch", 150 * MIB, source=Source.IMPORT),
        )
    )
    assert found is not None
    assert found.saves_bytes == 58 * MIB
    assert "torch" not in found.why
    needed = statement(entry("imports/torch", 150 * MIB, source=Source.IMPORT))
    assert rules.optional_imports(needed) is None


def worker(uss: int = 151 * MIB, command: str = FORKSERVER, *entries: Entry) -> Statement:
    own = entries or (entry("libraries/torch", 60 * MIB, source=Source.LIBRARY),)
    return statement(*own, command=command, uss_bytes=uss, inside=False)


def test_workers_that_import_for_themselves() -> None:
    found = rules.worker_imports(statement(children=(worker(), worker(), worker(), worker())))
    assert found is not None
    # one copy stays with the forkserver, and every worker keeps 7 MiB
    assert found.saves_bytes == 3 * (150 - 7) * MIB - 7 * MIB
    assert "4 workers have 604.0 MiB of their own" in found.why
    assert "set_forkserver_preload" in found.do[0]
    assert found.apply == "workers"


def test_workers_that_are_spawned_have_no_fork_server() -> None:
    spawned = worker(command=FORKSERVER.replace("forkserver", "spawn"))
    found = rules.worker_imports(statement(children=(worker(), spawned)))
    assert found is not None
    assert found.apply == ""


@pytest.mark.parametrize(
    ("command", "again"),
    [
        ("python train.py --name 'my run'", "python train.py --name 'my run'"),
        ("/opt/venv/bin/python -m train", "/opt/venv/bin/python -m train"),
        (FORKSERVER, "<the same command>"),
        ("[kworker/0:1 x]", "<the same command>"),
        ("ray::IDLE worker", "<the same command>"),
        ("", "<the same command>"),
    ],
)
def test_a_remedy_has_a_command(command: str, again: str) -> None:
    assert rules.remedy_command("replay", command) == f"ramledger run --apply replay -- {again}"


def test_data_of_a_worker_is_not_promised_back() -> None:
    large = rules.worker_imports(statement(children=(worker(2 * GIB), worker(2 * GIB))))
    assert large is not None
    assert large.saves_bytes < 150 * MIB


def test_measured_imports_of_a_worker_come_before_experience() -> None:
    measured = (
        entry("libraries/torch", 60 * MIB, source=Source.LIBRARY),
        entry("imports/torch", 80 * MIB, source=Source.IMPORT),
    )
    children = (worker(200 * MIB, FORKSERVER, *measured),) * 2
    found = rules.worker_imports(statement(children=children))
    assert found is not None
    assert found.saves_bytes == (80 - 7 - 7) * MIB


@pytest.mark.parametrize(
    "children",
    [
        (),
        (worker(),),
        (worker(7 * MIB), worker(7 * MIB)),
        (worker(command="python train.py"), worker(command="python train.py")),
        (worker(151 * MIB, FORKSERVER, entry("heap/main", MIB)),) * 2,
    ],
    ids=["none", "one", "already shared", "forked", "without torch"],
)
def test_workers_with_nothing_to_share(children: tuple[Statement, ...]) -> None:
    assert rules.worker_imports(statement(children=children)) is None


def test_the_same_data_in_every_worker() -> None:
    table = array("env.py:Env.prices", 50 * MIB, "float32", (1000, 13_107))
    children = tuple(
        statement(uss_bytes=300 * MIB, large_objects=(table,), pid=n) for n in range(4)
    )
    found = rules.worker_data(statement(children=children))
    assert found is not None
    assert found.at_most
    assert found.saves_bytes == 150 * MIB
    assert "4 workers" in found.why and "env.py:Env.prices" in found.why


def test_different_data_in_workers_is_their_own() -> None:
    children = tuple(
        statement(
            uss_bytes=300 * MIB,
            large_objects=(array("env.py:Env.prices", 50 * MIB, "float32", (1000 + n, 13_107)),),
        )
        for n in range(4)
    )
    assert rules.worker_data(statement(children=children)) is None


def test_what_forked_workers_share_is_not_saved_again() -> None:
    table = array("env.py:Env.prices", 50 * MIB, "float32", (1000, 13_107))
    children = tuple(statement(uss_bytes=2 * MIB, large_objects=(table,)) for _ in range(4))
    assert advise(statement(children=children)) == []


# ---- the choice --------------------------------------------------------------------------------


def test_the_three_largest_come_first_and_small_change_is_left_out() -> None:
    everything = statement(
        entry("allocator/free", 30 * MIB, source=Source.ALLOCATOR),
        entry("gradients", 50 * MIB),
        entry("imports/pandas", 9 * MIB, source=Source.IMPORT),
        entry("imports/torch", 600 * MIB, source=Source.IMPORT),
        large_objects=(array("x.py:a", 80 * MIB, "float64", (10_240, 1024)),),
    )
    assert [item.saves_bytes for item in advise(everything)] == [50 * MIB, 40 * MIB, 30 * MIB]
    assert len(advise(everything, top=9)) == 3  # pandas saves less than 2 % of RSS


@pytest.mark.parametrize("free", [0, 7 * MIB])
def test_little_is_no_advice(free: int) -> None:
    assert advise(statement(entry("allocator/free", free, source=Source.ALLOCATOR))) == []


def test_an_empty_statement_has_no_advice() -> None:
    assert advise(Statement(1, "sleep 1", 0.0, 0, ())) == []


def test_advice_is_json() -> None:
    item = Advice("title", "why", ("one", "two"), 12, at_most=True)
    assert json.loads(json.dumps(item.to_dict())) == {
        "title": "title",
        "why": "why",
        "do": ["one", "two"],
        "apply": None,
        "saves_bytes": 12,
        "at_most": True,
    }
