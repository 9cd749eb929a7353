"""Damaged files for every reader: each must be read, or refused by an error of ours, in little memory and time.

    python tests/attack/fuzz.py --seconds 60 --seed 1 [--reader npz]

Input i of a reader depends on the seed and i alone. Valid files are damaged in their bytes (flips, cuts, splices,
numbers, words of their headers) or taken apart, changed inside and put together again with right checksums. Counted as
failures: an error that is not ours, more than MEMORY bytes, more than SECONDS. A reader that takes the process down is
found by the process that started it, which names the input.
"""

import argparse
import bz2
import gzip
import io
import json
import lzma
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from softmargin.core import archive
from softmargin.core.errors import SoftmarginError
from softmargin.data import read_libsvm, read_npy, read_npz, read_table, write_libsvm
from softmargin.data.libsvm import read_libsvm_chunks
from softmargin.kernels import make_kernel
from softmargin.models import (
    KernelExpansion,
    LinearModel,
    LinearRegressor,
    OneVsOne,
    load_model,
    read_liblinear,
    read_libsvm_model,
    write_liblinear,
    write_libsvm_model,
)
from softmargin.problems import MulticlassSVM
from softmargin.run import Stop, solve
from softmargin.run.watchers import Checkpoint, load_checkpoint
from softmargin.sets import LowRank
from softmargin.solvers.linear_svm.block_descent import DualBlockDescent

MEMORY = 1 << 30  # address space beyond what the process has when it begins
SECONDS = 5
X = np.round(np.random.default_rng(0).standard_normal((12, 3)), 2)
Y = np.arange(12) % 3
NUMBERS = [b"0", b"-1", b"1e999", b"nan", b"inf", b"99999999999999999999", b"4294967296", b"9223372036854775807", b""]
WORDS = [
    *(b"(", b")", b"[", b"]", b"{", b"}", b"'", b'"', b",", b":", b"\\", b"#", b"\x00", b"\n", b"\r", b" ", b"\xff"),
    *(
        b"O",
        b"|O",
        b"<U99",
        b"f16",
        b"None",
        b"True",
        b"L",
        b"(" * 300,
        b"[" * 3000,
        b"9" * 5000,
        b"qid:",
        b"PK\x03\x04",
    ),
]
VALUES: list[Any] = [None, True, 0, -1, 5, 1e308, 10**30, "", "x", [], {}, [[]], {"a": []}, {"__pairs__": [[[], 1]]}]


class Hang(BaseException):
    """A reader was too slow; no handler of errors may catch it."""


class Reader(NamedTuple):
    """Valid files, and what is to be done with a damaged one."""

    samples: list[bytes]
    read: Callable[[Path], Any]
    repack: Callable[[bytes, np.random.Generator], bytes] | None = None
    suffix: str = ""


# --- damage --------------------------------------------------------------------------------------------------


def damaged(content: bytes, other: bytes, rng: np.random.Generator) -> bytes:
    """Damage a file in one to three places."""
    for _ in range(rng.integers(1, 4)):
        content = _EDITS[rng.integers(len(_EDITS))](content, other, rng)
    return content


def _flip(content: bytes, _: bytes, rng: np.random.Generator) -> bytes:
    if not content:
        return content
    changed = bytearray(content)
    for _ in range(rng.integers(1, 5)):
        changed[rng.integers(len(changed))] ^= 1 << rng.integers(8)
    return bytes(changed)


def _cut(content: bytes, _: bytes, rng: np.random.Generator) -> bytes:
    return content[: rng.integers(len(content) + 1)]


def _drop(content: bytes, _: bytes, rng: np.random.Generator) -> bytes:
    first, last = np.sort(rng.integers(len(content) + 1, size=2))
    return content[:first] + content[min(last, first + 40) :]


def _splice(content: bytes, other: bytes, rng: np.random.Generator) -> bytes:
    return content[: rng.integers(len(content) + 1)] + other[rng.integers(len(other) + 1) :]


def _put(content: bytes, _: bytes, rng: np.random.Generator) -> bytes:
    at = rng.integers(len(content) + 1)
    return content[:at] + WORDS[rng.integers(len(WORDS))] + content[at:]


def _number(content: bytes, _: bytes, rng: np.random.Generator) -> bytes:
    found = list(re.finditer(rb"[0-9]+", content))
    if not found:
        return content
    at = found[rng.integers(len(found))]
    return content[: at.start()] + NUMBERS[rng.integers(len(NUMBERS))] + content[at.end() :]


def _repeat(content: bytes, _: bytes, rng: np.random.Generator) -> bytes:
    first, last = np.sort(rng.integers(len(content) + 1, size=2))
    return content[:last] + content[first:last] * int(rng.integers(1, 20)) + content[last:]


_EDITS = (_flip, _cut, _drop, _splice, _put, _number, _number, _repeat)


def _strange_header(content: bytes, rng: np.random.Generator) -> bytes:
    """Change the header of a NumPy array, its length kept right."""
    size = int.from_bytes(content[8:10], "little")
    header = damaged(content[10 : 10 + size], content[10 : 10 + size], rng)
    return content[:8] + min(len(header), 65535).to_bytes(2, "little") + header + content[10 + size :]


def _packed(members: dict[str, bytes], rng: np.random.Generator) -> bytes:
    """Pack a zip whose checksums are right, now and then in a compression that nobody uses."""
    kinds = (zipfile.ZIP_STORED,) * 5 + (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", kinds[rng.integers(len(kinds))]) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def _unpacked(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def repacked_npz(content: bytes, rng: np.random.Generator) -> bytes:
    """Damage one array of a zip, or its header, or replace it."""
    members = _unpacked(content)
    name = list(members)[rng.integers(len(members))]
    members[name] = _strange_array(members[name], rng)
    return _packed(members, rng)


def _strange_array(content: bytes, rng: np.random.Generator) -> bytes:
    how = rng.integers(3)
    if how == 0:
        return damaged(content, content, rng)
    if how == 1:
        return _strange_header(content, rng)
    file = io.BytesIO()
    shape = tuple(rng.integers(0, 5, size=rng.integers(0, 4)))
    dtype = rng.choice(["f8", "f4", "i8", "u1", "c16", "U3", "S2", "b1", ">f8", "f2", "M8[s]"])
    np.save(file, (rng.integers(-3, 60, size=shape)).astype(dtype))
    return file.getvalue()


def repacked_archive(content: bytes, rng: np.random.Generator) -> bytes:
    """Change values of the header, or an array, and make the checksum right again."""
    members = _unpacked(content)
    header = json.loads(members["model.json"])
    arrays = [name for name in members if name != "model.json"]
    if rng.integers(3):
        for _ in range(rng.integers(1, 3)):
            header = _strange_value(header, rng)
    if rng.integers(3) == 0:
        name = arrays[rng.integers(len(arrays))]
        members[name] = _strange_array(members[name], rng)
    try:
        loaded = {name: np.load(io.BytesIO(members[f"{name}.npy"])) for name in header["arrays"]}
        header["sha256"] = archive._checksum(loaded, header["meta"])
    except Exception:  # then the reader cannot check it either
        pass
    text = json.dumps(header).encode()
    if rng.integers(8) == 0:
        text = damaged(text, text, rng)
    return _packed({**members, "model.json": text}, rng)


def _strange_value(value: Any, rng: np.random.Generator) -> Any:
    """Replace a value somewhere inside, drop it, or bury it in lists."""
    if isinstance(value, dict) and value and rng.integers(6):
        key = list(value)[rng.integers(len(value))]
        if rng.integers(8) == 0:
            return {name: item for name, item in value.items() if name != key}
        return {**value, key: _strange_value(value[key], rng)}
    if isinstance(value, list) and value and rng.integers(3):
        at = int(rng.integers(len(value)))
        return [*value[:at], _strange_value(value[at], rng), *value[at + 1 :]]
    if rng.integers(10) == 0:
        for _ in range(rng.integers(1, 400)):
            value = [value]
        return value
    if isinstance(value, int | float) and rng.integers(2):
        return [value + 1, -value, value * 2, 10**18, float("inf"), 0.5][rng.integers(6)]
    return VALUES[rng.integers(len(VALUES))]


# --- readers -------------------------------------------------------------------------------------------------


def _bytes_of(write: Callable[[Path], Any], name: str = "file") -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / name)
        return (Path(folder) / name).read_bytes()


def _libsvm() -> list[bytes]:
    text = _bytes_of(lambda path: write_libsvm(path, X, Y))
    odd = b"# head\n+1 qid:3 1:1e-3 3:.5 # tail\r\n-1 2:7\n\n2.5 1:0\n"
    return [text, odd, gzip.compress(text), bz2.compress(text), lzma.compress(text)]


def _tables() -> list[bytes]:
    text = b'a,"b, c",d,y\n1,red,true,spam\n-2.5e3,blue,false,ham\n0,"gr""een",true,spam\n'
    return [text, text.replace(b",", b"\t"), b"x;y\r\n1;2\r\n3;4\r\n", gzip.compress(text), lzma.compress(text)]


def _npz() -> list[bytes]:
    S = csr_matrix(X)
    parts = {"data": S.data, "indices": S.indices, "indptr": S.indptr, "shape": S.shape}
    return [
        _bytes_of(lambda path: np.savez(path, X=X, y=Y), "a.npz"),
        _bytes_of(lambda path: np.savez_compressed(path, X=X.astype("f4"), y=Y.astype(str)), "a.npz"),
        _bytes_of(lambda path: np.savez(path, **parts, format=np.array(b"csr"), y=Y), "a.npz"),
    ]


_LABELS, _MATRIX = (_bytes_of(lambda path, A=A: np.save(path, A), "a.npy") for A in (Y, X))


def _npy() -> list[bytes]:
    return [_bytes_of(lambda path, A=A: np.save(path, A), "a.npy") for A in (X, X.astype("f4"), np.asfortranarray(X))]


def _read_npy(path: Path) -> None:
    # The same damaged file is a matrix, and the labels of a sound one.
    labels = path.with_name("input.y.npy")
    labels.write_bytes(_LABELS)
    read_npy(path)
    path.rename(labels)
    path.write_bytes(_MATRIX)
    with suppress(SoftmarginError):
        read_npy(path)


def _models() -> list[bytes]:
    info = {"problem": "svm", "C": 1.0, "class_weight": {0: 1.0, 1: 2.0}, "data": {"name": "d", "seed": 0}}
    linear = LinearModel(np.array(["a", "b", "c"]), X[:3], X[0], info)
    fields = {"classes": np.arange(3), "support": np.arange(5), "n_samples": 12, "coef": X[:5], "intercept": X[0]}
    kernels = [
        KernelExpansion(kernel=kernel, vectors=vectors, info=info, **fields)
        for kernel, vectors in (
            (make_kernel("rbf", gamma=0.5), X[:5]),
            (make_kernel("polynomial", gamma=0.5, degree=2, coef0=1.0), csr_matrix(X[:5])),
            (make_kernel("precomputed"), None),
        )
    ]
    factored = LinearRegressor(LowRank(X[:2, :1], X[0, :1], X[:3, :1]), X[0, :2], info={"problem": "trace ball"})
    return [_bytes_of(model.save) for model in (linear, factored, *kernels)]


def _read_model(path: Path) -> None:
    model = load_model(path)
    model.predict(X)


def _liblinear() -> list[bytes]:
    info = {"multiclass": "one_vs_rest", "loss": "hinge", "fit_intercept": True}
    three = LinearModel(np.arange(3), X[:3], X[0], info)
    two = LinearModel(np.array([-1, 1]), X[:1], X[0, :1], {})
    return [_bytes_of(lambda path, model=model: write_liblinear(model, path)) for model in (three, two)]


def _read_liblinear(path: Path) -> None:
    model = read_liblinear(path)
    if model.n_features == X.shape[1]:
        model.predict(X)


def _libsvm_models() -> list[bytes]:
    three = OneVsOne(np.arange(3), make_kernel("rbf"), csr_matrix(X[:6]), [2, 2, 2], X[:6, :2], X[0])
    two = OneVsOne([1, -1], make_kernel("polynomial", degree=2), csr_matrix(X[:3]), [1, 2], X[:3, :1], X[0, :1])
    return [_bytes_of(lambda path, model=model: write_libsvm_model(model, path)) for model in (three, two)]


def _read_libsvm_model(path: Path) -> None:
    model = read_libsvm_model(path)
    if model.n_features <= X.shape[1]:
        model.predict(X)


_PROBLEM = MulticlassSVM(X, Y, C=np.ones(len(Y)), n_classes=3)


def _checkpoints() -> list[bytes]:
    def write(path: Path) -> None:
        solve(_PROBLEM, DualBlockDescent(), stop=Stop(max_iter=3), rng=0, watchers=[Checkpoint(path)])

    return [_bytes_of(write)]


def _read_checkpoint(path: Path) -> None:
    saved = load_checkpoint(path, DualBlockDescent())
    with np.errstate(all="ignore"):  # damaged numbers are no crime: the certificate tells what they are worth
        solve(_PROBLEM, DualBlockDescent(), stop=Stop(max_iter=saved.iteration + 2), resume=saved)


def readers() -> dict[str, Callable[[], Reader]]:
    """Return how to make every reader ready."""
    return {
        "libsvm": lambda: Reader(_libsvm(), read_libsvm),
        "chunks": lambda: Reader(_libsvm(), lambda path: list(read_libsvm_chunks(path, n_rows=5))),
        **({"table": lambda: Reader(_tables(), read_table)} if find_spec("pyarrow") else {}),
        "npz": lambda: Reader(_npz(), read_npz, repacked_npz),
        "npy": lambda: Reader(_npy(), _read_npy, _strange_array, ".npy"),
        "model": lambda: Reader(_models(), _read_model, repacked_archive),
        "liblinear": lambda: Reader(_liblinear(), _read_liblinear),
        "libsvm_model": lambda: Reader(_libsvm_models(), _read_libsvm_model),
        "checkpoint": lambda: Reader(_checkpoints(), _read_checkpoint, repacked_archive),
    }


# --- the attack ----------------------------------------------------------------------------------------------


class Outcome(NamedTuple):
    """How many inputs were tried, and the input and the story of each failure."""

    tried: int
    read: int
    failures: list[tuple[int, str]]


def made_input(reader: Reader, seed: int, i: int) -> bytes:
    """Return input i."""
    rng = np.random.default_rng([seed, i])
    content, other = (reader.samples[at] for at in rng.integers(len(reader.samples), size=2))
    if reader.repack is not None and rng.integers(2):
        return reader.repack(content, rng)
    return damaged(content, other, rng)


def attack(
    name: str, folder: Path, *, seed: int, first: int = 0, n: int | None = None, seconds: float = 1e9
) -> Outcome:
    """Read damaged files, n of them or for so many seconds."""
    reader = readers()[name]()
    path = folder / f"input{reader.suffix}"
    reader.read(_written(path, reader.samples[0]))  # imports and compiled loops are no part of the attack
    began, i, n_read, failures = time.perf_counter(), first, 0, []
    number = os.open(folder / "number", os.O_CREAT | os.O_WRONLY, 0o600)
    with _limited():
        while time.perf_counter() - began < seconds and (n is None or i < first + n):
            _written(path, made_input(reader, seed, i))
            os.pwrite(number, b"%d" % i, 0)
            story = _story(reader, path)
            n_read += story is None
            if story:
                failures.append((i, story))
            i += 1
    os.close(number)
    return Outcome(i - first, n_read, failures)


def _written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def _story(reader: Reader, path: Path) -> str | None:
    """Return None if the file was read, "" if it was refused as it should be, else what happened."""
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        reader.read(path)
        return None
    except SoftmarginError as error:
        return f"took too much memory: {error}" if "more memory than there is" in str(error) else ""
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return "".join(traceback.format_exception(error)[-3:])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


@contextmanager
def _limited() -> Iterator[None]:
    def too_slow(*_: Any) -> None:
        raise Hang(f"more than {SECONDS} seconds")

    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before, handler = resource.getrlimit(resource.RLIMIT_AS), signal.signal(signal.SIGALRM, too_slow)
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
        signal.signal(signal.SIGALRM, handler)


def main() -> int:
    """Attack every reader in a process of its own, and count."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="for all readers together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--reader", choices=readers())
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    names = [args.reader] if args.reader else list(readers())
    if args.child:
        outcome = attack(names[0], Path(args.child), seed=args.seed, seconds=args.seconds)
        sys.stdout.write(json.dumps(outcome._asdict()))
        return 0
    n_failures = 0
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    for name in names:
        with tempfile.TemporaryDirectory(dir=memory) as folder:
            words = ["--reader", name, "--seed", args.seed, "--seconds", args.seconds / len(names), "--child", folder]
            done = subprocess.run([sys.executable, __file__, *map(str, words)], stdout=subprocess.PIPE, check=False)
            if done.returncode:
                number = (Path(folder) / "number").read_text()
                outcome = Outcome(int(number) + 1, 0, [(int(number), f"the process ended with code {done.returncode}")])
            else:
                outcome = Outcome(**json.loads(done.stdout))
        n_failures += len(outcome.failures)
        rate = outcome.tried / (args.seconds / len(names))
        sys.stdout.write(
            f"{name:10} {outcome.tried:8} inputs, {rate:6.0f} a second, {outcome.read} read, "
            f"{len(outcome.failures)} failures\n"
        )
        for i, story in outcome.failures[:5]:
            sys.stdout.write(f"  input {i}, seed {args.seed}:\n    " + story.replace("\n", "\n    ") + "\n")
        sys.stdout.flush()
    return min(n_failures, 1)


if __name__ == "__main__":
    sys.exit(main())
