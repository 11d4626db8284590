"""A real search engine, reranked: find a news story by its headline.

The stories of Reuters-21578 are indexed by tantivy, headline left out. The headline is the query,
the story it belongs to is what should come first. Tantivy returns its best 30 stories by BM25;
rankwise learns from half of the queries to rerank them by eight features that the engine can give,
and is judged on the other half. Queries whose story is not among the 30 count as failures for all.
"""

import html
import re
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import tantivy
from numpy.typing import NDArray

from experiments.harness import markdown_table, with_error
from experiments.reuters_data import documents
from rankwise import AutoRanker, SearchRanker, evaluate, paired_test

N_QUERIES, DEPTH, LEAD = 1200, 30, 40
MEASURES = ["RR", "NDCG @ 10", "Precision @ 1"]
_TITLE = re.compile(r"<TITLE>(.*?)</TITLE>", re.DOTALL)
_BODY = re.compile(r"<BODY>(.*?)</BODY>", re.DOTALL)
_WORD = re.compile(r"[a-z0-9]+")


class Story(NamedTuple):
    """A headline, and the words of the story."""

    title: list[str]
    words: list[str]


def read_stories() -> list[Story]:
    """Return the stories that have a headline of at least three words and a body."""
    stories = []
    for _, _, rest in documents():
        title, body = _TITLE.search(rest), _BODY.search(rest)
        if title and body:
            story = Story(
                *(_WORD.findall(html.unescape(m.group(1)).lower()) for m in (title, body))
            )
            if len(story.title) >= 3 and len(story.words) >= LEAD:
                stories.append(story)
    return stories


class Engine:
    """An index of the stories: the whole body, and its lead."""

    def __init__(self, stories: list[Story]) -> None:
        builder = tantivy.SchemaBuilder()
        builder.add_integer_field("number", stored=True)
        for name in ("body", "lead"):
            builder.add_text_field(name, stored=False, tokenizer_name="en_stem")
        self.index = tantivy.Index(builder.build())
        writer = self.index.writer()
        for number, story in enumerate(stories):
            lead, body = " ".join(story.words[:LEAD]), " ".join(story.words)
            writer.add_document(tantivy.Document(number=number, body=body, lead=lead))
        writer.commit()
        writer.wait_merging_threads()
        self.index.reload()
        self.searcher = self.index.searcher()

    def search(self, text: str, fields: list[str], depth: int) -> dict[int, float]:
        """Return the BM25 scores of the best stories by number."""
        query = self.index.parse_query(text, fields)
        hits = self.searcher.search(query, depth).hits
        return {self.searcher.doc(at)["number"][0]: score for score, at in hits}


def features(engine: Engine, title: list[str], found: dict[int, float], stories: list[Story]):
    """Return a row of features for each story that was found."""
    lead = engine.search(" ".join(title), ["lead"], 10 * DEPTH)
    pairs = " ".join(f'"{a} {b}"' for a, b in pairwise(title))
    phrases = engine.search(pairs, ["body"], 10 * DEPTH)
    wanted, rows = set(title), []
    for number, score in found.items():
        words = stories[number].words
        places = [k for k, word in enumerate(words) if word in wanted]
        early = {word for word in words[:LEAD] if word in wanted}
        rows.append([
            score, lead.get(number, 0.0), phrases.get(number, 0.0), len(words),
            len({words[k] for k in places}) / len(wanted), len(early) / len(wanted),
            places[0] if places else len(words), len(places) / len(words),
        ])  # fmt: skip
    return rows


def collect() -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], float]:
    """Return features, relevance and queries, and the share of stories that were found."""
    stories = read_stories()
    engine = Engine(stories)
    rng = np.random.default_rng(0)
    chosen = rng.choice(len(stories), N_QUERIES, replace=False)
    X, y, qid, n_found = [], [], [], 0
    for query, number in enumerate(chosen.tolist()):
        title = stories[number].title
        found = engine.search(" ".join(title), ["body"], DEPTH)
        if number not in found or len(found) < 2:
            continue
        n_found += 1
        X += features(engine, title, found, stories)
        y += [float(n == number) for n in found]
        qid += [query] * len(found)
    return np.array(X, dtype=float), np.array(y), np.array(qid), n_found / N_QUERIES


def section() -> str:
    """Return the table."""
    X, y, qid, share = collect()
    train = qid < N_QUERIES // 2
    test = ~train
    rankers = {
        "SearchRanker": SearchRanker(measure="RR"),
        "AutoRanker": AutoRanker(measure="RR", random_state=0),
    }
    judged = {"tantivy's BM25 of the body": evaluate(y[test], X[test, 0], qid[test], MEASURES)}
    for name, ranker in rankers.items():
        ranker.fit(X[train], y[train], qid=qid[train])
        scores = ranker.predict(X[test], qid=qid[test])
        judged[name] = evaluate(y[test], scores, qid[test], MEASURES)
    first = next(iter(judged.values()))
    rows = []
    for name, found in judged.items():
        p = "" if found is first else f"{paired_test(found, first, 'RR').pvalue:.1g}"
        rows.append([name, *(with_error(share * column, 3) for column in found.values.T), p])
    header = ["reranked by", *MEASURES, "p against BM25, RR"]
    return (
        f"{np.unique(qid[train]).size} queries to learn from, "
        f"{np.unique(qid[test]).size} to judge; "
        f"the story is among the {DEPTH} that tantivy returns for {share:.1%} of the headlines. "
        "Stories that are not among them count 0 in all means; standard errors are over the "
        "queries judged.\n\n" + markdown_table(header, rows)
    )
