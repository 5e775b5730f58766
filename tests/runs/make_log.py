#!/usr/bin/env python3
"""Writes the log of a run as it might be, on stdout: every kind of event, a resume, a spike, gaps, awkward names, and
more tensors than there are colors. With --failed it ends with an error."""
import json
import math
import random
import sys

random.seed(7)
STEPS = 1200


def put(kind, t, step=None, phase="train", **fields):
    event = {"kind": kind, "t": round(t, 6)} | ({} if step is None else {"step": step}) | {"phase": phase} | fields
    print(json.dumps(event, ensure_ascii=False))


def stats(name, rms):
    counts = [int(4000 * math.exp(-((i - 7.5) / 3) ** 2)) for i in range(16)]
    return {"name": name, "count": sum(counts), "nonfinite": 0, "mean": rms / 50, "rms": rms, "min": -3 * rms,
            "max": 3.2 * rms, "absmax": 3.2 * rms, "histogram": {"low": -3 * rms, "high": 3.2 * rms, "counts": counts}}


put("run_start", 0, phase="prepare", schema="toy/v1", run_id="llama-20260131-004", time="2026-01-31T09:30:00Z",
    toy="0.1.0", recipe="from-scratch", backend="cpu", git="0" * 40,
    host={"name": "bench", "cpus": 16, "threads": 16, "memory_bytes": 64 << 30},
    model={"architecture": "llama", "name": "stories", "d_model": 256, "n_layers": 6, "vocab": 2048},
    config={"corpus": "stories & <tales>.txt", "steps": STEPS, "lr": None, "warmup": -1, "val": None,
            "out": "runs/" + "a_rather_long_name_" * 5, "tap": ["blk.*.out:50", "x_final:50"]},
    effective={"lr": 1e-3, "warmup": 60},
    parameters=7345920, steps=STEPS, tokens_per_step=4096, train_tokens=12500000, validation_tokens=400000,
    planned_bytes=912345678)
put("note", 0.01, phase="prepare", text="plan: attention runs as a decomposition")
t = 0.0
LAYERS = 12
for step in range(1, STEPS + 1):
    t += 0.21 + 0.05 * random.random() + (0.9 if 700 < step < 720 else 0)
    loss = 1.1 + 6.4 * step ** -0.36 + random.gauss(0, 0.06)
    lr = 1e-3 * (step / 60 if step < 60 else 0.1 + 0.45 * (1 + math.cos(math.pi * (step - 60) / (STEPS - 60))))
    norm = (0.3 + 4 * step ** -0.5) * math.exp(random.gauss(0, 0.25)) * (40 if step == 640 else 1)
    put("step", t, step, loss=None if step == 640 else loss, lr=lr, grad_norm=norm, tokens=4096,
        wall_us=int(4096 / (19000 + random.gauss(0, 900) - (9000 if 700 < step < 720 else 0)) * 1e6),
        tokens_per_second=19000, **({"skipped": True} if step == 640 else {}))
    if step == 800:
        put("resume", t, 790, phase="prepare", time="2026-01-31T11:02:00Z", **{"from": "ckpt/step_790"})
    if step % 50 == 0 or step == 1:
        for i in range(LAYERS):
            put("tap", t, step, **stats(f"blk.{i}.out", (0.4 + 0.6 * i) * (1 + math.log(step) / 4)))
            for k, part in enumerate(("attn_norm", "attn_q", "attn_output", "ffn_norm", "ffn_gate", "ffn_down")):
                odd = 300 if (i, part) == (7, "attn_output") and step == 650 else 1
                put("grad", t, step, **stats(f"blk.{i}.{part}.weight", odd * 1e-4 * (15 - i + k) / math.sqrt(step)))
        put("grad", t, step, **stats("token_embd.weight", 0.05 / math.sqrt(step)))
        for name, rate in (("token_embd.weight", 2.2), ("output_norm.weight", 0.2), ("blk.0.attn_q.weight", 0.9),
                           ("blk.5.ffn_down.weight", 1.15)):
            d = rate * math.log(1 + step / 40)
            put("drift", t, step, name=name, cos_to_init=1 / (1 + d * d / 40), l2_to_init=d, l2=11.0)
    if step % 100 == 0:
        put("region_enter", t, step, phase="eval", name="validation")
        t += 1.5
        put("region_exit", t, step, phase="eval", name="validation", wall_us=1500000)
        put("eval", t, step, phase="eval", loss=1.18 + 6.5 * step ** -0.37, nats_per_byte=0.4 + 2 * step ** -0.37,
            whole=step == STEPS)
        put("sample", t, step, phase="eval", text="Once upon a time there was a <b>little</b> fox & a \"big\" bear.\n"
            "They were friends, and every day they walked to the river.")
    if step % 400 == 0:
        for op, p, us in (("linear", "forward", 61000), ("linear_grad", "backward", 92000), ("attention", "forward", 9000),
                          ("attention_grad", "backward", 21000), ("linear_xent", "forward", 30000),
                          ("swiglu", "forward", 4000), ("adamw", "update", 7000), ("rms_norm", "forward", 1500)):
            put("op_timing", t, step, op=op, calls=6, us=us * (1 + random.random() / 20), **{"pass": p})
if "--failed" in sys.argv:
    put("run_end", t, STEPS, phase="end", reason="error", final_loss=None, exit_code=1, seconds=t,
        error="training diverged: the gradient of 10 steps in a row was not finite. The weights before them are in "
        "/data/experiments/2026-01-31/" + "a_rather_long_name_" * 5 + "/model.gguf", peak_rss_bytes=987654321)
    sys.exit()
put("run_end", t, STEPS, phase="end", reason="done", final_loss=1.59, exit_code=0, seconds=t, nats_per_byte=0.55,
    model="runs/llama-20260131-004/model.gguf", peak_rss_bytes=987654321)
