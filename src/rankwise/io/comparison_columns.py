"""Which columns of a table of comparisons hold what: found once, by name, before cells are read."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, final

from rankwise.core.arrays import IntArray
from rankwise.core.errors import DataFileError
from rankwise.io.data import plain_name

Usual: TypeAlias = tuple[str, ...]

WINNER: Usual = ("winner", "won", "preferred", "better", "winner_name", "winning_team", "chosen")
LOSER: Usual = ("loser", "lost", "rejected", "worse", "loser_name", "losing_team")
FIRST: Usual = ("a", "item_a", "model_a", "player_a", "team_a", "first", "left", "item1", "player1")
FIRST += ("team1", "model1", "option_a", "option1", "system_a", "response_a", "white")
FIRST += ("player", "team", "competitor")
HOME, AWAY = ("home_team", "hometeam", "home"), ("away_team", "awayteam", "away", "visitor")
SECOND: Usual = ("b", "item_b", "model_b", "player_b", "team_b", "second", "right", "item2")
SECOND += ("player2", "team2", "model2", "option_b", "option2", "system_b", "response_b", "black")
SECOND += ("opponent",)
RESULT: Usual = ("winner", "result", "outcome", "who", "won", "answer", "vote", "preferred")
RESULT += ("label", "verdict", "judgment", "judgement", "choice", "preference", "prob_a", "p_a")
RESULT += ("overall_preference",)
OF_FIRST: Usual = ("a_wins", "a_won", "first_wins", "first_won", "model_a_wins", "model_a_won")
OF_FIRST += ("home_win", "home_wins", "home_won", "white_wins", "white_won", "team1_won")
OF_FIRST += ("player1_won", "prob_a_wins", "p_a_wins")
"""Names of columns that say whether the first won, in which 1 is no winner's number."""
POINTS = (
    ("home_score", "away_score"),
    ("home_goals", "away_goals"),
    ("home_points", "away_points"),
    ("fthg", "ftag"),
    ("score_a", "score_b"),
    ("score1", "score2"),
)
NEUTRAL = ("neutral", "neutral_venue", "neutral_site")
TIE_FLAG = ("tied", "tie", "draw")
COUNT = ("count", "counts", "times", "votes", "n")
WEIGHT = ("weight", "weights")
MARGIN = ("margin",)
JUDGE: Usual = ("judge", "worker", "annotator", "rater", "voter", "user", "person", "participant")
JUDGE += ("respondent", "assessor", "student", "taster", *(f"{name}_id" for name in JUDGE))
DATE: Usual = ("date", "day", "match_date", "game_date", "tourney_date", "datetime", "timestamp")
DATE += ("tstamp", "created_at", "time")
QUESTION: Usual = ("question", "question_id", "prompt_id", "task_id", "conversation_id")
"""The names by which columns are found, in any spelling."""

SIDES = (
    ("a", "b"),
    ("1", "2"),
    ("0", "1"),
    ("first", "second"),
    ("left", "right"),
    ("home", "away"),
    ("home", "visitor"),
    ("white", "black"),
    ("red", "blue"),
)
"""Words in which the columns of two items may differ, as image_left and image_right do."""

WIN_WORDS, TIE_COUNT = frozenset(["wins", "win"]), frozenset(["ties", "tie", "draws", "draw"])
"""Words in the names of columns of counts, such as wins_a, wins_b and ties."""

POINT_WORDS = frozenset(["score", "scores", "goal", "goals", "point", "points", "pts", "runs"])
"""Words in the names of columns of points, such as team1_goals and team2_goals."""

_WORD_OF_NAME = re.compile(r"\d+|[^\W\d_]+")
_INNER_CAPITAL = re.compile(r"(?<=[^\W\d_A-Z])(?=[A-Z])")


@final
@dataclass(frozen=True)
class ComparisonColumns:
    """Name the columns of a table of comparisons; the others are found by common names.

    Parameters
    ----------
    winner, loser : str, optional
        Columns of the winner and of the loser.
    first, second, result : str, optional
        Columns of the two items as they were shown, and of who won: the name of the winner; "a",
        "b" or "tie", and similar words, among them those of the columns' names (H, A and D for home
        and away); 1, 0.5 and 0, or 1, 0 and -1, for the first, a tie and the second. What can be
        read in two ways is refused. Without a result, the points of both decide.
    codes : dict or str, optional
        What the cells of ``result`` mean: "a" (the first won), "b", "tie" or "skip" (left out), as
        in ``{0: "a", 1: "b", 2: "tie"}`` or ``"0=a,1=b,2=tie"``. They come before names and words;
        ``"=tie"`` reads blank cells, which are left out by default, as ties.
    points : (str, str), optional
        Columns of the points of the first and of the second, in place of who won.
    tied : str, optional
        Column that says which rows are ties, in addition to ``winner`` and ``loser``.
    favours : {"a", "b"}, optional
        For a result in numbers around 0 (-3 to 3, or any others): whom positive ones favour. Their
        size is the margin.
    middle : float
        The number that favours nobody, such as 4 of 1 to 7, with ``favours``.
    count, weight : str, optional
        How often each row was answered, and how much it counts; with both, their product. Weights
        that are not whole are no counts: they are scaled to their effective number of answers.
    margin, date : str, optional
    judge : str, optional
        Column of who judged. Rows in which it is blank have one judge in common, "unknown"; the
        others are then called by text.
    home : str, optional
        Column that names the item at home, or says "a", "b" or nothing. If the first items are in
        a column of home teams, they are at home, except in neutral places.
    covariates : tuple of str
        Covariates: columns of numbers that are positive in favour of the first item; columns of
        text, each word of which becomes a covariate; or what two columns have in common, whose
        difference is taken: "length" of length_a and length_b.
    controls : tuple of str
        The same for two columns of numbers above 0, of which (a - b) / (a + b) is taken.
    question, category : str, optional
        Columns of what was asked, such as a prompt, and of its kind, such as a language, for the
        audit of a leaderboard.
    match, item : str, optional
        For a row for each item of a match: the columns of the match, which two rows have in
        common, and of the item. ``result`` then says of each row whether it won.

    Examples
    --------
    >>> from rankwise.io import ComparisonColumns, read_comparisons
    >>> columns = ComparisonColumns(first="us", second="them", result="goals won")
    >>> read_comparisons({"us": ["x"], "them": ["y"], "goals won": ["b"]}, columns).pairs
    array([[1, 0]])
    >>> coded = {"a": ["x", "x"], "b": ["y", "z"], "winner": [0, 2]}
    >>> read_comparisons(coded, ComparisonColumns(codes="0=a,1=b,2=tie")).outcome
    array([1, 0])
    """

    winner: str | None = None
    loser: str | None = None
    first: str | None = None
    second: str | None = None
    result: str | None = None
    points: tuple[str, str] | None = None
    tied: str | None = None
    count: str | None = None
    weight: str | None = None
    margin: str | None = None
    judge: str | None = None
    date: str | None = None
    home: str | None = None
    covariates: tuple[str, ...] = ()
    controls: tuple[str, ...] = ()
    question: str | None = None
    category: str | None = None
    codes: Mapping[Any, str] | str | None = None
    favours: Literal["a", "b"] | None = None
    middle: float = 0.0
    match: str | None = None
    item: str | None = None


@final
@dataclass(frozen=True, kw_only=True)
class ColumnRoles:
    """Say how a table of comparisons is read: the column of each role, None where there is none.

    ``first`` and ``second`` hold the two items. Who won is said by ``result``, or by the ``points``
    of both, or by ``flags``, a column for each outcome, or by ``tallies``, how often each outcome
    was the result; without them the first always won, except
    where ``tied`` says that nobody did. A covariate has one column, or one for each item.
    """

    first: str
    second: str
    result: str | None = None
    points: tuple[str, str] | None = None
    flags: tuple[str, ...] | None = None
    tallies: tuple[str, ...] | None = None
    tied: str | None = None
    count: str | None = None
    weight: str | None = None
    margin: str | None = None
    judge: str | None = None
    date: str | None = None
    question: str | None = None
    category: str | None = None
    covariates: tuple[tuple[str, ...], ...] = ()
    controls: tuple[tuple[str, ...], ...] = ()
    home: str | None = None
    neutral: str | None = None
    at_home: bool = False
    """Whether the first items are at home, except in neutral places."""
    said: tuple[str, str] | None = None
    """How items and winners were read, where the columns were made of those of the table."""

    @property
    def columns(self) -> set[str]:
        """The columns that are read."""
        several = [*self.covariates, *self.controls, self.points or (), self.flags or ()]
        several.append(self.tallies or ())
        single: set[str] = {value for value in vars(self).values() if isinstance(value, str)}
        return single.union(*several)


@final
@dataclass(frozen=True, eq=False)
class Reshaped:
    """Hold the columns of a table that was given in another form, a row for each two items.

    Parameters
    ----------
    columns : mapping
    roles : ColumnRoles
    row : (n_rows,)
        The row of the source that each row comes from.
    unread : tuple of str
        Columns of the source that are not read.
    """

    columns: Mapping[str, Any]
    roles: ColumnRoles
    row: IntArray
    unread: tuple[str, ...] = ()


@final
class ColumnFinder:
    """Find columns by the names that the caller gives, or else by common names, each once."""

    def __init__(self, names: Collection[str], given: ComparisonColumns, owner: str) -> None:
        self.names = names
        self.given = given
        self.owner = owner
        self.by_plain = {plain_name(name): name for name in names}
        self.taken: set[str] = set()

    def role(self, role: str, usual: Sequence[str]) -> str | None:
        """Return the column of a role, which is then taken."""
        asked = getattr(self.given, role)
        return self.take(self.usual(usual) if asked is None else self.required(asked, role))

    def usual(self, words: Sequence[str]) -> str | None:
        """Return the first column that is not taken and has one of these names, in any spelling."""
        found = (self.by_plain.get(plain_name(word)) for word in words)
        return next((name for name in found if name is not None and name not in self.taken), None)

    def required(self, name: str, role: str) -> str:
        """Return a column that the caller named, in any spelling."""
        found = name if name in self.names else self.by_plain.get(plain_name(name))
        if found is None:
            raise DataFileError(
                f"{self.owner} must have a column {name!r} for `{role}`: got the columns "
                f"{list(self.names)}."
            )
        return found

    def take(self, name: str | None) -> str | None:
        """Take a column, so that no other role finds it by a common name."""
        self.taken |= {name} if name is not None else set()
        return name


def find_roles(
    names: Collection[str], given: ComparisonColumns, holds_words: Callable[[str], bool]
) -> ColumnRoles:
    """Find the column of each role.

    Parameters
    ----------
    names : names of columns
    given : ComparisonColumns
        The columns that the caller named.
    holds_words : callable
        Says whether a column holds anything but numbers.
    """
    find = ColumnFinder(names, given, "Comparisons")
    answers = _answer_roles(find, holds_words)
    context = context_roles(find)
    # where it took place: said by a column, or by the name of the column of the first items
    place: dict[str, Any] = {}
    if given.home is not None:
        place = {"home": find.required(given.home, "home")}
    elif "home" in words_of(usual_spelling(answers["first"])):
        place = {"at_home": True, "neutral": find.usual(NEUTRAL)}
    return ColumnRoles(**answers, **context, **place)


def context_roles(find: ColumnFinder) -> dict[str, Any]:
    """Find how much, by whom, when and what, and covariates."""
    given = find.given
    return {
        "count": find.role("count", COUNT),
        "weight": find.role("weight", WEIGHT),
        "margin": find.role("margin", MARGIN),
        "judge": find.role("judge", JUDGE),
        "date": find.role("date", DATE),
        "question": find.role("question", QUESTION),
        "category": find.role("category", ()),
        "covariates": tuple(_covariate(find, name, "covariates") for name in given.covariates),
        "controls": tuple(_covariate(find, name, "controls") for name in given.controls),
    }


def _covariate(find: ColumnFinder, name: str, role: str) -> tuple[str, ...]:
    """Return the column of a covariate, or those of both items whose common part it names."""
    is_column = name in find.names or plain_name(name) in find.by_plain
    if not is_column:
        for pair in _sided(find.names):
            common = [word for word in words_of(pair[0]) if word in words_of(pair[1])]
            if plain_name("".join(common)) == plain_name(name):
                return pair
    return (find.required(name, role),)


def _answer_roles(find: ColumnFinder, holds_words: Callable[[str], bool]) -> dict[str, Any]:
    """Find both items and who won, in whichever form the table has."""
    given = find.given
    # winners and losers
    if not (given.first or given.second or given.result or given.points):
        winner, loser = find.role("winner", WINNER), find.role("loser", LOSER)
        if winner is not None and loser is not None:
            _refuse_codes(find)
            return {"first": winner, "second": loser, "tied": find.role("tied", TIE_FLAG)}
        find.taken.clear()
    # two items as they were shown, and who won or the points of both
    first, second = find.role("first", FIRST + HOME), find.role("second", SECOND + AWAY)
    if first is None and second is None:
        first, second = map(find.take, _sided_items(find.names, holds_words))
    result = None if given.points else find.role("result", RESULT)
    has_both = first is not None and second is not None
    flags = _flags(find) if result is None and has_both and not given.points else None
    is_open = result is None and has_both and flags is None
    tallies = _tallies(find) if is_open and not given.points else None
    if is_open and tallies is None and not given.points:
        result = find.take(find.usual(OF_FIRST))
    points = _points(find) if is_open and tallies is None and result is None else None
    if first is None or second is None or not (result or points or flags or tallies):
        raise DataFileError(_nobody_won(find, first, second))
    if result is None:
        find.taken |= {*(points or ()), *(flags or ()), *(tallies or ())}
        _refuse_codes(find)
    return {
        "first": first,
        "second": second,
        "result": result,
        "points": points,
        "flags": flags,
        "tallies": tallies,
    }


def _nobody_won(find: ColumnFinder, first: str | None, second: str | None) -> str:
    """Say which columns are missing, and which were found."""
    columns = f"got the columns {list(find.names)}."
    if first is not None and second is not None:
        return (
            f"Comparisons of {first!r} and {second!r} must have a column that says who won, or "
            f"one of points for each: {columns} Name it: `result` or `points`."
        )
    return (
        "Comparisons must have columns winner and loser, or a, b and winner (a, b or tie), "
        f"or teams and their points: {columns} Name the columns to "
        "read: `winner` and `loser`, or `a`, `b` and `result` or `points`, or, for a row for each "
        "item of a match, `match`, `item` and `result`."
    )


def _tallies(find: ColumnFinder) -> tuple[str, ...] | None:
    """Return columns that count the wins of a, those of b, and ties if any."""
    pairs = [pair for pair in _sided(find.names) if not WIN_WORDS.isdisjoint(words_of(pair[0]))]
    if len(pairs) != 1:
        return None
    tied = [name for name in find.names if set(words_of(name)) <= TIE_COUNT]
    return (*pairs[0], *tied[:1])


def _flags(find: ColumnFinder) -> tuple[str, ...] | None:
    """Return columns that say yes to one outcome each: won by a, won by b, and ties if any.

    They are called after a common word for who won and a side, as winner_model_a is.
    """
    won = {plain_name(word) for word in (*RESULT, *WINNER)}
    pairs = [pair for pair in _sided(find.names) if words_of(pair[0])[0] in won]
    if len(pairs) != 1:
        return None
    start = words_of(pairs[0][0])[0]
    tie = [
        name
        for name in find.names
        if words_of(name)[0] == start and words_of(name)[1:2] in (("tie",), ("draw",), ("tied",))
    ]
    return (*pairs[0], *tie[:1])


def _refuse_codes(find: ColumnFinder) -> None:
    """Refuse codes where no column of results is read."""
    if find.given.codes is not None:
        raise DataFileError(
            "`codes` must come with a column of results, whose cells they explain: got the "
            f"columns {list(find.names)}, which say who won without one."
        )


def _points(find: ColumnFinder) -> tuple[str, str] | None:
    """Return the columns of the points of both: named, of common names, or the only sided ones."""
    given = find.given.points
    if given is not None:
        return find.required(given[0], "points"), find.required(given[1], "points")
    sided = [pair for pair in _sided(find.names) if not POINT_WORDS.isdisjoint(words_of(pair[0]))]
    for names in (*POINTS, *(sided if len(sided) == 1 else ())):
        ahead, behind = (find.by_plain.get(plain_name(name)) for name in names)
        if ahead is not None and behind is not None:
            return ahead, behind
    return None


def _sided_items(
    names: Collection[str], holds_words: Callable[[str], bool]
) -> tuple[str, str] | tuple[None, None]:
    """Return the only two columns of names, or ids, that differ in the word of their side."""
    found = [
        pair
        for pair in _sided(names)
        if all(holds_words(name) or "id" in words_of(name) for name in pair)
    ]
    return found[0] if len(found) == 1 else (None, None)


def have_two_items(names: Collection[str]) -> bool:
    """Return whether columns of these names compare two items, and say who won."""
    spelt = set(map(plain_name, names))

    def has(usual: Sequence[str]) -> bool:
        return not spelt.isdisjoint(map(plain_name, usual))

    both = has(FIRST + HOME) and has(SECOND + AWAY)
    points = any(has(one) and has(other) for one, other in (((a,), (b,)) for a, b in POINTS))
    return (has(WINNER) and has(LOSER)) or (both and (has(RESULT) or points))


def words_of(name: str) -> tuple[str, ...]:
    """Return the words of a column's name: "ImageLeft" and "image_left" are image and left."""
    return tuple(_WORD_OF_NAME.findall(_INNER_CAPITAL.sub(" ", name).casefold()))


def _sided(names: Collection[str]) -> list[tuple[str, str]]:
    """Return the columns whose names differ in the words of two sides alone, first side first."""
    by_words = {words_of(name): name for name in names}
    found = []
    for words, name in by_words.items():
        for one, other in SIDES:
            partner = tuple(other if word == one else word for word in words)
            if partner != words and partner in by_words:
                found.append((name, by_words[partner]))
    return found


def usual_spelling(name: str) -> str:
    """Return how a column of a usual name is spelt, so that its words can be told apart."""
    usual = (*FIRST, *SECOND, *HOME, *AWAY)
    return next((word for word in usual if plain_name(word) == plain_name(name)), name)
