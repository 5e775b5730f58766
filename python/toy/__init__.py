"""Train, run and inspect small language models.

    import toy
    model = toy.load("model.gguf")
    print(model.generate("Once upon a time", max_tokens=60, temperature=0.7, seed=1))

Options have the names of the command line, with underscores for hyphens; docs/python.md shows more.
"""
import json as _json
import sys as _sys
from math import prod as _prod

from . import _toy
from ._toy import BadInput, DiskFull, Error
from ._toy import version as __version__

__all__ = ["BadInput", "DiskFull", "Error", "Graph", "Model", "Score", "Session", "Step", "Stream", "Tensor", "Tensors",
           "Token", "Tokenizer", "Value", "convert", "evaluate", "gradients", "load", "merge", "minimize", "ops", "quantize", "runs", "train"]


def _plain(value):
    """What JSON does not know: paths, and numbers and arrays of numpy."""
    if hasattr(value, "__fspath__"):
        return value.__fspath__()
    if hasattr(value, "tolist"):
        return value.tolist()
    raise BadInput(f"an option is {value!r}; use numbers, strings, lists, dicts, True or False")


def _options(options):
    try:
        return _json.dumps(options, default=_plain, allow_nan=False)
    except ValueError as e:
        if isinstance(e, BadInput):
            raise
        raise BadInput(f"an option is not a finite number: {e}") from None


def _ids(ids):
    """A list of token ids, of anything that holds whole numbers."""
    if hasattr(ids, "tolist"):
        ids = ids.tolist()
    if not hasattr(ids, "__iter__"):
        raise BadInput(f"a prompt is a text or a list of token ids; this is {ids!r}")
    ids = list(ids)
    if ids and all(isinstance(i, str) for i in ids):
        raise BadInput(f"the prompt is a list of {len(ids)} texts, and a call continues one; call it for each")
    for i in ids:
        if isinstance(i, bool) or not isinstance(i, int) or not -2**31 <= i < 2**31:
            raise BadInput(f"token ids are whole numbers in one list; one of them is {i!r}")
    return ids


def _prompt(prompt):
    if not isinstance(prompt, str):
        return _ids(prompt)
    try:
        prompt.encode()
    except UnicodeEncodeError as e:
        raise BadInput(f"character {e.start} of the prompt is {prompt[e.start]!r}, half of one; give a text that is UTF-8") from None
    return prompt


class Token:
    """A generated token: its `id`, the `text` that it adds, and with logprobs=True its `logprob` and the best others."""

    __slots__ = ("id", "text", "logprob", "top")

    def __init__(self, id, text, logprob, top):
        self.id, self.text, self.logprob, self.top = id, text, logprob, top

    def __repr__(self):
        return f"Token(id={self.id}, text={self.text!r}, logprob={self.logprob})"


class Stream:
    """The tokens of a text, as they come. `reason` says at the end why it has ended: length, eos, stop or complete."""

    def __init__(self, run):
        self._run = run

    def __iter__(self):
        return self

    def __next__(self):
        run = self._run  # another thread may close it
        part = run.next() if run is not None else None
        if part is None:
            raise StopIteration
        return Token(*part)

    @property
    def reason(self):
        run = self._run
        return run.reason if run is not None else "stop"

    def close(self):
        """Ends the text, and gives its memory back."""
        self._run = None


class Score:
    """How well a model predicts a text: `ids` and `logprobs` of its tokens, and what follows from them."""

    def __init__(self, numbers, ids, logprobs):
        self.__dict__.update(numbers)
        self.ids, self.logprobs = ids, logprobs

    def __repr__(self):
        return f"Score(perplexity={self.perplexity:.4g}, bits_per_byte={self.bits_per_byte:.4g}, tokens={self.tokens})"


class Tensor:
    """A tensor of a model. numpy.asarray(t) looks at it without a copy."""

    __slots__ = ("_model", "name", "dtype", "shape")

    def __init__(self, model, name):
        self._model, self.name = model, name
        self.dtype, shape = model.tensor_type(name)
        self.shape = tuple(shape)

    def numpy(self):
        """A read-only array that shares the model's memory, and keeps it alive. Quantized tensors have none."""
        return self._model.array(self.name)

    def dequantize(self):
        """The values as a new float32 array."""
        return self._model.dequantized(self.name)

    def __dlpack__(self, **options):
        return self.numpy().__dlpack__(**options)

    def __dlpack_device__(self):
        return self.numpy().__dlpack_device__()

    def __array__(self, dtype=None, copy=None):
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError(f"tensor '{self.name}' is {self.dtype}; another dtype needs a copy")
            return array.astype(dtype)
        return array.copy() if copy else array

    def __repr__(self):
        return f"Tensor({self.name!r}, {self.dtype}, {list(self.shape)})"


class Tensors:
    """The tensors of a model by name."""

    def __init__(self, model):
        self._model = model

    def __getitem__(self, name):
        if not self._model.has(name):
            import difflib
            near = difflib.get_close_matches(name, self._model.names, 1)
            raise KeyError(f"the model has no tensor '{name}'" + (f"; did you mean '{near[0]}'?" if near else ""))
        return Tensor(self._model, name)

    def __contains__(self, name):
        return isinstance(name, str) and self._model.has(name)

    def __iter__(self):
        return iter(self._model.names)

    def __len__(self):
        return len(self._model.names)

    def keys(self):
        return self._model.names

    def items(self):
        return [(name, Tensor(self._model, name)) for name in self._model.names]

    def values(self):
        return [Tensor(self._model, name) for name in self._model.names]

    def __repr__(self):
        return "\n".join(repr(t) for t in self.values())


class Tokenizer:
    """Text to token ids and back."""

    def __init__(self, model):
        self._model = model
        self.kind, self.bos, self.eos, self.vocab_size = model.tokenizer_kind, model.bos, model.eos, model.vocab

    def encode(self, text, bos=False, parse_special=False):
        """Token ids of a text. bos: begin as a prompt does. parse_special: names of control tokens are these tokens."""
        return self._model.encode(text, bos, parse_special)

    def decode(self, ids):
        """The text of token ids; bytes that are not UTF-8 become U+FFFD."""
        return self._model.decode(_ids(ids)).decode("utf-8", "replace")

    def decode_bytes(self, ids):
        """The exact bytes of token ids."""
        return self._model.decode(_ids(ids))

    def token(self, id):
        """How a text writes this token, as bytes."""
        return self._model.token(id)

    def __repr__(self):
        return f"Tokenizer({self.kind}, {self.vocab_size} tokens)"


class Model:
    """A model in memory. load() makes it. Threads may share it; what they compute takes turns."""

    def __init__(self, model):
        self._model = model
        self.path = model.path
        self.warnings = model.warnings

    @property
    def spec(self):
        """The dimensions, as a dict."""
        return _json.loads(self._model.spec)

    @property
    def tokenizer(self):
        return Tokenizer(self._model)

    @property
    def tensors(self):
        return Tensors(self._model)

    def generate(self, prompt, **options):
        """Continues a prompt, a text or a list of token ids, and returns the text that follows, as `toy infer` writes it."""
        return self._model.generate(_prompt(prompt), _options(options))

    def stream(self, prompt, **options):
        """The same, token by token: an iterator of Token."""
        return Stream(self._model.start(_prompt(prompt), _options(options)))

    def chat(self, messages, on_text=None, **options):
        """Answers messages ({"role": "user", "content": ...}), as `toy chat` does: with the model's chat template. Returns the
        answer as a message, with reasoning_content and tool_calls if there are any. on_text sees its text as it comes."""
        run = self._model.chat(_json.dumps(messages, default=_plain), _options(options))
        while (piece := run.next()) is not None:
            if on_text is not None and piece[0]:
                on_text(piece[0])
        return _json.loads(run.message)

    def score(self, text, **options):
        """How well the model predicts a text, as `toy eval` says it."""
        numbers, ids, logprobs = self._model.score(text, _options(options))
        return Score(_json.loads(numbers), ids, logprobs)

    def logits(self, prompt, **options):
        """The logits after each token of a text, or of a list of token ids: float32 [tokens, vocabulary]."""
        ids = self._model.encode(prompt, True, True) if isinstance(prompt, str) else _ids(prompt)
        return self._model.logits(ids, _options(options))

    def embed(self, texts, **options):
        """The embedding of a text, as `toy embed` computes it: float32 [width]; of a list of texts [texts, width]. A text
        may also be a list of token ids. With pooling="none" a text has a vector for each token: [tokens, width]."""
        several = not isinstance(texts, str) and not hasattr(texts, "tolist")
        texts = list(texts) if several else texts
        several = several and not all(isinstance(t, int) for t in texts)
        vectors = self._model.embed([_prompt(t) for t in texts] if several else [_prompt(texts)], _options(options))
        if options.get("pooling") == "none":
            if several:
                raise BadInput("pooling is 'none', which gives a text several vectors; give one text per call")
            return vectors[0]
        import numpy
        return numpy.concatenate(vectors) if several else vectors[0][0]

    def taps(self, prompt, names, **options):
        """Inner values of the forward pass on a text or a list of token ids, by name: {"blk.0.out": float32 array, ...}.
        `names` are names of tap_names or patterns, such as "blk.*.attn_output"."""
        ids = self._model.encode(prompt, True, True) if isinstance(prompt, str) else _ids(prompt)
        return self._model.taps(ids, [names] if isinstance(names, str) else list(names), _options(options))

    @property
    def tap_names(self):
        """What taps() can return, in the order in which it is computed."""
        return self._model.tap_names

    def __repr__(self):
        d, weights = self.spec, sum(_prod(t.shape) for t in self.tensors.values())
        return (f"Model({self.path!r}, {d['architecture']}, {weights / 1e6:.3g} M weights in {len(self.tensors)} tensors, "
                f"vocabulary {d['vocab']})")

    def _repr_html_(self):
        return self._model.svg


def _path(path):
    if hasattr(path, "__fspath__"):
        path = path.__fspath__()
    if isinstance(path, Model):
        raise BadInput("a file or a name is needed, and this is a Model in memory; its file is model.path")
    if not isinstance(path, str):
        raise BadInput(f"a file or a name is needed, as a str or a path; this is {path!r}")
    return path


def load(model, **options):
    """Loads a model: a GGUF file, the folder or id of a run, a folder from Hugging Face, or a name of `toy list`."""
    return Model(_toy.load(_path(model), _options(options)))


def quantize(model, out, **options):
    """Writes a model with quantized matrices, as `toy quantize`. Returns a dict for each tensor, with its `error`: the
    root mean square of what changed, divided by that of the values."""
    return _json.loads(_toy.quantize(_path(model), _path(out), _options(options)))


def merge(model, out, **options):
    """Writes a model and its adapters as one model, as `toy merge`."""
    _toy.merge(_path(model), _path(out), _options(options))


def convert(model, out, **options):
    """Writes a folder from Hugging Face as a GGUF, a GGUF as such a folder, or with another type or chat template as a GGUF,
    as `toy convert`. Returns warnings."""
    return _toy.convert(_path(model), _path(out), _options(options))


def _option_lines(call):
    """The options of a call for docstrings, a line each."""
    lines = []
    for o in _json.loads(_toy.options(call)):
        more = [o["takes"]] if o["takes"] else []
        if o["default"] not in (None, "", False):
            more.append(f"default {o['default']}")
        lines.append(f"    {o['name']}: {o['help']}" + (f" ({'; '.join(more)})" if more else ""))
    return "\n\nOptions:\n" + "\n".join(lines) + "\n"


for _function, _call in ((load, "load"), (Model.generate, "generate"), (Model.chat, "chat"),
                         (Model.score, "score"), (Model.logits, "logits"), (Model.embed, "embed"),
                         (quantize, "quantize"), (merge, "merge"), (convert, "convert")):
    _function.__doc__ += _option_lines(_call)
del _function, _call

_sys.modules["toy.ops"] = ops = _toy.ops
from . import evaluate, runs, train  # noqa: E402
from .graph import Graph, Session, Step, Value, gradients, minimize  # noqa: E402
