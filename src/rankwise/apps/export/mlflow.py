"""Store rankers in MLflow, as a flavour and as a Python function that takes queries.

The functions have the names of MLflow's own flavours. A model holds the file that ``ranker.save``
writes, so nothing is unpickled; ``mlflow.pyfunc`` loads it and ``mlflow models serve`` serves it.
"""

import sys
import tempfile
import warnings
from os import PathLike, fspath
from pathlib import Path
from typing import Any, final

import numpy as np
from sklearn.utils.validation import check_is_fitted

import rankwise
from rankwise.core.errors import InvalidInputError, ModelFileError, extra
from rankwise.io.data import ColumnNames
from rankwise.rankers.base import Ranker
from rankwise.rankers.storage import load, save

FLAVOR_NAME = "rankwise"
FILE = "ranker.model"


def import_mlflow() -> Any:
    """Return mlflow with what is used of it; it is needed here and nowhere else."""
    with extra("Keeping rankers in MLflow", "mlflow", "mlflow"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MLflow warns of its own code
        import mlflow  # noqa: PLC0415 - optional dependency
        import mlflow.models  # noqa: PLC0415
        import mlflow.pyfunc  # noqa: PLC0415
    return mlflow


def save_model(
    ranker: Ranker,
    path: str | PathLike[str],
    *,
    qid: str | None = None,
    mlflow_model: Any = None,
    pip_requirements: list[str] | None = None,
    **options: Any,
) -> None:
    """Write a fitted ranker as an MLflow model into a new folder.

    Parameters
    ----------
    ranker : ranker
        A fitted ranker. Store a scikit-learn `Pipeline` with ``mlflow.sklearn`` instead.
    path : path
        The folder; it must be new or empty.
    qid : str, optional
        The column with the query of each row in the tables passed to the loaded Python function.
        Rankers that compare the rows of a query need it.
    mlflow_model : mlflow.models.Model, optional
        The model that the folder describes; ``log_model`` passes one.
    pip_requirements : list of str, optional
        The packages needed to load the model; by default this version of rankwise.
    options
        ``input_example``, ``signature`` (by default inferred from the example), ``metadata`` and
        the rest of ``mlflow.pyfunc.save_model``.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import mlflow, pandas as pd
    >>> from rankwise import RankRLS
    >>> from rankwise.apps.export.mlflow import load_model, save_model
    >>> table = pd.DataFrame({"query": [1, 1, 2, 2], "bm25": [1.0, 2, 0, 3], "grade": [0, 1, 0, 1]})
    >>> ranker = RankRLS().fit(table, y="grade", qid="query")
    >>> folder = pathlib.Path(tempfile.mkdtemp()) / "model"
    >>> save_model(ranker, folder, qid="query")
    >>> load_model(folder)
    RankRLS()
    >>> mlflow.pyfunc.load_model(folder).predict(table).round(2)
    array([0.33, 0.67, 0.  , 1.  ])
    """
    mlflow = import_mlflow()
    _check_ranker(ranker)
    # the signature of the model, from an example
    example = options.get("input_example")
    if example is not None and "signature" not in options:
        scores = ScoringModel(ranker, qid).predict(example)
        options["signature"] = mlflow.models.infer_signature(example, scores)
    # the flavour of rankwise, and a Python function that loads the same file
    model = mlflow.models.Model() if mlflow_model is None else mlflow_model
    model.add_flavor(FLAVOR_NAME, rankwise_version=rankwise.__version__, data=f"data/{FILE}")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, FILE)
        save(ranker, file)
        mlflow.pyfunc.save_model(
            fspath(path),
            loader_module=__name__,
            data_path=str(file),
            mlflow_model=model,
            model_config={"qid": qid or ""},
            pip_requirements=pip_requirements or [f"rankwise=={rankwise.__version__}"],
            **options,
        )


def log_model(ranker: Ranker, name: str | None = None, **options: Any) -> Any:
    """Log a fitted ranker as a model of the current run.

    Parameters
    ----------
    ranker : ranker
        A fitted ranker.
    name : str, optional
        The name of the logged model.
    options
        Options of ``save_model`` and of ``mlflow.models.Model.log``, such as
        ``registered_model_name``.

    Returns
    -------
    info : mlflow.models.model.ModelInfo
        Pass its ``model_uri`` to ``load_model``.

    Examples
    --------
    >>> import mlflow
    >>> from rankwise import RankRLS
    >>> from rankwise.apps.export.mlflow import load_model, log_model
    >>> with mlflow.start_run():  # doctest: +SKIP
    ...     info = log_model(RankRLS().fit([[0.0], [1.0]], [0, 1]), "ranker")
    >>> load_model(info.model_uri)  # doctest: +SKIP
    RankRLS()
    """
    mlflow = import_mlflow()
    _check_ranker(ranker)
    return mlflow.models.Model.log(
        artifact_path=None, name=name, flavor=sys.modules[__name__], ranker=ranker, **options
    )


def load_model(model_uri: str | PathLike[str]) -> Any:
    """Load the ranker of an MLflow model: same class, same parameters, same scores.

    Parameters
    ----------
    model_uri : str or path
        A folder, or a URI of MLflow: ``runs:/...``, ``models:/...``.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from rankwise import RankRLS
    >>> from rankwise.apps.export.mlflow import load_model, save_model
    >>> folder = pathlib.Path(tempfile.mkdtemp()) / "model"
    >>> save_model(RankRLS(alpha=0.5).fit([[0.0], [1.0]], [0, 1]), folder)
    >>> load_model(folder)
    RankRLS(alpha=0.5)
    """
    mlflow = import_mlflow()
    folder = Path(mlflow.artifacts.download_artifacts(artifact_uri=fspath(model_uri)))
    flavors = mlflow.models.Model.load(str(folder)).flavors
    if FLAVOR_NAME not in flavors:
        raise ModelFileError(
            f"{fspath(model_uri)} must be a model with the flavour {FLAVOR_NAME}: it has "
            f"{', '.join(flavors)}. Load it with the module that saved it."
        )
    return load(folder / flavors[FLAVOR_NAME]["data"])


@final
class ScoringModel:
    """What ``mlflow.pyfunc`` loads: tables in, scores out."""

    def __init__(self, ranker: Any, qid: str | None) -> None:
        self.ranker = ranker
        self.qid = qid

    def predict(self, table: Any, params: dict[str, Any] | None = None) -> Any:
        """Return a score for each row of a table; the queries are in the column named ``qid``."""
        if params:
            raise InvalidInputError(
                f"A ranker takes no parameters to predict: got {', '.join(params)}. Leave them out."
            )
        if self.qid is None or isinstance(table, np.ndarray):
            return self.ranker.predict(table)
        if getattr(self.ranker, "feature_names_in_", None) is not None:
            return self.ranker.predict(table, qid=self.qid)
        columns = ColumnNames.of_frame(list(table.columns))
        qid = columns.required(self.qid, "qid")
        return self.ranker.predict(table.drop(columns=qid).to_numpy(), qid=table[qid].to_numpy())


def _load_pyfunc(path: str, model_config: dict[str, Any] | None = None) -> ScoringModel:
    """Load the Python function of a model; MLflow calls this."""
    return ScoringModel(load(path), (model_config or {}).get("qid") or None)


def _check_ranker(ranker: Any) -> None:
    if not isinstance(ranker, Ranker):
        raise InvalidInputError(
            "`ranker` must be a ranker of rankwise: got a "
            f"{type(ranker).__name__}. Store a scikit-learn pipeline with mlflow.sklearn."
        )
    check_is_fitted(ranker)
