"""Requests for recommendations: by a user that the model knows, or from what a new one says."""

import json
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from rankwise.apps.serve.requests import RequestError
from rankwise.core.errors import InvalidInputError
from rankwise.rankers.dorm.factorization.ranking_factorization import RankingFactorization

FIELDS = {"user", "ratings", "item", "k", "exclude_rated"}
USUAL_NUMBER = 10


@final
@dataclass(frozen=True, eq=False)
class Recommender:
    """Answer requests with one model of users and items.

    Parameters
    ----------
    model : RankingFactorization
        Fitted.
    max_items : int
        Largest number of ratings in a request, and of items in an answer.
    """

    model: RankingFactorization
    max_items: int
    path = "/recommend"

    def facts(self) -> dict[str, Any]:
        """Return how many users and items are known."""
        n_users, n_items = self.model.ratings_.shape
        return {"n_users": n_users, "n_items": n_items}

    def answer(self, body: bytes | bytearray) -> tuple[dict[str, Any], int]:
        """Return the answer to one request, and how many items it holds."""
        content = _content(body)
        k = content.get("k", USUAL_NUMBER)
        if not isinstance(k, int) or isinstance(k, bool) or not 1 <= k <= self.max_items:
            raise RequestError(f'"k" must be a whole number from 1 to {self.max_items}: got {k!r}.')
        try:
            found = self._found(content, k)
        except InvalidInputError as error:
            raise RequestError(str(error)) from error
        return found, len(found["items"])

    def _found(self, content: dict[str, Any], k: int) -> dict[str, Any]:
        if "item" in content:
            return {"items": self.model.similar_items(content["item"], k).tolist()}
        model, user = self.model, content.get("user")
        if "ratings" in content:
            model, user = self.model.fold_in(self._ratings(content["ratings"])), 0
        kept = bool(content.get("exclude_rated", True))
        items = model.recommend(user, k, exclude_rated=kept)
        scores = model.predict(np.full(len(items), user), items)
        return {"items": items.tolist(), "scores": scores.tolist()}

    def _ratings(self, given: Any) -> dict[Any, float]:
        """Return the ratings of a new user: an object of numbers by item."""
        if not isinstance(given, dict) or not 0 < len(given) <= self.max_items:
            raise RequestError(
                f'"ratings" must be an object of 1 to {self.max_items} numbers by item, such as '
                '{"m3": 5, "m8": 1}.'
            )
        for item, value in given.items():
            if not isinstance(value, int | float) or isinstance(value, bool):
                raise RequestError(f'"ratings" must hold numbers: {item!r} has {value!r}.')
        return {item: float(value) for item, value in given.items()}

    def description(self) -> dict[str, Any]:
        """Return the request as OpenAPI describes it."""
        name = {"type": ["string", "integer"]}
        numbers = {"type": "object", "additionalProperties": {"type": "number"}}
        number = {"type": "integer", "minimum": 1, "maximum": self.max_items}
        fields = {"user": name, "ratings": numbers, "item": name, "k": number}
        known = self.model.users_
        example = 0 if known is None else known[0].item()
        return {
            "summary": "Recommend items to a user, to a new one by ratings, or like an item.",
            "schema": {"type": "object", "properties": fields},
            "example": {"user": example, "k": 5},
        }


def _content(body: bytes | bytearray) -> dict[str, Any]:
    """Return the object of a request that names a user, ratings or an item."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"The body must be JSON: {error}.") from error
    asked = {"user", "ratings", "item"}
    if not isinstance(content, dict) or len(asked & set(content)) != 1:
        raise RequestError(
            'The body must be an object with one of "user", the name of a user; "ratings", numbers '
            'by item of a new user; and "item", whose like are wanted.'
        )
    unknown = sorted(set(content) - FIELDS)
    if unknown:
        raise RequestError(f'The body may also hold "k" and "exclude_rated": got {unknown[0]!r}.')
    if isinstance(content.get("user"), list | dict) or isinstance(content.get("item"), list | dict):
        raise RequestError('"user" and "item" must be a name or a number.')
    return content
