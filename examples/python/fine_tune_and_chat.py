"""Trains an adapter of a chat model on conversations, talks to it, and makes one small file of both:

    fine_tune_and_chat.py MODEL CHATS OUT [STEPS]
"""
import pathlib
import sys

import toy

base, chats, out = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
steps = int(sys.argv[4]) if len(sys.argv) > 4 else 200

run = toy.train.lora(model=base, data=chats, rank=8, steps=steps, out=out)
print(f"{run.step} steps, loss {run.loss:.3f}, {run.seconds:.1f} s")

model = toy.load(base, lora=[str(out)])
question = [{"role": "user", "content": "Hello! Who are you?"}]
answer = model.chat(question, max_tokens=40, temperature=0, on_text=lambda text: print(text, end="", flush=True))
print()

toy.merge(base, out / "merged.gguf", lora=[str(out)], overwrite=True)
errors = toy.quantize(out / "merged.gguf", out / "small.gguf", type="Q8_0", overwrite=True)
print(f"{len(errors)} tensors, largest error {max(t['error'] for t in errors):.4f}")
again = toy.load(out / "small.gguf").chat(question, max_tokens=40, temperature=0)
print("the same answer" if again["content"] == answer["content"] else f"in 8 bits: {again['content']}")
