"""Two budgets side by side: which rows changed, and by how much."""

from dataclasses import dataclass

from ramledger.plan.budget import Budget


@dataclass(frozen=True, slots=True)
class Change:
    """One account in both budgets."""

    account: str
    before_bytes: int
    after_bytes: int

    @property
    def delta_bytes(self) -> int:
        return self.after_bytes - self.before_bytes


def changes(before: Budget, after: Budget) -> tuple[Change, ...]:
    """Every account that differs, the largest change first."""
    sizes: list[dict[str, int]] = []
    for budget in (before, after):
        table: dict[str, int] = {}
        for row in budget.rows:
            name = f"{row.account} ({row.where})" if row.where != "main process" else row.account
            table[name] = table.get(name, 0) + row.span.expected
        sizes.append(table)
    old, new = sizes
    found = [
        Change(name, old.get(name, 0), new.get(name, 0)) for name in dict.fromkeys((*old, *new))
    ]
    return tuple(sorted((c for c in found if c.delta_bytes), key=lambda c: -abs(c.delta_bytes)))
