import os
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_svmlight_file

from rankwise.io.reading import read

PATTERNS = ["*/S1.txt.gz", "LightGBM_rank/*.gz", "RLScore_parse/*.light.gz"]
FOLDER = os.environ.get("RANKWISE_DATA")
FILES = [file for pattern in PATTERNS for file in sorted(Path(FOLDER or ".").glob(pattern))]


@pytest.mark.data
@pytest.mark.skipif(not FOLDER or not FILES, reason="RANKWISE_DATA names no folder with the files")
def test_real_files_are_read_as_scikit_learn_reads_them():
    for file in FILES:
        data = read(file)
        X, y, *qid = load_svmlight_file(str(file), query_id=data.qid is not None)
        assert data.X.shape == X.shape
        assert abs(sparse.csr_array(data.X) - sparse.csr_array(X)).nnz == 0
        np.testing.assert_array_equal(data.y, y)
        if data.qid is not None:
            np.testing.assert_array_equal(data.qid, qid[0])
