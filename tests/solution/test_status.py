"""Every status has a word and a sentence."""

from cmpe import Status


def test_words_and_sentences():
    assert [str(s) for s in Status] == ["optimal", "feasible", "infeasible", "violated", "unknown"]
    assert all(s.sentence for s in Status)
