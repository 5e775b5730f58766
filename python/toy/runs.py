"""Logs of runs as events and arrays:

    log = toy.runs.read("out/book")
    steps = log.table("step")
    plot(steps["step"], steps["loss"])
"""
import json as _json

from . import _path, _toy

__all__ = ["Log", "read", "svg"]


class Log:
    """What a run has left: its `folder`, `summary` (a dict), `events` (dicts) and `warnings` of its log."""

    def __init__(self, folder, summary, events, warnings):
        self.folder, self.warnings = folder, warnings
        self.summary = _json.loads(summary)
        self.events = [_json.loads(e) for e in events]

    def table(self, kind="step"):
        """The numbers of all events of a kind ("step", "eval") as float64 arrays by name; NaN where one has none."""
        import numpy
        events = [e for e in self.events if e["kind"] == kind]
        names = dict.fromkeys(k for e in events for k, v in e.items() if isinstance(v, (int, float)))
        return {n: numpy.array([e[n] if isinstance(e.get(n), (int, float)) else numpy.nan for e in events], float)
                for n in names}

    def __repr__(self):
        return f"Log({self.folder!r}, step={self.summary['step']}, loss={self.summary['loss']})"

    def _repr_html_(self):
        return svg([self.folder])


def read(run):
    """The log of a run: its folder, its id, or the file."""
    return Log(*_toy.read_run(_path(run)))


def svg(runs, metric="loss"):
    """A metric of several runs in one drawing (SVG), as `toy runs show --metric` names them."""
    return _toy.runs_svg([r.folder if isinstance(r, Log) else _path(r) for r in runs], metric)
