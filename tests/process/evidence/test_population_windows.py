"""A hand-written population trainer under `run`: enough snapshots, each owner with one name.

Its replay buffer is `deque(maxlen=1500)`, full in the tenth of 14 iterations.
"""

import re

import pytest

from ramledger.run.model import Run
from tests.support.recorded_programs import RecordedProgram, record_program, snapshots_of

pytestmark = pytest.mark.xdist_group("population-windows")

ITERATIONS = 14
PACE = ("--iteration-seconds", "2.5")
NETWORKS = ("actor", "critic", "actor_target", "critic_target")
LONG_LIVED = (
    *("population", "replay_buffer", "buffer", "train_env", "eval_env", "bars", "windows"),
    *("history", "actor_optimizer", "critic_optimizer", *NETWORKS),
)
# a child that is not yet in the population, and whom it replaced, belong to the frame
OUTSIDE = ("child", "loser", "ranked")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> RecordedProgram:
    return record_program(tmp_path_factory.mktemp("run"), "population_windows", *PACE)


def parts(path: str) -> list[str]:
    return re.split(r"[.:/\[]", path)


def is_outside(path: str) -> bool:
    return "evolve_population" in path and bool({*parts(path)} & {*OUTSIDE})


def test_the_program_is_what_the_tests_take_it_for(program: RecordedProgram) -> None:
    assert len(program.iterations) == ITERATIONS
    lengths = [line["buffer_length"] for line in program.iterations]
    assert lengths[8] < 1500 == lengths[9] == lengths[-1]
    assert program.iterations[-1]["tracked_objects"] >= 400_000
    assert program.peak_bytes < 1.5 * (1 << 30)


# ---- snapshots ------------------------------------------------------------------------------


def test_the_training_has_snapshots(program: RecordedProgram) -> None:
    """On a quiet machine nearly every iteration has one; beside other tests the budget is less."""
    assert len(program.snapshots) >= 5


def test_snapshots_are_spread_over_the_training(program: RecordedProgram) -> None:
    """No six iterations in a row go unseen, on a busy machine either."""
    ends = [program.training_began, *map(program.seconds, program.iterations)]
    for begin, end in zip(ends, ends[6:], strict=False):
        assert any(begin <= seen.t <= end for seen in program.snapshots), (begin, end)


def test_a_snapshot_is_near_the_peak(program: RecordedProgram) -> None:
    assert program.is_seen_near_its_peak


def test_the_statement_at_the_peak_is_one_of_the_training(program: RecordedProgram) -> None:
    assert program.training_began <= program.peak_shown <= program.training_ended


def test_the_series_of_the_buffer_follows_its_length(program: RecordedProgram) -> None:
    """Bytes of the account under its one name, against the lengths that the program printed."""
    (name,) = {path for path in program.names_with("buffer") if path.startswith("variables/")}
    per_transition = 2 * 24 * 117 * 5 * 4
    for seen in program.snapshots:
        ends = [one for one in program.iterations if program.seconds(one) <= seen.t]
        at_least = ends[-1]["buffer_length"] if ends else 0
        assert seen.bytes_of(name) >= 0.97 * at_least * per_transition
    full = [seen for seen in program.snapshots if seen.t > program.seconds(program.iterations[9])]
    assert all(1500 * per_transition <= seen.bytes_of(name) * 1.03 for seen in full)


# ---- names ----------------------------------------------------------------------------------


def test_the_buffer_has_one_name(program: RecordedProgram) -> None:
    names = {path.removeprefix("variables/") for path in program.names_with("buffer")}
    assert len(names) == 1, names
    assert names.pop().endswith("ERLTrainer.replay_buffer.buffer")


@pytest.mark.parametrize("network", NETWORKS)
def test_a_network_of_all_agents_has_one_name(program: RecordedProgram, network: str) -> None:
    """Of the agent that plays or trains at the moment, too.

    Where an account is named by role, `networks/critic`, that is the account's one name.
    """
    accounts = {
        entry.account
        for seen in program.snapshots
        for entry in seen.statement.entries
        if parts(entry.account)[-1] == network
    }
    assert len(accounts) == 1, accounts
    inner = {
        path
        for seen in program.snapshots
        for path in seen.paths
        if network in parts(path) and path not in accounts and not is_outside(path)
    }
    strange = {path for path in inner if f"DDPGAgent.{network}" not in path}
    assert not strange


def test_a_loop_variable_does_not_split_the_population(program: RecordedProgram) -> None:
    """What agents hold is counted for all of them: eight, and children that replace some."""
    lengths: dict[str, set[int]] = {}
    for event in snapshots_of(program.recording):
        for one in event.containers:
            if one.path.startswith("DDPGAgent."):
                lengths.setdefault(one.path, set()).add(one.length)
    assert lengths
    for path, found in lengths.items():
        assert min(found) % 8 == 0, path
        assert not {length for length in found if length % (min(found) // 8)}, path


def test_what_the_trainer_holds_is_named_by_the_trainer(program: RecordedProgram) -> None:
    strange = {
        path
        for seen in program.snapshots
        for path in seen.paths
        if set(parts(path)) & set(LONG_LIVED)
        and not path.startswith(("networks/", "optimizer", "env"))
        and not path.removeprefix("variables/").startswith(("ERLTrainer.", "DDPGAgent."))
        and not is_outside(path)
    }
    assert not strange


def test_no_name_begins_at_a_frame_that_happens_to_run(program: RecordedProgram) -> None:
    strange = {path for seen in program.snapshots for path in seen.paths if "self" in parts(path)}
    assert not strange


def test_accounts_of_owners_are_in_every_snapshot(program: RecordedProgram) -> None:
    """An owner that comes and goes has two names, or was not seen."""
    found = [
        {
            entry.account
            for entry in seen.statement.entries
            if entry.source.value in ("path", "recognized") and entry.resident_bytes > 4 << 20
        }
        for seen in program.snapshots[1:]
    ]
    assert found
    assert set.union(*found) == set.intersection(*found)


def test_nothing_of_ours_is_named_as_the_programs(program: RecordedProgram) -> None:
    assert not program.named_like_ours


# ---- iterations -----------------------------------------------------------------------------


def test_iterations_are_those_of_the_program(program: RecordedProgram) -> None:
    """The first one or two are over before the loop is known."""
    assert ITERATIONS - 2 <= program.diagnosis["generations"] <= ITERATIONS


def test_printed_numbers_go_on_by_one(program: RecordedProgram) -> None:
    numbers = program.printed_iterations
    assert numbers
    assert numbers == sorted(set(numbers))
    assert ITERATIONS - 4 <= numbers[-1] <= ITERATIONS


def test_a_helper_that_is_called_once_an_iteration_is_no_phase(program: RecordedProgram) -> None:
    """`memory()` reads a file: the phases are where the time goes."""
    run = Run.read(str(program.path))
    phases = {phase.name for phase in run.iterations.phases(run.main_pid)}
    assert phases
    assert not {name for name in phases if parts(name)[-1] == "memory"}


def test_the_limit_of_the_buffer_is_recorded(program: RecordedProgram) -> None:
    limits = {
        one.capacity
        for event in snapshots_of(program.recording)
        for one in event.containers
        if one.path == "ERLTrainer.replay_buffer.buffer"
    }
    assert limits == {1500}


def test_what_is_after_the_training_is_no_growth(program: RecordedProgram) -> None:
    """The last row of the trend is the training's last level: objects are torn down after it."""
    trend = program.log.partition("\ntrend\n")[2].partition("\n\n")[0]
    levels = re.findall(r"^.*?([\d.]+) MiB .*MiB$", trend, re.M)
    assert levels
    own = program.iterations[-1]["rss_bytes"]
    assert float(levels[-1]) * (1 << 20) == pytest.approx(own, rel=0.03)
