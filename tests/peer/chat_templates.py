#!/usr/bin/env python3
"""Renders the conversations of tests/golden/chat_cases.py, and random ones, with every *.jinja of some folders in toy
and in transformers, and compares the texts. Where one refuses a conversation, so must the other.
  chat_templates.py RENDER_CHATS FOLDER..."""
import json
import pathlib
import random
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "golden"))
from chat_cases import CALLS, CASES, CLOCK, RESULT, WEATHER, message  # noqa: E402
from make_chat_golden import NOW, TOKENS, fixed_time, rendered  # noqa: E402

WORDS = ["a", " b ", "\n", "Grüße", "世界", "👋", "'", '"', "\\", "<think>", "</think>", "\n\nx", "{{ x }}", "1.5", "\t", "é\u2028"]


def random_case(rng):
    text = lambda: "".join(rng.choice(WORDS) for _ in range(rng.randrange(6)))  # noqa: E731
    messages = [message("system", text())] if rng.random() < 0.4 else []
    for _ in range(rng.randrange(1, 5)):
        messages.append(message("user", text()))
        if rng.random() < 0.2:
            messages += [CALLS, RESULT]
        answer = message("assistant", text())
        if rng.random() < 0.3:
            answer["reasoning_content"] = text()
        messages.append(answer)
    if rng.random() < 0.5:
        messages.pop()
    case = {"messages": messages, "add_generation_prompt": rng.random() < 0.5}
    if rng.random() < 0.3:
        case["tools"] = [WEATHER, CLOCK]
    return case


def main():
    render_chats, folders = sys.argv[1], sys.argv[2:]
    fixed_time()
    rng = random.Random(1)
    cases = CASES + [random_case(rng) for _ in range(50)]
    wrong = total = refused = 0
    for file in sorted(f for folder in folders for f in pathlib.Path(folder).glob("*.jinja")):
        template = file.read_text(encoding="utf-8")
        jobs = [{**c, "template": template, "now": NOW, "variables": {**TOKENS, **c.get("variables", {})}} for c in cases]
        out = subprocess.run([render_chats], input="\n".join(json.dumps(j) for j in jobs) + "\n", text=True,
                             capture_output=True, check=True, env={"TZ": "UTC"}).stdout
        differ = 0
        for case, line in zip(cases, out.split("\n")[:-1], strict=True):
            ours, theirs = json.loads(line), rendered(template, case)
            total, refused = total + 1, refused + (theirs is None)
            if ours.get("text") != theirs:
                differ += 1
                if differ == 1:
                    print(f"{file.name}: {json.dumps(case)[:400]}\n  toy:          {json.dumps(ours)[:600]}\n"
                          f"  transformers: {json.dumps(theirs)[:600]}")
        print(f"{file.name}: {len(cases)} conversations, {differ} differ")
        wrong += differ
    print(f"{total} conversations, {refused} of them refused, {wrong} differ")
    return 1 if wrong or not total else 0


if __name__ == "__main__":
    sys.exit(main())
