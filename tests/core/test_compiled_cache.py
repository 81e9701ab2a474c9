"""Compiled programs kept between runs."""

import os
import stat

import jax
import pytest

from polinfer.core import compiled_cache
from polinfer.core.compiled_cache import VARIABLE, keep_compiled_programs
from polinfer.core.errors import PolinferError


@pytest.fixture(autouse=True)
def restored():
    names = (
        "jax_compilation_cache_dir",
        "jax_persistent_cache_min_compile_time_secs",
        "jax_persistent_cache_min_entry_size_bytes",
    )
    before = {name: getattr(jax.config, name) for name in names}
    yield
    for name, value in before.items():
        jax.config.update(name, value)


def test_the_folder_is_made_for_the_user_alone_and_given_to_jax(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "a" / "b"))
    folder = keep_compiled_programs()
    assert folder == tmp_path / "a" / "b" / "compiled"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert jax.config.jax_compilation_cache_dir == str(folder)


def test_off_and_a_folder_that_jax_has_already_change_nothing(monkeypatch):
    before = jax.config.jax_compilation_cache_dir
    monkeypatch.setenv(VARIABLE, "off")
    assert keep_compiled_programs() is None
    monkeypatch.delenv(VARIABLE)
    jax.config.update("jax_compilation_cache_dir", "elsewhere")
    assert str(keep_compiled_programs()) == "elsewhere"
    jax.config.update("jax_compilation_cache_dir", before)


@pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")
def test_a_folder_that_others_can_write_to_is_refused(tmp_path):
    tmp_path.chmod(0o777)
    with pytest.raises(PolinferError, match="others may write there"):
        keep_compiled_programs(tmp_path)


@pytest.mark.skipif(os.name != "posix", reason="owners are those of POSIX")
def test_a_folder_of_another_user_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(compiled_cache.os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(PolinferError, match="belongs to another user"):
        keep_compiled_programs(tmp_path)


def test_the_programs_used_longest_ago_go_first(tmp_path):
    for age, name in enumerate(["new", "middle", "old"]):
        (tmp_path / name).write_bytes(b"x" * 100)
        os.utime(tmp_path / name, (1e9 - age, 1e9 - age))
    compiled_cache._cut_back(tmp_path, 250)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["middle", "new"]
