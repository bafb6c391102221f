"""What to change in a replay buffer of the user's own: the lines of code, in the user's names."""

import ast
from collections.abc import Iterator, Mapping

from ramledger.diagnose.code_text import CodeLine
from ramledger.diagnose.own_replay import OwnReplay, Part
from ramledger.ledger import Statement
from ramledger.units import format_bytes

_MUCH = 0.5  # of the observations
_IMPORT_BYTES = 6_500_000  # what `from ramledger import replay` takes, measured beside numpy
_ROLES = ("action", "reward", "done")


def why(replay: OwnReplay) -> str:
    """What is stored more than once, and wider than needed."""
    observation = replay.observation
    many = f"{replay.length:,}"
    if replay.capacity:
        many += f" of {replay.capacity:,}"
    each = format_bytes(replay.bytes // replay.length)
    text = f"{replay.path} holds {many} transitions, {each} each"
    reasons = []
    if replay.stored_twice >= _MUCH:
        reasons.append(
            f"the next observation of each is stored again as the observation of the one after it: "
            f"{format_bytes(round(replay.stored_twice * replay.length * observation.bytes))}"
        )
    if replay.stack > 1:
        reasons.append(
            f"observations of {replay.stack} rows share all but one row with the one after them"
        )
    if replay.fits_bytes:
        reasons.append(f"their values are whole numbers from 0 to 255, kept as {observation.dtype}")
    elif observation.is_wide:
        reasons.append("they are float64, and networks compute in float32")
    return f"{text}; {'; '.join(reasons)}"


def title(replay: OwnReplay) -> str:
    if replay.stored_twice >= _MUCH or replay.stack > 1:
        return f"store each observation of {replay.path} once"
    return f"{replay.dtype} instead of {replay.observation.dtype} in {replay.path}"


def saves_bytes(replay: OwnReplay) -> int:
    """Where there is something to save; 0 where observations are stored once and narrow."""
    is_narrow = replay.dtype == replay.observation.dtype
    is_wasteful = replay.stored_twice >= _MUCH or replay.stack > 1 or not is_narrow
    saved = replay.bytes - replay.slim_bytes - _IMPORT_BYTES
    return max(0, saved) if is_wasteful else 0


def lines(replay: OwnReplay, statement: Statement) -> tuple[str, ...]:
    """The few lines that replace it, each with the line it stands for."""
    if not replay.observation.is_whole:
        return (
            "ramledger.replay.ReplayBuffer stores each part of an observation once: "
            "Schema({name: Field(shape), …}), and buffer.add() gets dictionaries",
        )
    found = ["from ramledger import replay", *_made(replay), *_added(replay), *_drawn(replay)]
    table = _table_of(replay, statement)
    if table:
        found.append(
            f"if its observations are rows of {table}, positions are enough, 4 bytes each: "
            f'replay.TableWindow("data", {replay.stack}) for replay.Frames(…), and '
            f'tables={{"data": {table.rpartition(":")[2]}}}'
        )
    return tuple(found)


def _name(replay: OwnReplay) -> str:
    """What the user's code calls it: `self.memory`; for arrays, one buffer in their place."""
    if replay.is_arrays:
        return "self.buffer"
    targets = _assigned(replay.made_in.get("", ""))
    if targets:
        return targets
    name = replay.path.rpartition(":")[2]
    return f"self.{name.rpartition('.')[2]}" if "." in name else name


def _made(replay: OwnReplay) -> Iterator[str]:
    part = replay.observation
    if replay.stack > 1:
        axis = "" if replay.axis == 0 else ", axis=-1"
        frame = part.sides[1:] if replay.axis == 0 else part.sides[:-1]
        kind = f'replay.Frames({frame}, "{replay.dtype}", {replay.stack}{axis})'
    else:
        kind = _field(part, replay.dtype)
    action = _roles(replay).get("action")
    schema = kind if action is None else f"{kind}, action={_field(action)}"
    capacity = f"{replay.capacity:_}" if replay.capacity else "N"
    new = f"{_name(replay)} = replay.ReplayBuffer(replay.Schema({schema}), capacity={capacity})"
    first = replay.made_in.get(part.name if replay.is_arrays else "", "")
    yield _instead(new, first, " and its other arrays" if replay.is_arrays else "")


def _field(part: Part, dtype: str = "") -> str:
    if part.kind in ("whole number", "flag"):
        return 'replay.Field((), "int64")'
    if not part.shape:
        return "replay.Field()"
    dtype = dtype or part.narrow_dtype
    shown = "" if dtype == "float32" else f', "{dtype}"'
    return f"replay.Field({part.sides}{shown})"


def _roles(replay: OwnReplay) -> dict[str, Part]:
    """Which of the other fields is the action, which the reward, and which says that it ended."""
    others = replay.others
    by_name = {role: one for one in others for role in _ROLES if role in one.name.lower()}
    flags = [one for one in others if one.kind == "flag" and one.name not in ("action",)]
    found = dict(by_name)
    if "done" not in found and flags and others[-1].kind == "flag":
        found["done"] = others[-1]
    rest = [one for one in others if all(one is not known for known in found.values())]
    numbers = [one for one in rest if one.kind == "number"]
    if "reward" not in found and (numbers or len(rest) > 1):
        found["reward"] = numbers[-1] if numbers else rest[-1]
    rest = [one for one in rest if all(one is not known for known in found.values())]
    if "action" not in found and rest:
        found["action"] = rest[0]
    return found


def _added(replay: OwnReplay) -> Iterator[str]:
    texts = _texts_of_fields(replay)
    roles = _roles(replay)

    def text(part: Part | None, otherwise: str) -> str:
        return texts.get(part.name, otherwise) if part is not None else otherwise

    def narrowed(given: str) -> str:
        return f"np.uint8({given})" if replay.fits_bytes else given

    unpacked = "[0]" * (len(replay.observation.shape) - len(replay.observation.sides))
    following = next(part for part in replay.parts if part.kind == "next observation")
    values = (
        narrowed(text(replay.observation, "state") + unpacked),
        text(roles.get("action"), "action"),
        text(roles.get("reward"), "reward"),
        narrowed(text(following, "next_state") + unpacked),
        _ended(roles.get("done"), text(roles.get("done"), "done")),
    )
    key = replay.observation.name if replay.is_arrays else ""
    yield _instead(f"{_name(replay)}.add({', '.join(values)})", replay.added_in.get(key, ""))


def _ended(part: Part | None, text: str) -> str:
    """Of a field that says that an episode goes on, such as `not_done`, the opposite."""
    if part is None or not part.name.lower().startswith(("not", "non")):
        return text
    given = ast.parse(text, mode="eval").body
    is_opposite = isinstance(given, ast.BinOp) and isinstance(given.op, ast.Sub)
    if isinstance(given, ast.BinOp) and is_opposite and isinstance(given.left, ast.Constant):
        return ast.unparse(given.right)
    return f"not {text}"


def _drawn(replay: OwnReplay) -> Iterator[str]:
    line = replay.drawn_in.get(replay.observation.name if replay.is_arrays else "", "")
    new = f"batch = {_name(replay)}.sample(batch_size)"
    yield _instead(
        f"{new}: batch.obs, .action, .reward, .next_obs, .terminated, each one array", line
    )


def _instead(new: str, line: str, also: str = "") -> str:
    code = CodeLine(line)
    return f"{code.place}: {code.source}{also} → {new}" if code.place and code.source else new


def _statement(line: str) -> ast.stmt | None:
    """What a line of code says; of a function on one line, what it does."""
    found = CodeLine(line).statement
    return found.body[0] if isinstance(found, ast.FunctionDef) else found


def _assigned(line: str) -> str:
    found = _statement(line)
    if isinstance(found, ast.Assign) and len(found.targets) == 1:
        return ast.unparse(found.targets[0])
    return ast.unparse(found.target) if isinstance(found, ast.AnnAssign) else ""


def _texts_of_fields(replay: OwnReplay) -> Mapping[str, str]:
    """What the user's code stores in each field: `{"0": "state", "3": "next_state"}`."""
    if replay.is_arrays:
        found = {name: _statement(line) for name, line in replay.added_in.items()}
        return {
            name: ast.unparse(one.value)
            for name, one in found.items()
            if isinstance(one, ast.Assign)
        }
    one = _statement(replay.added_in.get("", ""))
    call = one.value if isinstance(one, ast.Expr) else None
    if not isinstance(call, ast.Call) or len(call.args) != 1:
        return {}
    value = call.args[0]
    names = [part.name for part in replay.parts]
    if isinstance(value, ast.Call):
        keywords = {k.arg: ast.unparse(k.value) for k in value.keywords if k.arg}
        given = {name: ast.unparse(arg) for name, arg in zip(names, value.args, strict=False)}
        return given | keywords
    if isinstance(value, ast.Dict):
        return {
            str(key.value): ast.unparse(text)
            for key, text in zip(value.keys, value.values, strict=True)
            if isinstance(key, ast.Constant)
        }
    elements = value.elts if isinstance(value, ast.Tuple | ast.List) else []
    return {name: ast.unparse(text) for name, text in zip(names, elements, strict=False)}


def _table_of(replay: OwnReplay, statement: Statement) -> str:
    """An array of the program whose rows have the shape of a window's; '' if there is none."""
    shape = replay.observation.sides
    if replay.stack == 1 or replay.axis != 0:
        return ""
    for item in statement.large_objects:
        if item.shape[1:] == shape[1:] and item.shape[0] > shape[0] and len(item.shape) > 1:
            return item.path
    return ""
