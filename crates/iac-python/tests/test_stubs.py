"""The type stubs say what the modules have: names, parameters, and which of them have defaults."""

import ast
import importlib
import inspect
from pathlib import Path

import pytest

import iatrocache

FOLDER = Path(iatrocache.__file__).parent
STUBS = sorted(FOLDER.glob("*.pyi"))


def modules():
    return [stub.stem for stub in STUBS]


def _module(name):
    return importlib.import_module("iatrocache" if name == "__init__" else f"iatrocache.{name}")


def _decorators(node):
    return {ast.unparse(decorator).split("(")[0] for decorator in node.decorator_list}


def _stated(node, bound):
    """Parameters of a stub: name, kind, and whether there is a default."""
    arguments, found = node.args, []
    positional = [(one, "positional only") for one in arguments.posonlyargs]
    positional += [(one, "positional") for one in arguments.args]
    without = len(positional) - len(arguments.defaults)
    for at, (one, kind) in enumerate(positional):
        found.append((one.arg, kind, at >= without))
    if arguments.vararg:
        found.append((arguments.vararg.arg, "rest", False))
    for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults):
        found.append((one.arg, "keyword", default is not None))
    if arguments.kwarg:
        found.append((arguments.kwarg.arg, "keywords", False))
    return found[1:] if bound else found


MAKING = ("__init__", "__new__")

KINDS = {
    inspect.Parameter.POSITIONAL_ONLY: "positional only",
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "positional",
    inspect.Parameter.VAR_POSITIONAL: "rest",
    inspect.Parameter.KEYWORD_ONLY: "keyword",
    inspect.Parameter.VAR_KEYWORD: "keywords",
}


def _actual(function, bound):
    parameters = list(inspect.signature(function).parameters.values())
    found = [(one.name, KINDS[one.kind], one.default is not one.empty) for one in parameters]
    found = found[1:] if bound else found
    return [one for one in found if not one[0].startswith("_")]


def _fits(stated, actual):
    """Whether each call that the stub allows is one that the function takes."""
    if any(kind == "keywords" for _, kind, _ in actual):
        # Options that are passed on: what the stub names beside the parameters goes there.
        named = {name for name, _, _ in actual}
        stated = [one for one in stated if one[0] in named or one[1] != "keyword"]
        actual = [one for one in actual if one[1] != "keywords"]
        stated = [one for one in stated if one[1] != "keywords"]
    return stated == actual


def _compare_function(where, node, function, bound, wrong, skip=0):
    # Special methods are called by the language, whatever their parameters are named.
    if "overload" in _decorators(node) or node.name.startswith("__") and node.name not in MAKING:
        return
    try:
        actual = _actual(function, bound)
    except ValueError:
        # Native code without a signature that can be asked for.
        return
    stated = _stated(node, bound)[skip:]
    if not _fits(stated, actual):
        wrong.append(f"{where}: stub has {stated}, module has {actual}")


def _compare_class(where, node, kind, wrong):
    # What reads like a field of a data class or a slot may be set when an instance is made.
    fields = set(getattr(kind, "__annotations__", ())) | set(getattr(kind, "__dataclass_fields__", ()))
    fields |= {name for base in kind.__mro__ for name in getattr(base, "__slots__", ())}
    for part in node.body:
        if isinstance(part, ast.AnnAssign):
            if part.target.id not in fields and not hasattr(kind, part.target.id):
                wrong.append(f"{where}.{part.target.id} is not there")
        if not isinstance(part, ast.FunctionDef):
            continue
        inside, decorators = f"{where}.{part.name}", _decorators(part)
        if not any(part.name in vars(base) for base in kind.__mro__):
            heirs = kind.__subclasses__()
            # What all heirs have is as good as there; `__buffer__` can be asked for from 3.12 on.
            if part.name != "__buffer__" and not (heirs and all(hasattr(heir, part.name) for heir in heirs)):
                wrong.append(f"{inside} is not there")
            continue
        found = inspect.getattr_static(kind, part.name)
        is_property = isinstance(found, property) or inspect.isgetsetdescriptor(found)
        is_property |= inspect.ismemberdescriptor(found)
        if ("property" in decorators or any(d.endswith(".setter") for d in decorators)) != is_property:
            wrong.append(f"{inside} is a property in one of them only")
        elif is_property:
            continue
        elif isinstance(found, staticmethod) != ("staticmethod" in decorators):
            wrong.append(f"{inside} is static in one of them only")
        elif isinstance(found, staticmethod):
            _compare_function(inside, part, found.__func__, False, wrong)
        elif isinstance(found, classmethod):
            _compare_function(inside, part, found.__func__, True, wrong)
        elif part.name == "__new__":
            # What the class takes when it is called; the stub's first parameter is the class.
            signature = getattr(kind, "__text_signature__", None)
            if signature is not None:
                _compare_function(inside, part, kind, False, wrong, skip=1)
        else:
            _compare_function(inside, part, found, True, wrong)


def _differences(name):
    module, wrong = _module(name), []
    tree = ast.parse((FOLDER / f"{name}.pyi").read_text())
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            if node.name == "__getattr__":
                continue
            where = f"{module.__name__}.{node.name}"
            if not hasattr(module, node.name):
                if not node.name.startswith("_"):
                    wrong.append(f"{where} is not there")
            elif isinstance(node, ast.ClassDef):
                _compare_class(where, node, getattr(module, node.name), wrong)
            else:
                _compare_function(where, node, getattr(module, node.name), False, wrong)
        elif isinstance(node, ast.AnnAssign) and not hasattr(module, node.target.id):
            if not node.target.id.startswith("_"):
                wrong.append(f"{module.__name__}.{node.target.id} is not there")
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                is_public = alias.asname is not None and alias.asname == alias.name
                if is_public and not hasattr(module, alias.name):
                    wrong.append(f"{module.__name__}.{alias.name} is not there")
    return tree, module, wrong


@pytest.mark.parametrize("name", modules())
def test_stub_says_what_the_module_has(name):
    _, _, wrong = _differences(name)
    assert wrong == []


def _names(tree):
    found = set()
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.AnnAssign):
            found.add(node.target.id)
        elif isinstance(node, ast.Assign):
            found.update(target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, (ast.ImportFrom, ast.Import)):
            found.update(alias.asname or alias.name for alias in node.names)
    return found


def _classes():
    """All classes of the stubs: what they name, and their bases."""
    found = {}
    for stub in STUBS:
        for node in ast.parse(stub.read_text()).body:
            if isinstance(node, ast.ClassDef):
                bases = [ast.unparse(base).split(".")[-1] for base in node.bases]
                found[node.name] = (_names(node), bases)
    return found


CLASSES = _classes()


def _inside(name, classes):
    names, bases = classes.get(name, (set(), []))
    return set(names).union(*(_inside(base, classes) for base in bases))


@pytest.mark.parametrize("name", [name for name in modules() if not name.startswith("_") or name == "__init__"])
def test_everything_public_is_in_the_stub(name):
    tree, module, _ = _differences(name)
    names = _names(tree)
    public = set(getattr(module, "__all__", ()))
    assert public - names == set()
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and inspect.isclass(getattr(module, node.name, None)):
            own = {key for key in vars(getattr(module, node.name)) if not key.startswith("_")}
            assert own - _inside(node.name, CLASSES) == set(), f"{name}.{node.name}"


def test_a_stub_that_is_wrong_is_noticed():
    node = ast.parse("def read(self, row: int, *, scale: int = 1) -> bytes: ...").body[0]
    wrong = []
    _compare_function("right", node, iatrocache.VariableRecordPack.read, True, wrong)
    assert wrong == []
    for text in ("def read(self, rows): ...", "def read(self, row, scale=1): ...", "def read(self, row): ..."):
        _compare_function(text, ast.parse(text).body[0], iatrocache.VariableRecordPack.read, True, wrong)
    assert len(wrong) == 3
