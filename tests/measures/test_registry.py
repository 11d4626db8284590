"""Reading, printing and changing measures."""

import pytest

from rankwise.core.errors import InvalidInputError
from rankwise.core.params import rules_of
from rankwise.measures.binary import AP, RR, Precision
from rankwise.measures.graded import ERU, NDCG, WTA
from rankwise.measures.pairwise import AUC, Disagreement, KendallTau
from rankwise.measures.registry import MEASURES, PRESETS, parse_measure, parse_measures


@pytest.mark.parametrize(
    ("text", "measure"),
    [
        ("ndcg@10", NDCG @ 10),
        ("  NDCG  @  10 ", NDCG @ 10),
        ("nDCG(cutoff=10)", NDCG @ 10),
        ("NDCG(gain='exponential')@10", NDCG(gain="exponential") @ 10),
        ('ndcg(gain="exponential", ties=input)', NDCG(gain="exponential", ties="input")),
        ("ndcg(gain=(0,1,3,7))@5", NDCG(gain=(0, 1, 3, 7)) @ 5),
        ("NDCG(gain=[0, 1, 3])", NDCG(gain=(0, 1, 3))),
        ("NDCG()", NDCG),
        ("map", AP),
        ("MAP @ 5", AP @ 5),
        ("mrr", RR),
        ("P@5", Precision @ 5),
        ("p(relevant=2)@5", Precision(relevant=2) @ 5),
        ("kendalltau", KendallTau),
        ("ERU(neutral=-1.5, half_life=1e1)", ERU(neutral=-1.5, half_life=10)),
    ],
)
def test_text_is_read_without_being_strict(text, measure):
    assert parse_measure(text) == measure


def test_measures_print_what_differs_from_the_defaults():
    assert repr(NDCG) == "NDCG"
    assert repr(NDCG @ 10) == "NDCG @ 10"
    assert repr(NDCG(gain="exponential") @ 10) == "NDCG(gain='exponential') @ 10"
    assert repr(NDCG(gain=(0, 0.5))) == "NDCG(gain=(0, 0.5))"
    assert repr(NDCG(gain=(3,))) == "NDCG(gain=(3,))"
    assert repr(AP(empty="zero", ties="worst", relevant=2)) == (
        "AP(relevant=2, ties='worst', empty='zero')"
    )
    assert repr(ERU(half_life=1e30)) == "ERU(half_life=1e+30)"


def test_equal_measures_are_one_key():
    assert {NDCG @ 10: 1}[NDCG(cutoff=10, gain="linear")] == 1
    assert len({NDCG, NDCG @ 10, NDCG(ties="input"), AP, RR}) == 5
    assert AP(relevant=2) == AP(relevant=2.0)


def test_changes_give_a_new_measure():
    changed = NDCG(ties="input")
    assert NDCG.ties == "average"
    assert (changed @ 3)(ties="average") == NDCG @ 3
    with pytest.raises(AttributeError):
        NDCG.ties = "input"


def test_a_measure_is_read_as_itself():
    assert parse_measure(NDCG @ 3) == NDCG @ 3
    assert parse_measures("AP") == (AP,)
    assert parse_measures(["AP", NDCG, "map"]) == (AP, NDCG)


@pytest.mark.parametrize("measure", MEASURES, ids=repr)
def test_every_parameter_refuses_nonsense(measure):
    for name in rules_of(type(measure)):
        with pytest.raises(InvalidInputError, match=f"`{name}` must"):
            measure(**{name: object()})


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("NDGC", "Unknown measure 'NDGC'.*Choose one of 'NDCG', 'DCG'.*Did you mean 'NDCG'"),
        ("", "Unknown measure ''"),
        (
            "NDCG(gan=linear)",
            "parameters 'gain', 'ties', 'empty', 'cutoff': got 'gan'.*mean 'gain'",
        ),
        ("NDCG(gain=exponental)", "`gain` must be .*got 'exponental'.*mean 'exponential'"),
        ("NDCG(gain=__import__('os'))", "`gain` must be .* one of 'linear', 'exponential'"),
        ("NDCG(gain=(1, 0))", "`gain` must be a tuple .* not negative and never falling"),
        ("NDCG(gain=())", "`gain` must be a tuple .* not negative and never falling"),
        ("NDCG(gain=5)", "`gain` must be a tuple .* or one of 'linear', 'exponential'"),
        ("NDCG @ ten", "`cutoff` must be a whole number above 0: got 'ten'"),
        ("NDCG @ 0", "`cutoff` must be a whole number above 0: got 0"),
        ("NDCG @ 2.5", "`cutoff` must be a whole number above 0: got 2.5"),
        ("NDCG @ None", "`cutoff` must be a whole number above 0: got None"),
        ("NDCG @", "`cutoff` must be a whole number above 0: got ''"),
        ("NDCG @ 5 @ 6", r"must have the form 'NDCG\(gain=exponential\) @ 10'"),
        ("NDCG(gain=linear", r"must have the form 'NDCG\(gain=exponential\) @ 10'"),
        ("NDCG(10)", "Parameters must have the form"),
        ("NDCG(gain=)", "Parameters must have the form"),
        ("NDCG(**{'gain': 1})", "Parameters must have the form"),
        ("NDCG(ties=input, ties=worst)", "each given once"),
        ("NDCG(x) or f(y)", "Parameters must have the form"),
        ("NDCG(cutoff=5) @ 6", "The cut-off must be given once"),
        ("AUC @ 5", "AUC looks at the whole ranking and takes no cut-off"),
        ("ERU(half_life=1)", "`half_life` must be a finite number above 1"),
        ("Utility(discounts=(1, 2))", "`discounts` must be a tuple .* never rise"),
        ("Utility(discounts=(1, -1))", "`discounts` must be a tuple .* never negative"),
        ("Utility(discounts=(0, 0))", "`discounts` must be a tuple .* the first above 0"),
        ("Utility(discounts=text)", "`discounts` must be a tuple"),
        ("AP(relevant=1e999)", "`relevant` must be a finite number"),
        (7, "A measure must have the form .*: got 7"),
    ],
)
def test_text_that_is_no_measure_is_refused(text, match):
    with pytest.raises(InvalidInputError, match=match):
        parse_measure(text)


def test_booleans_are_not_numbers():
    with pytest.raises(InvalidInputError, match="whole number above 0: got True"):
        NDCG @ True
    with pytest.raises(InvalidInputError, match="finite number: got True"):
        AP(relevant=True)


def test_no_measure_at_all_is_refused():
    with pytest.raises(InvalidInputError, match="at least one measure"):
        parse_measures([])


def test_presets_fill_in_what_the_text_leaves_open():
    lightgbm = NDCG(gain="exponential", ties="input", empty="one") @ 5
    assert parse_measure("ndcg@5", preset="lightgbm") == lightgbm
    assert parse_measure("ndcg(gain=linear)@5", preset="xgboost") == lightgbm(gain="linear")


def test_presets_are_parameters_of_measures():
    for tool, measures in PRESETS.items():
        for name, parameters in measures.items():
            measure = parse_measure(name, preset=tool)
            assert {key: measure.parameters[key] for key in parameters} == parameters


@pytest.mark.parametrize(
    ("measure", "preset", "match"),
    [
        ("NDCG", "lightgmb", "`preset` must be one of .* Did you mean 'lightgbm'"),
        ("WTA", "lightgbm", "'lightgbm' has the measures 'NDCG', 'AP': got 'WTA'"),
        (NDCG, "lightgbm", "`preset` needs the measure as text.*got the measure NDCG"),
    ],
)
def test_presets_that_do_not_exist_are_refused(measure, preset, match):
    with pytest.raises(InvalidInputError, match=match):
        parse_measure(measure, preset=preset)


def test_only_disagreement_is_better_when_lower():
    assert [m for m in MEASURES if not m.greater_is_better] == [Disagreement]
    assert AUC.takes_weights
    assert not WTA.takes_weights


@pytest.mark.parametrize(
    "text",
    [
        "(" * 5000 + "NDCG" + ")" * 5000,
        "NDCG" + "(" * 50_000,
        "NDCG(gain=" + "-" * 50_000 + "1)",
        "NDCG(gain=" + "(" * 30 + ")" * 30 + ")",
        "x" * 400_000,
        "NDCG" + " " * 150_000 + "x",
        "NDCG @ " + "9" * 4000,
        "NDCG @ 1 @ 2",
        "NDCG() x",
        "NDCG)",
        "NDCG(gain=1\0)",
        f"NDCG(gain=({10**400},))",
    ],
    ids=lambda text: text[:12],
)
def test_deep_and_long_texts_are_refused_in_short(text):
    with pytest.raises(InvalidInputError, match="easure|Parameters|`cutoff`|`gain`") as caught:
        parse_measure(text)
    assert len(str(caught.value)) < 1000


def test_a_long_table_is_read():
    gains = tuple(float(grade) for grade in range(2000))
    assert parse_measure(repr(NDCG(gain=gains))) == NDCG(gain=gains)
