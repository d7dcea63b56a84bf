"""The second five minutes: what people of seven roles type after the first answer, as scripts.

`python -m benchmarks.first_minutes --roles` runs and times them. Each asserts what its person needs
to see, so that a stumble fails.
"""

from __future__ import annotations

MODEL = """
import cmpe, numpy as np
net = cmpe.LogLinearModel.from_tables(
    [2, 3, 2], [((0, 1), np.arange(6.0).reshape(2, 3)), ((1, 2), [[0, 1], [2, 0], [1.5, 2]])],
    names=["rain", "wind", "late"], states=[["no", "yes"], [0, 50, 100], [False, True]])
problem = cmpe.Problem(net, [cmpe.count({"rain": "yes", "late": True}, name="trouble (h)") <= 1])
"""
VALUES = """
answer = cmpe.solve(problem, {"rain": True})[0]
assert net.value(answer)[0] == net.value(dict(answer))[0] == answer.objective
assert dict(answer) == {"rain": "yes", "wind": 100, "late": False}
cost = cmpe.linear({"wind": {100: 2.5}})
assert cmpe.solve(cmpe.Problem(cost + net, [net == 3]))[0].status.label == "optimal"
"""
MISTAKES = """
from pathlib import Path
def said(ask):
    try:
        ask()
    except cmpe.CmpeError as error:
        return str(error)
    raise AssertionError("accepted")
assert "t < 2 is t <= 1" in said(lambda: net < 2)
assert "there is one constraint: over=0" in said(lambda: cmpe.front(problem, over=3))
Path("a.bif").write_text("variable A { type discrete [ 2 ] { very high }; } "
                         "probability ( A ) { table 0.3 0.7; }")
assert "commas" in said(lambda: cmpe.read_model("a.bif"))
"""
COUNTERFACTUAL = """
found = cmpe.queries.counterfactual(
    net, {"rain": "yes", "wind": 100}, {"late": False}, probability=0.6,
    costs={"wind": {50: 1.0, 0: 3.0}}, immutable=["rain"])
assert found.proved and found.change == {"wind": (100, 50)}, found
"""
TIME = """
two = cmpe.LogLinearModel.from_tables(
    [2, 2], [(("up[0]", "up[1]"), [[0.0, -1.0], [-1.0, 0.0]])], names=["up[0]", "up[1]"])
week = cmpe.unroll(two, 7)
few = cmpe.count({("up", d): 1 for d in range(7)}) <= 2
assert cmpe.solve(cmpe.Problem(week, [few]), {("up", 6): 1})[0]["up", 0] == 0
"""
FRAME = """
import pandas as pd
frame = pd.DataFrame({"id": ["a", "b"], "rain": ["yes", None]}, index=[10, 20])
answers = cmpe.solve(problem, frame, keep=["id"])
out = answers.to_frame()
assert out.index.tolist() == [10, 20] and out["id"].tolist() == ["a", "b"]
assert out["late"].dtype == bool and out["wind"].dtype.kind == "i"
assert answers["rain"] == ["yes", "yes"]
"""
SPREADSHEET = """
open("rows.csv", "w").write("rain;wind\\nyes;NA\\n;50\\n")
rows = cmpe.read_evidence("rows.csv", problem)
assert cmpe.solve(problem, rows)["wind"] == [100, 50]
"""
NOTEBOOK = """
import nbclient, nbformat
cells = [nbformat.v4.new_code_cell(c) for c in (MODEL, "fronts = cmpe.front(problem); fronts",
         "fronts[0].plot()", "cmpe.best(problem, k=3)", "cmpe.solve(problem, {'rain': 'no'})[0]")]
book = nbformat.v4.new_notebook(cells=cells)
nbclient.NotebookClient(book, timeout=300).execute()
kinds = [set(o["data"]) for c in book.cells[1:] for o in c.outputs if o.output_type != "stream"]
assert "image/png" in kinds[1] and all("text/html" in kinds[k] for k in (0, 2, 3)), kinds
"""
PARQUET = """
import pandas as pd, subprocess, sys, json
from pathlib import Path
cmpe.write_model(net.named(["rain", "wind", "late"]), "m.uai")
pd.DataFrame({"id": range(5000), "rain": [0, 1] * 2500}).to_parquet("rows.parquet")
run = [sys.executable, "-c", "from cmpe.cli.main import main; main()", "solve", "--objective",
       "m.uai", "--evidence", "rows.parquet", "--keep", "id", "--output", "out/", "--block", "1000"]
for more in ([], ["--resume", "--quiet"]):
    done = subprocess.run(run + more, capture_output=True, text=True)
    assert done.returncode == 0 and "5000 rows in 5 parts" in done.stdout, done
first = Path("out/part-00000000.jsonl").read_text().splitlines()
assert json.loads(first[7])["id"] == 7
"""
STREAM = """
import pandas as pd
pd.DataFrame({"id": range(5000), "rain": ["no", "yes"] * 2500}).to_parquet("names.parquet")
parts = [a.to_frame() for a in cmpe.solve_stream(problem, "names.parquet", keep=["id"])]
assert sum(map(len, parts)) == 5000 and parts[0]["id"].tolist()[:3] == [0, 1, 2]
"""
TORCH = """
import torch
logits = torch.zeros(4, 3, 3, requires_grad=True)
layer = cmpe.torch.Layer(problem)
layer(logits).log_prob(torch.tensor([[0, 2, 1]] * 4)).sum().backward()
assert logits.grad.abs().sum() > 0
assert len(cmpe.solve(problem, potentials={"wind": logits[:, 1]})) == 4
"""
PAPER = """
import subprocess, sys, json
from pathlib import Path
from cmpe.generation import grid
cmpe.write_uai(grid(4, 4, seed=1), "g.uai")
main = [sys.executable, "-c", "from cmpe.cli.main import main; main()"]
for words in (
    ["generate", "g.uai", "--out", "p", "--samples", "200"],
    ["train", "p", "--out", "run", "--epochs", "3"],
    ["evaluate", "run", "p", "--format", "json"],
):
    done = subprocess.run(main + words, capture_output=True, text=True)
    assert done.returncode == 0, done
assert "constant" in done.stdout and Path("run/curve.png").stat().st_size > 5000
"""
SERVE = """
import http.client, json, subprocess, sys, time
cmpe.write_model(cmpe.read_model(cmpe.example("alarm")), "alarm.bif")
main = [sys.executable, "-c", "from cmpe.cli.main import main; main()"]
server = subprocess.Popen(main + ["serve", "--objective", "alarm.bif", "--port", "8766",
                                  "--count", "faults: HYPOVOLEMIA=TRUE DISCONNECT=TRUE <= 1"])
def ask(path, body=None):
    link = http.client.HTTPConnection("127.0.0.1", 8766, timeout=60)
    link.request("GET" if body is None else "POST", path, body and json.dumps(body),
                 {"Content-Type": "application/json"})
    answer = link.getresponse()
    return answer.status, answer.read()
for _ in range(600):
    try:
        if ask("/health")[0] == 200:
            break
    except OSError:
        pass
    time.sleep(0.2)
status, text = ask("/solve", {"rows": [{"BP": "LOW", "CVP": "HIGH", "SAO2": "HIGH"}]})
found = json.loads(text)["answers"][0]
assert status == 200 and found["states"]["DISCONNECT"] == "FALSE" and found["gap"] < 1e-6
assert ask("/solve", {"file": "/etc/passwd"})[0] == 400 and b"cmpe_rows_total" in ask("/metrics")[1]
server.terminate()
assert server.wait(30) in (0, -15, 2)
"""
ROLES: tuple[tuple[str, str, str], ...] = (
    ("own models", "values and answers by name, sums, ==", MODEL + VALUES),
    ("own models", "mistakes say what to write", MODEL + MISTAKES),
    ("own models", "what would have to change", MODEL + COUNTERFACTUAL),
    ("own models", "a week from two slices", MODEL + TIME),
    ("frames", "index, ids and types come back", MODEL + FRAME),
    ("frames", "a spreadsheet's CSV with NA", MODEL + SPREADSHEET),
    ("notebooks", "fronts, pictures and tables", f"MODEL = {MODEL!r}\n" + NOTEBOOK),
    ("Parquet", "a folder of parts, resumed, with ids", MODEL + PARQUET),
    ("Parquet", "streamed in Python", MODEL + STREAM),
    ("PyTorch", "a layer with gradients, scores with them", MODEL + TORCH),
    ("the paper", "generate, train with a curve, evaluate", MODEL + PAPER),
    ("operator", "a service, its health and its metrics", MODEL + SERVE),
)
