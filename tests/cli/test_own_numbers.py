"""Rows with numbers of their own on the command line: the files say what Python is told."""

from __future__ import annotations

import numpy as np
import pandas
import pytest

import cmpe
from cmpe.formats.directory import ProblemDirectory, write_directory
from cmpe.models.loglinear import LogLinearModel
from tests.cli.commands import output, rows_of
from tests.refusals import only_line

NAMES = ["rain", "wind", "sea"]
STATES = [["no", "yes"], ["low", "mid", "high"], ["calm", "rough"]]
CARDS = (2, 3, 2)
B = 7
RNG = np.random.default_rng(5)
SCORES = {name: RNG.normal(size=(B, k)) for name, k in zip(NAMES, CARDS, strict=True)}
PAIR = RNG.normal(size=(B, 2, 3))
LIMITS = np.round(RNG.normal(1.0, 0.7, size=B), 3)
WIND = ["low", None, "mid", None, "high", "low", None]
LIKELIHOODS = RNG.random((B, 2))
IDS = [f"p{i}" for i in range(B)]


def models():
    rng = np.random.default_rng(2)
    scopes = [((0, 1), (2, 3)), ((1, 2), (3, 2)), ((0, 2), (2, 2))]
    made = []
    for _ in range(2):
        tables = [(scope, rng.normal(size=shape)) for scope, shape in scopes]
        made.append(LogLinearModel.from_tables(CARDS, tables, names=NAMES, states=STATES))
    return made


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A problem directory with names, and numbers in every format."""
    path = tmp_path_factory.mktemp("rows")
    write_directory(ProblemDirectory(posed(), np.zeros((0, 0)), np.zeros((1, 0))), path / "problem")
    np.savez(path / "p.npz", **SCORES, **{"rain,wind": PAIR})
    np.savez_compressed(path / "small.npz", **{k: v.astype(np.float32) for k, v in SCORES.items()})
    padded = np.zeros((B, 3, 3))
    for v, name in enumerate(NAMES):
        padded[:, v, : CARDS[v]] = SCORES[name]
    np.save(path / "p.npy", padded)
    columns = {
        f"{name}={state}": SCORES[name][:, k]
        for v, name in enumerate(NAMES)
        for k, state in enumerate(STATES[v])
    }
    pandas.DataFrame(columns).to_parquet(path / "p.parquet")
    (path / "l.csv").write_text("\n".join(map(str, LIMITS)))
    pandas.DataFrame({"0": LIMITS}).to_parquet(path / "l.parquet")
    frame = pandas.DataFrame({"patient": IDS, "wind": WIND, "age": 3})
    frame["sea=calm"], frame["sea=rough"] = LIKELIHOODS.T
    frame.to_csv(path / "e.csv", index=False)
    frame.to_parquet(path / "e.parquet", row_group_size=3)
    return path


def posed():
    h, t = models()
    return cmpe.Problem(h, [t <= 0.8])


EVIDENCE = [
    {"sea": LIKELIHOODS[i], **({} if WIND[i] is None else {"wind": WIND[i]})} for i in range(B)
]
PADDED = {(name,): values for name, values in SCORES.items()}
TOLD = {
    "p.npz": {"potentials": {**PADDED, ("rain", "wind"): PAIR}},
    "p.npy": {"potentials": PADDED},
    "p.parquet": {"potentials": PADDED},
    "l.csv": {"limits": {0: LIMITS}},
    "l.parquet": {"limits": {0: LIMITS}},
}


@pytest.mark.parametrize("file", TOLD)
def test_files_say_what_python_is_told(folder, file):
    option = "--potentials" if file.startswith("p") else "--limits"
    rows = rows_of(output("solve", folder / "problem", option, folder / file))
    expected = cmpe.solve(posed(), **TOLD[file])
    assert [row["objective"] for row in rows] == pytest.approx(expected.objective.tolist())
    assert [row["assignment"] for row in rows] == expected.assignments.tolist()
    limits = [row["constraints"][0]["at_most"] for row in rows]
    assert limits == (LIMITS.tolist() if option == "--limits" else [0.8] * B)


@pytest.mark.parametrize("file", ["e.csv", "e.parquet"])
@pytest.mark.parametrize("command", ["solve", "front", "best", "bound"])
def test_every_command_reads_them(folder, file, command):
    told = ["--evidence", folder / file, "--ignore-extra", "--keep", "patient"]
    numbers = ["--potentials", folder / "p.npz", "--limits", folder / "l.csv"]
    rows = rows_of(output(command, folder / "problem", *told, *numbers))
    given = (posed(), EVIDENCE)
    own = {"potentials": TOLD["p.npz"]["potentials"], "limits": {0: LIMITS}}
    if command == "solve":
        expected = cmpe.solve(*given, **own)
        assert [row["objective"] for row in rows] == pytest.approx(expected.objective.tolist())
        assert [row["patient"] for row in rows] == IDS
        assert list(rows[0])[:3] == ["index", "patient", "status"]
    elif command == "front":
        for row, expected in zip(rows, cmpe.front(*given, **own), strict=True):
            worth = [point["objective"] for point in row["points"]]
            assert worth == pytest.approx(expected.objective.tolist())
        assert [row["patient"] for row in rows] == IDS
    elif command == "bound":
        expected = cmpe.bound(*given, **own)
        assert [row["bound"] for row in rows] == pytest.approx(expected.upper.tolist())
        assert [row["patient"] for row in rows] == IDS
    else:
        lists = cmpe.best(*given, **own)
        expected = [h for each in lists for h in each.objective.tolist()]
        assert [row["objective"] for row in rows] == pytest.approx(expected)
        assert [row["patient"] for row in rows] == [IDS[row["index"]] for row in rows]


def test_a_front_is_over_a_constraint_by_its_name(call, folder):
    counted = ["front", folder / "problem", "--count", "wet: rain=yes sea=rough <= 1", "--over"]
    named, numbered, first = (rows_of(output(*counted, over)) for over in ("wet", "1", "0"))
    assert named[0]["points"] == numbered[0]["points"] != first[0]["points"]
    code, _, err = call(*counted, "dry")
    assert code == 2
    assert "--over: there is no constraint 'dry'; there is 'wet'" in only_line(err)


@pytest.fixture
def own(folder):
    """The options of all numbers."""
    return [
        *("--evidence", folder / "e.csv", "--ignore-extra", "--keep", "patient"),
        *("--potentials", folder / "p.npz", "--limits", folder / "l.csv"),
    ]


def test_columns_of_the_evidence_are_carried_into_every_format(folder, own, tmp_path):
    for command in ("solve", "front", "best"):
        output(command, folder / "problem", *own, "--output", tmp_path / "a.csv")
        frame = pandas.read_csv(tmp_path / "a.csv")
        index = frame["index"] if command != "solve" else frame.index
        assert frame["patient"].tolist() == [IDS[i] for i in index]
    output("solve", folder / "problem", *own, "--output", tmp_path / "a.parquet")
    assert pandas.read_parquet(tmp_path / "a.parquet")["patient"].tolist() == IDS
    for command in ("solve", "best"):
        text = output(command, folder / "problem", *own, "--format", "table")
        assert all(name in text for name in IDS)


@pytest.mark.parametrize("shape", ["json", "csv", "table"])
def test_lists_have_the_formats_of_answers(folder, shape, tmp_path):
    text = output("best", folder / "problem", "-k", 2, "--format", shape)
    output("best", folder / "problem", "-k", 2, "--format", shape, "--output", tmp_path / "list")
    written = (tmp_path / "list").read_text()
    head = {"json": '{"index": 0, "rank": 1', "csv": "index,rank,rain", "table": "row 0: Ranked(2"}
    assert text.startswith(head[shape])
    assert len(written.splitlines()) == len(text.splitlines())


def test_one_row_of_evidence_on_the_command_line(call, folder):
    words = ["solve", folder / "problem", "--evidence-values", "rain=yes", "wind=mid"]
    code, out, _ = call(*words, "--format", "json")
    assert code == 0
    expected = cmpe.solve(posed(), {"rain": "yes", "wind": "mid"})
    assert [row["assignment"] for row in rows_of(out)] == expected.assignments.tolist()
    code, out, _ = call(*words, "--potentials", folder / "p.npz", "--format", "json")
    expected = cmpe.solve(
        posed(), {"rain": "yes", "wind": "mid"}, potentials=TOLD["p.npz"]["potentials"]
    )
    assert [row["assignment"] for row in rows_of(out)] == expected.assignments.tolist()


@pytest.mark.parametrize("command", ["solve", "front", "best", "bound"])
def test_counts_and_rules_join_the_constraints(folder, command):
    """With the numbers of rows; limits come in the order of all constraints."""
    words = ["--count", "bad: wind=high sea=rough <= 1", "--require", "rain=yes implies wind=mid"]
    numbers = ["--potentials", folder / "p.npz"]
    rows = rows_of(output(command, folder / "problem", *words, *numbers))
    given = [
        *posed().constraints,
        cmpe.count({"wind": "high", "sea": "rough"}, name="bad") <= 1,
        cmpe.implies({"rain": "yes"}, {"wind": "mid"}),
    ]
    problem = cmpe.Problem(models()[0], given)
    own = TOLD["p.npz"]
    if command == "solve":
        expected = cmpe.solve(problem, **own)
        assert [row["assignment"] for row in rows] == expected.assignments.tolist()
        assert len(rows[0]["constraints"]) == 2
    elif command == "front":
        expected = cmpe.front(problem, **own)
        found = [[point["objective"] for point in row["points"]] for row in rows]
        for one, other in zip(found, expected, strict=True):
            assert one == pytest.approx(other.objective.tolist())
    elif command == "bound":
        expected = cmpe.bound(problem, **own)
        assert [row["bound"] for row in rows] == pytest.approx(expected.upper.tolist())
    else:
        expected = [h for each in cmpe.best(problem, **own) for h in each.objective.tolist()]
        assert [row["objective"] for row in rows] == pytest.approx(expected)


def test_limits_by_name(folder, tmp_path):
    most = [0.0, 1.0, 2.0, 0.0, 1.0, 2.0, 1.0]
    pandas.DataFrame({"bad": most}).to_csv(tmp_path / "l.csv", index=False)
    words = ["--count", "bad: wind=high sea=rough <= 2", "--limits", tmp_path / "l.csv"]
    rows = rows_of(output("solve", folder / "problem", *words))
    limits = [[c["at_most"] for c in row["constraints"]] for row in rows]
    assert limits == [[0.8, q] for q in most]


def parts_of(folder):
    return [row for part in sorted(folder.glob("part-*")) for row in rows_of(part.read_text())]


@pytest.mark.parametrize("command", ["solve", "front", "best", "bound"])
def test_streams_answer_the_same_rows(folder, own, command, tmp_path):
    whole = rows_of(output(command, folder / "problem", *own))
    words = [command, folder / "problem", *own, "--block", 3]
    for name, more in (("one", []), ("two", ["--workers", 2])):
        out = f"{tmp_path / name}/"
        if command != "solve" and more:
            continue
        output(*words, *more, "--resume", "--output", out)
        found = parts_of(tmp_path / name)
        assert len(found) == len(whole)
        for row, expected in zip(found, whole, strict=True):
            assert row.keys() == expected.keys()
            for key in ("index", "patient", "objective", "assignment", "points"):
                assert row.get(key) == expected.get(key)
            assert row["bound"] == pytest.approx(expected["bound"], abs=1e-6)


def test_a_stream_of_parquet(folder, own, tmp_path):
    options = ["--evidence", folder / "e.parquet", *own[2:]]
    words = ["solve", folder / "problem", *options, "--block", 2, "--format", "parquet"]
    output(*words, "--resume", "--output", tmp_path / "out")
    parts = [pandas.read_parquet(part) for part in sorted((tmp_path / "out").glob("part-*"))]
    found = pandas.concat(parts)
    assert found["patient"].tolist() == IDS
    expected = rows_of(output("solve", folder / "problem", *own))
    assert found["objective"].tolist() == [row["objective"] for row in expected]


def test_numbers_without_evidence_are_streamed(folder, tmp_path):
    options = ["--potentials", folder / "p.npy", "--block", 2, "--resume"]
    output("solve", folder / "problem", *options, "--output", tmp_path / "out")
    expected = cmpe.solve(posed(), potentials=PADDED)
    found = parts_of(tmp_path / "out")
    assert [row["assignment"] for row in found] == expected.assignments.tolist()


@pytest.mark.parametrize("option", ["--potentials", "--limits"])
def test_changed_numbers_are_not_resumed(folder, call, option, tmp_path):
    name = "p.npy" if option == "--potentials" else "l.csv"
    file = tmp_path / name
    file.write_bytes((folder / name).read_bytes())
    words = ["solve", folder / "problem", option, file, "--block", 2, "--resume"]
    output(*words, "--output", tmp_path / "out")
    (tmp_path / "out" / "part-00000001.jsonl").unlink()
    output(*words, "--output", tmp_path / "out")
    data = bytearray(file.read_bytes())
    data[-2] ^= 1
    file.write_bytes(data)
    for more in (words, words[:2] + words[4:]):
        code, out, err = call(*more, "--output", tmp_path / "out")
        assert (code, out) == (2, "")
        assert "was begun with numbers" in only_line(err)


WRONG = {
    "suffix": (["--potentials", "e.csv"], "expected potentials ending in .npz, .npy or .parquet"),
    "limits' suffix": (["--limits", "p.npy"], "expected limits ending in .csv or .parquet"),
    "none": (["--limits", "none.csv"], "none.csv: cannot be read"),
    "not a zip": (["--potentials", "bad.npz"], "expected the arrays of a .npz file"),
    "blank": (["--limits", "blank.csv"], "expected names of columns, found blank cells only"),
    "cut": (["--potentials", "cut.npz"], "expected the arrays of a .npz file"),
    "name": (["--potentials", "names.npz"], "array 'snow': there is no variable 'snow'"),
    "states": (["--potentials", "states.npz"], "must have shape (rows, 2), found (7, 3)"),
    "nan": (["--potentials", "nan.npz"], "row 3, variable 'rain': log-potentials must be finite"),
    "constraint": (["--limits", "odd.csv"], "there is no constraint 'faults'"),
    "text": (["--limits", "text.csv"], "column '0': expected numbers"),
    "rows": (
        ["--evidence", "e.csv", "--ignore-extra", "--limits", "few.csv"],
        "few.csv: expected numbers for 7 rows, as the evidence has; found 3",
    ),
    "arrays": (["--potentials", "uneven.npz"], "every array must have as many rows; found [3, 7]"),
    "a state's column": (["--potentials", "lacks.parquet"], "needs a column for every state"),
    "extra": (["--evidence", "e.csv"], "there is no variable 'patient'"),
    "keep": (["--evidence", "e.csv", "--keep", "name"], "there is none called 'name'"),
    "keep without names": (["--keep", "patient"], "--keep patient needs columns with names"),
    "keep a field": (["--evidence", "e.csv", "--keep", "status"], "has a column of this name"),
    "keep in uai": (
        ["--evidence", "e.csv", "--keep", "patient", "--ignore-extra", "--format", "uai"],
        "--keep goes with json, csv, parquet or table",
    ),
    "rule": (["--require", "rain=yes implies snow=no"], "there is no variable 'snow'"),
    "count": (["--count", "faults: rain=yes"], "faults: rain=yes"),
    "both": (["--evidence", "e.csv", "--evidence-values", "rain=no"], "found both"),
    "value": (["--evidence-values", "rain"], "--evidence-values needs NAME=STATE, found 'rain'"),
    "twice": (["--evidence-values", "rain=no", "rain=yes"], "rain must be given once"),
    "state": (["--evidence-values", "rain=hard"], "has no state 'hard'"),
}


@pytest.fixture
def wrong(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for file in folder.iterdir():
        if file.is_file():
            (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "bad.npz").write_text("no")
    whole = (folder / "p.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[200:])  # its list of members points before its start
    np.savez("names.npz", snow=SCORES["rain"])
    np.savez("states.npz", rain=SCORES["wind"])
    np.savez("uneven.npz", rain=SCORES["rain"], wind=SCORES["wind"][:3])
    scores = SCORES["rain"].copy()
    scores[3, 1] = np.nan
    np.savez("nan.npz", rain=scores)
    (tmp_path / "blank.csv").write_text(" , \n")
    (tmp_path / "odd.csv").write_text("faults\n" + "1\n" * B)
    (tmp_path / "text.csv").write_text("1\nmany\n")
    (tmp_path / "few.csv").write_text("1\n2\n3\n")
    pandas.DataFrame({"wind=low": SCORES["wind"][:, 0]}).to_parquet("lacks.parquet")


@pytest.mark.usefixtures("wrong")
@pytest.mark.parametrize("name", WRONG)
def test_mistakes_are_one_line(folder, call, name):
    words, message = WRONG[name]
    code, out, err = call("solve", folder / "problem", *words)
    assert (code, out) == (2, "")
    assert message in only_line(err)
