from __future__ import annotations

import pytest

from cmpe.core.compiler import kept


def test_what_is_kept(tmp_path, monkeypatch):
    class Found:
        def __init__(self, folder):
            self._cache = type("Cache", (), {"cache_path": str(folder)})

    for name, size in (
        ("a/one.fast.nbi", 10),
        ("a/one.fast.1.nbc", 2_000_000),
        ("a/one.plain.nbi", 10),
        ("b/two.fast.nbi", 10),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(bytes(size))
    monkeypatch.setattr(kept, "COMPILER", "fast")
    found = kept.kept([Found(tmp_path / "a"), Found(tmp_path / "b"), Found(tmp_path / "c")])
    assert (found.functions, found.folder) == (2, tmp_path)
    assert found.megabytes == pytest.approx(2.0, abs=0.01)
    assert kept.kept([]).functions == 0
