"""Names say what they hold. Put here: the rules about names, over the whole tree.

Not here: what a thing is called instead; ARCHITECTURE.md's glossary has the nouns. A rule is here only if a name that
evades it says more than the name that it bans: pronouns, words that the glossary replaces, underscores at the end.
Participles are not banned: what came in their place said less.
"""

import ast
import builtins
import keyword
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.source_trees import nodes_of, tree_of

ROOT = Path(__file__).parents[1]
FOLDERS = ("assets", "benchmarks", "corpus", "dagster_project", "docs", "spark_jobs", "spec", "stratalog", "tests")

FORBIDDEN = frozenset(
    [
        *("one", "ones", "other", "others", "another", "such", "same", "either", "neither", "both", "each", "every"),
        *("all", "any", "some", "several", "many", "few", "more", "most", "less", "least", "none", "nothing"),
        *("something", "anything", "everything", "nobody", "somebody", "anybody", "everybody", "someone", "anyone"),
        *("this", "that", "these", "those", "it", "its", "they", "them", "their", "itself", "themselves", "mine"),
        *("ours", "yours", "theirs", "own", "whose", "who", "whom", "what", "which", "where", "when", "why", "how"),
        *("there", "again", "anew", "amid", "whole"),
    ]
)
"""Pronouns and words that stand for a noun: none of them says what a value is."""

REPLACED = {
    **dict.fromkeys(("place", "places", "placed"), "position, offset, location, path or index, as it is"),
    **dict.fromkeys(("bag", "bags"), "keyless"),
    **dict.fromkeys(("bring", "brings", "brought", "arrivals"), "merge, fetch or add"),
    **dict.fromkeys(("turn", "turns"), "schema change, run or step"),
    **dict.fromkeys(("way", "ways"), "method, path or mode"),
    **dict.fromkeys(("standing", "beside"), "state; what is added or extra"),
    **dict.fromkeys(("said", "told"), "the noun of what was stated"),
}
"""Words that no name has as a part, and the glossary's nouns for them."""

TERMS = ("StandingSession",)
"""Names with such a word that the glossary has as a term."""

MOST_OF_ONE_WORD = 4
"""In so many modules at most a private function of one word may have the same name: two words tell them apart."""

EXCEPTIONS = {
    "spark_jobs/bronze/index.py": {"where"},
    "spark_jobs/cli/status.py": {"everything"},
    "spark_jobs/pipeline/as_of/api.py": {"where"},
    "tests/docs/test_reference.py": {"which", "one", "other"},
}
"""Names with a reason: keywords of the public API, ``where`` as DataFrames have it, ``--all``, keys of a test model."""


def parameters_of(signature: ast.arguments) -> Iterator[ast.arg]:
    """The parameters of a function, without the right operand of a method, which Python calls ``other``."""
    positional = [*signature.posonlyargs, *signature.args]
    is_method = bool(positional) and positional[0].arg == "self"
    for parameter in [*positional, *signature.kwonlyargs, signature.vararg, signature.kwarg]:
        if parameter and not (is_method and parameter.arg == "other"):
            yield parameter


def names_in(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, int]]:
    """Each name that a module gives to something, with its line. nodes: all of the module."""
    for node in nodes:
        match node:
            case ast.FunctionDef(name=str(name)) | ast.AsyncFunctionDef(name=str(name)) | ast.ClassDef(name=str(name)):
                yield name, node.lineno
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.alias(asname=str(name)):
                yield name, node.lineno
            case ast.Name(id=str(name), ctx=ast.Store()) | ast.Attribute(attr=str(name), ctx=ast.Store()):
                yield name, node.lineno
            case ast.arguments():
                yield from ((parameter.arg, parameter.lineno) for parameter in parameters_of(node))


def bare(name: str) -> str:
    """A name without its underscores; of a class in small letters. Constants stay as they are: MOST is a limit."""
    name = name.strip("_")
    return name if name.isupper() else name.casefold()


def words_of(name: str) -> set[str]:
    """The words of a name, in small letters; none of a test's, which is a sentence, or of a term."""
    if name.startswith("test_") or name in TERMS:
        return set()
    return set(re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).casefold().split("_"))


def is_underscored(name: str) -> bool:
    """True if a name ends in an underscore that spares neither a keyword nor a builtin."""
    spared = name.strip("_")
    return name.endswith("_") and bool(spared) and not (keyword.iskeyword(spared) or hasattr(builtins, spared))


def problem_of(name: str, allowed: set[str]) -> str | None:
    """The rule that a name breaks; None where it breaks none."""
    if name.startswith("__"):
        return None
    if bare(name) in FORBIDDEN - allowed:
        return "a pronoun"
    for word in sorted(words_of(name) & REPLACED.keys()):
        return f"{word} is {REPLACED[word]}"
    return "an underscore" if is_underscored(name) else None


def forbidden_in(path: Path) -> list[str]:
    """The forbidden names of a file, each as ``file:line: name: rule``."""
    file = path.relative_to(ROOT).as_posix()
    problems = ((name, line, problem_of(name, EXCEPTIONS.get(file, set()))) for name, line in names_in(nodes_of(path)))
    return [f"{file}:{line}: {name}: {problem}" for name, line, problem in problems if problem]


@pytest.mark.parametrize("folder", [*FOLDERS[:-1], pytest.param(FOLDERS[-1], marks=pytest.mark.thorough)])
def test_a_name_says_what_it_holds(folder: str) -> None:
    files = sorted(ROOT.joinpath(folder).rglob("*.py"))
    assert files
    assert [name for file in files for name in forbidden_in(file)] == []


PRODUCT = ("spark_jobs", "assets", "dagster_project", "stratalog")


def test_a_class_s_name_has_one_meaning() -> None:
    files_by_class: dict[str, list[str]] = {}
    for path in sorted(path for folder in PRODUCT for path in ROOT.joinpath(folder).rglob("*.py")):
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef):
                files_by_class.setdefault(node.name, []).append(path.relative_to(ROOT).as_posix())
    assert {name: files for name, files in files_by_class.items() if len(files) > 1} == {}


def test_a_private_function_of_one_word_is_rare() -> None:
    modules: Counter[str] = Counter()
    for path in sorted(path for folder in FOLDERS for path in ROOT.joinpath(folder).rglob("*.py")):
        functions = (node.name for node in nodes_of(path) if isinstance(node, ast.FunctionDef))
        modules.update({name for name in functions if re.fullmatch(r"_[a-z0-9]+", name)})
    assert {name: count for name, count in modules.items() if count > MOST_OF_ONE_WORD} == {}


def test_what_a_rule_does_not_find_is_no_rule() -> None:
    text = "def told(one, *, by_place): rows_ = _same = id_ = one; [other for other in rows_]\nclass Turns: its: int\n"
    names = {name for name, _ in names_in(ast.walk(ast.parse(text)))}
    assert {name for name in names if problem_of(name, set())} == {
        *("told", "one", "by_place", "rows_", "_same", "other", "Turns", "its")
    }
