"""Names of types while two threads ask for them: the agent's and the program's own."""

import threading

from ramledger.interpreter import type_facts
from ramledger.interpreter.type_facts import type_name


def test_two_threads_name_new_types(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    """A small table is emptied all the time; nobody finds a type without its name."""
    monkeypatch.setattr(type_facts, "_MOST_TYPE_NAMES", 5)
    kinds = [type(f"Kind{number}", (), {}) for number in range(40)]
    wrong: list[str] = []

    def name_them() -> None:
        for _ in range(400):
            for number, kind in enumerate(kinds):
                try:
                    found = type_name(kind)
                except KeyError as error:
                    found = repr(error)
                if not found.endswith(f".Kind{number}"):
                    wrong.append(found)

    threads = [threading.Thread(target=name_them) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
