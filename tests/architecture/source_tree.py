"""The source tree as syntax: modules, who imports whom, classes, functions."""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
SOURCE = ROOT / "src"

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """One file of the package, parsed."""

    path: Path

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.path.read_text(encoding="utf-8"))

    @property
    def name(self) -> str:
        parts = self.path.relative_to(SOURCE).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def where(self) -> str:
        return str(self.path.relative_to(ROOT))

    @property
    def is_package(self) -> bool:
        return self.path.stem == "__init__"

    @cached_property
    def _all_nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    def nodes(self, *kinds: type) -> Iterator[ast.AST]:
        return (node for node in self._all_nodes if isinstance(node, kinds))

    def at(self, node: ast.AST, what: str) -> str:
        return f"{self.where}:{node.lineno}: {what}"


MODULES = {
    module.name: module
    for module in map(Module, sorted((SOURCE / "rankwise").rglob("*.py")))
    if "__pycache__" not in module.path.parts
}


def imported_names(node: ast.AST) -> list[str]:
    """Return the full dotted names that an import statement asks for."""
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return [alias.name for alias in node.names]


def module_of(name: str) -> str | None:
    """Return the module of the package that a dotted name is, or is defined in."""
    if name in MODULES:
        return name
    parent = name.rpartition(".")[0]
    return parent if parent in MODULES else None


@cache
def imports() -> list[tuple[Module, ast.AST, str]]:
    """Return (importer, statement, dotted name) of every import of the package's own names."""
    return [
        (module, node, name)
        for module in MODULES.values()
        for node in module.nodes(ast.Import, ast.ImportFrom)
        for name in imported_names(node)
        if module_of(name)
    ]


def exported() -> dict[str, str]:
    """Return the home of every public name: those of `rankwise`, and of packages with `__all__`."""
    homes = dict(_lazy_homes(MODULES["rankwise"]))
    for module in MODULES.values():
        if module.is_package and module.name != "rankwise":
            for node in module.nodes(ast.ImportFrom):
                homes |= {alias.name: node.module for alias in node.names}
    return homes


def _lazy_homes(package: Module) -> Iterator[tuple[str, str]]:
    for node in package.tree.body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "_HOMES":
            for home, names in ast.literal_eval(node.value).items():
                yield from ((name, home) for name in names)


def defined(module: str, name: str) -> ast.AST | None:
    """Return the class or function behind a name; of a value, the class it is made of."""
    for node in MODULES[module].tree.body:
        is_named = isinstance(node, ast.ClassDef | Function) and node.name == name
        if is_named and "overload" not in map(ast.unparse, node.decorator_list):
            return node
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            made_of = ast.unparse(node.value).partition("(")[0]
            return defined(module, made_of) if made_of != name else None
    return None


def classes() -> list[tuple[Module, ast.ClassDef]]:
    """Return every class with its module."""
    return [(m, node) for m in MODULES.values() for node in m.nodes(ast.ClassDef)]


def last_part(node: ast.AST) -> str:
    """Return the name of a base or decorator, without its module, arguments and parameters."""
    if isinstance(node, ast.Call):
        return last_part(node.func)
    if isinstance(node, ast.Subscript):
        return last_part(node.value)
    return node.attr if isinstance(node, ast.Attribute) else ast.unparse(node)


def none_of(offenders: Iterable[str]) -> None:
    """Fail with one offender a line."""
    found = sorted(set(offenders))
    assert not found, "\n" + "\n".join(found)
