"""Graphs of one's own: build a loss with toy.ops, minimize it, run it in a session.

    g = toy.Graph()
    x, y = g.input("x", (64, 2)), g.input("y", (64, 1))
    w = g.param("w", (1, 2))
    loss = toy.ops.mean_all(toy.ops.sqr(toy.ops.linear(x, w) - y))
    session = toy.Session(loss, toy.minimize(loss, [w], weight_decay=0))
    for step in range(200):
        print(session.run(x=points, y=targets, lr=0.01))
"""
from . import Model, _option_lines, _options, _toy
from ._toy import Graph, Value, gradients

__all__ = ["Graph", "Session", "Step", "Value", "gradients", "minimize"]


class Step:
    """The step of an optimizer, which minimize() has added to a graph. `norm` is the norm of its gradients."""

    __slots__ = ("norm",)

    def __init__(self, norm):
        self.norm = norm


def minimize(loss, params, **options):
    """The step that makes a scalar smaller in some parameters of its graph, for a Session. A graph takes one."""
    return Step(_toy.minimize(loss, list(params), _options(options)))


class Session:
    """Computes values of a graph, one or a list. With the `step` of minimize(), each run also changes its parameters, at
    the learning rate `lr` that it is given. `params` says where parameters come from: arrays by name (numpy, PyTorch, any
    that speaks DLPack), whose memory is shared and not changed; a Model; or another Session, which shares all of its
    own. Others begin with random values (matrices) and zeros. session[name] is a parameter, an array that shares the
    session's memory; session[name] = values sets it."""

    def __init__(self, outputs, step=None, *, params=None, **options):
        self._one = isinstance(outputs, Value)
        arrays = {} if params is None or isinstance(params, (Model, Session)) else dict(params)
        self._session = _toy.session([outputs] if self._one else list(outputs), step is not None, arrays,
                                     params._model if isinstance(params, Model) else None,
                                     params._session if isinstance(params, Session) else None, _options(options))

    def _array(self, name, values):
        if hasattr(values, "__dlpack__"):
            return values
        import numpy
        return numpy.asarray(values, self._session.dtype(name))

    def run(self, **inputs):
        """Sets inputs, which stay until they are set again, and computes: an array, or one for each output."""
        for name, values in inputs.items():
            self._session.set(name, self._array(name, values))
        results = self._session.run()
        return results[0] if self._one else results

    @property
    def names(self):
        """The parameters, also what the optimizer keeps."""
        return self._session.names

    def __getitem__(self, name):
        return self._session.array(name)

    def __setitem__(self, name, values):
        self._session.write(name, self._array(name, values))

    def __repr__(self):
        return f"Session({', '.join(self.names)})"


minimize.__doc__ += _option_lines("minimize")
Session.__doc__ += _option_lines("session")
