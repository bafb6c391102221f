"""What a function opens and never closes, read from its bytecode."""

import types
from collections.abc import Callable
from typing import Any

import pytest

from ramledger.objects.names import unclosed_sites
from ramledger.objects.names.unclosed_sites import FIGURE

plt: Any = None
kept: list[Any] = []
closers: dict[str, Any] = {}


def in_function() -> None:
    fig, ax = plt.subplots()
    ax.plot([1])
    fig.savefig("a.png")


def in_loop() -> None:
    for number in range(3):
        fig = plt.figure()
        fig.savefig(f"{number}.png")
    print("done")


def in_while() -> None:
    number = 0
    while number < 3:
        plt.figure()
        number += 1


def passed_on(writer: Any) -> None:
    fig = plt.figure()
    writer.add_figure("returns", fig)


def closed() -> None:
    fig = plt.figure()
    plt.close(fig)


def returned() -> Any:
    fig = plt.figure()
    return fig


def stored() -> None:
    fig = plt.figure()
    kept.append(fig)


def stored_by_key() -> None:
    fig = plt.figure()
    closers["a"] = fig


def shared() -> Callable[[], Any]:
    fig = plt.figure()
    return lambda: fig


def other() -> None:
    plt.plot([1])


def sites(monkeypatch: pytest.MonkeyPatch, *functions: Any) -> list[str]:
    codes = [one.__code__ for one in functions]
    monkeypatch.setattr(unclosed_sites, "user_codes", lambda: iter(codes))
    monkeypatch.setattr(unclosed_sites, "_known", {})
    return list(unclosed_sites.unclosed_sites([FIGURE]).get(FIGURE, ()))


def line(function: types.FunctionType, after: int) -> str:
    number = function.__code__.co_firstlineno + after
    return f"test_unclosed_sites.py:{number} in {function.__name__}"


@pytest.mark.parametrize(
    ("function", "opened", "end", "how"),
    [
        (in_function, 1, 3, "the function ends"),
        (in_loop, 2, 3, "the loop ends"),
        (in_while, 3, 4, "the loop ends"),
        (passed_on, 1, 2, "the function ends"),
    ],
)
def test_where_it_is_opened_and_where_it_could_be_closed(
    monkeypatch: pytest.MonkeyPatch, function: types.FunctionType, opened: int, end: int, how: str
) -> None:
    first, second = sites(monkeypatch, function)
    assert first.startswith(line(function, opened) + ": ")
    assert "plt." in first
    assert second == f"{line(function, end)}: {how}"


@pytest.mark.parametrize(
    "function", [closed, returned, stored, stored_by_key, shared, other], ids=lambda f: f.__name__
)
def test_what_is_closed_or_kept_by_others_is_none_of_it(
    monkeypatch: pytest.MonkeyPatch, function: types.FunctionType
) -> None:
    assert sites(monkeypatch, function) == []


def test_a_script_has_an_end_of_its_own() -> None:
    source = "fig = plt.figure()\nfor number in range(3):\n    env = plt.figure()\n    env.show()\n"
    code = compile(source, "script.py", "exec")
    (pair,) = unclosed_sites._pairs(code, ("figure",))
    assert pair[0].startswith("script.py:3 in <module>")
    assert pair[1] == "script.py:4 in <module>: the loop ends"


def test_other_classes_are_not_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unclosed_sites, "_known", {})
    assert unclosed_sites.unclosed_sites(["builtins.list", "__main__.Agent"]) == {}
