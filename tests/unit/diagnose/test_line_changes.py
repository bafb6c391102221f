"""The one line to change, in the user's own names."""

import pytest

from ramledger.diagnose.finding import Cause, CodeLines, Culprit, Explanation
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
    found = changed_line(Explanation(Cause.GRAPH_RETENTION), code)
    assert found == (f"train.py:29: {text.partition(' #')[0]} → {changed}" if changed else "")


def changed(cause: Cause, text: str, kind: str = "", path: str = "x", **lines: object) -> str:
    """What becomes of a line that stores; '' without a change."""
    stored = (f"train.py:9 in Agent.log: {text}",) if text else ()
    code = CodeLines(stored, **lines)  # type: ignore[arg-type]
    return changed_line(Explanation(cause, Culprit(kind, path)), code)


UNBOUNDED, PINNED = Cause.UNBOUNDED_CONTAINER, Cause.OBJECT_PINNED


@pytest.mark.parametrize(
    ("made", "text"),
    [
        ("self.frames = []", "self.frames = collections.deque(maxlen=N)"),
        ("self.frames: list[int] = []", "self.frames = collections.deque(maxlen=N)"),
        ("frames = list()  # all of them", "frames = collections.deque(maxlen=N)"),
    ],
)
def test_lists_are_bounded_where_they_are_made(made: str, text: str) -> None:
    begins = (f"env.py:7 in Env.__init__: {made}",)
    found = changed(UNBOUNDED, "self.frames.append(frame)", begins_at=begins)
    assert found == f"env.py:7: {made.partition('  #')[0]} → {text}"


@pytest.mark.parametrize(
    "begins",
    [
        (),
        ("env.py:7 in Env.__init__: self.frames = [0] * 5",),
        ("env.py:7 in Env.__init__: self.frames = []", "env.py:8 in Env.reset: self.frames = []"),
        ("env.py:7 in Env.__init__: self.others = []",),
        ("env.py:7 in Env.__init__: self.frames = make(",),
    ],
)
def test_where_a_list_is_made_may_not_be_sure(begins: tuple[str, ...]) -> None:
    found = changed(UNBOUNDED, "self.frames.append(frame)", begins_at=begins)
    assert found == (
        "train.py:9: self.frames.append(frame) → the same, with "
        "self.frames = collections.deque(maxlen=N) where it is made"
    )


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("@lru_cache(maxsize=None)", "@lru_cache(maxsize=N)"),
        ("@functools.lru_cache(None)", "@functools.lru_cache(maxsize=N)"),
        ("@cache", "@functools.lru_cache(maxsize=N)"),
        ("@functools.cache", "@functools.lru_cache(maxsize=N)"),
        ("@lru_cache", ""),
        ("@lru_cache(maxsize=1000)", ""),
        ("@njit(cache=True)", ""),
        ("CACHE[state] = f(state)",
         "the same, and before it: if len(CACHE) >= N: CACHE.pop(next(iter(CACHE)))"),
        ("self.seen['a', 1_0] = f(x)",
         "the same, and before it: if len(self.seen) >= N: self.seen.pop(next(iter(self.seen)))"),
        ("episodes[number].append(step)", "the same, and del episodes[number] once it is used"),
        ("seen.add(state)", ""),
        ("grid[0][1] = x", ""),
        ("self.table.update(more)", ""),
    ],
)  # fmt: skip
def test_caches_and_dictionaries(text: str, becomes: str) -> None:
    assert changed(UNBOUNDED, text) == (f"train.py:9: {text} → {becomes}" if becomes else "")


def test_lists_of_a_dictionary_that_grow_themselves_are_not_deleted() -> None:
    assert changed(UNBOUNDED, "stats[name].append(x)", path="Agent.stats['loss']") == ""


@pytest.mark.parametrize(
    ("kind", "text", "becomes"),
    [
        ("numpy.ndarray", "firsts.append(batch[:10])", "firsts.append(batch[:10].copy())"),
        ("torch.Tensor", "self.last = batch[0]", "self.last = batch[0].clone()"),
        ("numpy.ndarray", "firsts.append(batch)", ""),
        ("re.Match", "found.append(matches[0])", ""),
    ],
)
def test_views_are_copied(kind: str, text: str, becomes: str) -> None:
    found = changed(Cause.PINNED_BY_SMALL_OWNER, text, kind)
    assert found == (f"train.py:9: {text} → {becomes}" if becomes else "")


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("net.register_forward_hook(keep)",
         "handle = net.register_forward_hook(keep), and handle.remove() once it is not needed"),
        ("self.hook = layer.register_full_backward_hook(f)",
         "the same, and self.hook.remove() once it is not needed"),
        ("registry.register(keep)", ""),
    ],
)  # fmt: skip
def test_hooks_are_removed(text: str, becomes: str) -> None:
    assert changed(PINNED, text) == (f"train.py:9: {text} → {becomes}" if becomes else "")


FIGURE = "matplotlib.figure.Figure"


@pytest.mark.parametrize(
    ("kind", "text", "closing"),
    [
        (FIGURE, "fig, ax = plt.subplots(2, 2)", "plt.close(fig)"),
        (FIGURE, "fig = matplotlib.pyplot.figure()", "matplotlib.pyplot.close(fig)"),
        (FIGURE, "plt.figure()", "plt.close()"),
        (FIGURE, "fig = Figure()", ""),
        ("__main__.Maze", 'env = gym.make("Maze-v0")', "env.close()"),
        ("__main__.Maze", "env = Maze(size=3)", "env.close()"),
        ("__main__.Maze", "size = Maze.size(3)", ""),
        ("__main__.Maze", "self.env = Maze()", ""),
        ("__main__.Maze", "run(Maze())", ""),
    ],
)
def test_what_is_opened_is_closed(kind: str, text: str, closing: str) -> None:
    opened = f"plot.py:5 in draw: {text}"
    for end, where in (
        ("plot.py:9 in draw: the function ends", "before draw() returns, plot.py:9"),
        ("plot.py:8 in draw: the loop ends", "where the loop ends, plot.py:8"),
    ):
        found = changed(PINNED, "", kind, path="", unclosed_at=((opened, end),))
        expected = f"plot.py:5: {text} → the same, and {closing} {where}"
        assert found == (expected if closing else "")


def test_closing_may_not_be_enough() -> None:
    pair = ("a.py:5 in f: env = Maze()", "a.py:9 in f: the function ends")
    found = changed(PINNED, "", "__main__.Maze", path="Maze.all", unclosed_at=(pair,))
    assert found.endswith(
        "env.close() before f() returns, a.py:9; what stays then is held by Maze.all"
    )


@pytest.mark.parametrize("cause", [Cause.NATIVE_LEAK, Cause.UNKNOWN, Cause.ALLOCATOR_RETENTION])
def test_other_causes_have_no_line_to_change(cause: Cause) -> None:
    assert changed(cause, "x.append(y)") == ""


def test_without_a_line_nothing_is_sure() -> None:
    assert changed_line(Explanation(Cause.GRAPH_RETENTION), CodeLines()) == ""
