"""Which names a piece of source binds, and which it needs from outside: by Python's own symbol tables."""

from __future__ import annotations

import ast
import builtins
import symtable


def needed(source: str) -> set[str]:
    """The names that `source` uses and does not bind itself, builtins left out. Raises `SyntaxError`."""
    top = symtable.symtable(source, "<source>", "exec")
    used = {symbol.get_name() for symbol in top.get_symbols() if symbol.is_referenced()} | _global_in(top)
    return {name for name in used if not hasattr(builtins, name)} - bound(source)


def _global_in(table: symtable.SymbolTable) -> set[str]:
    """The names that inner scopes take from the outermost."""
    found: set[str] = set()
    for child in table.get_children():
        found |= {s.get_name() for s in child.get_symbols() if s.is_global() and s.is_referenced()} | _global_in(child)
    return found


def bound(source: str) -> set[str]:
    """The names that `source` binds at its outermost level: by assignment, import, def, class, for and with."""
    top = symtable.symtable(source, "<source>", "exec")
    return {s.get_name() for s in top.get_symbols() if s.is_assigned() or s.is_imported() or s.is_namespace()}


def statements(source: str) -> list[str]:
    """The outermost statements of a source, in order, each with its decorators."""
    return [ast.unparse(node) if _shares_a_line(node) else _text(source, node) for node in ast.parse(source).body]


def _shares_a_line(node: ast.stmt) -> bool:
    return node.col_offset > 0


def _text(source: str, node: ast.stmt) -> str:
    """The lines of a statement as they were typed, comments in them included."""
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
    segment = ast.get_source_segment(source, node) or ast.unparse(node)
    above = source.splitlines(keepends=True)[first - 1 : node.lineno - 1]
    return "".join(above) + segment


def narrowed(statement: str, names: set[str]) -> str:
    """An import statement with only those of its `names` that are wanted; any other statement as it is."""
    (node,) = ast.parse(statement).body
    if not isinstance(node, (ast.Import, ast.ImportFrom)) or node.names[0].name == "*":
        return statement
    node.names = [alias for alias in node.names if (alias.asname or alias.name.partition(".")[0]) in names]
    return ast.unparse(node)
