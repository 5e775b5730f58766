"""What type checkers see of the package: mypy --strict."""
from typing import Any

import numpy as np
import numpy.typing
import toy


def use(path: str) -> float:
    model: toy.Model = toy.load(path, threads=2)
    text: str = model.generate("Once", max_tokens=3, temperature=0.7, seed=1, stop=["."])
    pieces: list[str] = [token.text for token in model.stream([1, 2, 3], max_tokens=3, logprobs=True)]
    total: np.float32 = model.logits("Once").sum(dtype=np.float32)
    run: toy.train.Run = toy.train.lora(model=path, corpus="a.txt", rank=4, steps=3)
    for event in toy.train.events("dpo", model=path, data="a.jsonl"):
        print(event.kind, event.step)
    vector: np.typing.NDArray[np.float32] = model.embed("a", pooling="mean")
    g = toy.Graph()
    w: toy.Value = g.param("w", (2, 3))
    loss = toy.ops.sum_all(w * w / 2 + 1.0)
    session = toy.Session(loss, toy.minimize(loss, [w], optimizer="sgd", clip=1.0), threads=1)
    total += vector.sum(dtype=np.float32) + session.run(lr=0.1).sum(dtype=np.float32)
    both: list[np.typing.NDArray[Any]] = toy.Session([loss, w], params=session).run()
    session["w"] = both[1]
    print(model.taps("a", "blk.*.out")["blk.0.out"].shape, toy.runs.read(run.out).table("step")["loss"][0])
    print(toy.quantize(path, "a.gguf", type="Q8_0")[0]["error"])
    print(toy.evaluate.choices(model, path, limit=3)["accuracy"], toy.evaluate.kl(model, model, text)["kl"],
          toy.evaluate.answers(model, path, stop=["."], rows=True)["rows"],
          toy.evaluate.lmc(model, model, text, [0, 1])["points"], toy.evaluate.sts(model, path, pooling="cls")["pearson"],
          toy.evaluate.retrieval(model, path, map="anchor=title")["mrr_10"])
    toy.convert(path, "a.gguf", type="f16", chat_template="plain")
    dims = model.tensors["token_embd.weight"].shape
    return model.score(text + "".join(pieces)).perplexity + float(total) + run.step + dims[0]
