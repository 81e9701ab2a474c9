"""Damage to files: bytes, JSON documents, archives of arrays; all drawn from one seeded generator."""

from __future__ import annotations

import copy
import io
import json
import struct
from contextlib import suppress
from random import Random
from typing import Any

import numpy as np
import safetensors.numpy

NUMBERS: tuple[Any, ...] = (
    0, 1, -1, 2, 3, -3, 7, 2**31, 2**31 - 1, 2**32, 2**53 + 1, 2**63, -(2**63) - 1, 10**6, 10**9, 10**18, 10**30,
    10**400, -(10**400), 0.0, -0.0, 0.5, 1.5, -0.5, 1e-7, 1e-12, 1e-300, 5e-324, 1e6, 1e18, 1e38, 1e39, 1e300,
    1e308, -1e308, float("nan"), float("inf"), float("-inf"),
)  # fmt: skip
WORDS = ("", " ", "auto", "exact", "wake", "near", "true", "null", "1", "-1", "1e400", "nan", "../../etc/passwd",
         "/dev/zero", "config.json", "\0", "\u2028", "é", "\ud800", "[bold red]x[/]", "[/]", "{}", "%s%n", "a" * 5000,
         "gym:CartPole-v1", "gridworld", "polinfer posterior", "\x1b[31m", "line\nbreak")  # fmt: skip
THINGS: tuple[Any, ...] = (
    None, True, False, [], {}, [[]], [None], {"a": 1}, [1, "x"], [[1, 2], [3]], [True, 0], {"": {}}, [float("nan")],
)  # fmt: skip


def odd_value(chance: Random) -> Any:
    """Draw something that hardly ever belongs where it is put."""
    kind = chance.random()
    if kind < 0.5:
        return chance.choice(NUMBERS)
    if kind < 0.75:
        return chance.choice(WORDS)
    if kind < 0.97:
        return copy.deepcopy(chance.choice(THINGS))
    deep: Any = 1
    for _ in range(chance.choice([20, 100])):
        deep = [deep]
    return deep


def places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """List the paths to all that hangs in `tree`, as far as they are not very long."""
    if len(path) > 20:
        return [path]
    inside = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [path, *(place for key, branch in inside for place in places(branch, (*path, key)))]


def mutate_tree(chance: Random, tree: Any) -> Any:
    """Make one to three changes somewhere in what JSON gave."""
    tree = copy.deepcopy(tree)
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        if not isinstance(tree, dict) or not tree:
            return tree
        branch = chance.choice(list(tree))
        *above, last = chance.choice(places(tree[branch], (branch,)))
        parent: Any = tree
        for key in above:
            parent = parent[key]
        change = chance.choice(["replace"] * 6 + ["drop", "wrap", "double", "rename", "scale", "swap", "add"])
        if change == "drop":
            del parent[last]
        elif change == "wrap":
            parent[last] = [parent[last]]
        elif change == "double" and isinstance(parent, list):
            parent.insert(last, copy.deepcopy(parent[last]))
        elif change == "rename" and isinstance(parent, dict):
            parent[chance.choice(WORDS)] = parent.pop(last)
        elif change == "scale" and isinstance(parent[last], int | float):
            factor = chance.choice([-1, 0.999999, 1.000002, 1e3, 1e9, 1e-9, 1e300])
            with suppress(OverflowError):
                parent[last] = parent[last] * factor
        elif change == "swap" and isinstance(parent[last], list) and len(parent[last]) > 1:
            chance.shuffle(parent[last])
        elif change == "add":
            tree[chance.choice([*tree, *WORDS])] = odd_value(chance)
        else:
            parent[last] = odd_value(chance)
    return tree


def dump(tree: Any) -> bytes:
    """Write JSON with whatever is in it."""
    return json.dumps(tree).encode("utf-8", "surrogatepass")


def mutate_json(chance: Random, content: bytes) -> bytes:
    """Damage a JSON document: its values, its text, or its bytes."""
    kind = chance.random()
    if kind < 0.7:
        return dump(mutate_tree(chance, json.loads(content)))
    text = content.decode()
    tree = json.loads(content)
    key = chance.choice(list(tree) or ["x"])
    if kind < 0.75:  # a duplicate key, which contradicts
        head = f"{{{json.dumps(key)}: {dump(odd_value(chance)).decode('utf-8', 'surrogatepass')}, "
        return (head + text.lstrip()[1:]).encode("utf-8", "surrogatepass")
    if kind < 0.8:  # trailing garbage, a second document, a comma
        return (text + chance.choice(["x", "{}", ",", "]", "}", "\0", text, "// remark", "NaN"])).encode()
    if kind < 0.85:  # other encodings
        encoding = chance.choice(["utf-16", "utf-32", "utf-8-sig", "utf-7", "cp037"])
        return text.encode(encoding)
    if kind < 0.88:
        deep = f"{{{json.dumps(key)}: {'[' * 10_000}{']' * 10_000}}}"
        return chance.choice(["NaN", "Infinity", "-Infinity", "[1", "[]", "1", '"x"', "{", deep]).encode()
    return mutate_bytes(chance, content)


def mutate_bytes(chance: Random, content: bytes) -> bytes:
    """Flip, cut, insert, repeat or replace bytes."""
    data = bytearray(content)
    kind = chance.choice(["flip"] * 5 + ["cut", "cut", "head", "insert", "zero", "random", "empty", "double"])
    at = chance.randrange(len(data)) if data else 0
    if kind == "flip" and data:
        for _ in range(chance.choice([1, 1, 3, 10])):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    elif kind == "cut":
        del data[at:]
    elif kind == "head":
        del data[:at]
    elif kind == "insert":
        data[at:at] = chance.randbytes(chance.choice([1, 8, 100]))
    elif kind == "zero":
        data[at : at + 64] = bytes(len(data[at : at + 64]))
    elif kind == "random":
        return chance.randbytes(chance.choice([1, 8, 100, 1000]))
    elif kind == "empty":
        return b""
    else:
        data *= 2
    return bytes(data)


def mutate_array(chance: Random, array: np.ndarray) -> np.ndarray:
    """Change the values, the type or the shape of an array."""
    array = np.array(array)
    kind = chance.choice(["value"] * 5 + ["all", "type", "flat", "more", "less", "empty", "axis", "turn"])
    if kind == "value" and array.size and array.dtype.kind in "fiu":
        flat = array.reshape(-1)
        with np.errstate(all="ignore"):
            value = chance.choice([np.nan, np.inf, -np.inf, -1, 0, 1e30, -1e30, 2, 1e9, 2**31, 1e-30])
            if array.dtype.kind in "iu":
                value = chance.choice(
                    [-1, 0, 2, 99, 10**9, np.iinfo(array.dtype).max, np.iinfo(array.dtype).min]
                )
                value = min(max(value, np.iinfo(array.dtype).min), np.iinfo(array.dtype).max)
            flat[chance.randrange(len(flat))] = value
        return flat.reshape(array.shape)
    if kind == "all":
        return np.full_like(array, chance.choice([0, 1])) if array.dtype.kind in "fiub" else array[:0]
    if kind == "type" and array.dtype.kind in "fiub":
        with np.errstate(all="ignore"):
            return array.astype(chance.choice(["f2", "f4", "f8", "i1", "i4", "i8", "u1", "bool"]))
    if kind == "flat":
        return array.reshape(-1)
    if kind == "more":
        return np.concatenate([np.atleast_1d(array)] * 2)
    if kind == "less":
        return np.atleast_1d(array)[:-1]
    if kind == "empty":
        return np.atleast_1d(array)[:0]
    if kind == "axis":
        return array[None]
    return np.ascontiguousarray(array.T)


def mutate_arrays(chance: Random, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Change, drop or rename one array, or add one."""
    found = dict(arrays)
    name = chance.choice(sorted(found))
    kind = chance.random()
    if kind < 0.75:
        found[name] = mutate_array(chance, found[name])
    elif kind < 0.85:
        del found[name]
    elif kind < 0.92:
        found[chance.choice(["x", "proposal.rows", "trace:done", "trace.new", name + "x"])] = found.pop(name)
    else:
        other = chance.choice(sorted(found))
        found[name], found[other] = found[other], found[name]
    return found


def mutate_safetensors(chance: Random, content: bytes) -> bytes:
    """Damage arrays, or let the header lie about them."""
    kind = chance.random()
    if kind < 0.6:
        arrays = mutate_arrays(chance, dict(safetensors.numpy.load(content)))
        return bytes(safetensors.numpy.save({k: np.ascontiguousarray(v) for k, v in arrays.items()}))
    if kind < 0.85:
        size = struct.unpack("<Q", content[:8])[0]
        header = dump(mutate_tree(chance, json.loads(content[8 : 8 + size])))
        claimed = chance.choice([len(header)] * 3 + [2**63, len(header) + 1, 0, 2**40])
        return struct.pack("<Q", claimed) + header + content[8 + size :]
    return mutate_bytes(chance, content)


def mutate_npz(chance: Random, content: bytes) -> bytes:
    """Damage the arrays of an archive, or its bytes."""
    if chance.random() < 0.3:
        return mutate_bytes(chance, content)
    with np.load(io.BytesIO(content)) as archive:
        arrays = {name: archive[name] for name in archive.files}
    written = io.BytesIO()
    np.savez(written, **mutate_arrays(chance, arrays))
    return written.getvalue()


def mutate_file(chance: Random, name: str, content: bytes) -> bytes:
    """Damage a file in a way that fits what it is."""
    for ending, mutate in (
        (".json", mutate_json),
        (".safetensors", mutate_safetensors),
        (".npz", mutate_npz),
    ):
        if name.endswith(ending):
            # What was damaged before may be no such file any more.
            with suppress(Exception):
                return mutate(chance, content)
    return mutate_bytes(chance, content)
