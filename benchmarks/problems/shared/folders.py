"""Where data sets are, and where what was computed once is kept."""

import os
from pathlib import Path

from softmargin.backends.disk_cache import user_cache

CACHE_VARIABLE = "SOFTMARGIN_BENCH_CACHE"
DATA_VARIABLE = "SOFTMARGIN_DATA"
_REPOSITORY = Path(__file__).resolve().parents[3]


def cache_folder() -> Path:
    """Return the folder of proven bounds and converted data: SOFTMARGIN_BENCH_CACHE, or one among the user's caches."""
    folder = Path(os.environ.get(CACHE_VARIABLE) or user_cache() / "bench")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def data_folder() -> Path:
    """Return the folder of real data sets: SOFTMARGIN_DATA, or shared/data beside the repository."""
    return Path(os.environ.get(DATA_VARIABLE) or _REPOSITORY.parent / "shared" / "data")
