"""The oldest versions are those of pyproject.toml."""

from oldest_versions import PROJECT, oldest_requirements

TEXT = """
[project]
dependencies = ["numpy>=2.0", "rich>=13"]
[project.optional-dependencies]
tables = ["pandas>=2.2", "pyarrow>=17"]
frames = ["pandas>=2.10"]
plot = []
ask = []
report = []
serve = []
trees = []
"""


def test_every_lower_bound_is_pinned_and_the_highest_counts():
    expected = ["numpy==2.0.*", "rich==13.*", "pandas==2.10.*", "pyarrow==17.*"]
    assert oldest_requirements(TEXT) == expected


def test_every_dependency_has_a_lower_bound():
    names = [line.split("==")[0] for line in oldest_requirements(PROJECT.read_text())]
    assert {"numpy", "scipy", "scikit-learn", "pandas", "pyarrow"} <= set(names)
