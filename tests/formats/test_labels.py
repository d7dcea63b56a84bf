"""Kept labels: what identifies them, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cmpe import Constraint, Factor, LogLinearModel, Problem
from cmpe.errors import FormatError, InputError
from cmpe.formats.labels import Labels, fingerprint, problem_digest, read_labels, write_labels
from tests.problems import worked_example
from tests.refusals import refused

LABELS = Labels(np.array([[0, 1, 0, 1], [-1, -1, -1, -1]], dtype=np.int32), np.array([14.0, -1e9]))


def test_labels_survive_the_round_trip(tmp_path):
    labels = replace(LABELS, bound=np.array([np.pi, -np.inf]))
    write_labels(tmp_path, "abc", labels)
    assert [p.name for p in tmp_path.iterdir()] == ["labels-abc.npz"]
    found = read_labels(tmp_path, "abc")
    np.testing.assert_array_equal(found.assignments, labels.assignments)
    np.testing.assert_array_equal(found.bound, labels.bound)
    assert found.assignments.dtype == np.int32


def test_no_file_is_no_labels(tmp_path):
    assert read_labels(tmp_path, "abc") is None


@pytest.mark.parametrize("kind", ["empty", "text", "cut", "keys", "objects"])
def test_other_files_are_refused_in_one_line(kind, tmp_path):
    path = tmp_path / "labels-abc.npz"
    write_labels(tmp_path, "abc", LABELS)
    whole = path.read_bytes()
    if kind == "keys":
        np.savez(path, assignments=LABELS.assignments)
    elif kind == "objects":
        np.savez(path, assignments=np.array([[{}]], dtype=object), bound=np.zeros(1))
    else:
        path.write_bytes({"empty": b"", "text": b"hello\n", "cut": whole[: len(whole) // 2]}[kind])
    line = refused(lambda: read_labels(tmp_path, "abc"), kind=FormatError)
    assert line.startswith(str(path))


def test_labels_are_unpacked_no_further_than_their_shape(tmp_path):
    """3 MB of zeros unpack to gigabytes; the shape that is asked for says how much to expect."""
    path = tmp_path / "labels-abc.npz"
    np.savez_compressed(path, assignments=np.zeros((3, 100_000), np.int8), bound=np.zeros(3))
    assert len(read_labels(tmp_path, "abc").assignments) == 3
    message = "expected arrays of at most 65608 bytes, found more"
    refused(lambda: read_labels(tmp_path, "abc", (3, 2)), message, FormatError)


def test_an_encrypted_archive_is_refused(tmp_path):
    write_labels(tmp_path, "abc", LABELS)
    path = tmp_path / "labels-abc.npz"
    whole = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        whole[whole.index(signature) + offset] |= 1
    path.write_bytes(bytes(whole))
    refused(lambda: read_labels(tmp_path, "abc"), "RuntimeError: .* is encrypted", FormatError)


def test_flipped_bytes_are_noticed(tmp_path):
    write_labels(tmp_path, "abc", LABELS)
    path = tmp_path / "labels-abc.npz"
    whole = bytearray(path.read_bytes())
    for at in range(40, len(whole), 97):
        broken = whole.copy()
        broken[at] ^= 0xFF
        path.write_bytes(bytes(broken))
        try:
            found = read_labels(tmp_path, "abc")
        except FormatError:
            continue
        np.testing.assert_array_equal(found.assignments, LABELS.assignments)


def test_a_folder_that_is_not_there_is_refused_in_one_line(tmp_path):
    with pytest.raises(InputError, match="cannot be written"):
        write_labels(tmp_path / "nowhere", "abc", LABELS)


def variants():
    """Problems that differ from the worked example in one thing each."""
    base = worked_example()
    h, t = base.objective, base.constraints[0].function
    first = h.factors[0]
    nudged = Factor(first.scope, np.nextafter(first.log_table, np.inf))
    return {
        "limit": replace(base, constraints=(Constraint(t, np.nextafter(20.0, 21.0)),)),
        "table": replace(base, objective=LogLinearModel(h.cardinalities, (nudged, *h.factors[1:]))),
        "swapped": Problem(t, (Constraint(h, 20.0),), (0, 1)),
        "twice": replace(base, constraints=base.constraints * 2),
        "none": replace(base, constraints=()),
        "evidence": replace(base, evidence_variables=(0, 2)),
        "order": replace(base, evidence_variables=(1, 0)),
    }


def test_digests_tell_problems_apart():
    found = {name: problem_digest(p) for name, p in variants().items()}
    found["base"] = problem_digest(worked_example())
    assert len(set(found.values())) == len(found)


def test_equal_problems_have_equal_digests():
    one, other = worked_example(), worked_example()
    assert one is not other
    assert problem_digest(one) == problem_digest(replace(other, name="named"))


def test_fingerprints_tell_rows_and_methods_apart():
    problem = worked_example()
    rows = np.array([[0, 1], [1, 1]])
    found = [
        fingerprint(problem, rows, "exact"),
        fingerprint(problem, rows[::-1], "exact"),
        fingerprint(problem, rows[:1], "exact"),
        fingerprint(problem, rows, "milp"),
        fingerprint(variants()["limit"], rows, "exact"),
    ]
    assert len(set(found)) == len(found)
    assert found[0] == fingerprint(worked_example(), rows.astype(np.int64), "exact")


def test_rows_without_columns_are_told_apart_by_their_number():
    problem = worked_example().observing(())
    keys = {fingerprint(problem, np.zeros((n, 0), dtype=int), "exact") for n in (1, 2, 3)}
    assert len(keys) == 3
