"""Files as other programs, other keyboards and forgers write them: letters that look alike, arrays that lie."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from random import Random
from typing import Any

import numpy as np

from .kinds import DENSE, SPARSE
from .mutate import dump, mutate_bytes, odd_value

LETTERS = ".RGWS#"
ALIKE = ("Ｓ", "Ѕ", "s", "ＧG", "．", "·", "\u200b", "\u200d", "\ufeff", "\xa0", "\u3000", "\u202e", "S\u0301", "\t",
         "\r", "\x0b", "\x0c", "\x1b[2J", "\x85", "\u2028", "\0", "١", "𝟙", "🧭", "\U000e0001", " ", "", "\n")  # fmt: skip
ENCODINGS = ("utf-8-sig", "utf-16", "utf-16-le", "utf-32", "cp500", "latin-1", "cp1252", "utf-7", "shift-jis")
DIGITS = ("1", "0", "-0", "-0.0", "+1", " 1", "1 ", "1_0", "1e0", "1.", ".5", "0x1", "١", "１", "½", "1,5", "50%", "1/2",
          "1e-400", "1e400", "5e-324", "nan", "NAN", "inf", "-inf", "Infinity", "true", "None", "", "0.3333333333333333",
          "0.999999", "1.0000005", "1.000002", "1" * 400, "0." + "3" * 400, "1j", "NaN1", "0b1", "1d0")  # fmt: skip


def retype(chance: Random, text: str) -> bytes:
    """Write a text as another editor, another keyboard or another machine would."""
    for _ in range(chance.choice([1, 1, 2])):
        kind = chance.random()
        at = chance.randrange(len(text) + 1)
        if kind < 0.4:
            text = text[:at] + chance.choice(ALIKE) + text[at + (chance.random() < 0.5) :]
        elif kind < 0.5:
            text = text.replace("\n", chance.choice(["\r\n", "\r", "\n\n", "\u2028", "\\n", " \n", "\n\t"]))
        elif kind < 0.6:
            text = chance.choice(ALIKE) * chance.choice([1, 3]) + text
        elif kind < 0.7:
            text = text.swapcase()
    kind = chance.random()
    if kind < 0.15:
        return text.encode(chance.choice(ENCODINGS), "replace")
    if kind < 0.25:
        return mutate_bytes(chance, text.encode())
    return text.encode("utf-8", "replace")


def sheet(chance: Random) -> bytes:
    """Write a policy as a sheet, with one to three oddities."""
    head = ["state", "action", "probability"]
    rows = [["near", "walk", "0.25"], ["near", "run", "0.75"], ["far", "run", "1"], ["home", "walk", "1"]]
    if chance.random() < 0.3:
        rows = [["0", "0", "0.25"], ["0", "1", "0.75"], ["1", "1", "1"]]
    comma, line, quote = ",", "\n", False
    for _ in range(chance.choice([1, 1, 2, 3])):
        kind = chance.randrange(12)
        row = chance.choice(rows) if rows else ["near", "walk", "1"]
        row += [""] * (3 - len(row))
        if kind <= 1:
            row[2] = chance.choice(DIGITS)
        elif kind == 2:
            row[chance.randrange(2)] = chance.choice(
                [*DIGITS, *ALIKE, "walk ", "Near", "-1", "99", "near\nfar", '"', "a" * 200_000]
            )
        elif kind == 3:
            rows.append(list(row))
        elif kind == 4 and rows:
            rows.remove(row)
        elif kind == 5:
            head[chance.randrange(3)] = chance.choice(
                ["", "State", "state", " action", "\ufeffstate", "p", "action"]
            )
        elif kind == 6:
            comma = chance.choice([";", "\t", "|", " , ", ",,", ""])
        elif kind == 7:
            line = chance.choice(["\r\n", "\r", "\n\n", "\0", ",\n"])
        elif kind == 8:
            row += chance.choice([["x"], ["", ""], ["1"] * 100])
        elif kind == 9:
            del row[chance.randrange(3) :]
            row += [""] * chance.randrange(3)
        elif kind == 10:
            quote = True
        else:
            chance.shuffle(rows)
    cells = [head, *(row for row in rows if row)]
    text = line.join(comma.join(f'"{cell}"' if quote else cell for cell in row) for row in cells)
    return (
        text.encode(chance.choice(ENCODINGS), "replace")
        if chance.random() < 0.1
        else text.encode("utf-8", "replace")
    )


def odd_policy(chance: Random) -> bytes:
    """Write a policy as JSON, with an oddity."""
    value = chance.choice(
        [
            {"near": {"walk": 0.25, "run": 0.75}, "far": "run"},
            {"near": [0.25, 0.75], "far": [0, 1], "home": [1, 0]},
            {"0": 0, "1": 1, "2": 0},
            [0, 1, 0],
            [[0.25, 0.75], [0, 1], [1, 0]],
            {"policy": [0, 1, 0]},
        ]
    )
    odd = (
        odd_value(chance)
        if chance.random() < 0.6
        else chance.choice([*DIGITS, *ALIKE, True, -0.0, 0.9999995, 10**400])
    )
    value = json.loads(json.dumps(value))
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key = chance.choice(keys)
    inner = value[key]
    if chance.random() < 0.4 and isinstance(inner, dict | list) and inner:
        inside = chance.choice(list(inner) if isinstance(inner, dict) else list(range(len(inner))))
        inner[inside] = odd
    elif chance.random() < 0.3 and isinstance(value, dict):
        value[str(odd)] = value.pop(key)
    else:
        value[key] = odd
    return dump(value)


_TYPES = ("<f8", ">f8", "<f2", "<f4", "f16", "<c16", "<i1", ">i8", "<u8", "?", "<U3", "S2", "<M8[s]", "<m8[D]", "V8",
          "O", "(2,)f4", "|V0", [("a", "<f8"), ("b", "<i4")])  # fmt: skip
_SHAPES = ((), (0,), (3,), (3, 2), (2, 3), (1, 3, 2), (3, 0), (10**6, 10**6), (10**9, 10**9, 10**9), (2**40,),
           (2**63,), (-1, 2), (3, -2), (2**31 + 1,), (3.0, 2), ("3", 2), (True, 2), (3, 2) + (1,) * 70)  # fmt: skip


def lying_array(chance: Random, array: np.ndarray) -> bytes:
    """Write an array whose header says something else, is written by hand, or has an odd type."""
    kind = chance.random()
    if kind < 0.35:
        with np.errstate(all="ignore"):
            try:
                array = array.astype(np.dtype(chance.choice(_TYPES)))
            except (TypeError, ValueError):
                array = np.array(["x"] * 3)
        if array.dtype.kind in "fc" and array.size and chance.random() < 0.4:
            array = array.copy()
            array.reshape(-1)[chance.randrange(array.size)] = chance.choice(
                [np.nan, np.inf, -0.0, 1e-310, -1e-10]
            )
        if chance.random() < 0.3 and array.ndim > 1:
            array = np.asfortranarray(array)
        written = io.BytesIO()
        np.save(written, array, allow_pickle=True)
        return written.getvalue()
    shape = chance.choice(_SHAPES) if kind < 0.8 else array.shape
    descr = chance.choice(_TYPES) if kind > 0.7 else array.dtype.str
    head = {"descr": descr, "fortran_order": chance.choice([False, True, 0, None]), "shape": shape}
    text = repr(head)
    if chance.random() < 0.2:
        text = chance.choice(
            [
                "{}",
                "{" * 300,
                text[:-3],
                "__import__('os').system('x')",
                "1" * 20_000,
                text + "\0",
                "{'a':" * 150,
            ]
        )
    padded = (text + " " * (-len(text) % 64)).encode("latin-1", "replace")
    version = chance.choice([(1, 0), (1, 0), (2, 0), (3, 0), (9, 9)])
    size = struct.pack("<H", min(len(padded), 65_535)) if version[0] == 1 else struct.pack("<I", len(padded))
    if chance.random() < 0.1:
        size = b"\xff" * len(size)
    return b"\x93NUMPY" + bytes(version) + size + padded + array.tobytes()


def odd_archive(chance: Random, arrays: dict[str, np.ndarray]) -> bytes:
    """Write an archive in which one member lies, is packed oddly, has an odd name, or unpacks to very much."""
    written = io.BytesIO()
    odd = chance.choice(sorted(arrays))
    with zipfile.ZipFile(written, "w") as archive:
        for name, array in arrays.items():
            content = io.BytesIO()
            np.save(content, array)
            data, told = content.getvalue(), name + ".npy"
            if name == odd:
                kind = chance.random()
                if kind < 0.6:
                    data = lying_array(chance, array)
                elif kind < 0.75:
                    told = chance.choice(
                        [
                            name,
                            "../" + told,
                            told + "/",
                            "/" + told,
                            "",
                            name.upper() + ".npy",
                            name + "\ufeff.npy",
                        ]
                    )
                elif kind < 0.8:
                    data = content.getvalue()[:128] + bytes(chance.choice([1 << 20, 1 << 26]))
                else:
                    data = mutate_bytes(chance, data)
            packed = chance.choice(
                [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
            )
            archive.writestr(zipfile.ZipInfo(told), data, packed)
    whole = bytearray(written.getvalue())
    if chance.random() < 0.15:  # sizes and flags in the directory of the archive
        at = whole.rfind(b"PK\x01\x02") + chance.randrange(6, 46)
        whole[at] = chance.randrange(256)
    return bytes(whole)


def contradict(chance: Random) -> dict[str, Any]:
    """Return a table that says two things at once, or something barely."""
    table: dict[str, Any] = json.loads(json.dumps(chance.choice([SPARSE, DENSE])))
    for _ in range(chance.choice([1, 2])):
        kind = chance.randrange(10)
        rows = table.get("outcomes") or table["transitions"][0]
        row = chance.choice(rows)
        number = chance.choice(
            [-0.0, 5e-324, 1e-12, 1e-310, 1e100, -1e100, 1e101, True, False, "1", None, [1], 10**400]
        )
        if kind == 0:
            row[-1 if "outcomes" in table else 0] = number
        elif kind == 1:
            row[-2] = chance.choice([number, 0.5000004, 0.500002, 1 - 1e-7, 1e-12])
        elif kind == 2:
            rows.append(list(row))
        elif kind == 3:
            table["discount"] = chance.choice([number, 1, 1.0000001, 0.999999999999, 1e-300, 0])
        elif kind == 4:
            table["initial"] = chance.choice(
                [number, "home", ["near"], {"near": 1}, [0.5, 0.5, 1e-7], [1, 0, -0.0], 2, -1]
            )
        elif kind == 5:
            table["state_names"] = chance.choice(
                [
                    ["a", "a", "b"],
                    ["a"],
                    [1, 2, 3],
                    ["0", "2", "1"],
                    ["", " ", "\n"],
                    ["\u200b", "x", "y" * 5000],
                    "abc",
                ]
            )
        elif kind == 6:
            table[chance.choice(["num_states", "num_actions", "horizon"])] = chance.choice(
                [number, 3.0, 1e6, 2.5, 10**8, 0, 1]
            )
        elif kind == 7:
            table["legal"] = chance.choice(
                [[[False] * 2] * 3, [[1, 0]] * 3, [[True, False]] * 3, [[True]] * 3, [], number]
            )
        elif kind == 8:
            table["absorbing"] = chance.choice(
                [["home"], [2.0], [True], [2, 2], [-1], ["near", "far", "home"], [], {}, "home", number]
            )
        else:
            table[
                chance.choice(
                    [
                        "prior",
                        "features",
                        "identities",
                        "draws",
                        "ending_names",
                        "observed",
                        "state_keys",
                        "averaged",
                    ]
                )
            ] = chance.choice(
                [
                    odd_value(chance),
                    [[0.5, 0.5]] * 3,
                    [[1, 0]] * 3,
                    ["a", "b", "c"],
                    [[10**12]] * 3,
                    [[0, 0]] * 3,
                ]
            )
    return table
