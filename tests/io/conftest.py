"""What tests of files share."""

import pytest

from rankwise.core.compile import UncompiledWork
from rankwise.io import svmlight


@pytest.fixture(scope="module", params=["compiled", "uncompiled"])
def parser(request):
    """Read svmlight files by compiled code, and by the one for small files."""
    before = svmlight.WORK
    svmlight.WORK = UncompiledWork(0 if request.param == "compiled" else 1 << 62)
    yield request.param
    svmlight.WORK = before
