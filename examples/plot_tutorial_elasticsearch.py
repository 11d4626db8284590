"""
Tutorial: from Python to Elasticsearch
======================================

A linear ranker becomes a model of Elasticsearch's learning-to-rank plugin, and its scores are
checked before the file is written.
"""

import json
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from rankwise import RankRLS, export_ranker

rng = np.random.default_rng(0)
rows = pd.DataFrame(
    {
        "title_match": rng.uniform(0, 9, 300),
        "body_match": rng.uniform(0, 20, 300),
        "age_in_days": rng.exponential(200, 300),
    }
)
grade = np.clip(np.round(rows["title_match"] / 4 - rows["age_in_days"] / 300), 0, 3)
ranker = make_pipeline(MinMaxScaler(), RankRLS(alpha=1.0)).fit(rows, grade)

# %%
# Names of features are those of the query templates in the plugin's feature set. The check states
# the largest error that single precision brings.
path = Path(tempfile.mkdtemp(), "model.json")
print(export_ranker(ranker, path, "elasticsearch", feature_names=list(rows)))
model = json.loads(path.read_text())
print(json.dumps(model, indent=1)[:400])

# %%
# Send the file to the plugin with ``curl -X POST .../_ltr/_featureset/my_features/_createmodel -d
# @model.json``, and rescore the best few hundred items of a search with an ``sltr`` query.
fig, ax = plt.subplots(figsize=(6, 2.5), layout="constrained")
ax.barh(list(rows), ranker[-1].coef_)
ax.set_xlabel("weight of the scaled feature")
plt.show()
