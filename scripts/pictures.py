#!/usr/bin/env python3
"""Makes docs/pictures from real runs: the report of the README's session, what `toy look` shows of the model of
`scripts/demo.sh`, the report card of `scripts/chat.sh`, a conversation with the chat model of
docs/chat-from-scratch.md on the page of `toy serve`, and the graph of a small model. Takes a few minutes.

    scripts/demo.sh && scripts/chat.sh
    scripts/pictures.py build/release/toy out [NAME...]    # of report, look, card, page, graph; or all

It needs selenium, chromium and chromium-driver.
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import time

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

toy = str(pathlib.Path(sys.argv[1]).resolve())
runs = pathlib.Path(sys.argv[2]).resolve()
wanted = sys.argv[3:] or ["graph", "page", "report", "look", "card"]
out = pathlib.Path(__file__).resolve().parents[1] / "docs/pictures"
out.mkdir(parents=True, exist_ok=True)


def run(work, *words):
    return subprocess.run([toy, *words], cwd=work, check=True, capture_output=True, text=True).stdout


def browser(width, height):
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                     f"--window-size={width},{height}"):
        options.add_argument(argument)
    return webdriver.Chrome(options=options, service=webdriver.ChromeService("/usr/bin/chromedriver"))


def shot(file, name, width=1000, height=760):
    driver = browser(width, height)
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                           {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
    driver.get(f"file://{file}")
    time.sleep(2)
    driver.save_screenshot(str(out / f"{name}.png"))
    driver.quit()


def picture_of_report(work):
    run(work, "corpus", "stories", "--bytes", "2000000", "--seed", "1", "--out", "book.txt")
    run(work, "train", "from-scratch", "--corpus", "book.txt", "--size", "tiny", "--tokenizer", "spm:512", "--steps", "1000",
        "--lr", "4e-3", "--eval-every", "100", "--sample", "40", "--threads", "1", "--out", "out/tiny")
    run(work, "runs", "report", "out/tiny", "--out", "report.html")
    shot(f"{work}/report.html", "report")


def picture_of_look(work):
    run(work, "look", str(runs / "demo"), "--prompt", "Once there was a brave badger. The brave badger", "--out", "look.html")
    shot(f"{work}/look.html", "look", width=1200, height=880)


def picture_of_card(work):
    stages = ["1-texts", "2-chats", "3-dpo", "4-grpo"]
    answers = [word for stage in stages for word in ("--answers", f"{runs}/chat/answers/{stage}-likeliest.json",
                                                     "--drawn", f"{runs}/chat/answers/{stage}-drawn.json")]
    run(work, "runs", "card", *(f"{runs}/chat/{stage}" for stage in stages), *answers, "--title", "From nothing to a chat",
        "--out", f"{work}/card.html")
    shot(f"{work}/card.html", "card", height=1010)


def picture_of_page(work):
    run(work, "corpus", "chats", "--rows", "4000", "--seed", "1", "--out", "chats.jsonl")
    run(work, "train", "from-scratch", "--data", "chats.jsonl", "--chat-template", "chatml", "--tokenizer", "bpe:400",
        "--size", "tiny", "--lr", "4e-3", "--threads", "1", "--out", "out/chat")
    server = subprocess.Popen([toy, "serve", "out/chat", "--port", "0"], cwd=work, stderr=subprocess.PIPE, text=True)
    driver = browser(1000, 640)
    try:
        address = next(filter(None, (re.search(r"http://\S+:\d+", line) for line in server.stderr))).group()
        driver.get(address)
        time.sleep(2)
        for message in ("My name is Nora.", "Where does a bear live?", "What is my name?"):
            driver.switch_to.active_element.send_keys(message, Keys.ENTER)
            time.sleep(4)
        driver.find_elements(By.CSS_SELECTOR, ".tokens span")[-3].click()  # its alternatives
        time.sleep(1)
        driver.save_screenshot(str(out / "page.png"))
    finally:
        driver.quit()
        server.terminate()


def picture_of_graph(work):
    (out / "graph.svg").write_text(run(work, "describe", "tiny", "--graph", "forward", "--format", "svg"))


with tempfile.TemporaryDirectory() as folder:
    for name in wanted:
        globals()[f"picture_of_{name}"](folder)
for file in sorted(out.iterdir()):
    print(file, f"{file.stat().st_size / 1000:.0f} kB")
