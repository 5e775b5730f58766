"""What a model knows, and what a change has cost, as `toy eval` measures it:

    toy.evaluate.choices(model, "hellaswag_val.jsonl", limit=1000)["accuracy"]
    toy.evaluate.answers(model, "questions.jsonl", max_tokens=8, stop=["."])["accuracy"]
    toy.evaluate.kl(base, small, text)["kl"]

Model.score() says how well a model predicts a text. Results are dicts with the names of `toy eval --json`.
"""
import json as _json

from . import _option_lines, _options, _path, _toy

__all__ = ["answers", "choices", "kl", "lmc", "retrieval", "sts"]


def choices(model, file, **options):
    """Answers the questions of a file by the likeliest choice, as `toy eval choices`."""
    return _json.loads(_toy.evaluate_choices(model._model, _path(file), _options(options)))


def answers(model, file, **options):
    """Answers the questions of a file in writing, as `toy eval generate`. Exact matches are right."""
    return _json.loads(_toy.evaluate_answers(model._model, _path(file), _options(options)))


def kl(base, model, text, **options):
    """How far a model's predictions of a text are from those of a base, as `toy eval kl`."""
    return _json.loads(_toy.evaluate_kl(base._model, model._model, text, _options(options)))


def lmc(a, b, text, alphas=(0.0, 0.25, 0.5, 0.75, 1.0), **options):
    """The loss on the line between the weights of two models, (1 - alpha) a + alpha b, as `toy eval lmc`."""
    return _json.loads(_toy.evaluate_lmc(a._model, b._model, text, [float(x) for x in alphas], _options(options)))


def sts(model, file, **options):
    """Correlations of the cosines of pairs with how alike people find them, as `toy eval sts`."""
    return _json.loads(_toy.evaluate_sts(model._model, _path(file), _options(options)))


def retrieval(model, file, **options):
    """How often embeddings find the text that belongs to another, as `toy eval retrieval`."""
    return _json.loads(_toy.evaluate_retrieval(model._model, _path(file), _options(options)))


for _function in (choices, answers, kl, lmc, sts, retrieval):
    _function.__doc__ += _option_lines(_function.__name__)
del _function
