"""Tables: CSV, TSV, Parquet and Feather files, standard input, and text labels, from the file to the prediction."""

import gzip
import io
import sys

import numpy as np
import pytest
from scipy.sparse import csr_matrix, issparse
from sklearn.preprocessing import OneHotEncoder, QuantileTransformer

from softmargin.core.errors import DataError, IncompatibleError
from softmargin.data import TableOptions, load, read_libsvm, read_table, write_libsvm
from softmargin.data.columns import Columns
from softmargin.features.scaling import unscaled_note

pytest.importorskip("pyarrow", reason="tables need the extra 'table'")
pd = pytest.importorskip("pandas")

CSV = """id,length,"width, cm",colour,is_old,species
1,5.1,0.2,red,true,setosa
2,4.9,0.2,blue,false,setosa
3,7.0,1.4,red,true,versicolor
4,6.4,1.5,green,false,versicolor
5,6.3,2.5,blue,true,virginica
6,5.8,1.9,blue,false,virginica
"""
HOLED = CSV.replace("4,6.4,", "4,?,").replace("1.9,blue", "1.9,").replace("2,4.9,0.2", "2,4.9,NA")


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "flowers.csv"
    path.write_text(CSV)
    return path


def read(text, **options):
    content = text if isinstance(text, bytes) else text.encode()
    return read_table(io.BytesIO(content), TableOptions(**options))


def test_text_becomes_one_column_per_category_as_scikit_learn_has_it(table):
    found = read_table(table, TableOptions(label="species", ignore=("id",)))
    frame = pd.read_csv(table)
    colours = OneHotEncoder(sparse_output=False).fit_transform(frame[["colour"]])
    expected = np.column_stack([frame["length"], frame["width, cm"], colours, frame["is_old"]])
    np.testing.assert_array_equal(found.X, expected)
    assert found.y.tolist() == frame["species"].tolist()
    names = ["length", "width, cm", "colour=blue", "colour=green", "colour=red", "is_old"]
    assert found.columns.feature_names == names


def test_many_categories_make_a_sparse_matrix():
    found = read("name,y\n" + "".join(f"word{i},{i % 2}\n" for i in range(50)))
    assert issparse(found.X)
    assert (found.X.shape, found.X.nnz) == ((50, 50), 50)


@pytest.mark.parametrize("form", ["parquet", "feather", "tsv", "csv.gz", "semicolon", "stdin"])
def test_every_form_of_a_table_is_the_same_data(form, table, tmp_path, monkeypatch):
    options = TableOptions(label="species", ignore=("id",))
    frame, path = pd.read_csv(table), tmp_path / f"other.{form}"
    if form == "parquet":
        frame.to_parquet(path)
    elif form == "feather":
        frame.to_feather(path)
    elif form == "tsv":
        frame.to_csv(path, sep="\t", index=False)
    elif form == "csv.gz":
        path.write_bytes(gzip.compress(CSV.encode()))
    elif form == "semicolon":
        path = tmp_path / "other.csv"
        frame.to_csv(path, sep=";", index=False)
    else:
        path = "-"
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(CSV.encode())))
    found, expected = load(path, table=options), load(table, table=options)
    np.testing.assert_array_equal(found.X, expected.X)
    np.testing.assert_array_equal(found.y, expected.y)


def test_missing_values_are_refused_filled_or_dropped():
    with pytest.raises(DataError, match=r"'length' has no value in row 3 .* 3 of 6 rows miss one"):
        read(HOLED, label="species", ignore=("id",))
    whole = read(CSV, label="species", ignore=("id",)).X
    filled = read(HOLED, label="species", ignore=("id",), missing="mean").X
    assert filled[3, 0] == pytest.approx(np.delete(whole[:, 0], 3).mean())
    assert filled[1, 1] == pytest.approx(np.delete(whole[:, 1], 1).mean())
    np.testing.assert_allclose(filled[5, 2:5], whole[:5, 2:5].mean(axis=0))
    dropped = read(HOLED, label="species", ignore=("id",), missing="drop")
    np.testing.assert_array_equal(dropped.X, whole[[0, 2, 4]])
    assert dropped.y.tolist() == ["setosa", "versicolor", "virginica"]
    assert any("3 of 6 rows miss a value and were dropped" in note for note in dropped.notes)


def test_columns_are_found_by_their_names_in_another_table():
    columns = read(CSV, label="species", ignore=("id",)).columns
    other = 'colour,is_old,length,more,"width, cm"\npink,false,1,9,2\nred,true,3,9,4\n'
    found = read(other, columns=columns)
    np.testing.assert_array_equal(found.X, [[1, 2, 0, 0, 0, 0], [3, 4, 0, 0, 1, 1]])
    assert found.y is None
    assert any("1 rows have a 'colour' that training never saw" in note for note in found.notes)
    with pytest.raises(DataError, match="needs the column 'length', which is not there"):
        read("colour,is_old\nred,true\n", columns=columns)
    with pytest.raises(DataError, match="'length' held numbers in training; here it holds 'long'"):
        read(CSV.replace("5.1", "long"), columns=columns)
    assert Columns.from_info(columns.as_info(), 6) == columns
    with pytest.raises(ValueError, match="6 features of 7"):
        Columns.from_info(columns.as_info(), 7)


def test_a_category_of_digits_stays_one():
    columns = read("a,y\n1,0\nb,1\n").columns
    np.testing.assert_array_equal(read("a\n1\n1\n", columns=columns).X, [[1, 0], [1, 0]])


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("a,a,y\n1,2,3\n", {}, "the column 'a' is there twice"),
        ("a,y\n", {}, "no rows"),
        ("", {}, "empty"),
        ("a,b\n1,2\n1,2,3\n", {}, "not a table that can be read"),
        ("a,y\n1,2\n", {"label": "z"}, "--label asks for the column 'z'; there are 2: 'a', 'y'"),
        ("a,y\n1,2\n", {"label": "7"}, "there are 2"),
        ("a,y\n1,2\n", {"ignore": ("b",)}, "--ignore names 'b'"),
        ("y\n1\n", {}, "no column is left"),
        ("a,y\n1,2\n3,\n", {}, "row 1 .* has no label in the column 'y'"),
        ("a,b,y\n,1,2\n,3,4\n", {"missing": "mean"}, "no row has a value of 'a'"),
        ("a,b,y\n1,,2\n,3,4\n", {"missing": "drop"}, "every row misses a value"),
        ("a,y\n2020-01-01,2\n2020-01-02,2\n", {}, "column 'a' holds date32.*--ignore a"),
        ("a,y\ninf,2\n", {}, "column 'a' is infinite in row 0"),
        ("a,y\n1,\n", {}, "the column 'y' holds no labels. Give --label: there are 'a', 'y'"),
        ("\ufeffa,y\n1,2\n".encode("utf-16"), {}, "UTF-16"),
        ("a,y\ngröße,2\n".encode("latin-1"), {}, "column 'a' holds text that is not UTF-8"),
        ("a,y\n1,größe\n".encode("latin-1"), {}, "column 'y' holds binary, which is no label"),
        ("a,y\n1,2\n", {"missing": "guess"}, "missing must be one of error, mean, drop"),
    ],
)
def test_bad_tables_are_refused_with_what_to_do(text, options, message):
    with pytest.raises(DataError, match=message):
        read(text, **options)


def test_guesses_are_announced():
    assert "'Target' is taken for the label" in read("Target,a\n1,2\n0,3\n").notes[0]
    assert "'b' is taken for the label" in read("a,b\n1,2\n0,3\n").notes[0]
    assert "Give --no-header" in read("1,2\n3,4\n").notes[0]
    assert read("1,2\n3,4\n", has_header=False).X.tolist() == [[1.0], [3.0]]


def test_columns_that_may_be_no_features_get_a_note():
    rows = "".join(f"{i / 8},n{i},{'ab'[i % 2]},{i % 3}\n" for i in range(9))
    (note,) = read("length,name,kind,y\n" + rows, label="y").notes
    assert "'name' has 9 categories in 9 rows" in note
    assert "--ignore name" in note
    (note,) = read("0.5,a,kind,y\n" + rows, label="y", ignore=("a",)).notes
    assert "read as names ('0.5')" in note


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_decimal_commas_are_read(separator):
    lines = ["a,b", "c", "y"], ["1,5", "2", "u"], ['"-0,25"', "3", "v"]
    found = read("\r\n".join(map(separator.join, lines)), label="y")
    np.testing.assert_array_equal(found.X, [[1.5, 2.0], [-0.25, 3.0]])
    assert "decimal commas" in found.notes[0]
    assert not read("a;c;y\n1.5;x,2;u\n2.5;x,2;v\n", label="y").notes


def test_lines_may_end_with_a_separator_and_quoted_text_hold_anything():
    assert read("a,y,\n1,2,\n3,4,\n").columns.names == ("a",)
    line = '"two\nlines, and ""quotes"""'
    found = read("".join(["a,b,y\n", *(f"{i},{line if i % 2 else 'x'},{i % 3}\n" for i in range(60_000))]), label="y")
    assert found.columns.categories == {"b": ('two\nlines, and "quotes"', "x")}


def test_binary_files_that_are_none_and_labels_that_are_lists(tmp_path):
    (tmp_path / "a.parquet").write_text("a,y\n1,2\n")
    with pytest.raises(DataError, match="neither a Parquet nor a Feather file"):
        read_table(tmp_path / "a.parquet")
    pd.DataFrame({"a": [1, 2], "y": [[1], [2]]}).to_parquet(tmp_path / "b.parquet")
    with pytest.raises(DataError, match=r"which is no label\. Give --label"):
        read_table(tmp_path / "b.parquet")


def test_labels_are_text_or_numbers():
    assert read("a,y\n1,true\n2,false\n").y.tolist() == ["true", "false"]
    assert read("a,y\n1,1.0\n2,2.0\n").y.dtype == np.int64
    assert read("a,y\n1,0.5\n2,2.0\n").y.dtype == np.float64


def test_without_arrow_the_error_says_what_to_install(table, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(IncompatibleError, match=r"pip install 'softmargin\[table\]'"):
        load(table)


def test_a_saved_model_takes_raw_tables(table, tmp_path, softmargin_, from_json, monkeypatch):
    table.write_text(HOLED)
    model = tmp_path / "model"
    words = ("--label", "species", "--ignore", "id", "--missing", "mean", "--normalize", "standard")
    trained = from_json("train", table, *words, "-C", "10", "-o", model)
    assert trained["status"] == "converged"
    proven = from_json("certify", model, table)
    assert proven["primal"] == pytest.approx(trained["certificate"]["primal"], rel=1e-9)
    assert from_json("predict", table, model)["accuracy"] == trained["train_accuracy"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(HOLED.encode())))
    code, out, _ = softmargin_("predict", "-", model, "-q")
    assert (code, out.split()) == (0, from_json("predict", table, model)["labels"])


def test_rows_that_need_a_label_are_not_dropped(table, tmp_path, softmargin_, refused):
    table.write_text(HOLED)
    model = tmp_path / "model"
    words = ("--label", "species", "--ignore", "id", "--missing", "drop", "-o", model)
    assert softmargin_("train", table, *words)[0] == 0
    assert "3 rows miss a value" in refused("predict", table, model)
    assert softmargin_("certify", model, table)[0] == 0


def test_rows_without_missing_values_are_called_so(table, tmp_path, from_json):
    table.write_text(HOLED)
    words = ("--label", "species", "--ignore", "id", "--missing", "drop", "-q")
    assert from_json("train", table, *words)["trained_on"] == f"all 3 rows of {table.name} without missing values"


def test_options_of_tables_are_refused_where_the_data_are_none(tmp_path, refused):
    write_libsvm(tmp_path / "a.libsvm", np.eye(4), np.arange(4) % 2)
    for words in (("--label", "3"), ("--missing", "mean"), ("--no-header",), ("--ignore", "a")):
        for data in ("digits", tmp_path / "a.libsvm"):
            assert f"{words[0]} is an option of tables" in refused("train", data, *words, code=2)


def test_a_model_of_a_table_says_that_it_takes_columns_without_names_in_order(table, tmp_path, softmargin_):
    softmargin_("train", table, "--label", "species", "--ignore", "id", "-o", tmp_path / "m")
    np.savez(tmp_path / "a.npz", X=np.eye(6), y=["setosa"] * 6)
    code, _, notes = softmargin_("predict", tmp_path / "a.npz", tmp_path / "m")
    assert code == 0
    assert "taken for the model's in their order, 'length', 'width, cm', 'colour=blue'" in notes


def test_a_table_of_numbers_serves_a_model_of_arrays(tmp_path, softmargin_, from_json):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 3)), np.arange(30) % 2
    np.savez(tmp_path / "a.npz", X=X, y=y)
    softmargin_("train", tmp_path / "a.npz", "-o", tmp_path / "m")
    pd.DataFrame(X, columns=list("abc")).to_csv(tmp_path / "a.csv", index=False)
    found = from_json("predict", tmp_path / "a.csv", tmp_path / "m")
    assert found["labels"] == from_json("predict", tmp_path / "a.npz", tmp_path / "m")["labels"]
    assert found["accuracy"] is None


@pytest.mark.parametrize("how", ["standard", "quantile", "maxabs", "rows"])
@pytest.mark.parametrize("kind", ["linear-svc", "kernel-svc"])
def test_models_of_scaled_columns_take_raw_rows(how, kind, tmp_path, from_json):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60, 3)) * [1.0, 100.0, 0.01] + [0.0, 500.0, 3.0]
    np.savez(tmp_path / "a.npz", X=X, y=(X[:, 0] + X[:, 1] / 100 > 5).astype(int))
    words = ("--normalize", how, "--model", kind, "--tol", "1e-6", "-o", tmp_path / "m")
    trained = from_json("train", tmp_path / "a.npz", *words, "-q")
    assert from_json("predict", tmp_path / "a.npz", tmp_path / "m")["accuracy"] == trained["train_accuracy"]
    primal = from_json("certify", tmp_path / "m", tmp_path / "a.npz")["primal"]
    assert primal == pytest.approx(trained["certificate"]["primal"], rel=1e-6)


def test_quantiles_are_the_shares_of_smaller_rows():
    from softmargin.features.scaling import fit_scaling

    X = np.random.default_rng(0).exponential(size=(200, 3))
    X[:, 2] = np.round(X[:, 2])
    expected = QuantileTransformer(n_quantiles=200).fit_transform(X)
    found = fit_scaling("quantile", X, "x").apply(X, "x")
    lowest, highest = X.min(axis=0), X.max(axis=0)
    is_inside = (lowest < X) & (highest > X)  # scikit-learn gives equal smallest rows 0, not their middle
    np.testing.assert_allclose(found[is_inside], expected[is_inside], atol=1e-12)
    assert np.unique(found[X[:, 2] == 0.0, 2]) == pytest.approx((np.sum(X[:, 2] == 0.0) - 1) / 2 / 199)


def test_uneven_columns_get_a_note(tmp_path, softmargin_):
    rng = np.random.default_rng(1)
    np.savez(tmp_path / "a.npz", X=rng.standard_normal((40, 2)) * [1.0, 1e4], y=np.arange(40) % 2)
    words = ("train", tmp_path / "a.npz", "--max-iter", "3")
    assert "very different scale" in softmargin_(*words)[2]
    assert "very different scale" not in softmargin_(*words, "--normalize", "standard")[2]


def test_columns_far_from_zero_get_a_note():
    X = np.random.default_rng(0).standard_normal((40, 3))
    X[:, 1] += 30.0
    assert "mean 30, standard deviation 0.82" in unscaled_note(X)
    assert unscaled_note(X, may_be_far=True) is None  # differences of rows do not see it
    assert unscaled_note(csr_matrix(X)) is None  # nothing moves the zeros
    X[:, 1] = X[:, 1] > 28.0  # almost always 1
    assert unscaled_note(X) is None


def test_libsvm_files_may_have_labels_of_text(tmp_path, from_json):
    X, y = np.eye(4), np.array(["ham", "spam", "ham", "spam"])
    write_libsvm(tmp_path / "mail.libsvm", X, y)
    found, labels = read_libsvm(tmp_path / "mail.libsvm")
    np.testing.assert_array_equal(found.toarray(), X)
    assert labels.tolist() == y.tolist()
    from_json("train", tmp_path / "mail.libsvm", "-o", tmp_path / "m")
    assert from_json("predict", tmp_path / "mail.libsvm", tmp_path / "m")["labels"] == y.tolist()
    for strange in ("two words", "3", "a:b", ""):
        with pytest.raises(DataError, match="cannot be written"):
            write_libsvm(tmp_path / "x.libsvm", X[:1], [strange])


def test_groups_of_queries_get_a_note(tmp_path, softmargin_):
    (tmp_path / "a.libsvm").write_text("".join(f"{i % 2} qid:{i} 1:{i}\n" for i in range(1, 9)))
    assert "`qid:` groups are left out" in softmargin_("data", tmp_path / "a.libsvm")[2]


@pytest.mark.parametrize("model", ["softmax", "linear-svc", "l1-ball", "trace-ball"])
def test_dates_in_seconds_are_trained_and_certified(from_json, tmp_path, model):
    rng = np.random.default_rng(0)
    labels = np.arange(150) % 3
    dates = 1_600_000_000 + np.round(5e4 * (labels + rng.standard_normal(150))).astype(int)
    frame = pd.DataFrame({"when": dates, "size": labels + rng.standard_normal(150), "kind": labels})
    frame.to_csv(tmp_path / "dates.csv", index=False)
    own = {"linear-svc": ("--multiclass", "one_vs_rest", "--loss", "squared_hinge"), "softmax": ("-C", "1000")}
    asked = ("train", tmp_path / "dates.csv", "--model", model, *own.get(model, ()), "-o", tmp_path / "m")
    trained = from_json(*asked)
    assert trained["certificate"]["residual"] <= 1e-3
    found = from_json("certify", tmp_path / "m", tmp_path / "dates.csv")
    assert found["certificate"]["primal"] == pytest.approx(trained["certificate"]["primal"], rel=1e-6)
    assert found["certificate"]["residual"] <= 1e-3
