"""Writes the type stubs of the package: stubs.py FOLDER_OF_MODULE PACKAGE OUT. Options are those of the lists in C++."""
import ast
import importlib.util
import json
import pathlib
import re
import sys
import types

from nanobind.stubgen import StubGen

module_folder, package, out = map(pathlib.Path, sys.argv[1:])
spec = importlib.util.spec_from_file_location("toy._toy", next(module_folder.glob("_toy*.so")))
_toy = importlib.util.module_from_spec(spec)
spec.loader.exec_module(_toy)
# The names of the classes begin with "toy._toy"; the package itself is not complete yet.
sys.modules["toy"] = types.ModuleType("toy")
sys.modules["toy"].__path__ = []
sys.modules["toy._toy"] = sys.modules["toy"]._toy = _toy

TYPES = {"bool": "bool", "int": "int", "float": "float", "str": "str", "list[str]": "str | Sequence[str]",
         "object": "dict[str, Any] | Sequence[Any] | str"}


def parameters(call, indent):
    lines = []
    for o in json.loads(_toy.options(call)):
        if o["name"].isidentifier():
            kind = TYPES[o["type"]]
            if o["help"] and o["type"] == "str":
                kind = "str | PathLike[str]"
            lines.append(f"{indent}{o['name']}: {kind}{'' if o['required'] else ' | None = ...'},")
    return "\n".join(lines)


def doc_of(node, indent):
    doc = ast.get_docstring(node)
    return f'{indent}"""{doc}"""\n' if doc else ""


# What the code does not say: attributes and results.
RETURNS = {"Model.generate": "str", "Model.stream": "Stream", "Model.score": "Score", "Model.chat": "dict[str, Any]",
           "Model.logits": "NDArray[np.float32]", "Tensor.numpy": "NDArray[Any]",
           "Tensor.dequantize": "NDArray[np.float32]", "Tensor.__array__": "NDArray[Any]", "load": "Model",
           "Tokenizer.encode": "list[int]", "Tokenizer.decode": "str", "Tokenizer.decode_bytes": "bytes",
           "Tokenizer.token": "bytes", "Model.spec": "dict[str, Any]", "Model.tokenizer": "Tokenizer",
           "Model.tensors": "Tensors", "Tensors.__getitem__": "Tensor", "Tensors.__contains__": "bool",
           "Tensors.__iter__": "Iterator[str]", "Tensors.__len__": "int", "Tensors.keys": "list[str]",
           "Tensors.items": "list[tuple[str, Tensor]]", "Tensors.values": "list[Tensor]", "Stream.__iter__": "Stream",
           "Stream.__next__": "Token", "Stream.reason": "str", "Stream.close": "None",
           "quantize": "list[dict[str, Any]]", "merge": "None", "convert": "list[str]",
           "Log.table": "dict[str, NDArray[np.float64]]", "Log._repr_html_": "str", "Model._repr_html_": "str", "read": "Log", "svg": "str",
           "Model.embed": "NDArray[np.float32]", "Model.taps": "dict[str, NDArray[Any]]", "Model.tap_names": "list[str]",
           "choices": "dict[str, Any]", "answers": "dict[str, Any]", "kl": "dict[str, Any]", "lmc": "dict[str, Any]",
           "sts": "dict[str, Any]", "retrieval": "dict[str, Any]",
           "Tensor.__dlpack__": "Any", "Tensor.__dlpack_device__": "tuple[int, int]"}
FIELDS = {"Token": ["id: int", "text: str", "logprob: float", "top: list[tuple[int, float]]"],
          "Score": ["ids: NDArray[np.int32]", "logprobs: NDArray[np.float64]", "tokens: int", "bytes: int",
                    "nats_per_token: float", "nats_per_token_error: float", "perplexity: float",
                    "perplexity_error: float", "nats_per_byte: float", "bits_per_byte: float",
                    "bits_per_byte_error: float"],
          "Tensor": ["name: str", "dtype: str", "shape: tuple[int, ...]"],
          "Tokenizer": ["kind: str", "bos: int | None", "eos: int | None", "vocab_size: int"],
          "Model": ["path: str", "warnings: list[str]"], "Stream": [], "Tensors": [],
          "Log": ["folder: str", "summary: dict[str, Any]", "events: list[dict[str, Any]]", "warnings: list[str]"]}
ARGUMENTS = {"text": "str", "ids": "Iterable[int]", "id": "int", "name": "str", "bos": "bool", "parse_special": "bool",
             "prompt": "str | Iterable[int]", "model": "str | PathLike[str]", "dtype": "Any", "copy": "bool | None",
             "texts": "str | Sequence[str] | Sequence[int] | Sequence[Sequence[int]]", "names": "str | Sequence[str]",
             "file": "str | PathLike[str]", "base": "Model", "a": "Model", "b": "Model",
             "choices.model": "Model", "answers.model": "Model", "kl.model": "Model", "sts.model": "Model",
             "retrieval.model": "Model", "alphas": "Iterable[float]",
             "out": "str | PathLike[str]", "kind": "str", "metric": "str", "run": "str | PathLike[str]",
             "runs": "Sequence[str | PathLike[str] | Log]", "messages": "Sequence[dict[str, Any]]", "on_text": "Callable[[str], object] | None"}
CALLS = {"generate": "generate", "stream": "generate", "score": "score", "logits": "logits", "load": "load",
         "chat": "chat", "embed": "embed", "choices": "choices", "answers": "answers", "kl": "kl", "lmc": "lmc",
         "sts": "sts", "retrieval": "retrieval", "quantize": "quantize", "merge": "merge", "convert": "convert"}
HEAD = ('from collections.abc import Callable, Iterable, Iterator, Sequence\nfrom os import PathLike\n'
        'from typing import Any\n\nimport numpy as np\nfrom numpy.typing import NDArray\n\n')


def function(node, owner, indent):
    name = f"{owner}.{node.name}" if owner else node.name
    if name not in RETURNS:
        sys.exit(f"stubs.py: {name} has no type; add it to RETURNS")
    inner = indent + "    "
    text = "".join(f"{indent}@{ast.unparse(d)}\n" for d in node.decorator_list)
    arguments = [a.arg for a in node.args.args]
    with_defaults = arguments[len(arguments) - len(node.args.defaults):]
    typed = [a if a == "self" else f"{a}: {ARGUMENTS.get(f'{node.name}.{a}') or ARGUMENTS[a]}{' = ...' if a in with_defaults else ''}" for a in arguments]
    if node.args.kwarg:
        call = CALLS.get(node.name)
        typed = [", ".join(typed) + (", *,\n" + parameters(call, inner) + "\n" + indent if call else ", **options: Any")]
    doc = doc_of(node, inner)
    return text + f"{indent}def {node.name}({', '.join(typed)}) -> {RETURNS[name]}:{' ...' if not doc else ''}\n" + doc + (
        f"{inner}...\n" if doc else "")


def package_stub():
    tree = ast.parse((package / "__init__.py").read_text(encoding="utf-8"))
    text = f'"""{ast.get_docstring(tree)}"""\n' + HEAD + ("from . import evaluate as evaluate, ops as ops, runs as runs, train as train\nfrom .graph import Graph as Graph, Session as Session, Step as Step, "
                                 "Value as Value\nfrom .graph import gradients as gradients, minimize as minimize\n\n"
                                 "__version__: str\n\n")
    text += "class Error(RuntimeError): ...\nclass BadInput(Error, ValueError): ...\nclass DiskFull(BadInput, OSError): ...\n"
    return text + definitions(tree)


def definitions(tree):
    text = ""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            text += f"\nclass {node.name}:\n{doc_of(node, '    ')}"
            text += "".join(f"    {field}\n" for field in FIELDS[node.name])
            for f in node.body:
                if isinstance(f, ast.FunctionDef) and f.name not in ("__init__", "__repr__"):
                    text += function(f, node.name, "    ")
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            text += "\n" + function(node, "", "")
    return text


def runs_stub():
    tree = ast.parse((package / "runs.py").read_text(encoding="utf-8"))
    return f'"""{ast.get_docstring(tree)}"""\n' + HEAD + definitions(tree)


def evaluate_stub():
    tree = ast.parse((package / "evaluate.py").read_text(encoding="utf-8"))
    return f'"""{ast.get_docstring(tree)}"""\n' + HEAD + "from . import Model\n" + definitions(tree)


def train_stub():
    text = HEAD + '''class Event:
    kind: str
    json: str
    def __getattr__(self, name: str) -> Any: ...

class Run:
    out: str
    model: str | None
    checkpoint: str | None
    adapter_peft: str | None
    step: int
    loss: float | None
    seconds: float
    end: str
    def _repr_html_(self) -> str: ...

class Events(Iterable[Event]):
    run: Run | None
    def __iter__(self) -> Iterator[Event]: ...
    def close(self) -> None: ...

def events(recipe: str, **options: Any) -> Events: ...
'''
    for call in _toy.recipes():
        text += (f"\ndef {call.replace('-', '_')}(*, on_event: Callable[[Event], object] | None = ...,\n"
                 + parameters(call, "    ") + "\n) -> Run: ...\n")
    return text


def graph_stub():
    arrays = "Mapping[str, Any] | Model | Session[Any] | None = ..."
    make = ("    @overload\n    def __init__(self: Session[{0}], outputs: {1}, step: Step | None = ..., *, params: " + arrays
            + ",\n" + parameters("session", "        ") + "\n    ) -> None: ...\n")
    return HEAD.replace("Callable, Iterable, Iterator, Sequence", "Iterable, Mapping, Sequence").replace(
        "import Any", "import Any, Generic, TypeVar, overload") + (
        "from . import Model\nfrom ._toy import Graph as Graph, Value as Value, gradients as gradients\n\n"
        "Result = TypeVar('Result')\n\nclass Step:\n    norm: Value\n\n"
        "def minimize(loss: Value, params: Iterable[Value], *,\n" + parameters("minimize", "    ") + "\n) -> Step: ...\n\n"
        "class Session(Generic[Result]):\n" + make.format("NDArray[Any]", "Value")
        + make.format("list[NDArray[Any]]", "Sequence[Value]") +
        "    def run(self, **inputs: Any) -> Result: ...\n    @property\n    def names(self) -> list[str]: ...\n"
        "    def __getitem__(self, name: str) -> NDArray[Any]: ...\n"
        "    def __setitem__(self, name: str, values: Any) -> None: ...\n")


def module_stub(module, names):
    """What nanobind knows of a module, as far as people see it."""
    generator = StubGen(module=module)
    generator.put(module)
    tree = ast.parse(generator.get())
    tree.body = [n for n in tree.body if isinstance(n, ast.Import) or not names or getattr(n, "name", "") in names
                 or isinstance(n, ast.ImportFrom) and not n.module.startswith("toy")]
    text = ast.unparse(tree).replace("-> tuple:", "-> tuple[int, ...]:")
    return "from typing import Any\n" + re.sub(r"\bNDArray\b(?!\n|\[)", "NDArray[Any]", text)


out.mkdir(parents=True, exist_ok=True)
for name, text in {"__init__": package_stub(), "train": train_stub(), "graph": graph_stub(), "runs": runs_stub(),
                   "evaluate": evaluate_stub(),
                   "_toy": module_stub(_toy, ("Graph", "Value", "gradients")),
                   "ops": module_stub(_toy.ops, ())}.items():
    (out / f"{name}.pyi").write_text(text, encoding="utf-8")
