"""Live objects of a snapshot as rows of a table: what the user wrote and knows comes first."""

from dataclasses import replace

from ramledger.events import SnapshotEvent
from ramledger.ledger import Statement, TypeCount
from ramledger.type_ranks import listed_types


def listed_objects(statement: Statement) -> list[TypeCount]:
    """The rows of a short table, from the types of a statement."""
    by_name = {row.type: row for row in statement.types}
    users = statement.facts.get("user_classes", ())
    return [by_name[name] for name in listed_types(by_name, set(map(str, users)))]


def with_counts(snapshot: SnapshotEvent) -> Statement:
    """The statement of a snapshot, with all types that the snapshot has counted."""
    statement = snapshot.statement
    by_name = {row.type: row for row in statement.types}
    for name, count in snapshot.live_objects.items():
        by_name.setdefault(name, TypeCount(name, count, 0))
    types = sorted(by_name.values(), key=lambda row: (-row.bytes, -row.count, row.type))
    facts = {**statement.facts, "user_classes": list(snapshot.user_classes)}
    return replace(statement, types=tuple(types), facts=facts)
