"""The page of `toy serve` in headless Chromium: a conversation with mouse and keyboard, colours, alternatives, two
answers side by side, dark, and as narrow as a phone.

    page_client.py TOY MODEL.gguf WORK [PICTURES]
"""
import json
import pathlib
import re
import subprocess
import sys
import urllib.request

from openai_client import with_template
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

MESSAGE = ("Once there was a clever duck called Mina, above three lazy quails in a little tower. "
           "She liked milk and mild leeks, and kept foxes.")
CONTROLS = {"button", "textbox", "spinbutton", "checkbox", "combobox", "menuitem", "menu", "log", "complementary", "link"}
# The contrast of each text with what is painted behind it, as WCAG 2 defines it; the least.
CONTRAST = """
const light = (c) => { const [r, g, b] = c.map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const parse = (s) => s.match(/[\\d.]+/g).map(Number);
const behind = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor);
  if (c.length === 3 || c[3] === 1) return c; } return [255, 255, 255]; };
let least = [99, ''];
for (const e of document.querySelectorAll('body *')) {
  const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
  if (!own || !e.getClientRects().length || e.disabled || e.closest('script, style')) continue;
  const [a, b] = [light(parse(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
  const ratio = (a + 0.05) / (b + 0.05);
  if (ratio < least[0]) least = [ratio, e.outerHTML.slice(0, 200)];
}
return least;
"""


def browser():
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,800"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService("/usr/bin/chromedriver"))


class Page:
    def __init__(self, driver, url, pictures):
        self.d, self.url, self.pictures = driver, url, pictures
        driver.get(url)
        self.wait(lambda: self.id("model").text not in ("", "loading…"))

    def id(self, name):
        return self.d.find_element(By.ID, name)

    def all(self, css):
        return self.d.find_elements(By.CSS_SELECTOR, css)

    def wait(self, so):
        WebDriverWait(self.d, 30).until(lambda _: so())

    def wait_for_answer(self):
        self.wait(lambda: self.id("send").is_enabled() and self.all(".tokens span"))

    def picture(self, name):
        if self.pictures:
            self.d.save_screenshot(str(self.pictures / f"{name}.png"))

    def press(self, *keys):
        for key in keys:
            webdriver.ActionChains(self.d).send_keys(key).perform()

    def tab_back(self):
        webdriver.ActionChains(self.d).key_down(Keys.SHIFT).send_keys(Keys.TAB).key_up(Keys.SHIFT).perform()

    def focused(self):
        return self.d.switch_to.active_element

    def tokens(self, reply=-1):
        return self.all(".reply")[reply].find_elements(By.CSS_SELECTOR, ".tokens span")

    def texts(self):
        return self.d.execute_script("return [...[...document.querySelectorAll('.reply')].at(-1)"
                                     ".querySelectorAll('.tokens span')].map((s) => s.textContent)")

    def set(self, name, value):
        self.d.execute_script("const e = document.getElementById(arguments[0]); e.value = arguments[1];"
                              "e.dispatchEvent(new Event('change'));", name, value)

    def metric(self, name):
        with urllib.request.urlopen(self.url + "/metrics") as reply:
            return int(re.search(rf"^toy_{name} (\d+)", reply.read().decode(), re.M).group(1))

    def ids(self, path, **fields):
        request = urllib.request.Request(self.url + path, json.dumps(fields).encode())
        with urllib.request.urlopen(request) as reply:
            return json.load(reply)["tokens"]

    def require_names(self):
        """Every control that assistive technology sees has a name."""
        nodes = self.d.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
        controls = [n for n in nodes if not n["ignored"] and n["role"]["value"] in CONTROLS]
        nameless = [n["role"]["value"] for n in controls if not n.get("name", {}).get("value", "").strip()]
        assert len(controls) > 5 and not nameless, nameless

    def require_contrast(self, where):
        ratio, element = self.d.execute_script(CONTRAST)
        assert ratio >= 4.5, f"{where}: the contrast is {ratio:.2f}: {element}"

    def require_no_sideways(self, where):
        wide = self.d.execute_script("return [document.documentElement.scrollWidth, innerWidth, ...[...document."
                                     "querySelectorAll('#log, header, #side, #choices, body')].map("
                                     "(e) => e.scrollWidth - e.clientWidth)]")
        assert wide[0] <= wide[1] and not any(w > 0 for w in wide[2:]), f"{where} scrolls sideways: {wide}"


def converses(page):
    for name, value in dict(max_tokens="40", seed="3", temperature="1").items():
        page.set(name, value)
    page.id("text").send_keys(MESSAGE, Keys.ENTER)
    page.wait_for_answer()
    assert page.all(".user")[0].text == MESSAGE and page.id("text").get_attribute("value") == ""
    spans = page.tokens()
    assert 10 < len(spans) <= 40, len(spans)
    colours = {s.get_attribute("class").split()[0]: s.value_of_css_property("background-color") for s in spans}
    assert len(colours) >= 3 and len(set(colours.values())) == len(colours), colours
    page.picture("answer")


def continues_from_an_alternative(page):
    at = 7
    before = page.texts()
    shared, computed = page.metric("prompt_tokens_shared_total"), page.metric("prompt_tokens_total")
    page.tokens()[at].click()
    menu = page.all("#choices button")
    assert len(menu) >= 3 and page.id("choices").is_displayed()
    assert page.tokens()[at].get_attribute("aria-expanded") == "true"
    page.picture("alternatives")
    page.require_names()
    page.require_contrast("alternatives")
    other = next(b for b in menu if "this one" not in b.text)
    other.click()
    page.wait_for_answer()
    after = page.tokens()
    assert page.texts()[:at] == before[:at] and "chosen" in after[at].get_attribute("class")
    assert not page.id("choices").is_displayed() and "2 of 2" in page.all(".foot")[-1].text
    # The cache has the conversation and the tokens before the new one; only that one is computed.
    held = len(page.ids("/apply-template", messages=[{"role": "user", "content": MESSAGE}])) + at
    assert held >= 64, "too short to be shared"
    assert page.metric("prompt_tokens_total") - computed == held + 1
    assert page.metric("prompt_tokens_shared_total") - shared == held
    page.all("button[aria-label='Previous version']")[-1].click()
    assert page.texts() == before, (page.texts(), before)


def compares_two(page):
    page.id("open").click()
    assert page.id("open").get_attribute("aria-expanded") == "true"
    page.id("two").click()
    page.set("seed2", "4")
    page.set("max_tokens", "16")
    page.require_names()
    page.require_contrast("settings")
    page.picture("settings")
    page.id("open").click()
    page.id("text").send_keys("And then?", Keys.ENTER)
    page.wait_for_answer()
    left, right = page.all(".lanes")[-1].find_elements(By.CSS_SELECTOR, ".reply")
    assert left.rect["y"] == right.rect["y"] and left.rect["x"] + left.rect["width"] <= right.rect["x"]
    assert left.find_element(By.CLASS_NAME, "tokens").text != right.find_element(By.CLASS_NAME, "tokens").text
    page.require_contrast("two answers")
    page.picture("two")


def is_dark_and_narrow(page):
    page.d.execute_cdp_cmd("Emulation.setEmulatedMedia",
                           {"features": [{"name": "prefers-color-scheme", "value": "dark"}]})
    back = page.d.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert max(int(v) for v in re.findall(r"\d+", back)[:3]) < 64, back
    page.require_contrast("dark")
    page.picture("dark")
    page.d.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                           {"width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": True})
    page.require_no_sideways("conversation")
    left, right = page.all(".lanes")[-1].find_elements(By.CSS_SELECTOR, ".reply")
    assert left.rect["x"] == right.rect["x"] and left.rect["y"] < right.rect["y"]  # one above the other
    assert page.id("text").rect["width"] > 120, page.id("text").rect
    page.picture("phone")
    page.tokens()[-1].click()
    page.require_no_sideways("alternatives")
    page.picture("phone_alternatives")
    page.press(Keys.ESCAPE)
    page.id("open").click()
    page.require_no_sideways("settings")
    page.require_contrast("dark settings")
    page.picture("phone_settings")
    page.id("close").click()
    assert not page.id("side").is_displayed() and page.focused().get_attribute("id") == "open"
    page.d.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    page.d.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def works_by_keyboard(page):
    """From the message field to a token, an alternative and the settings, without a mouse."""
    page.d.refresh()
    page.wait(lambda: page.id("model").text not in ("", "loading…"))
    assert page.focused().get_attribute("id") == "text"
    page.press(MESSAGE, Keys.ENTER)
    page.wait_for_answer()
    for _ in range(20):
        page.tab_back()
        if page.focused().tag_name == "span":
            break
    assert page.focused().tag_name == "span", page.focused().get_attribute("outerHTML")
    before = page.texts()
    page.press(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ENTER)
    assert page.focused().get_attribute("role") == "menuitem"
    outline = page.d.execute_script("return getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none", "the focus is not visible"
    page.press(Keys.ESCAPE)
    assert not page.id("choices").is_displayed() and page.focused() == page.tokens()[2]
    page.press(Keys.ENTER, Keys.ARROW_DOWN)
    if "this one" in page.focused().text:
        page.press(Keys.ARROW_DOWN)
    page.press(Keys.ENTER)
    page.wait_for_answer()
    after = page.tokens()
    assert page.texts()[:2] == before[:2] and "chosen" in after[2].get_attribute("class")
    assert page.focused() == after[2], page.focused().get_attribute("outerHTML")  # the place is kept
    for _ in range(40):
        page.tab_back()
        if page.focused().get_attribute("id") == "open":
            break
    page.press(Keys.ENTER)
    assert page.id("side").is_displayed()
    page.press(Keys.ESCAPE)
    assert not page.id("side").is_displayed()


def stops(page):
    page.set("max_tokens", "4000")
    page.id("fresh").click()
    assert not page.all(".user")
    page.id("text").send_keys("Stop", Keys.ENTER)
    page.wait(lambda: page.all(".tokens span"))
    page.press(Keys.ESCAPE)
    page.wait_for_answer()
    page.wait(lambda: page.metric("requests_running") == 0)


def joins_tokens_of_a_character(page):
    page.set("max_tokens", "5")
    letter = "\u00e4"
    ids = page.ids("/tokenize", content=letter)[-2:]
    for at, (token, byte) in enumerate(zip(ids, letter.encode())):
        other = dict(id=token, bytes=[byte], token="", logprob=-1, special=False)
        page.d.execute_script("const turn = turns.at(-1);"
                              "continueFrom(turn, turn.replies.length - 1, arguments[0], arguments[1])", at, other)
        page.wait_for_answer()
    assert page.texts()[:2] == ["", letter], page.texts()


def keeps_conversations(page):
    """After a reload all is there; the list opens, renames and deletes by keyboard."""
    for name, value in dict(max_tokens="12", seed="3").items():
        page.set(name, value)
    if page.id("two").is_selected():
        page.d.execute_script("document.getElementById('two').click()")
    page.id("fresh").click()
    page.id("text").send_keys("The first one", Keys.ENTER)
    page.wait_for_answer()
    before = page.texts()
    page.id("fresh").click()
    page.id("text").send_keys("Another one", Keys.ENTER)
    page.wait_for_answer()
    page.d.refresh()
    page.wait(lambda: page.all(".user") and page.id("model").text not in ("", "loading…"))
    assert page.all(".user")[-1].text == "Another one"
    page.id("list").send_keys(Keys.ENTER)
    titles = [b.text for b in page.all("#chat-list li > button:first-child")]
    assert titles[:2] == ["Another one", "The first one"], titles
    assert page.focused().text == "Another one"
    page.require_names()
    page.require_contrast("chats")
    page.picture("chats")
    page.all("#chat-list li > button:first-child")[1].send_keys(Keys.ENTER)
    assert page.all(".user")[-1].text == "The first one" and page.texts() == before
    page.tokens()[1].click()  # alternatives are kept, too
    assert len(page.all("#choices button")) >= 3
    page.press(Keys.ESCAPE)
    page.all("#chat-list li > button:nth-child(2)")[1].send_keys(Keys.ENTER)
    page.press(Keys.END, " of two", Keys.ENTER)
    assert page.focused().text == "The first one of two", page.focused().text
    page.d.refresh()
    page.wait(lambda: page.all(".user"))
    page.id("list").click()
    titles = [b.text for b in page.all("#chat-list li > button:first-child")]
    assert "The first one of two" in titles, titles
    count = len(titles)
    drop = page.all("#chat-list li > button:nth-child(3)")[titles.index("The first one of two")]
    drop.send_keys(Keys.ENTER)
    assert drop.text == "Delete for good?" and len(page.all("#chat-list li")) == count
    drop.send_keys(Keys.ENTER)
    assert len(page.all("#chat-list li")) == count - 1 and not page.all(".user")
    page.d.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                           {"width": 390, "height": 740, "deviceScaleFactor": 2, "mobile": True})
    page.require_no_sideways("chats")
    page.picture("phone_chats")
    page.d.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    page.press(Keys.ESCAPE)
    assert not page.id("chats").is_displayed() and page.focused().get_attribute("id") == "list"


def makes_preferences(page, toy, model, work):
    """The better of two answers becomes a row that `toy train dpo` takes, and the conversation goes on with it."""
    page.id("fresh").click()
    page.d.execute_script("document.getElementById('two').click()")
    page.set("seed", "3")
    page.set("seed2", "4")
    page.set("max_tokens", "12")
    page.id("text").send_keys("Tell", Keys.ENTER)
    page.wait_for_answer()
    answers = ["".join(s.text for s in r.find_elements(By.CSS_SELECTOR, ".tokens span")) for r in page.all(".reply")]
    page.all(".better")[1].click()
    assert [b.get_attribute("aria-pressed") for b in page.all(".better")] == ["false", "true"]
    page.require_contrast("better")
    page.picture("better")
    page.id("text").send_keys("More", Keys.ENTER)
    page.wait_for_answer()
    page.d.execute_script("document.getElementById('two').click()")
    page.id("text").send_keys("And more", Keys.ENTER)
    page.wait_for_answer()
    widths = [lanes.find_elements(By.CLASS_NAME, "reply")[0].rect["width"] for lanes in page.all(".lanes")]
    assert widths[2] > 1.2 * widths[0], widths  # a single answer has all of the width
    rows = page.d.execute_script("return kept().flatMap(preferencesOf)")
    assert len(rows) == 1 and rows[0]["prompt"] == [{"role": "user", "content": "Tell"}], rows
    assert len({rows[0]["chosen"][0]["content"], rows[0]["rejected"][0]["content"]}) == 2
    chats = page.d.execute_script("return kept().flatMap(rowsOf)")
    assert chats[0]["messages"][1] == rows[0]["chosen"][0] and len(chats[0]["messages"]) == 6, chats[0]
    file = pathlib.Path(work) / "preferences.jsonl"
    file.write_text("".join(json.dumps(r) + "\n" for r in rows))
    subprocess.run([toy, "train", "dpo", "--model", model, "--data", file, "--steps", "1", "--val-fraction", "0",
                    "--out", str(pathlib.Path(work) / "dpo")], check=True, capture_output=True)
    file.write_text("".join(json.dumps(r) + "\n" for r in chats))
    subprocess.run([toy, "data", "show", file, "--model", model], check=True, capture_output=True)


def asks_for_the_key(driver, toy, model, work, pictures):
    """What is missing is said where one looks: in the header, at Send; Settings opens at the field."""
    keys = pathlib.Path(work) / "keys"
    keys.write_text("secret\n")
    keys.chmod(0o600)
    server = subprocess.Popen([toy, "serve", model, "--port", "0", "--ctx", "256", "--api-key-file", keys],
                              stderr=subprocess.PIPE, text=True)
    try:
        page = Page(driver, next(m.group() for line in server.stderr if (m := re.search(r"http://\S+:\d+", line))), pictures)
        page.wait(lambda: page.id("side").is_displayed())
        assert page.focused().get_attribute("id") == "key"
        assert "An API key is needed" in page.id("model").text
        page.id("text").send_keys("Hello", Keys.ENTER)
        page.wait(lambda: page.id("notice").is_displayed())
        assert "An API key is needed" in page.id("notice").text and page.id("text").get_attribute("value") == "Hello"
        page.require_contrast("no key")
        page.picture("no_key")
        page.id("key").send_keys("secret", Keys.ENTER)
        page.wait(lambda: not page.id("notice").is_displayed() and "API key" not in page.id("model").text)
        page.set("max_tokens", "4")
        page.id("text").send_keys(Keys.ENTER)
        page.wait_for_answer()
        driver.get_log("browser")  # the answers 401, which are wanted
    finally:
        server.terminate()
        server.wait()


def main():
    toy, model, work = sys.argv[1:4]
    pictures = pathlib.Path(sys.argv[4]) if len(sys.argv) > 4 else None
    if pictures:
        pictures.mkdir(parents=True, exist_ok=True)
    chat = str(pathlib.Path(work) / "chat.gguf")
    with_template(model, chat)
    server = subprocess.Popen([toy, "serve", chat, "--port", "0", "--ctx", "1024"], stderr=subprocess.PIPE, text=True)
    driver = browser()
    try:
        for line in server.stderr:
            if found := re.search(r"http://\S+:\d+", line):
                break
        page = Page(driver, found.group(), pictures)
        page.require_names()
        page.require_contrast("empty")
        page.picture("empty")
        for part in (converses, continues_from_an_alternative, compares_two, is_dark_and_narrow, works_by_keyboard, stops,
                     joins_tokens_of_a_character, keeps_conversations):
            part(page)
            print(part.__name__.replace("_", " "))
        makes_preferences(page, toy, chat, work)
        print("makes preferences")
        errors = [e for e in driver.get_log("browser") if e["level"] in ("SEVERE", "WARNING")]
        assert not errors, errors
        requests = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
        urls = {r["params"]["request"]["url"] for r in requests if r["method"] == "Network.requestWillBeSent"}
        asks_for_the_key(driver, toy, chat, work, pictures)
        assert len(urls) > 3 and all(u.startswith(page.url + "/") for u in urls), urls
    except Exception:
        if pictures:
            driver.save_screenshot(str(pictures / "failed.png"))
        raise
    finally:
        driver.quit()
        server.terminate()
        server.wait()


main()
