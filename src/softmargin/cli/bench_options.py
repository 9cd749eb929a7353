"""What can be asked of `softmargin bench`."""

from typing import Any

from softmargin.cli.choices import BENCHES
from softmargin.cli.values import count, positive

__all__ = ["add_bench_options"]


def add_bench_options(parser: Any) -> None:
    """Describe the verb."""
    parser.add_argument(
        "name",
        metavar="NAME",
        choices=BENCHES,
        help="quick: a few minutes on embedded data, beside scikit-learn; "
        f"{', '.join(BENCHES[1:])}: scripts of the repository's benchmarks folder, for hours",
    )
    parser.add_argument(
        "-o", "--output", metavar="DIR", default="bench", help="folder of JSON lines, PNG and HTML (default: bench)"
    )
    parser.add_argument("--gaps", metavar="GAP", nargs="+", type=positive, help="quick: relative gaps (1e-2 1e-3 1e-4)")
    parser.add_argument("--repeats", metavar="N", type=count, default=3, help="quick: runs to take the median of (3)")
    parser.add_argument("--benchmarks", metavar="DIR", help="the scripts ($SOFTMARGIN_BENCHMARKS, ./benchmarks)")
    parser.add_argument(
        "--more", metavar="WORD", action="append", default=[], help="a word for the scripts: --more=--cap --more=10"
    )
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    parser.add_argument("--quiet", action="store_true", help="no notes on stderr")
