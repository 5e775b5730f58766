#!/usr/bin/env python3
"""Seconds of a step of `toy train grpo` and of TRL's GRPOTrainer (transformers' generation, PEFT) in turn, on the same
cores: one question of about 64 tokens, 8 answers of up to 64 tokens, LoRA of rank 16 on every linear map, f32.

  grpo_time.py --toy build/release/toy smollm2-135m-instruct.gguf [--rounds 3] [--threads N]

Prints a JSON line for each round and one with the medians. Needs torch, transformers, trl and peft (measured with trl
1.16.0), which no test does; the machine should be quiet. The first step of either program does not count.
"""
import argparse, json, os, statistics, subprocess, sys, tempfile, time

QUESTION = (
    "Write a long story about a fisherman who lives alone on a small island in the north. One morning he finds a "
    "wooden box between the stones at the beach, and in it lies a letter that somebody wrote a hundred years ago. "
    "Tell slowly what he reads, whom he asks, and where he goes."
)
VOWELS = "aeiou"


def trl_seconds(folder, threads, steps):
    import torch

    torch.set_num_threads(threads)
    from datasets import Dataset
    from peft import LoraConfig
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import GRPOConfig, GRPOTrainer

    def reward(completions, **_):
        texts = [c[0]["content"] if isinstance(c, list) else c for c in completions]
        return [float(t[-1:] in VOWELS) if t else 0.0 for t in texts]

    seconds = []

    class Trainer(GRPOTrainer):
        def training_step(self, *a, **k):
            begin = time.time()
            loss = super().training_step(*a, **k)
            seconds.append(time.time() - begin)
            return loss

        def _generate_and_score_completions(self, inputs):
            begin = time.time()
            scored = super()._generate_and_score_completions(inputs)
            sampling.append(time.time() - begin)
            return scored

    sampling = []
    args = GRPOConfig(
        output_dir=tempfile.mkdtemp(), per_device_train_batch_size=8, num_generations=8, max_completion_length=64,
        max_steps=steps, learning_rate=1e-5, bf16=False, fp16=False, use_cpu=True, gradient_checkpointing=False,
        logging_steps=1, report_to=[], save_strategy="no", generation_kwargs={"min_new_tokens": 64}, disable_tqdm=True,
    )
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    data = Dataset.from_dict({"prompt": [[{"role": "user", "content": QUESTION}]] * 8})
    lora = LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")
    trainer = Trainer(model=model, args=args, reward_funcs=reward, train_dataset=data, peft_config=lora,
                      processing_class=AutoTokenizer.from_pretrained(folder))
    trainer.train()
    return statistics.median(seconds[1:]), statistics.median(sampling[1:])


def toy_seconds(toy, model, work, threads, steps):
    rows = os.path.join(work, "questions.jsonl")
    with open(rows, "w") as f:
        for _ in range(8):
            f.write(json.dumps({"messages": [{"role": "user", "content": QUESTION}], "answer": "a"}) + "\n")
    command = [toy, "train", "grpo", "--model", model, "--data", rows, "--reward", rf"regex:[\s\S]*[{VOWELS}]",
               "--group", "8", "--questions", "1", "--max-tokens", "64", "--steps", str(steps), "--lr", "1e-5",
               "--rank", "16", "--threads", str(threads), "--out", os.path.join(work, "run"), "--overwrite", "--json"]
    out = subprocess.run(command, capture_output=True, text=True)
    if out.returncode:
        sys.exit(f"{' '.join(command)}\n{out.stderr[-2000:]}")
    events = [json.loads(line) for line in out.stdout.splitlines()]
    steps = [e for e in events if e["kind"] == "step"]
    assert all(e["ratio_deviation"] == 0 for e in steps)
    # Where all answers got the same reward, nothing was learned.
    pairs = [(b["t"] - a["t"], b) for a, b in zip(steps, steps[1:]) if b["groups_mixed"] > 0]
    return (statistics.median(s for s, _ in pairs), statistics.median(e["seconds_sampling"] for _, e in pairs),
            statistics.median(e["length"] for _, e in pairs))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("model", help="GGUF that toy and, converted, transformers read")
    ap.add_argument("--toy", default="build/release/toy")
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--steps", type=int, default=4, help="of a round")
    ap.add_argument("--threads", type=int, default=os.cpu_count())
    ap.add_argument("--only", choices=["toy", "trl"])
    o = ap.parse_args()
    with tempfile.TemporaryDirectory() as work:
        model, folder = os.path.join(work, "f32.gguf"), os.path.join(work, "hf")
        subprocess.run([o.toy, "convert", o.model, model, "--overwrite", "--type", "f32"], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([o.toy, "convert", model, folder], check=True, stdout=subprocess.DEVNULL)
        rounds = []
        for _ in range(o.rounds):
            r = {}
            if o.only != "trl":
                r["toy"], r["toy_sampling"], r["toy_length"] = toy_seconds(o.toy, model, work, o.threads, o.steps + 2)
            if o.only != "toy":
                r["trl"], r["trl_sampling"] = trl_seconds(folder, o.threads, o.steps)
            if "toy" in r and "trl" in r:
                r["ratio"] = r["trl"] / r["toy"]
            rounds.append(r)
            print(json.dumps({k: round(v, 3) for k, v in r.items()}), flush=True)
        print(json.dumps({k: round(statistics.median(r[k] for r in rounds), 3) for k in rounds[0]}))


main()
