"""Writing that fails: the old file stays, nothing is left half written, and the error is the system's own."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import IO

import numpy as np
import pytest

from polinfer.core.errors import PolinferError
from polinfer.core.files import (
    read_arrays,
    read_json,
    read_regular,
    write_arrays,
    write_atomically,
    write_json,
)
from polinfer.core.strict_json import parse_json


def test_a_full_disk_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    write_json(path, {"a": 1})

    def half(file: IO[bytes]) -> None:
        file.write(b"{")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, half)
    assert read_json(path) == {"a": 1}
    assert [one.name for one in tmp_path.iterdir()] == ["kept.json"]


def test_a_sync_that_fails_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "kept.json"
    write_json(path, {"a": 1})

    def fail(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="Input/output error"):
        write_json(path, {"a": 2})
    assert read_json(path) == {"a": 1}
    assert [one.name for one in tmp_path.iterdir()] == ["kept.json"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"a": 1, "a": 1}', "the name 'a' is there twice"),
        ('{"a": {"b": 1, "b": 2}}', "the name 'b' is there twice"),
        ('{"a": NaN}', "NaN is not a number that JSON has"),
        ('{"a": -Infinity}', "-Infinity is not a number that JSON has"),
        ('{"a": 1} x', "Extra data"),
        ('{"a": "\\ud800"}', "half a letter"),
        ('{"a": ' + "[" * 10_000 + "]" * 10_000 + "}", "nested too deeply"),
    ],
)
def test_json_means_one_thing(text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=says):
        parse_json(text)
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(PolinferError, match=says) as caught:
        read_json(tmp_path / "x.json")
    assert len(str(caught.value).splitlines()) == 1


def test_arrays_carry_a_digest(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    write_arrays(path, {"a": np.arange(100.0), "b": np.zeros((2, 0), np.int32)})
    np.testing.assert_array_equal(read_arrays(path)["a"], np.arange(100.0))
    content = bytearray(path.read_bytes())
    content[-20] ^= 4
    path.write_bytes(bytes(content))
    with pytest.raises(PolinferError, match="its contents are not what was written"):
        read_arrays(path)


def test_only_plain_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, says in (
        (tmp_path, "a folder, not a file"),
        (tmp_path / "pipe", "a pipe or a device"),
        (Path("/dev/zero"), "a pipe or a device"),
        (tmp_path / "none", "no such file"),
        (tmp_path / ("x" * 5000), "cannot be read"),
    ):
        with pytest.raises(PolinferError, match=says):
            read_regular(path)
