"""The table of releases that leak: each row with evidence that fits it, and with what does not."""

from typing import Any

import pytest

from ramledger.diagnose.finding import Cause, Culprit, Explanation
from ramledger.diagnose.known_versions import LeakyRelease, known_leaks, leaky_releases
from ramledger.diagnose.verdict import diagnose
from ramledger.events import FunctionGrowthEvent
from ramledger.version_numbers import release
from tests.support.made_up_recordings import MIB, PID, generations, recording, snapshot

# a line of a program for each pattern of the table
LINES = {
    r"\b(eye|identity|diag|diagflat|roots|fill_diagonal)\(": "rotation = np.eye(3)",
    r"\.flat\[": "grid.flat[::5] = 1",
    r"\b(sum|prod|cumsum|cumprod|mean|max|min|any|all|reduce|accumulate|reduceat)\(.*\bout=": (
        "np.cumsum(rewards, out=total)"
    ),
    r"\bread_csv\(": 'prices = pd.read_csv("prices.csv")',
    r"\.to_json\(": 'log.write(trades.to_json(date_format="iso"))',
    r"\.distance_(squared_)?to\(": "near = position.distance_to(rect.center)",
    r"\bcv2\.(add|subtract|multiply|divide|absdiff|inRange|min|max|compare)\(": (
        "return cv2.subtract(frame, mean)"
    ),
    r"\bcv2\.error\b": "except cv2.error:",
    r"\bdeepcopy\([^)]*data": "branch = copy.deepcopy(self.data)",
    r"\bwaterworld_v4\b": "env = waterworld_v4.parallel_env()",
    r"\blax\.cond\(": "return jax.lax.cond(x.sum() > 0, up, down, x)",
    r"\bconstrained_layout=|layout=.constrained": "figure = plt.figure(constrained_layout=True)",
    r"\bRecordVideo\(": 'env = RecordVideo(env, "videos")',
    r"\bImageSequenceClip\(": "clip = ImageSequenceClip(frames, fps=30)",
    r"\bVecVideoRecorder\(": 'env = VecVideoRecorder(env, "videos", trigger)',
    r"\bCPOTrainer\(": "trainer = CPOTrainer(model, args=args)",
    r"\bModuleTracker\(": "with ModuleTracker() as tracker:",
    r"\bFlopCounterMode\(": "with FlopCounterMode(display=False):",
    r"\basyncio\.wait\(": "done, _ = await asyncio.wait({reply, closed}, return_when=FIRST)",
}
ORDINARY = (
    "train.py:9 in train: loss.backward()",
    "train.py:12 in collect: action = policy(torch.from_numpy(obs), timeout=5)",
    "train.py:15 in collect: buffer.append((obs, action, reward))",
    "train.py:20 in main: total = np.sum(rewards)",
)
Clue = tuple[LeakyRelease, Culprit, tuple[str, ...]]


def _named(leaky: LeakyRelease) -> str:
    return f"{leaky.package}-{leaky.last}"


def _clues() -> list[Any]:
    """A culprit and lines for each thing that a row can be known by."""
    found: list[Any] = []
    for leaky in leaky_releases():
        signature = leaky.signature
        for kind in signature.classes:
            found.append(pytest.param((leaky, Culprit(kind, "main():env"), ()), id=kind))
        for owner in signature.owners:
            culprit = Culprit("list", f"main():trainer{owner}[*]")
            found.append(pytest.param((leaky, culprit, ()), id=f"{_named(leaky)} {owner}"))
        for call in signature.calls:
            line = f"train.py:7 in collect: {LINES[call]}"
            found.append(pytest.param((leaky, Culprit(), (line,)), id=f"{_named(leaky)} {line}"))
    return found


def _explained(leaky: LeakyRelease, culprit: Culprit) -> Explanation:
    return Explanation(Cause(leaky.signature.causes[0]), culprit)


def _links(versions: dict[str, str], found: Explanation, lines: tuple[str, ...]) -> set[str]:
    return {leak.link for leak in known_leaks(versions, found, lines)}


def test_the_table_is_complete() -> None:
    assert len(leaky_releases()) >= 15
    for leaky in leaky_releases():
        signature = leaky.signature
        assert leaky.link.startswith("https://github.com/")
        assert leaky.leaks
        assert leaky.checked
        assert signature.causes
        assert {Cause(cause) for cause in signature.causes}
        # a release alone names nothing
        assert signature.classes or signature.owners or signature.calls
        assert release(leaky.first) <= release(leaky.last)
        assert bool(leaky.fixed) != bool(leaky.instead)
        assert not leaky.fixed or release(leaky.last) < release(leaky.fixed)


@pytest.mark.parametrize("clue", _clues())
def test_each_clue_of_a_row_names_it(clue: Clue) -> None:
    leaky, culprit, lines = clue
    for version in (leaky.first, leaky.last):
        found = _explained(leaky, culprit)
        assert leaky.link in _links({leaky.package: version}, found, (*ORDINARY, *lines))


@pytest.mark.parametrize("clue", _clues())
def test_another_release_cause_or_library_does_not(clue: Clue) -> None:
    leaky, culprit, lines = clue
    found = _explained(leaky, culprit)
    others = [version for version in ("0.0.1", leaky.fixed, "99.0") if version]
    for version in others:
        assert leaky.link not in _links({leaky.package: version}, found, lines)
    assert not known_leaks({}, found, lines)
    for cause in set(Cause) - {Cause(one) for one in leaky.signature.causes}:
        other = Explanation(cause, culprit)
        assert leaky.link not in _links({leaky.package: leaky.last}, other, lines)


@pytest.mark.parametrize("leaky", leaky_releases(), ids=_named)
def test_a_release_without_a_clue_names_nothing(leaky: LeakyRelease) -> None:
    versions = {leaky.package: leaky.last}
    for cause in leaky.signature.causes:
        own = Explanation(Cause(cause), Culprit("numpy.ndarray", "Trainer.history"))
        assert not known_leaks(versions, own, ORDINARY)
        assert not known_leaks(versions, Explanation(Cause(cause)), ())


@pytest.mark.parametrize("leaky", leaky_releases(), ids=_named)
def test_a_healthy_run_of_a_leaky_release_stays_healthy(leaky: LeakyRelease) -> None:
    versions = {leaky.package: leaky.last}
    flat = [snapshot(g, {"native/in use": 100}, versions=versions) for g in (2, 6, 10, 13)]
    lines = [f"train.py:7 in collect: {LINES[call]}" for call in leaky.signature.calls]
    found = diagnose(recording(*generations([100.0] * 14), *flat, _growth(*lines)))
    assert str(found.verdict) == "healthy"
    assert not any(finding.known for finding in found.findings)


def _growth(*lines: str) -> FunctionGrowthEvent:
    each = 70 * MIB // max(1, len(lines))
    return FunctionGrowthEvent(
        t=13.0,
        pid=PID,
        samples=9,
        growth_bytes={"train.py:collect": 70 * MIB},
        line_growth_bytes=dict.fromkeys(lines, each),
    )


def _leaking(version: str, line: str) -> Any:
    growing = [snapshot(g, {"native/in use": 100 + 6 * g}, versions={"numpy": version})
               for g in (2, 6, 10, 13)]  # fmt: skip
    levels = generations([100 + 6 * i for i in range(14)])
    return diagnose(recording(*levels, *growing, _growth(line))).leaks[0]


def test_a_known_leak_is_added_to_a_finding_and_renames_nothing() -> None:
    line = "train.py:7 in collect: rotation = np.eye(3)"
    known, other = _leaking("2.4.0", line), _leaking("2.4.1", line)
    assert [leak.link for leak in known.known] == ["https://github.com/numpy/numpy/issues/30547"]
    assert any(text.startswith("known: numpy 2.4.0 leaks") for text in known.evidence)
    assert known.advice.startswith("upgrade first: numpy 2.4.0 leaks what is assigned through")
    assert "fixed in 2.4.1" in known.advice
    assert not other.known
    assert known.summary == other.summary
    assert (known.cause, known.culprit, known.fault) == (other.cause, other.culprit, other.fault)
    assert [text for text in known.evidence if "known:" not in text] == list(other.evidence)
    document = known.to_dict()["known"][0]
    assert (document["package"], document["version"]) == ("numpy", "2.4.0")
    assert document["fixed"] == "2.4.1"


def test_a_leak_of_the_program_itself_is_not_blamed_on_a_release() -> None:
    assert not _leaking("2.4.0", "train.py:7 in collect: native.step(action)").known


def test_what_no_release_fixes_has_another_advice() -> None:
    open_ones = [leaky for leaky in leaky_releases() if not leaky.fixed]
    for leaky in open_ones:
        leak = leaky.in_version(leaky.last)
        assert "no release fixes it" in leak.text
        assert leak.advice.startswith(leaky.instead)
