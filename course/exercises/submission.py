"""A submission: the source of a learner's answer with all that it uses, as text; and its judgement on fresh ranks."""

from __future__ import annotations

import ast
import inspect
import linecache
import math
import site
import sys
import sysconfig
import textwrap
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from course.exercises.exercise import Verdict
from course.exercises.names import needed
from course.judge.inside import NotTried
from minipar.words import _

MOST_SOURCE = 100_000  # characters
ANSWER = "answer"  # the name that a submission gives to what is judged
INSTALLED = {Path(p).resolve() for p in [*sysconfig.get_paths().values(), *site.getsitepackages()]}
LIBRARY = Path(torch.__file__).resolve().parents[1]


def capture(fn: Any) -> str:
    """The source of a learner's function and of what it uses, as a Python text that binds `answer` to it.

    Functions and classes are taken with their own source, imported modules by their import, and numbers, texts, and
    lists of them by their value; names are looked up where the function looks them up when it is called. Raises
    `ValueError`, with a sentence, for what has no source or cannot be written down, such as a tensor made in a cell.
    """
    parts = _Parts()
    name = parts.add_answer(fn)
    last = [] if name == ANSWER else [f"{ANSWER} = {name}"]
    text = "\n".join(["from __future__ import annotations", *sorted(parts.imports), *parts.texts, *last]) + "\n"
    return checked(text)


def checked(source: Any) -> str:
    """A source, if it is a text of a size that a learner could have written; else a `ValueError`."""
    if not isinstance(source, str):
        raise ValueError(_("the source of an answer is a text, not {kind}").format(kind=type(source).__name__))
    if len(source) > MOST_SOURCE:
        words = _("the source of the answer has {size} characters; at most {most} fit")
        raise ValueError(words.format(size=len(source), most=MOST_SOURCE))
    return source


def regrade(name: str, source: str) -> Verdict:
    """Judge a source again, on fresh ranks with a time limit, and keep nothing.

    Raises `ValueError` for an unknown exercise and for a source that is none.
    """
    from course.exercises.check import ask  # which itself captures

    return ask(name, checked(source), None)[0]


class _Parts:
    """The texts that make up a submission, in the order in which they can be run."""

    def __init__(self) -> None:
        self.imports: set[str] = set()
        self.texts: list[str] = []
        self.values: dict[str, Any] = {}

    def add_answer(self, fn: Any) -> str:
        """Add the answer; returns the name under which it is bound."""
        if isinstance(fn, types.FunctionType):
            inner = inspect.unwrap(fn)
            name = ANSWER if inner.__name__ == "<lambda>" else inner.__name__
            self.add_function(name, fn)
            return name
        if isinstance(fn, (list, tuple, str, dict, int, float)):
            self.texts.append(f"{ANSWER} = {_literal(ANSWER, fn)}")
            return ANSWER
        kind = type(fn).__name__
        raise ValueError(_("a function that you wrote is checked; this is a {kind}").format(kind=kind))

    def add(self, name: str, value: Any) -> None:
        """Add what binds `name` to `value`, unless it is there."""
        if name in self.values:
            if self.values[name] is not value:
                raise ValueError(_("{name!r} is two different things in what your function uses").format(name=name))
            return
        self.values[name] = value
        if value is NotTried:
            self.imports.add(f"from course.exercises import NotTried as {name}".removesuffix(" as NotTried"))
        elif isinstance(value, types.ModuleType):
            self.add_module(name, value)
        elif _is_installed(value):
            module, inner = value.__module__, value.__qualname__
            self.imports.add(f"from {module} import {inner} as {name}".removesuffix(f" as {inner}"))
        elif isinstance(value, types.FunctionType):
            self.add_function(name, value)
        elif isinstance(value, type):
            self.add_class(name, value)
        elif isinstance(value, (torch.dtype, torch.device)):
            self.imports.add("import torch")
            self.texts.append(f"{name} = {_torch(value)}")
        else:
            self.texts.append(f"{name} = {_literal(name, value)}")

    def add_module(self, name: str, module: types.ModuleType) -> None:
        """Add the import of a module."""
        if not _has_installed_file(module):
            words = _("your function uses the module {name!r}, a file of yours; put what it needs into a cell")
            raise ValueError(words.format(name=module.__name__))
        self.imports.add(f"import {module.__name__} as {name}".removesuffix(f" as {module.__name__}"))

    def add_function(self, name: str, fn: types.FunctionType) -> None:
        """Add a function under `name`, after what it uses."""
        self.values[name] = fn
        inner = inspect.unwrap(fn)
        text = _function_text(inner.__code__, decorated=inner is not fn)
        if inner.__name__ == "<lambda>":
            text = f"{name} = {text}"
        closed = inspect.getclosurevars(inner).nonlocals if isinstance(inner, types.FunctionType) else {}
        self.add_all(text, {**inner.__globals__, **closed})
        self.texts.append(text)
        if inner.__name__ not in ("<lambda>", name):
            self.texts.append(f"{name} = {inner.__name__}")

    def add_class(self, name: str, cls: type) -> None:
        """Add a class under `name`, after what it uses."""
        text, namespace = _class_text(cls)
        self.add_all(text, namespace)
        self.texts.append(text)
        if cls.__name__ != name:
            self.texts.append(f"{name} = {cls.__name__}")

    def add_all(self, text: str, namespace: Mapping[str, Any]) -> None:
        """Add what `text` needs. A name that is nowhere is left out: it is an error only if the line is reached."""
        try:
            names = needed("from __future__ import annotations\n" + text)
        except SyntaxError:
            raise ValueError(_("this source cannot be read:\n{text}").format(text=text[:500])) from None
        for name in sorted(names & namespace.keys()):
            self.add(name, namespace[name])


def _is_installed(value: Any) -> bool:
    """Whether `value` is a class or function of an installed library, found there under its own name."""
    module = sys.modules.get(getattr(value, "__module__", None) or "")
    name = getattr(value, "__qualname__", None)
    if module is None or not isinstance(name, str) or "." in name or getattr(module, name, None) is not value:
        return False
    return _has_installed_file(module)


def _has_installed_file(module: types.ModuleType) -> bool:
    top = module.__name__.partition(".")[0]
    if top in ("minipar", "builtins") or top in sys.stdlib_module_names:
        return module.__name__ != "__main__"
    file = getattr(module, "__file__", None)
    if top == "course" or file is None:
        return False
    return bool({*Path(file).resolve().parents} & (INSTALLED | {LIBRARY}))


def _literal(name: str, value: Any) -> str:
    """A value as source; `ValueError` for one that has none."""
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if type(value) in (bool, int, float, complex, str, bytes, type(None)):
        return repr(value)
    if type(value) is list:
        return "[" + ", ".join(_literal(name, item) for item in value) + "]"
    if type(value) is tuple:
        return "(" + "".join(f"{_literal(name, item)}, " for item in value).removesuffix(" ") + ")"
    if type(value) is set:
        return f"set({_literal(name, [*value])})"
    if type(value) is dict:
        return "{" + ", ".join(f"{_literal(name, k)}: {_literal(name, v)}" for k, v in value.items()) + "}"
    words = _("your function uses {name!r}, a {kind} from outside; make it inside the function, or hand it over")
    raise ValueError(words.format(name=name, kind=type(value).__name__))


def _torch(value: Any) -> str:
    return str(value) if isinstance(value, torch.dtype) else f"torch.device({str(value)!r})"


def _lines(file: str) -> str:
    linecache.checkcache(file)
    if text := "".join(linecache.getlines(file)):
        return text
    raise ValueError(_("the source of your function is not known; write it in a cell or a file"))


def _function_text(code: types.CodeType, decorated: bool) -> str:
    """The source of the function with this code: a def, or a lambda's expression."""
    text = _lines(code.co_filename)
    try:
        tree = ast.parse(text)
    except SyntaxError:
        raise ValueError(_("the source of your function has changed since it was run; run its cell again")) from None
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Lambda) and code.co_name == "<lambda>" and node.lineno == code.co_firstlineno:
            found.add(f"({ast.get_source_segment(text, node)})")
        elif isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if code.co_firstlineno in (first, node.lineno):
                found.add(_block(text, first if decorated else node.lineno, node.end_lineno))
    several = len(found) > 1
    if several and code.co_name == "<lambda>":
        imports = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
        found = {segment for segment in found if _same(code, segment, imports)}
    if len(found) == 1:
        return found.pop()
    if several:
        raise ValueError(_("there are several such functions on one line; give yours a line of its own"))
    raise ValueError(_("the source of your function has changed since it was run; run its cell again"))


def _same(code: types.CodeType, segment: str, imports: Sequence[ast.stmt]) -> bool:
    """Whether a lambda's source gives this code, in a file with these imports, whose names Python calls otherwise."""
    tree = ast.Module([*imports, *ast.parse(f"_ = {segment}").body], type_ignores=[])
    made = [c for c in compile(tree, "<lambda>", "exec").co_consts if isinstance(c, types.CodeType)]
    return _content(code) in map(_content, made)


def _content(code: types.CodeType) -> tuple[Any, ...]:
    """What a code does, without where it stands in its file."""
    constants = [_content(c) if isinstance(c, types.CodeType) else (type(c), repr(c)) for c in code.co_consts]
    return code.co_code, code.co_names, code.co_varnames, code.co_freevars, constants


def _block(text: str, first: int, last: int | None) -> str:
    return textwrap.dedent("".join(text.splitlines(keepends=True)[first - 1 : last])).rstrip("\n")


def _class_text(cls: type) -> tuple[str, Mapping[str, Any]]:
    """A class's source, found by way of one of its methods, and the names that it can see."""
    methods = [value for value in vars(cls).values() if isinstance(value, types.FunctionType)]
    for method in methods:
        text = _lines(method.__code__.co_filename)
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef) and node.name == cls.__name__ and _holds(node, method):
                first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
                return _block(text, first, node.end_lineno), method.__globals__
    raise ValueError(_("the source of the class {name!r} is not known").format(name=cls.__name__))


def _holds(node: ast.ClassDef, method: types.FunctionType) -> bool:
    return node.lineno <= method.__code__.co_firstlineno <= (node.end_lineno or 0)
