"""The text of trees is LightGBM's own, or is not read."""

import numpy as np
import pytest

import rankwise
from problems import problem
from rankwise import BoostedRanker, ModelFileError
from rankwise.io.model_file import read_model, write_model
from rankwise.io.tree_text import END, are_trees

pytest.importorskip("lightgbm")

P = problem(seed=0)
BLANKS = np.where(P.X > 1.0, np.nan, P.X)


def grown(X=P.X, loss="rank_rls", **options):
    ranker = BoostedRanker(loss, n_trees=3, early_stopping=False, random_state=0, **options)
    return ranker.fit(X, P.y, P.qid)


def with_sizes(text):
    """Correct the sizes of trees in a changed text."""
    header, _, body = text.partition("\n\n")
    trees = body.partition("end of trees")[0].split("Tree=")[1:]
    sizes = " ".join(str(len("Tree=" + tree)) for tree in trees)
    lines = [f"tree_sizes={sizes}" if "tree_sizes" in ln else ln for ln in header.split("\n")]
    return "\n".join(lines) + "\n\n" + body


TEXT = grown(min_samples_leaf=2, max_leaf_nodes=4).model_.tobytes().decode()


def line(name):
    """Return a line of the first tree, or of the header."""
    return next(line for line in TEXT.split("\n") if line.startswith(f"{name}="))


def ending_in(name, last):
    """Return this line with another last entry."""
    return line(name).rpartition(" ")[0] + last


SPLITS, LEFT, VALUES = line("split_feature"), line("left_child"), line("leaf_value")
LEAVES = line("num_leaves")


@pytest.mark.parametrize("loss", ["rank_rls", "squared_hinge", "lambdarank"])
@pytest.mark.parametrize("X", [P.X, BLANKS], ids=["full", "blanks"])
@pytest.mark.parametrize("min_samples_leaf", [2, 1000])
def test_grown_trees_are_taken(loss, X, min_samples_leaf):
    text = grown(X, loss, min_samples_leaf=min_samples_leaf).model_.tobytes()
    assert are_trees(text, 3)
    assert not are_trees(text, 2)
    assert not are_trees(text, 4)


def test_the_sizes_of_the_text_that_is_changed_below_are_right():
    assert with_sizes(TEXT) == TEXT
    assert TEXT.endswith(END.decode())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (SPLITS, ending_in("split_feature", " 3")),
        (SPLITS, ending_in("split_feature", " -1")),
        (SPLITS, ending_in("split_feature", " 0.5")),
        (SPLITS, ending_in("split_feature", "")),
        (SPLITS, ending_in("split_feature", " x")),
        (SPLITS + "\n", ""),
        (LEFT, ending_in("left_child", " 0")),
        (LEFT, ending_in("left_child", " 9")),
        (LEFT, ending_in("left_child", " -9")),
        (VALUES, ending_in("leaf_value", "")),
        (VALUES, ending_in("leaf_value", " inf")),
        (line("threshold"), ending_in("threshold", " nan")),
        ("shrinkage=", "shrinkage=inf"),
        (VALUES, VALUES + "\n" + VALUES),
        (LEAVES, "num_leaves=400000"),
        (LEAVES, "num_leaves=-4"),
        ("num_cat=0", "num_cat=1"),
        ("is_linear=0", "is_linear=1"),
        ("decision_type=2", "decision_type=1"),
        ("shrinkage=", "shrinkage=x"),
        ("Tree=1", "Tree=7"),
        ("num_class=1", "num_class=3"),
        ("max_feature_idx=2", "max_feature_idx=1"),
        ("label_index=0", "label_index=0\nlinear_tree=1"),
        ("feature_infos=", "feature_infos=none "),
        ("end of trees", "end of tree"),
        ("tree\n", "bush\n"),
        ("Column_0", "Column_\xe9"),
    ],
)
def test_other_text_is_refused(old, new):
    assert old in TEXT
    assert not are_trees(with_sizes(TEXT.replace(old, new, 1)).encode(), 3)


@pytest.mark.parametrize("sizes", ["", "1", "1 2 3", "-1 5 9", "1e9 0 0", "nan", "inf", "x"])
def test_sizes_that_are_not_those_of_the_text_are_refused(sizes):
    changed = TEXT.replace(line("tree_sizes"), f"tree_sizes={sizes}")
    assert not are_trees(changed.encode(), 3)


def test_trees_that_part_blanks_from_all_other_values_are_loaded(tmp_path):
    """Their threshold is infinite, which a check of the numbers once took for damage."""
    X = np.where(np.arange(len(P.y))[:, None] % 2 == [0, 1, 1], np.nan, P.X)
    y = np.isnan(X[:, 0]) + 0.01 * P.X[:, 1]
    ranker = BoostedRanker(n_trees=3, early_stopping=False, min_samples_leaf=2).fit(X, y, P.qid)
    assert b" inf" in ranker.model_.tobytes() or b"=inf" in ranker.model_.tobytes()
    ranker.save(tmp_path / "m")
    loaded = rankwise.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict(X), ranker.predict(X))


def test_a_file_with_such_trees_is_refused(tmp_path):
    grown(min_samples_leaf=2, max_leaf_nodes=4).save(tmp_path / "m")
    metadata, arrays = read_model(tmp_path / "m")
    name = dict(metadata["state"]["dict"])["model_"]["array"]
    text = with_sizes(TEXT.replace(SPLITS, ending_in("split_feature", " 900000"), 1)).encode()
    arrays[name] = np.frombuffer(text, dtype=np.uint8)
    write_model(tmp_path / "m", metadata, arrays)
    with pytest.raises(ModelFileError, match="a shape that fits the others in field state.model_"):
        rankwise.load(tmp_path / "m")
