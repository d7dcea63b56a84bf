"""README's first example, kept here so that the type checker reads it (tests compare the two)."""

import cmpe

net = cmpe.read_model(cmpe.example("alarm"))  # or your own .bif, .uai, .net, ...
few = cmpe.count({"LVFAILURE": "TRUE", "HYPOVOLEMIA": "TRUE", "ANAPHYLAXIS": "TRUE"}) <= 1
answers = cmpe.solve(cmpe.Problem(net, [few]), {"BP": "LOW", "CVP": "HIGH", "HRBP": "HIGH"})
print(answers[0]["HYPOVOLEMIA"], answers[0].proof)
