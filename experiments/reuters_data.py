"""Reuters-21578: its documents with their topics in the ModApte split, as TF-IDF rows."""

import html
import re
import tarfile
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer

from experiments.harness import data_path

_DOCUMENT = re.compile(
    r'<REUTERS TOPICS="YES" LEWISSPLIT="(TRAIN|TEST)".*?<TOPICS>(.*?)</TOPICS>(.*?)</REUTERS>',
    re.DOTALL,
)
_TOPIC = re.compile(r"<D>(.*?)</D>")
_TEXT = re.compile(r"<TEXT.*?>(.*)</TEXT>", re.DOTALL)
_TAG = re.compile(r"<[^>]*>")


@dataclass(frozen=True, eq=False)
class Corpus:
    """Documents as word counts, their topics, and which of them the ModApte split trains on."""

    counts: csr_array
    topics: tuple[frozenset[str], ...]
    is_train: NDArray[Any]

    def has(self, topic: str) -> NDArray[Any]:
        """Return 1 for the documents with a topic and 0 for the others."""
        return np.array([float(topic in topics) for topics in self.topics])

    def rows(self, learned_from: NDArray[Any]) -> csr_array:
        """Return all documents as TF-IDF rows of length 1.

        Words and their weights come from the documents ``learned_from``, words in fewer than two
        of these are left out.
        """
        own = self.counts[learned_from]
        words = np.flatnonzero(np.bincount(own.indices, minlength=own.shape[1]) >= 2)
        tfidf = TfidfTransformer(sublinear_tf=True).fit(own[:, words])
        return csr_array(tfidf.transform(self.counts[:, words]))


@cache
def read_corpus() -> Corpus:
    """Read the 9,603 training and 3,299 test documents, in the order of the files."""
    texts, topics, is_train = [], [], []
    for split, found, rest in documents():
        text = _TEXT.search(rest)
        texts.append(_TAG.sub(" ", html.unescape(text.group(1))) if text else "")
        topics.append(frozenset(_TOPIC.findall(found)))
        is_train.append(split == "TRAIN")
    counts = csr_array(CountVectorizer(dtype=np.float64).fit_transform(texts))
    return Corpus(counts, tuple(topics), np.array(is_train))


def documents() -> list[tuple[str, str, str]]:
    """Return split, topics and the rest of every document of the split."""
    found: list[tuple[str, str, str]] = []
    with tarfile.open(data_path("reuters21578", "reuters21578_sgm.tar.xz")) as archive:
        for member in sorted(name for name in archive.getnames() if name.endswith(".sgm")):
            file = archive.extractfile(member)
            assert file is not None
            found += _DOCUMENT.findall(file.read().decode("latin-1"))
    return found
