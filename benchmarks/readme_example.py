"""README's first example, kept here so that the type checker reads it (tests compare the two)."""

import cmpe

names = ["sun", "rain", "umbrella"]
h = cmpe.LogLinearModel.from_tables([2, 2, 2], [((0, 1), [[0, 2], [3, 1]]), ((2,), [0, 3])], names)
t = cmpe.LogLinearModel.from_tables([2, 2], [((0, 1), [[0, 5], [1, 2]])], ["sun", "umbrella"])
problem = cmpe.Problem(h, [t <= 2.0, cmpe.count({"rain": 1, "umbrella": 1}) <= 1])
answers = cmpe.solve(problem, [{"sun": 0}, {"sun": 1}])
print(answers, answers[1]["umbrella"], answers[1].proof, sep="\n")
