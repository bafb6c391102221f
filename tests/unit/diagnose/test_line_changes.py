"""The one line to change, in the user's own names."""

import pytest

from ramledger.diagnose.finding import Cause, CodeLines
from ramledger.diagnose.line_changes import changed_line


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("losses.append(loss)", "losses.append(loss.item())"),
        ("self.history.append(self.loss)", "self.history.append(self.loss.item())"),
        ("total_loss += loss", "total_loss += loss.item()"),
        ("total = total + policy_loss", "total = total + policy_loss.item()"),
        ("self.hidden = hidden", "self.hidden = hidden.detach()"),
        ("states.append(state)", "states.append(state.detach())"),
        ("losses.append(loss) # for the plot", "losses.append(loss.item())"),
        ("metrics.append(net(obs).mean())", "metrics.append(net(obs).mean().item())"),
        ("total += 0.5 * loss", "total += (0.5 * loss).item()"),
        ("for x in losses: kept.append(", ""),
        ("losses.append((step, loss))", ""),
        ("self.keep(loss)", ""),
        ("", ""),
    ],
)
def test_graphs_are_let_go(text: str, changed: str) -> None:
    code = CodeLines((f"train.py:29 in Trainer.update: {text}",))
    found = changed_line(Cause.GRAPH_RETENTION, code)
    assert found == (f"train.py:29: {text.partition(' #')[0]} → {changed}" if changed else "")


def test_lists_are_bounded() -> None:
    code = CodeLines(("env.py:7 in Env.step: self.frames.append(frame)",))
    found = changed_line(Cause.UNBOUNDED_CONTAINER, code)
    assert "self.frames = collections.deque(maxlen=N)" in found
    assert found.startswith("env.py:7: ")


@pytest.mark.parametrize("cause", [Cause.NATIVE_LEAK, Cause.UNKNOWN, Cause.ALLOCATOR_RETENTION])
def test_other_causes_have_no_line_to_change(cause: Cause) -> None:
    assert changed_line(cause, CodeLines(("a.py:1 in f: x.append(y)",))) == ""


def test_without_a_line_nothing_is_sure() -> None:
    assert changed_line(Cause.GRAPH_RETENTION, CodeLines()) == ""
