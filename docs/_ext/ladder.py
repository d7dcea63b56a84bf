"""The order of the gallery: from what most people ask to what few do."""

SCRIPTS = (
    "a_tagger_with_rules.py",
    "diagnosis_within_a_budget.py",
    "image_segmentation.py",
    "why_not.py",
    "how_sure.py",
    "front_of_a_diagnosis.py",
    "counterfactual.py",
    "two_experts.py",
    "decoding.py",
    "labels_under_a_hierarchy.py",
    "a_ranking.py",
    "two_digits_and_their_sum.py",
    "anytime_search.py",
    "adversarial_digit.py",
    "training_a_solver.py",
    "a_cell_of_the_paper.py",
    "a_million_rows.py",
)


class Ladder:
    """What sphinx-gallery sorts the names of scripts by; a script without a place is an error."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, name: str) -> int:
        """The place of a script."""
        return SCRIPTS.index(name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"
