"""How the source is built: imports that point one way, short functions, classes that are final.

The layers and the independence of the families are contracts of import-linter in pyproject.toml.
"""

import ast
from collections import defaultdict

from architecture.source_tree import (
    MODULES,
    Function,
    Module,
    classes,
    imported_names,
    imports,
    last_part,
    module_of,
    none_of,
)

MOST_LINES = 60
OPEN_BASES = ("NamedTuple", "TypedDict", "Protocol", "Enum", "Exception", "Error", "Warning")
"""What the name of a base ends with whose classes need not be marked final or abstract."""


# Imports


def test_private_modules_are_imported_from_their_own_folder_only():
    none_of(
        module.at(node, f"imports {home}")
        for module, node, name in imports()
        for home in [module_of(name)]
        if _is_private(home) and MODULES[home].path.parent != module.path.parent
    )


def _is_private(name):
    return any(part.startswith("_") and not part.startswith("__") for part in name.split("."))


def test_names_are_imported_from_the_module_that_defines_them():
    none_of(
        module.at(node, f"imports {name} through an __init__")
        for module, node, name in imports()
        if name not in MODULES and MODULES[module_of(name)].is_package
        if not module.is_package and name != "rankwise.__version__"
    )


def test_imports_inside_functions_are_for_optional_dependencies_and_jobs():
    """A command imports its job when it runs, so that help does not wait for NumPy."""
    none_of(
        module.at(node, f"{ast.unparse(node)} inside {function.name}")
        for module in MODULES.values()
        for function in module.nodes(ast.FunctionDef, ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
        if not (_is_guarded(function, node) or _is_job(function, node))
    )


def _is_guarded(function, node):
    """Return whether an import stands in a block of `extra`, whose error says what to install."""
    return any(
        node in ast.walk(block) and ast.unparse(block.items[0]).startswith("extra(")
        for block in ast.walk(function)
        if isinstance(block, ast.With)
    )


def _is_job(function, node):
    """Return whether an import of a command's job stands in the method that runs the command."""
    jobs = "rankwise.apps.cli.jobs."
    return function.name == "run" and all(name.startswith(jobs) for name in imported_names(node))


def test_parts_of_scipy_that_few_processes_need_are_loaded_by_calls():
    none_of(
        module.at(node, ast.unparse(node))
        for module in MODULES.values()
        for node in module.nodes(ast.Import, ast.ImportFrom)
        if {"scipy.stats", "scipy.optimize"}
        & {part for name in imported_names(node) for part in (name, name.rpartition(".")[0])}
    )


# Classes and functions


def test_a_class_name_means_one_thing():
    """Model files name classes, and so does the test below."""
    homes = defaultdict(list)
    for module, node in classes():
        homes[node.name.lstrip("_")].append(f"{module.where}:{node.lineno}")
    none_of(f"{name}: {', '.join(places)}" for name, places in homes.items() if len(places) > 1)


def test_every_class_is_abstract_or_final():
    known = {node.name: node for _, node in classes()}
    none_of(
        module.at(node, f"{node.name} is neither abstract nor @final")
        for module, node in classes()
        if "final" not in map(last_part, node.decorator_list)
        if not _is_open(node) and not _is_abstract(node, known)
    )


def _is_open(node):
    return any(last_part(base).endswith(OPEN_BASES) for base in node.bases)


def _is_abstract(node, known):
    return "ABC" in map(last_part, node.bases) or bool(_left_open(node, known))


def _left_open(node, known):
    """Return the abstract methods that a class declares, or inherits and does not implement."""
    inherited = {last_part(base) for base in node.bases} & set(known)
    left = set().union(*(_left_open(known[base], known) for base in inherited - {node.name}))
    for member in node.body:
        if isinstance(member, Function):
            left.discard(member.name)
            if "abstractmethod" in map(last_part, member.decorator_list):
                left.add(member.name)
        if isinstance(member, ast.Assign | ast.AnnAssign) and member.value is not None:
            targets = member.targets if isinstance(member, ast.Assign) else [member.target]
            left -= {ast.unparse(target) for target in targets}
    return left


def test_no_hasattr():
    none_of(
        module.at(call, "hasattr(...)")
        for module in MODULES.values()
        for call in module.nodes(ast.Call)
        if last_part(call.func) == "hasattr" and ast.unparse(call.args[0]) != "os"  # of systems
    )


def test_functions_are_short():
    none_of(
        module.at(node, f"{node.name} has {lines} lines, at most {MOST_LINES}")
        for module in MODULES.values()
        for node in module.nodes(ast.FunctionDef, ast.AsyncFunctionDef)
        for lines in [_length(module, node)]
        if lines > MOST_LINES
    )


def _length(module: Module, node: Function) -> int:
    """Return the number of lines from `def` to the end, without the docstring."""
    first = node.body[0]
    has_docstring = ast.get_docstring(node) is not None
    docstring = first.end_lineno - first.lineno + 1 if has_docstring else 0
    return node.end_lineno - node.lineno + 1 - docstring
