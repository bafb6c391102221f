"""A hand-written PPO that first parses 27 files: the files are start-up, the updates iterations."""

import re

import pytest

from ramledger.events import GenerationEvent
from tests.support.recorded_programs import RecordedProgram, paths_of, record_program, snapshots_of

pytestmark = pytest.mark.xdist_group("ppo-after-parsing")

FILES, UPDATES = 27, 14
PACE = ("--file-seconds", "0.1", "--update-seconds", "1.5")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> RecordedProgram:
    return record_program(tmp_path_factory.mktemp("run"), "ppo_after_parsing", *PACE)


def test_the_program_is_what_the_tests_take_it_for(program: RecordedProgram) -> None:
    assert sum("file" in line for line in program.truth) == FILES
    assert len(program.iterations) == UPDATES


# ---- snapshots ------------------------------------------------------------------------------


def test_the_training_has_snapshots(program: RecordedProgram) -> None:
    """On a quiet machine nearly every update has one; beside other tests the budget is less."""
    assert len(program.snapshots) >= 4


def test_parsing_does_not_take_the_snapshots_of_the_training(program: RecordedProgram) -> None:
    taken = [event.t for event in snapshots_of(program.recording)]
    before = [t for t in taken if t < program.training_began]
    assert len(before) <= len(program.snapshots)


def test_a_snapshot_is_near_the_peak(program: RecordedProgram) -> None:
    assert program.is_seen_near_its_peak


def test_the_statement_at_the_peak_is_one_of_the_training(program: RecordedProgram) -> None:
    assert program.training_began <= program.peak_shown <= program.training_ended


# ---- names ----------------------------------------------------------------------------------


def test_the_tables_have_one_name(program: RecordedProgram) -> None:
    """While they are parsed, too: `main` holds them, before and after the market does."""
    names = {
        path.removeprefix("variables/")
        for event in snapshots_of(program.recording)
        for path in paths_of(event)
        if re.split(r"[.:]", path)[-1] in ("table", "tables")
    }
    assert len(names) == 1, names
    assert names.pop().endswith("main():tables")


def test_what_main_holds_is_not_named_by_a_function_that_it_calls(program: RecordedProgram) -> None:
    strange = {
        path
        for seen in program.snapshots
        for path in seen.paths
        if re.search(r"\b(collect|update|forward|observe|step)\b\W+(market|model|optimizer)", path)
    }
    assert not strange


def test_the_network_is_one_account(program: RecordedProgram) -> None:
    accounts = {
        entry.account
        for seen in program.snapshots
        for entry in seen.statement.entries
        if entry.account.startswith("networks") and entry.resident_bytes > 1 << 20
    }
    assert len(accounts) == 1, accounts


def test_nothing_of_ours_is_named_as_the_programs(program: RecordedProgram) -> None:
    assert not program.named_like_ours


# ---- iterations -----------------------------------------------------------------------------


def test_iterations_are_the_updates(program: RecordedProgram) -> None:
    """The first one or two are over before the loop is known."""
    assert UPDATES - 2 <= program.diagnosis["generations"] <= UPDATES


def test_numbers_go_on_by_one(program: RecordedProgram) -> None:
    """From the second update on: by then the loop of the files cannot be taken for the training."""
    first = program.seconds(program.iterations[0])
    numbers = [
        event.generation for event in program.recording.of_type(GenerationEvent) if event.t > first
    ]
    assert len(numbers) >= UPDATES - 2
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def test_printed_numbers_never_go_back_and_never_repeat(program: RecordedProgram) -> None:
    """Where the training takes over from the loop before it, the log says so."""
    numbers = program.printed_iterations
    assert numbers
    assert numbers == sorted(set(numbers))
    assert numbers[-1] <= UPDATES


def test_files_are_rows_of_no_table(program: RecordedProgram) -> None:
    """The trend is that of the training: no phase of the parsing stands in it."""
    trend = program.log.partition("\ntrend\n")[2].partition("\n\n")[0]
    assert trend
    assert "parse" not in trend


def test_nothing_leaks(program: RecordedProgram) -> None:
    assert program.diagnosis["verdict"] != "leak"
