"""The constants of kernel block descent, and where a run of it stands."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from numpy.typing import NDArray

__all__ = ["KernelBlockDescentTuning", "KernelDescentState", "epoch_work", "pieces_of"]

Array = NDArray[Any]


class KernelBlockDescentTuning(NamedTuple):
    """The constants of the descent."""

    first_set: int = 500  # rows in the first working set: by hand, for data with few support vectors
    growth: int = 2  # how many times larger the next set may be: maths: kernel SVM, section 8
    growth_of_many: int = 8  # the same where most rows of the last set moved: by hand
    most: float = 0.5  # share of a set that moves where many samples are support vectors: by hand
    active_share: float = 0.01  # a gap counts above this share of the mean gap: maths: kernel SVM, section 8
    # Epochs read K in float32 down to this share of D, times the root of the gap at first over D where that is below 1:
    # maths: kernel SVM, section 10. The root of the rounding of float32.
    narrow: float = 3.5e-4
    widest: float = 1e12  # kernel values and C in float32: products of two stay far from its ends, 1e-38 and 3e38
    held_gain: float = 0.5  # share of the gain by float32, at least, that a round must have in truth: by hand
    near: float = 0.2  # a margin this far from being violated may be violated after a deep round: by hand
    set_target: float = 0.1  # share of its gap that a round leaves: by hand; maths: kernel SVM, section 8 has 0.2
    deep_target: float = 0.04  # the same where updating all scores costs far more than the descent: by hand
    crawl_target: float = 0.01  # the same after a round of more than ``patience`` epochs: momentum needs time; by hand
    enough: float = 0.5  # share of the gap which a proof may have that a round leaves, at least: by hand
    small: int = 8  # n is so many times the set where it does: by hand
    share: float = 0.5  # of the time left, for the epochs over a set; the rest computes kernel rows; by hand
    update: float = 2.0  # where these are cached, time for so many updates of the scores is left: by hand
    max_epochs: int = 200  # over one working set: by hand; maths: kernel SVM, section 8 has 40, without momentum
    piece: int = 512  # rows: 512 x 512 kernel values are 1 or 2 MB, a second cache
    alone: int = 1024  # rows up to which a set is one piece, as gathering costs more than it saves: by hand
    # Sweeps over a piece go on until their gap is this share of the first one's, or there were so many: by hand.
    sweep_target: float = 0.3
    max_sweeps: int = 5
    sweep_target_alone: float = 0.05
    max_sweeps_alone: int = 20
    patience: int = 10  # epochs of a round between Newton steps: by hand; easy rounds end before
    patience_alone: int = 2  # the same where the set is one piece: momentum has no time to lead rows astray; by hand
    look: int = 5  # epochs after which a long round is asked whether a multiple of its rows will do: by hand
    scale_off: float = 0.1  # how far from 1 the scale may be where it ends a round: it costs a hundredth of D; by hand
    odd: float = 10.0  # times the mean gap of a set are the gaps of odd rows: by hand
    stiff: float = 100.0  # C K_ii above which a row can be odd: a visit moves it by some 1 / K_ii; by hand
    odd_gain: float = 0.01  # share of D that a round on them must gain, or it is the last: by hand
    first_price: float = 10.0  # C K_ii with which a fit of stiff rows begins, as some visits lead to C; by hand
    held: float = 0.1  # share of the dual weights at C below which C gets its own value at once: texts have 0 to 0.04
    price_gap: float = 0.3  # relative gap at which C rises: by hand; 0.1 takes as long
    price_rise: float = 2.0  # of alpha, at least; where its multiple is smaller, C gets its own value: by hand
    # Rows that momentum leads out of their bounds: above this share, half of the entries would leave a face; measured.
    settled: float = 0.04
    near_entry: float = 0.05  # a margin this far from being violated has its entry visited; 0.03 to 0.1 are as good
    few_classes: int = 3  # up to which a step of a row moves the scores of nearly all entries
    # The squares of all classes are at most so many times that of a set; of one that is a piece, which stays in the
    # cache, so many times for each class, and in all: measured. Of a few pieces, their share of that.
    entries: float = 0.5
    entries_of_class: float = 0.25
    entries_alone: float = 3.0
    entry_end: float = 0.1  # share of the gap for which a round aims that they go down to: half takes a round more
    entry_target: float = 0.1  # share of the gap that sweeps over entries leave: 0.03 is as good, 0.3 takes longer
    entry_sweeps: int = 100  # at most, before margins are looked at again: by hand; most need fewer
    pace: float = 25.0  # multiplications of BLAS in the time that a visit takes per row of the piece: by hand


@dataclass
class KernelDescentState:
    """Arrays and plain numbers, which a checkpoint holds."""

    alpha: Array  # (n, k)
    scores: Array  # (n, k)
    gaps: Array  # (n,)
    order: Array  # the samples whose rows can move, shuffled: rows of equal gaps are taken in this order
    random: Array  # (1,) state of the shuffles
    largest_set: int
    moved: float = 0.0  # share of the last working set
    credit: float = 0.0  # multiplications of epochs, less those of Newton steps
    work: float = 0.0  # multiplications of both
    damping: float = 0.0  # of the next Newton step
    epochs: int = 0  # of the last round
    scale: float = 1.0  # of the model, as a multiple of alpha
    has_odd: bool = True  # rows of large gaps may be worth a round of their own
    price: float = 1.0  # share of C in force
    may_be_narrow: bool = True  # epochs in float32 have gained what they seemed to

    positions: ClassVar[dict[str, str]] = {"order": "gaps"}


def pieces_of(t: KernelBlockDescentTuning, m: int) -> int:
    """Return into how many pieces a set of m rows is divided."""
    return 1 if m <= t.alone else -(-m // t.piece)


def epoch_work(t: KernelBlockDescentTuning, m: int) -> float:
    """Return how many multiplications of BLAS take about as long as an epoch over m rows at most does."""
    n_pieces = pieces_of(t, m)
    return t.pace * m * (t.max_sweeps_alone * m if n_pieces == 1 else t.max_sweeps * m / n_pieces + m)
