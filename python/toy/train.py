"""The recipes of `toy train`, each a function with the command line's options:

    run = toy.train.from_scratch(corpus="book.txt", size="tiny", steps=200, out="out/book")
    for event in toy.train.events("lora", model="base.gguf", data="chats.jsonl"):
        if event.kind == "step":
            print(event.step, event.loss)
"""
import json as _json
import sys as _sys
import types as _types

from . import _option_lines, _options, _toy

_RECIPES = {name.replace("-", "_"): name for name in _toy.recipes()}
__all__ = ["Event", "Events", "Run", "events"] + list(_RECIPES)


class _Module(_types.ModuleType):
    def __call__(self, recipe="from-scratch", *_, **__):
        name = recipe.replace("-", "_")
        raise TypeError(f"toy.train is a module with a function for each recipe; call toy.train.{name}(...)")


_sys.modules[__name__].__class__ = _Module


class Event:
    """What happened, as the run's log holds it: `kind`, and the event's fields as attributes."""

    def __init__(self, json):
        self.json = json
        self.__dict__.update(_json.loads(json))

    def __repr__(self):
        return f"Event({self.json})"


class Run:
    """What a run leaves: folder `out`, paths of `model` and `checkpoint` (None: there is none), `step`, `loss`, `seconds`,
    and why it ended: `end` is done, patience, time or stopped."""

    def __init__(self, fields):
        self.__dict__.update(fields)

    def __repr__(self):
        return f"Run({self.out!r}, step={self.step}, loss={self.loss}, end={self.end!r})"

    def _repr_html_(self):
        from . import runs
        return runs.svg([self.out])


def _name_of(recipe):
    return _RECIPES.get(recipe.replace("-", "_"), recipe)


def _train(recipe, on_event, stop, options):
    see = (lambda line: on_event(Event(line))) if on_event is not None else None
    return Run(_json.loads(_toy.train(_name_of(recipe), _options(options), see, stop)))


def _recipe(name):
    def run(*, on_event=None, **options):
        return _train(name, on_event, None, options)

    run.__name__ = run.__qualname__ = name
    run.__doc__ = (f"Runs `toy train {_RECIPES[name]}` and returns a Run. `on_event` sees each Event. Ctrl-C, or what "
                   f"on_event raises, ends the run after its step, with a checkpoint." + _option_lines(_RECIPES[name]))
    return run


def __getattr__(name):  # a recipe's description takes milliseconds, so each is made when it is first asked for
    if name not in _RECIPES:
        raise AttributeError(f"module 'toy.train' has no attribute '{name}'; there are: {', '.join(_RECIPES)}")
    function = globals()[name] = _recipe(name)
    return function


def __dir__():
    return __all__


class Events:
    """The events of a run that trains on a thread of its own. `break` out of the loop, or close(), stops the run after its
    step, with a checkpoint. After the last event `run` is what it leaves."""

    def __init__(self, recipe, options):
        import queue
        import threading
        self.run = None
        self._full = queue.Full
        self._queue = queue.Queue(maxsize=1000)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, args=(recipe, options), daemon=True)
        self._error = None
        self._ended = False
        self._thread.start()

    def _put(self, item):
        while not self._stop.is_set():
            try:
                return self._queue.put(item, timeout=0.1)
            except self._full:
                pass

    def _work(self, recipe, options):
        try:
            self.run = _train(recipe, self._put, self._stop.is_set, options)
        except BaseException as e:  # it is raised where the events are read
            self._error = e
        self._put(None)

    def __iter__(self):
        try:
            while not self._ended:
                event = self._queue.get()
                if event is None:
                    self._ended = True
                else:
                    yield event
        finally:
            self.close()

    def close(self):
        """Stops the run after its step, and waits until it has written its checkpoint."""
        self._stop.set()
        self._thread.join()
        self._ended = True
        error, self._error = self._error, None
        if error is not None:
            raise error


def events(recipe, **options):
    """Runs a recipe, "from-scratch" or "from_scratch", and iterates over its events. The loop sees KeyboardInterrupt after
    the run has written its checkpoint."""
    return Events(recipe, options)
