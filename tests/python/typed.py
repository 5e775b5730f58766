"""What type checkers see of the package: mypy --strict."""
import numpy as np
import toy


def use(path: str) -> float:
    model: toy.Model = toy.load(path, threads=2)
    text: str = model.generate("Once", max_tokens=3, temperature=0.7, seed=1, stop=["."])
    pieces: list[str] = [token.text for token in model.stream([1, 2, 3], max_tokens=3, logprobs=True)]
    total: np.float32 = model.logits("Once").sum(dtype=np.float32)
    run: toy.train.Run = toy.train.lora(model=path, corpus="a.txt", rank=4, steps=3)
    for event in toy.train.events("dpo", model=path, data="a.jsonl"):
        print(event.kind, event.step)
    dims = model.tensors["token_embd.weight"].shape
    return model.score(text + "".join(pieces)).perplexity + float(total) + run.step + dims[0]
