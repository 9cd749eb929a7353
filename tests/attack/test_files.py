"""No file, however damaged, makes a reader raise an error that is not ours, take gigabytes, or hang; no output is lost.

The long form tries SOFTMARGIN_ATTACK inputs per reader from the seed SOFTMARGIN_ATTACK_SEED; `fuzz.py` runs by itself.
"""

import gzip
import io
import json
import os
import resource
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

import softmargin
from attack import fuzz
from softmargin.core import npy
from softmargin.core.archive import _checksum, read_archive, write_archive
from softmargin.core.errors import DataError, ModelFileError
from softmargin.core.files import atomic_write
from softmargin.data import read_npz, write_libsvm
from softmargin.data.libsvm import read_libsvm_chunks
from softmargin.models import LinearModel, load_model, read_liblinear
from softmargin.problems import MulticlassSVM
from softmargin.run import Stop, solve
from softmargin.run.restored import check_restored
from softmargin.run.watchers import Checkpoint, load_checkpoint
from softmargin.solvers.linear_svm.block_descent import DualBlockDescent

COUNT = int(os.environ.get("SOFTMARGIN_ATTACK", "150"))
SEED = int(os.environ.get("SOFTMARGIN_ATTACK_SEED", "0"))
SOURCE = str(Path(softmargin.__file__).parents[1])
PROGRAM = "import sys; from softmargin.cli.main import main; sys.exit(main())"


@pytest.mark.parametrize("reader", fuzz.readers())
def test_damaged_files_are_read_or_refused(reader, tmp_path):
    outcome = fuzz.attack(reader, tmp_path, seed=SEED, n=COUNT)
    assert outcome.tried == COUNT
    assert not outcome.failures, outcome.failures[0]


# --- headers are believed as far as the file goes ------------------------------------------------------------


def array_file(header, numbers=b"\0" * 16):
    text = header.encode() + b"\n"
    return npy.MAGIC + b"\x01\x00" + len(text).to_bytes(2, "little") + text + numbers


HEADER = "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }"


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (HEADER.replace("(2,)", "(100000000000,)"), "800000000000 bytes; at most"),
        (HEADER.replace("(2,)", "(9999999999999999999, 9999999999999999999)"), "bytes; at most"),
        (HEADER.replace("(2,)", "(3,)"), "24 bytes; at most 16 are there"),
        (HEADER.replace("(2,)", "(" * 4000 + ")" * 4000), "not one that NumPy writes"),
        (HEADER.replace("(2,)", "(-1,)"), "not one that NumPy writes"),
        (HEADER.replace("(2,)", "(2, 'x"), "not one that NumPy writes"),
        (HEADER.replace("(2,)", "(" + "1," * 40 + ")"), "at most 32"),
        (HEADER.replace("'<f8'", "'|O'"), "needs a pickle"),
        (HEADER.replace("'<f8'", "'<U0'"), "holds nothing"),
        (HEADER.replace("'<f8'", "'<f3'"), "NumPy does not know"),
        (HEADER.replace("'<f8'", "[('a', '<f8')]"), "records"),
        (HEADER.replace("'<f8'", "__import__('os')"), "not one that NumPy writes"),
        (HEADER[:-1], "not one that NumPy writes"),
    ],
)
def test_a_header_is_neither_evaluated_nor_believed(header, message):
    with pytest.raises(ValueError, match=message):
        npy.read_array(io.BytesIO(array_file(header)), 16)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array(["ä", "bc"]),
        np.array([b"a", b"bc"]),
        np.zeros((0, 3), dtype=">f4"),
        np.array(5),
        np.array([True, False]),
        np.arange(4, dtype="<u2")[::2],
    ],
)
def test_what_numpy_writes_is_read_the_same(array):
    file = io.BytesIO()
    np.save(file, array)
    found = npy.read_array(io.BytesIO(file.getvalue()), len(file.getvalue()))
    np.testing.assert_array_equal(found, array)
    assert found.dtype == array.dtype
    assert found.flags.f_contiguous == array.flags.f_contiguous or array.ndim < 2
    assert found.flags.writeable


def repack(path, change=None, compression=zipfile.ZIP_STORED):
    """Change the header of an archive, and make its checksum right again where it can be."""
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    arrays = {
        name.removesuffix(".npy"): np.load(io.BytesIO(data)) for name, data in content.items() if name != "model.json"
    }
    header = json.loads(content["model.json"]) | (change or {})
    header["sha256"] = _checksum(arrays, header["meta"])
    content["model.json"] = json.dumps(header).encode()
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in content.items():
            archive.writestr(name, data)


def deep(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"arrays": 5}, "arrays in 'model.json' is '5'"),
        ({"arrays": [["coef"]]}, "does not name every array once"),
        ({"arrays": ["coef", "coef"]}, "does not name every array once"),
        ({"meta": {"__pairs__": [[[], 1]]}}, "unhashable"),
        ({"meta": {"__pairs__": 3}}, "damaged"),
        ({"meta": [1, 2]}, r"meta in 'model.json' is '\[1, 2\]'"),
        ({"meta": {"a": deep(200)}}, "lists in lists"),
        ({"kind": ["LinearModel"]}, "kind in 'model.json'"),
    ],
)
def test_a_strange_header_of_a_model_is_refused(tmp_path, change, message):
    path = tmp_path / "m"
    LinearModel(np.arange(3), fuzz.X[:3], fuzz.X[0]).save(path)
    repack(path, change)
    with pytest.raises(ModelFileError, match=message):
        load_model(path)


def test_text_that_nests_too_deep_is_refused(tmp_path):
    path = tmp_path / "m"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model.json", "[" * 100_000)
    with pytest.raises(ModelFileError, match=r"member 'model.json' cannot be read"):
        load_model(path)


def test_only_stored_members_of_a_model_are_opened(tmp_path):
    """A model of 3 MB, all zeros and deflated, took 6.1 GB before its checksum was looked at."""
    path = tmp_path / "m"
    LinearModel(np.arange(3), np.zeros((3, 100_000)), np.zeros(3)).save(path)
    for compression in (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        repack(path, compression=compression)
        with pytest.raises(ModelFileError, match="is compressed"):
            load_model(path)


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_data_in_a_compression_that_numpy_never_uses_are_refused(tmp_path, compression):
    with zipfile.ZipFile(tmp_path / "a.npz", "w", compression) as archive:
        archive.writestr("X.npy", array_file(HEADER))
    with pytest.raises(DataError, match="compressed in a way"):
        read_npz(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("nr_feature 3", "nr_feature -1"), "nr_feature is -1"),
        (("bias 1", "bias inf"), "the bias inf"),
        (("bias 1", "bias nan"), "the bias nan"),
        (("bias 1", "bias 1e308"), "too large"),
        (("nr_feature 3", "nr_feature 3000000000"), "lines of weights found"),
    ],
)
def test_strange_numbers_of_liblinear_are_refused(tmp_path, change, message):
    text = "solver_type MCSVM_CS\nnr_class 3\nlabel 0 1 2\nnr_feature 3\nbias 1\nw\n" + "1 2 30\n" * 4
    assert read_liblinear(fuzz._written(tmp_path / "m", text.encode())).intercept.tolist() == [1, 2, 30]
    (tmp_path / "m").write_text(text.replace(*change))
    with pytest.raises(ModelFileError, match=message):
        read_liblinear(tmp_path / "m")


def test_a_line_without_end_is_refused_in_little_memory(tmp_path):
    """A file of 1.9 MB took 11.8 GB in the reader of fixed memory."""
    path = tmp_path / "a.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(40):
            file.write(b"1:1 " * 250_000)
    assert path.stat().st_size < 1 << 20
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DataError, match="line 1: the line has more than 16 MiB"):
        list(read_libsvm_chunks(path, n_rows=10))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10  # in units of 1 KiB


# --- checkpoints ---------------------------------------------------------------------------------------------


def problem():
    return MulticlassSVM(fuzz.X, fuzz.Y, C=np.ones(12), n_classes=3)


def go_on(path):
    return solve(problem(), DualBlockDescent(), stop=Stop(max_iter=5), resume=load_checkpoint(path, DualBlockDescent()))


@pytest.fixture
def checkpoint(tmp_path):
    path = tmp_path / "c"
    solve(problem(), DualBlockDescent(), stop=Stop(max_iter=2, tol=0), rng=0, watchers=[Checkpoint(path)])
    return path


def spoiled(path, **changes):
    arrays, meta = read_archive(path, kind="checkpoint")
    for name, change in changes.items():
        place = arrays if name in arrays else meta["state"] if name in meta["state"] else meta["schedule"]
        place[name] = change(place[name])
    write_archive(path, kind="checkpoint", arrays=arrays, meta=meta)


@pytest.mark.parametrize("name", ["alpha", "weights", "order", "gaps", "idle", "sqnorms", "random"])
@pytest.mark.parametrize(
    "change", [lambda array: array[:-1], lambda array: array.astype("i1"), lambda array: array[None]]
)
def test_a_checkpoint_of_another_shape_is_refused(checkpoint, name, change):
    spoiled(checkpoint, **{name: change})
    with pytest.raises(ModelFileError, match=rf"{name} has shape"):
        go_on(checkpoint)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"order": lambda order: order + 1}, "to 12; gaps has 12 entries"),
        ({"order": lambda order: order - 1}, "order has -1"),
        ({"n_active": lambda _: 10**9}, "n_active has"),
        ({"n_open": lambda _: "x"}, "n_open is x, not a whole number"),
        ({"gap": lambda _: [1]}, "gap is .*not a number"),
        ({"next_pass": lambda _: 0}, "damaged"),  # once an endless loop
        ({"first_gap": lambda _: {}}, "schedule.first_gap is {}, not a number"),
        ({"n_scheduled": lambda _: None}, "schedule.n_scheduled is None, not a whole number"),
    ],
)
def test_a_checkpoint_with_places_out_of_range_is_refused(checkpoint, changes, message):
    spoiled(checkpoint, **changes)
    with pytest.raises(ModelFileError, match=message):
        go_on(checkpoint)


def test_a_checkpoint_that_names_unknown_tiles_is_refused():
    X, y = np.random.default_rng(0).standard_normal((40, 3)), np.arange(40) % 20
    many = MulticlassSVM(X, y, C=np.ones(40), n_classes=20)
    fresh, state = (DualBlockDescent().start(many, None, np.random.default_rng(0)) for _ in range(2))
    state.live[:] = (1 << 5) - 1
    check_restored(state, fresh)
    state.live[7] = 1 << 5
    with pytest.raises(ModelFileError, match="live names more than 5 tiles"):
        check_restored(state, fresh)


# --- outputs -------------------------------------------------------------------------------------------------


def started(*words, **settings):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([SOURCE, os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-c", PROGRAM, *map(str, words)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, **settings)


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "d.svm"
    write_libsvm(path, fuzz.X, fuzz.Y)
    return path


def called(*words):
    from softmargin.cli.main import main

    return main([str(word) for word in words])


@pytest.mark.parametrize("option", ["-o", "--checkpoint", "--trace"])
@pytest.mark.parametrize("name", ["d.svm", "link", "sub/../d.svm"])
def test_an_output_never_overwrites_its_input(data, option, name, capsys):
    (data.parent / "sub").mkdir()
    (data.parent / "link").symlink_to(data)
    before = data.read_bytes()
    assert called("train", data, option, data.parent / name) == 2
    assert "would overwrite the input" in capsys.readouterr().err
    assert data.read_bytes() == before


def test_labels_test_rows_and_models_are_inputs_too(data, capsys):
    folder = data.parent
    np.save(folder / "e.npy", fuzz.X)
    np.save(folder / "e.y.npy", fuzz.Y)
    LinearModel(np.arange(3), fuzz.X[:3], fuzz.X[0]).save(folder / "m")
    refused = [
        ("train", folder / "e.npy", "-o", folder / "e.y.npy"),
        ("train", folder / "e.npy", "--test", data, "-o", data),
        ("train", data, "--resume", folder / "m", "-o", folder / "m"),
        ("train", "e", "--data-dir", folder, "-o", folder / "e.npy"),
        ("predict", data, folder / "m", "-o", folder / "m"),
        ("predict", data, folder / "m", "-o", data),
    ]
    for words in refused:
        assert called(*words) == 2
        assert "would overwrite the input" in capsys.readouterr().err


def test_a_device_takes_a_model(data):
    assert called("train", data, "-o", os.devnull) == 0


def test_control_characters_never_reach_the_terminal(data, capsys):
    strange = data.rename(data.with_name("a\x1b[31m\x9bb.svm"))
    for words in (("data", strange), ("data", strange.with_name("c\x1b]0;x\x07.svm")), ("train", strange, "--\x1b[2J")):
        called(*words)
        out, err = capsys.readouterr()
        assert "\\x1b" in out + err
        assert not set(out + err) & {"\x1b", "\x07", "\x9b"}
    with pytest.raises(DataError, match=r"\\x1b"):
        raise DataError("a\x1b")


def test_the_next_writer_removes_what_a_killed_one_left(tmp_path):
    target = tmp_path / "m"
    ours, foreign = tmp_path / f".m.{'0' * 12}.tmp", [tmp_path / ".m.tmp", tmp_path / f".other.{'0' * 12}.tmp"]
    for path in (ours, *foreign):
        path.write_bytes(b"left")
    with atomic_write(target) as living:  # as another process would, it sees a living writer and a dead one
        living.write(b"first")
        assert not ours.exists()
        with atomic_write(target) as other:
            other.write(b"second")
        assert target.read_bytes() == b"second"
    assert target.read_bytes() == b"first"
    assert sorted(tmp_path.iterdir()) == sorted([target, *foreign])


def test_sigterm_saves_as_ctrl_c_does(data):
    rng, model, saved = np.random.default_rng(0), data.with_name("m"), data.with_name("c")
    write_libsvm(data, rng.standard_normal((400, 10)), np.arange(400) % 4)  # noise: the gap closes slowly
    endless = ("--tol", "0", "-C", "1e5", "--solver", "block_descent", "--max-iter", 10**9)
    kept = ("-o", model, "--checkpoint", saved, "--checkpoint-every", "0.05")
    process = started("train", data, *endless, *kept, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not saved.exists() and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 143, err
    assert LinearModel.load(model).info["status"] == "interrupted"
    assert not list(data.parent.glob(".*.tmp"))


def test_closed_streams_end_quietly():
    process = started("data", stdout=subprocess.PIPE)
    process.stdout.close()
    assert process.communicate(timeout=60)[1] == ""
    assert process.returncode in (0, 141)
    for closed in (">&-", "<&- >&- 2>&-"):
        command = f"exec {sys.executable} -c '{PROGRAM}' data {closed}"
        environment = {**os.environ, "PYTHONPATH": SOURCE}
        assert subprocess.run(["sh", "-c", command], env=environment, capture_output=True, check=False).returncode == 0
