"""The project's own modules as syntax trees, for tests that are rules over the code.

Put here: parsing, once a process. Not here: a rule.
"""

import ast
import gc
from functools import cache
from pathlib import Path


@cache
def tree_of(path: Path) -> ast.Module:
    """A module's tree; nobody changes it."""
    # The collector would visit a million nodes again and again, here and in later tests, and none of them is garbage.
    gc.disable()
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    finally:
        gc.freeze()
        gc.enable()


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of a module's tree, outer ones first."""
    return tuple(ast.walk(tree_of(path)))
