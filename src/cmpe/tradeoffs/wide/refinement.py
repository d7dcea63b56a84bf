"""The refinement of one wide row: question after question, the most promising one first.

A question's promise is the area that it could take off the band (`questions`), times the share of
that which questions of its kind took off lately, by the seconds that it will take. A question that
was asked before has twice the time it had: so nothing that does not move can hold up the rest.
Slices grow where they prove too short, up to a share of the time that has passed. Every answer is
linked with answers near it (`relinking`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cmpe.arrays import Indices, Values
from cmpe.core.compiler import timing
from cmpe.problem import Instances
from cmpe.solvers.base import Limits
from cmpe.tradeoffs.points import h_tolerance
from cmpe.tradeoffs.wide.band import Band
from cmpe.tradeoffs.wide.pricing import Pricing
from cmpe.tradeoffs.wide.questions import BandQuestion, Kind, Profile
from cmpe.tradeoffs.wide.relinking import Anchor, MixedAnswers, Mixtures
from cmpe.tradeoffs.wide.settings import WIDE_FRONTS


@dataclass
class KindAccount:
    """What questions of a kind gave and took lately, as shares of what was expected."""

    gain: float = 1.0
    use: float = 1.0

    def note(self, gain: float, use: float) -> None:
        """Learn from one question."""
        self.gain += WIDE_FRONTS.forgets * (min(gain, 4.0) - self.gain)
        self.use += WIDE_FRONTS.forgets * (min(use, 4.0) - self.use)


class Refinement:
    """One row on its way."""

    def __init__(
        self, instances: Instances, over: int, window: tuple[float, float], limits: Limits
    ) -> None:
        self.band = Band(instances.problem, over)
        self._window, self._limit = window, limits.seconds or 0.0
        self._begin = timing.now()
        self._pricing = Pricing(instances, self.band, limits)
        self._mixtures = Mixtures(instances.problem, over)
        self._asked: list[BandQuestion] = []
        self._first_slice = min(WIDE_FRONTS.first_slice, WIDE_FRONTS.longest * self._limit)
        self._pace = self._first_slice
        self._accounts = {kind: KindAccount() for kind in Kind}
        self._anchors: list[Anchor] = []  # by rising t

    @property
    def spent(self) -> float:
        """Seconds so far."""
        return timing.now() - self._begin

    def run(self) -> Iterator[BandQuestion]:
        """The questions that were asked, until the time is over or nothing is worth asking."""
        for question in self._first():
            self._ask(question)
            yield question
            if self.spent >= self._limit or self._is_impossible():
                return
        while self.spent < self._limit:
            profile = Profile(self.band, self._window)
            questions = profile.questions()
            if not questions:
                return
            question = max(questions, key=self._promise)
            slack = profile.slack(question.at)
            begin, planned = self.spent, self.seconds_of(question)
            self._ask(question)
            after = Profile(self.band, self._window)
            gain = (profile.area - after.area) / question.worth
            self._accounts[question.kind].note(max(0.0, gain), (self.spent - begin) / planned)
            if question.kind is Kind.LINE and after.slack(question.at) > WIDE_FRONTS.half * slack:
                self._be_patient(planned)
            yield question

    def _be_patient(self, planned: float) -> None:
        """Lines that had so many seconds are loose: a split, or more time for each."""
        soon = self.spent < min(WIDE_FRONTS.split_after, WIDE_FRONTS.longest * self._limit)
        seconds = WIDE_FRONTS.split_patience * (self._limit - self.spent)
        if not soon and self._pricing.enlarge_split(self.spent, seconds):
            self._asked = [a for a in self._asked if a.kind is not Kind.LINE]
        else:
            self._pace = max(
                self._pace, min(WIDE_FRONTS.longer * planned, WIDE_FRONTS.longest * self._limit)
            )

    def _first(self) -> Iterator[BandQuestion]:
        """A line for all limits, and multipliers up to one that answers the lowest of them."""
        yield BandQuestion(Kind.LINE)
        if self.band.floor > -np.inf:
            yield BandQuestion(Kind.LOWEST)
        unit, low = self._pricing.unit, self._window[0]
        for power in range(1 if low == -np.inf else WIDE_FRONTS.multipliers):
            if (self.band.t <= low).any():
                return
            yield BandQuestion(Kind.LINE, unit * WIDE_FRONTS.far**power)
        if not (self.band.t <= low).any():
            yield BandQuestion(Kind.LEAST)

    def _is_impossible(self) -> bool:
        """Whether no limit has an answer: proved."""
        return float(self.band.upper(np.array([np.inf]))[0]) == -np.inf

    # --- which comes next ---

    def _promise(self, question: BandQuestion) -> float:
        account = self._accounts[question.kind]
        return question.worth * account.gain / (account.use * self.seconds_of(question))

    def seconds_of(self, question: BandQuestion) -> float:
        """A slice of the time, doubled each time that the same is asked again."""
        share = min(self._pace, max(self._first_slice, WIDE_FRONTS.growth * self.spent))
        slice_of_it = share * 2.0 ** min(self._times(question), WIDE_FRONTS.doublings)
        return max(1e-3, min(slice_of_it, self._limit - self.spent))

    def _times(self, question: BandQuestion) -> int:
        """How often the same was asked before."""
        near = WIDE_FRONTS.near * self._pricing.unit if question.kind is Kind.LINE else 0.0
        return sum(a.kind is question.kind and abs(a.at - question.at) <= near for a in self._asked)

    # --- asking ---

    def _ask(self, question: BandQuestion) -> None:
        seconds, pricing = self.seconds_of(question), self._pricing
        found: Values | None = None
        match question.kind:
            case Kind.LINE:
                apart = pricing.split.is_made and self._times(question) < WIDE_FRONTS.trusted
                found = pricing.price(question.at, seconds, apart=apart)
            case Kind.LIMIT:
                found = pricing.limit(question.at, seconds)
            case Kind.LEAST:
                found = pricing.least(seconds)
            case Kind.LOWEST:
                pricing.lowest(seconds)
        self._asked.append(question)
        if found is not None:
            self._link(found)

    def _link(self, found: Values) -> None:
        """Mixtures of a new answer (1, n) and answers near it."""
        h, t, _ = self.band.values(found)
        if not np.isfinite(t[0]):
            return
        new = Anchor(float(h[0]), float(t[0]), found[0])
        place = bisect_left(self._anchors, new.t, key=lambda anchor: anchor.t)
        behind = self._anchors[max(0, place - max(WIDE_FRONTS.skips)) : place][::-1]
        ahead = self._anchors[place : place + max(WIDE_FRONTS.skips)]
        if any(np.array_equal(near.row, new.row) for near in (*behind, *ahead)):
            return
        self._anchors.insert(place, new)
        pairs = [(behind[s - 1], new) for s in WIDE_FRONTS.skips if s <= len(behind)]
        pairs += [(new, ahead[s - 1]) for s in WIDE_FRONTS.skips if s <= len(ahead)]
        for low, high in pairs:
            mixed = self._mixtures.between(low, high)
            self.band.add(mixed.rows(self._wanted(mixed)))

    def _wanted(self, mixed: MixedAnswers) -> Indices:
        """The mixtures that are better than the points so far, at limits that are asked for."""
        low, high = self._window
        better = mixed.h > self.band.lower(mixed.t) + h_tolerance(mixed.h)
        better &= (mixed.t <= high) & (np.append(mixed.t[1:], np.inf) > low)
        found = np.flatnonzero(better)
        if len(found) > WIDE_FRONTS.mixtures:
            found = found[np.linspace(0, len(found) - 1, WIDE_FRONTS.mixtures).astype(np.intp)]
        return found
