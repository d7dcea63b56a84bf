import json
from collections import Counter

import pytest

from cmpe.errors import InputError
from cmpe.streams.folder import JOURNAL, MANIFEST, AnswerFolder, AnswerPart
from tests.streams.work import question
from tests.test_locks import as_on_windows


def raising(error):
    """A function that raises it, whatever it is given."""

    def raises(*_):
        raise error

    return raises


def part(text="x\n", rows=4):
    return AnswerPart(text.encode(), rows, Counter(fine=rows), 0.25)


def begun(path, resume=False, **asked):
    return AnswerFolder(path, question(**asked)).begin(resume=resume)


def test_parts_are_kept_and_counted(tmp_path):
    out = begun(tmp_path / "new" / "answers")
    out.write(1, part())
    out.write(0, part())
    out.finish()
    out.close()
    again = begun(out.path, resume=True)
    assert (again.done, again.rows, again.tally, again.complete) == ({0, 1}, 8, {"fine": 8}, True)
    again.close()
    manifest = json.loads((out.path / MANIFEST).read_text())
    assert manifest["complete"]
    assert (manifest["rows"], manifest["parts"], manifest["tally"]) == (8, 2, {"fine": 8})
    assert manifest["question"] == {"method": "sum"}
    assert out.name_of(1).read_text() == "x\n"


def test_what_a_killed_process_leaves_is_done_again(tmp_path):
    out = begun(tmp_path / "answers")
    out.write(0, part())
    out.write(1, part())
    out.close()
    out.name_of(1).unlink()  # killed between the journal and the part
    (out.path / ".part-00000001.jsonl.abc").write_text("half")
    with (out.path / JOURNAL).open("ab") as journal:
        journal.write(b'{"part": 2, "ro')  # killed within a line
    again = begun(out.path, resume=True)
    assert (again.done, again.rows) == ({0}, 4)
    assert not list(out.path.glob(".part-*"))
    again.write(1, part("y\n", 3))
    again.close()
    last = begun(out.path, resume=True)
    assert (last.done, last.rows) == ({0, 1}, 7)
    last.close()


def test_another_question_is_refused(tmp_path):
    begun(tmp_path / "answers").close()
    with pytest.raises(InputError, match="holds an unfinished run; add --resume"):
        begun(tmp_path / "answers")
    with pytest.raises(InputError, match='begun with method "sum", found "other"; give the same'):
        begun(tmp_path / "answers", resume=True, method="other")
    with pytest.raises(InputError, match="was begun with block 4, found 5"):
        begun(tmp_path / "answers", resume=True, block=5)
    long = ["x" * 100]
    with pytest.raises(InputError, match=r"evidence null, found \[.x+\.\.\.;"):
        begun(tmp_path / "answers", resume=True, evidence=long)


def test_other_folders_are_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="it is a directory of something else"):
        begun(tmp_path)
    with pytest.raises(InputError, match="found a file"):
        begun(tmp_path / "notes.txt")
    (tmp_path / MANIFEST).write_text('{"kind": "another"}')
    with pytest.raises(InputError, match="expected the manifest of"):
        begun(tmp_path)


def test_one_process_writes(tmp_path):
    out = begun(tmp_path / "answers")
    with pytest.raises(InputError, match="another process is writing here"):
        begun(out.path, resume=True)
    out.close()
    begun(out.path, resume=True).close()
    AnswerFolder(out.path, question()).close()  # never begun


def test_one_process_writes_on_windows(tmp_path, monkeypatch):
    as_on_windows(monkeypatch)
    out = begun(tmp_path / "answers")
    out.write(0, part())
    with pytest.raises(InputError, match="another process is writing here"):
        begun(out.path, resume=True)
    out.close()
    again = begun(out.path, resume=True)
    assert again.rows == 4
    again.close()


def test_where_a_file_system_has_no_locks(tmp_path, monkeypatch):
    monkeypatch.setattr("fcntl.flock", raising(OSError(37, "No locks available")))
    out = begun(tmp_path / "answers")
    begun(out.path, resume=True).close()
    out.close()
    assert out.done == set()
