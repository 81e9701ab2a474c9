"""What is said where the packages that read RDDL are not installed; runs whether they are or not."""

import importlib

import pytest

import polinfer
from polinfer.core.errors import DomainError


@pytest.mark.parametrize("missing", ["pyRDDLGym", "pyRDDLGym_jax", "rddlrepository"])
def test_a_missing_package_is_named_with_the_extra(missing, monkeypatch):
    real = importlib.import_module

    def without(name, *rest):
        if name.split(".")[0] == missing:
            raise ImportError(f"No module named {missing!r}")
        return real(name, *rest) if not name.startswith(("pyRDDL", "rddlrepository", "ply")) else None

    monkeypatch.setattr(importlib, "import_module", without)
    with pytest.raises(DomainError, match=rf"{missing}.*pip install 'polinfer\[rddl\]'") as caught:
        polinfer.make("rddl:TriangleTireworld_MDP_ippc2014/1")
    assert len(str(caught.value).splitlines()) == 1
