"""Names of types: the agent's thread and the program's own ask for them at the same time."""

from weakref import ref

from ramledger.interpreter import type_facts
from ramledger.interpreter.type_facts import type_name


def test_a_type_that_another_thread_is_just_adding_has_a_name() -> None:
    class Kind:
        pass

    type_facts._named_types[id(Kind)] = ref(Kind)
    type_facts._type_names.pop(id(Kind), None)
    assert type_name(Kind).endswith(".Kind")
    assert type_facts._type_names[id(Kind)].endswith(".Kind")
