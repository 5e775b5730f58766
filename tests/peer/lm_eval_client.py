"""lm-evaluation-harness against `toy serve`: its numbers are those of `toy eval`.

    lm_eval_client.py TOY MODEL.gguf STORIES.txt WORK
"""
import json
import os
import pathlib
import random
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
QUESTIONS = 200


def questions(stories):
    """Rows of a clause without its last word: four words to choose from, or the word to be written."""
    pick = random.Random(1)
    clauses = [(story[:m.start(1)], m.group(1)) for story in stories
               for m in re.finditer(r"(?<=\w)( \w+)[.,]", story) if m.start(1) > 60]
    pick.shuffle(clauses)
    choices, written = [], []
    for prompt, word in clauses[:QUESTIONS]:
        prompt = prompt[-400:]
        options = [word, *pick.sample(sorted({w for _, w in clauses} - {word}), 3)]
        pick.shuffle(options)
        choices.append({"prompt": prompt, "choices": options, "answer": options.index(word)})
        written.append({"prompt": prompt, "answer": word.strip().capitalize()})
    return choices, written


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def toy_eval(toy, *arguments):
    return json.loads(subprocess.run([toy, "eval", *arguments, "--json"], check=True, capture_output=True,
                                     text=True).stdout)


def harness(toy, model, folder):
    """The results of both tasks and what the model wrote. The folder has the tokenizer, as transformers reads it."""
    import lm_eval  # takes seconds, and must see the environment that main() sets
    from lm_eval.tasks import TaskManager
    server = subprocess.Popen([toy, "serve", model, "--port", "0"], stderr=subprocess.PIPE, text=True)
    try:
        port = next(found for line in server.stderr if (found := re.search(r":(\d+);", line))).group(1)
        results = lm_eval.simple_evaluate(
            model="local-completions", tasks=["toy_choices", "toy_generate"], log_samples=True,
            task_manager=TaskManager(include_path=str(HERE / "lm_eval_tasks"), include_defaults=False),
            model_args=dict(model=pathlib.Path(model).parent.name, tokenizer=str(folder), tokenizer_backend="huggingface",
                            base_url=f"http://127.0.0.1:{port}/v1/completions", add_bos_token=True, max_length=256,
                            num_concurrent=4))
    finally:
        server.terminate()
        assert server.wait() == 0
    return results


def main():
    toy, model, stories, work = map(os.path.abspath, sys.argv[1:])
    work = pathlib.Path(work)
    os.chdir(work)
    os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", HF_HOME=str(work / "hf_home"),
                      TOKENIZERS_PARALLELISM="false")
    choices, written = questions(pathlib.Path(stories).read_text().split("\n\n"))
    write_rows(work / "choices.jsonl", choices)
    write_rows(work / "generate.jsonl", written)
    subprocess.run([toy, "convert", model, str(work / "hf")], check=True, capture_output=True)
    chosen = toy_eval(toy, "choices", model, "choices.jsonl")
    wrote = toy_eval(toy, "generate", model, "generate.jsonl", "--n", "8", "--stop", ".", "--stop", ",",
                     "--ignore-case", "--rows")
    results = harness(toy, model, work / "hf")

    table = []
    for task, metric, report, name in [("toy_choices", "acc,none", chosen, "accuracy"),
                                       ("toy_choices", "acc_norm,none", chosen, "accuracy_normalized"),
                                       ("toy_generate", "exact_match,without_spaces", wrote, "accuracy")]:
        theirs, error = results["results"][task][metric], results["results"][task][metric.replace(",", "_stderr,")]
        table.append((task, metric, theirs, report[name]))
        assert abs(theirs - report[name]) < 1e-12, (task, metric, theirs, report[name])
        assert abs(error - report[name + "_error"]) < 1e-12, (task, metric, error, report[name + "_error"])
        assert 0.02 < theirs < 0.98, f"{task} {metric} is {theirs}, which shows little"
    texts = {s["doc_id"]: s["resps"][0][0] for s in results["samples"]["toy_generate"]}
    assert [texts[i] for i in range(QUESTIONS)] == [row["text"] for row in wrote["rows"]]
    for task, metric, theirs, ours in table:
        print(f"{task} {metric}: lm_eval {theirs:.4f}, toy {ours:.4f}")


main()
