"""`make test-quick` runs a few files for each that has changed."""

import quick


def test_a_file_has_its_own_tests_or_a_few_that_name_it():
    source, tests = quick.SOURCE, quick.TESTS
    own = source / "io" / "feature_columns.py"
    assert quick.tests_of(own) == [tests / "io" / "test_feature_columns.py"]
    for path in source.rglob("*.py"):
        found = quick.tests_of(path)
        assert len(found) <= quick.MOST_FILES
        assert all(one.is_file() for one in found)
    near = quick.tests_of(source / "rankers" / "rls" / "hold_outs.py")
    assert near
    assert all(one.is_relative_to(tests / "rankers" / "rls") for one in near)
    assert quick.tests_of(quick.ROOT / "README.md") == []
