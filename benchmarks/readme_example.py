"""README's first example, kept here so that the type checker reads it (tests compare the two)."""

import cmpe

net = cmpe.read_model(cmpe.example("alarm"))  # or your own .bif, .uai, .net, ...
causes = ["HYPOVOLEMIA", "DISCONNECT", "LVFAILURE", "KINKEDTUBE"]
one = cmpe.count(dict.fromkeys(causes, "TRUE")) <= 1
for problem in (cmpe.Problem(net), cmpe.Problem(net, [one])):
    answer = cmpe.solve(problem, {"BP": "LOW", "CVP": "HIGH", "SAO2": "HIGH"})[0]
    print([cause for cause in causes if answer[cause] == "TRUE"], answer.proof)
