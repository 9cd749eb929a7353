"""Shared by all tests: one thread of BLAS, a Numba cache that can never be stale, hypothesis without a clock."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

# Tests run side by side: threads of BLAS would wait for each other. This must happen before NumPy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Where lscpu does not tell physical cores (emulators, some containers), joblib warns, and warnings are errors here.
os.environ.setdefault("LOKY_MAX_CPU_COUNT", str(os.cpu_count()))

from softmargin.backends.disk_cache import own_folder

# An edited struct method does not invalidate the cached loop of another file, so the cache folder is named by a hash
# of all sources. This must happen before numba is imported. The folder is the user's own: what lies there is executed.
_sources = sorted((Path(__file__).parents[1] / "src" / "softmargin").rglob("*.py"))
_digest = hashlib.sha256(b"".join(path.read_bytes() for path in _sources)).hexdigest()[:16]
if "NUMBA_CACHE_DIR" not in os.environ:
    os.environ["NUMBA_CACHE_DIR"] = str(own_folder("numba", _digest))

import pytest  # noqa: E402
from hypothesis import settings  # noqa: E402

settings.register_profile("ci", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("ci")


@pytest.fixture
def shared_file() -> Callable[[str], Path]:
    """Return a function from a file name to the real data set of that name; the test is skipped where it is absent."""
    folder = Path(os.environ.get("SOFTMARGIN_DATA", Path(__file__).parents[2] / "shared" / "data"))

    def find(name: str) -> Path:
        if not (folder / name).exists():
            pytest.skip(f"{name} is not here; set SOFTMARGIN_DATA to the folder that holds it")
        return folder / name

    return find
