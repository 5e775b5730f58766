// toy chat: through pipes, on a terminal, and with a server. tests/talk has what needs no program.
#include <atomic>

#include "cli_fixture.h"
#include "terminal.h"
#include "testing/http_server.h"

namespace {

class ChatCli : public Cli {
 protected:
  void SetUp() override {
    const std::string jinja =
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}";
    ASSERT_EQ(
        toy("train from-scratch --size tiny --tokenizer bytes --batch 2 --tokens 64 --steps 1 --data " +
            write("rows.jsonl", R"({"messages": [{"role": "user", "content": "hi"},)"
                                R"( {"role": "assistant", "content": "hello"}]})"
                                "\n") +
            " --val-fraction 0 --eval-every 0 --chat-template " + write("chat.jinja", jinja) + " --out " + path("run"))
            .code,
        0)
        << slurp(path("stderr"));
  }
  std::string chat(const std::string& options = "") const {
    const bool says = options.find("--temperature") != std::string::npos;
    return "chat " + path("run") + " -n 8 " + (says ? "" : "--temperature 0.8 --seed 0 ") + options;
  }
  Result talk(const std::string& lines, const std::string& options = "") const {
    return toy(chat(options), write("lines", lines));
  }
};

// Bytes 128 to 255 never come, so that texts survive a round trip through UTF-8.
std::string ascii() {
  std::string options;
  for (int id = 128; id < 256; ++id) options += " --logit-bias " + std::to_string(id) + "-inf";
  return options;
}

TEST_F(ChatCli, RefusesWhatCannotBe) {
  refuses("chat", {"model is missing", "--url"});
  refuses("chat none.gguf", {"none.gguf"});
  refuses(std::string("chat ") + TOY_GOLDEN, {"tokenizer"});
  refuses(chat("--temperature -1"), {"--temperature", "0"});
  refuses(chat("--chat-template " + path("none")), {"none"});
  refuses(chat("--chat-template " + write("bad.jinja", "{% if %}")), {"bad.jinja", "line 1"});
  refuses(chat("--url ftp://x"), {"ftp://x", "http://"});
  refuses(chat("--url http://127.0.0.1:1 --threads 2"), {"--threads", "server"});
  refuses("chat --url http://127.0.0.1:1", {"127.0.0.1:1/v1/models"});
  ASSERT_EQ(toy("train from-scratch --corpus " + tiny_corpus() + kSmall + "--steps 1 --out " + path("plain")).code, 0);
  refuses("chat " + path("plain"), {"no chat template", "--chat-template"});
}

TEST_F(ChatCli, EachLineIsAMessageAndAnswersAreThoseOfInfer) {
  const Result r = talk("hi\nmore\n", "--temperature 0" + ascii());
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.err, "");
  const auto infer = [&](const std::string& prompt) {
    return toy("infer " + path("run") + " -n 8 --no-bos --prompt-file " + write("prompt", prompt) + ascii()).out;
  };
  const std::string first = infer("<user>hi\n<assistant>");
  std::string text = first;
  text.pop_back();  // the line break after an answer
  const std::string second = infer("<user>hi\n<assistant>" + text + "\n<user>more\n<assistant>");
  EXPECT_EQ(r.out, first + second);
}

// A new seed each session, which is said and gives the same answers again.
TEST_F(ChatCli, EverySessionHasASeedThatIsSaid) {
  const std::string plain = "chat " + path("run") + " -n 8", lines = write("lines", "hi\nmore\n");
  const Result one = toy(plain, lines), two = toy(plain, lines);
  const size_t at = one.err.find("toy: temperature 0.8, seed ");
  ASSERT_NE(at, std::string::npos) << one.err;
  EXPECT_NE(one.err, two.err);
  const std::string seed = one.err.substr(at + 27, one.err.find('\n', at) - at - 27);
  EXPECT_EQ(toy(plain + " --seed " + seed, lines).out, one.out);
  EXPECT_EQ(toy(plain + " --temperature 0 ", lines).err, "");
}

TEST_F(ChatCli, AnswersInAForm) {
  const std::string schema = write("s.json", R"({"const": "yes"})"), bad = write("bad.json", R"({"type": "x"})");
  EXPECT_EQ(talk("hi\n", "--json-schema " + schema + " --logit-bias 32-inf --logit-bias 10-inf").out, "\"yes\"\n");
  EXPECT_EQ(talk("hi\n", "--grammar " + write("g", "root ::= \"ab\"")).out, "ab\n");
  refuses(chat("--json-schema " + bad), {"bad.json"});
}

TEST_F(ChatCli, CommandsInAScript) {
  const std::string file = path("c.jsonl");
  const Result r = talk("/set temperature 0\n/system S\nhi\n/save " + file + "\n/undo\n/load " + file +
                            "\n\"\"\"two\nlines\"\"\"\n/save\n/quit\nnever\n",
                        "--seed 3" + ascii());
  ASSERT_EQ(r.code, 0) << r.err;
  const auto row = nlohmann::json::parse(slurp(file));
  ASSERT_EQ(row.at("messages").size(), 5u);
  EXPECT_EQ(row["messages"][0]["content"], "S");
  EXPECT_EQ(row["messages"][3]["content"], "two\nlines");
  EXPECT_EQ(r.out, row["messages"][2]["content"].get<std::string>() + "\n" +
                       row["messages"][4]["content"].get<std::string>() + "\n");
  // What is saved can be learned.
  const Result shown = toy("data show " + file + " --model " + path("run/model.gguf"));
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_NE(shown.out.find("messages"), std::string::npos) << shown.out;
  const Result same = talk("hi\n", "--temperature 0 --system S" + ascii());
  EXPECT_EQ(same.out, row["messages"][2]["content"].get<std::string>() + "\n");
}

TEST_F(ChatCli, AnErrorEndsAScriptAndLosesNothing) {
  const std::string novel = write("novel", "It was a dark night.\n");
  const Result r = talk("hi\n/save " + novel + "\nmore\n");
  EXPECT_EQ(r.code, 2);
  EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
  EXPECT_NE(r.err.find("novel"), std::string::npos) << r.err;
  EXPECT_EQ(slurp(novel), "It was a dark night.\n");
  EXPECT_EQ(talk("hi\n").out, r.out);
  EXPECT_NE(talk("hi\n/save /proc/x.jsonl\n").err.find("takes no new files"), std::string::npos);
  for (const auto& [line, word] :
       std::vector<std::pair<std::string, std::string>>{{"/regenerat\n", "/regenerate"},
                                                        {"/set temprature 1\n", "'temperature'"},
                                                        {"/set top-p 2\n", "--top-p is 2"},
                                                        {"/set logit-bias 5\n", "--logit-bias is '5'"},
                                                        {"/set logit-bias 5000+1\n", "outside the vocabulary"},
                                                        {"/edit\n", "no message yet"},
                                                        {"/load " + path("none") + "\n", "none"},
                                                        {std::string(3000, 'x') + "\n", "context"}}) {
    const Result bad = talk(line);
    EXPECT_EQ(bad.code, 2) << line;
    EXPECT_EQ(bad.out, "") << line;
    EXPECT_NE(bad.err.find(word), std::string::npos) << line << bad.err;
  }
}

TEST_F(ChatCli, AServerAnswersAsTheModel) {
  const std::string sampling =
                        "--temperature 0.7 --samplers 'dry(multiplier=0.8);temperature;typ_p(0.9);"
                        "xtc(probability=0.5)' --seed 5 --dry-sequence-breaker none",
                    options = " -n 8 " + sampling + ascii();
  const std::string script =
      write("script.sh", std::string(TOY_BINARY) + " serve " + path("run") + " --port 0 --strict --api-key-file " +
                             write("keys", "secret\n") + " 2>" + path("log") +
                             " & pid=$!\nfor i in $(seq 1200); do grep -q serving " + path("log") +
                             " && break; sleep 0.05; done\nport=$(sed -n 's/.*127.0.0.1:\\([0-9]*\\);.*/\\1/p' " +
                             path("log") + ")\nchat() { " + TOY_BINARY +
                             " chat --url http://127.0.0.1:$port \"$@\" 2>&1; echo code $?; }\n"
                             "printf 'hi\\nmore\\n' | TOY_API_KEY=secret chat" +
                             options + "\nprintf 'hi\\n' | OPENAI_API_KEY=wrong chat\n" +
                             "printf 'hi\\n' | OPENAI_API_KEY=secret chat other\nkill $pid\nwait $pid\n");
  ASSERT_EQ(std::system(("bash " + script + " >" + path("printed")).c_str()), 0) << slurp(path("log"));
  const std::string printed = slurp(path("printed"));
  const std::string local = talk("hi\nmore\n", sampling + ascii()).out;
  EXPECT_EQ(printed.find(local + "code 0\n"), 0u) << printed << local;
  EXPECT_NE(printed.find("status 401"), std::string::npos) << printed;
  EXPECT_NE(printed.find("status 404"), std::string::npos) << printed;
  EXPECT_TRUE(printed.ends_with("code 2\n")) << printed;
}

TEST_F(ChatCli, AServerWithItsOwnCertificate) {
  const std::string cert = path("cert.pem"), key = path("key.pem");
  if (std::system(("openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext "
                   "subjectAltName=IP:127.0.0.1 -keyout " +
                   key + " -out " + cert + " >/dev/null 2>&1")
                      .c_str()) != 0)
    GTEST_SKIP() << "no openssl";
  const std::string script =
      write("script.sh",
            std::string(TOY_BINARY) + " serve " + path("run") + " --port 0 --tls-cert " + cert + " --tls-key " + key +
                " 2>" + path("log") + " & pid=$!\nfor i in $(seq 1200); do grep -q serving " + path("log") +
                " && break; sleep 0.05; done\nport=$(sed -n 's/.*127.0.0.1:\\([0-9]*\\);.*/\\1/p' " + path("log") +
                ")\nchat() { echo hi | " + TOY_BINARY + " chat --url https://127.0.0.1:$port -n 4 --temperature 0" +
                ascii() + " 2>&1; echo code $?; }\nSSL_CERT_FILE=" + cert +
                " chat\nchat\nSSL_CERT_FILE=" + path("none") + " chat\nkill $pid\nwait $pid\n");
  ASSERT_EQ(std::system(("bash " + script + " >" + path("printed")).c_str()), 0) << slurp(path("log"));
  const std::string printed = slurp(path("printed"));
  const std::string local = toy("chat " + path("run") + " -n 4 --temperature 0" + ascii(), write("lines", "hi\n")).out;
  EXPECT_EQ(printed.find(local + "code 0\n"), 0u) << printed << local;
  EXPECT_NE(printed.find("SSL_CERT_FILE names a file"), std::string::npos) << printed;
  EXPECT_TRUE(printed.ends_with("code 2\n")) << printed;
}

// A server that calls a function, then answers, then calls, ...
class ChatTools : public Cli {
 protected:
  std::string chat(const std::string& options) const {
    return "chat it --url " + server_.url() + " --tools " +
           write("tools.json", R"([{"name": "add", "parameters": {"type": "object"}}])") + " " + options;
  }

 private:
  std::string answer() {
    const std::string call = R"({"tool_calls": [{"index": 0, "id": "a", "function": )"
                             R"({"name": "add", "arguments": "{\"x\": 1}"}}]})";
    const std::string delta = answers_++ % 2 == 0 ? call : R"({"content": "two"})";
    return toy::testing::http_answer("200 OK", "",
                                     "data: {\"choices\": [{\"delta\": " + delta +
                                         ", \"finish_reason\": null}]}\n\ndata: {\"choices\": [{\"delta\": {}, "
                                         "\"finish_reason\": \"stop\"}]}\n\ndata: [DONE]\n\n");
  }
  std::atomic<int> answers_ = 0;
  const toy::testing::HttpServer server_{[this](const toy::testing::HttpRequest&) { return answer(); }};
};

TEST_F(ChatTools, ResultsAreTypedOrComeFromACommand) {
  const std::string file = path("c.jsonl");
  const Result typed = toy(chat(""), write("lines", "q\n1\n/save " + file + "\n"));
  EXPECT_EQ(typed.code, 0) << typed.err;
  EXPECT_EQ(typed.out, "add({\"x\":1})\ntwo\n");
  const auto row = nlohmann::json::parse(slurp(file));
  ASSERT_EQ(row.at("messages").size(), 4u);
  EXPECT_EQ(row["messages"][2]["content"], "1");
  EXPECT_EQ(row["tools"][0]["function"]["name"], "add");
  const std::string answered = path("d.jsonl");
  const Result run =
      toy(chat("--yes-to-tools --tool-command 'cat; exit 3'"), write("lines", "q\n/save " + answered + "\n"));
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(nlohmann::json::parse(slurp(answered))["messages"][2]["content"],
            "Error: the command ended with exit code 3: {\"name\":\"add\",\"arguments\":{\"x\":1}}");
  const Result ends = toy(chat(""), write("lines", "q\n"));
  EXPECT_EQ(ends.code, 2);
  EXPECT_NE(ends.err.find("the result of add"), std::string::npos) << ends.err;
}

TEST_F(ChatTools, RefusesWhatCannotBe) {
  refuses(chat("--tool-command cat"), {"--yes-to-tools"});
  refuses(chat("--yes-to-tools"), {"--tool-command"});
  refuses(chat("--grammar " + write("g", "root ::= \"a\"")), {"--grammar with --tools"});
  refuses("chat it --url http://127.0.0.1:1 --tools " + write("t", "{}"), {"is one object; put it into a list"});
  refuses("chat it --url http://127.0.0.1:1 --json-schema " + write("s", "{"), {path("s")});
}

constexpr const char* kPrompt = "\x1b[?2004h\x1b[1m>\x1b[0m ";

class ChatTerminal : public ChatCli {
 protected:
  void SetUp() override {
    if (!Terminal::is_available()) GTEST_SKIP() << "no pseudo terminals here";
    ChatCli::SetUp();
  }
  std::string line(const std::string& options, const std::string& variables = "") const {
    return "exec env LC_ALL=C.UTF-8 TERM=xterm XDG_STATE_HOME=" + path("state") + " " + variables + " " + TOY_BINARY +
           " " + chat(options);
  }
};

TEST_F(ChatTerminal, EditsLinesAndKeepsAHistory) {
  Terminal t(line("--temperature 0" + ascii()), 100);
  EXPECT_NE(t.until(kPrompt).find("run (0."), std::string::npos);
  t.type("hxi\x1b[D\x7f\x1b[C!\r");  // left, backspace, right
  const std::string answer = t.until(kPrompt);
  EXPECT_NE(answer.find("[stopped at the limit"), std::string::npos) << answer;
  EXPECT_NE(answer.find("\x1b[2m["), std::string::npos) << answer;
  t.type("/edit\r");
  EXPECT_NE(t.until("hi!").find("hi!"), std::string::npos);
  t.type("?\r");
  t.until(kPrompt);
  t.type("\x1b[200~a\rb\x1b[201~");  // pasted lines are one message
  t.until("b");
  t.type("\r");
  t.until(kPrompt);
  t.type("/save " + path("c.jsonl") + "\r");
  EXPECT_NE(t.until(kPrompt).find("saved"), std::string::npos);
  t.type("\x04");
  t.rest();
  EXPECT_EQ(t.code, 0);
  const auto row = nlohmann::json::parse(slurp(path("c.jsonl")));
  EXPECT_EQ(row["messages"][0]["content"], "hi!?");
  EXPECT_EQ(row["messages"][2]["content"], "a\nb");
  EXPECT_EQ(slurp(path("state/toy/chat_history")),
            "\"hi!\"\n\"/edit\"\n\"hi!?\"\n\"a\\nb\"\n\"/save " + path("c.jsonl") + "\"\n");
  Terminal next(line(""), 100);
  next.until(kPrompt);
  next.type("\x1b[A\x1b[A\x1b[A");  // up
  EXPECT_NE(next.until("hi!?").find("hi!?"), std::string::npos);
  next.type("\x03");
  next.until(kPrompt);
  next.type("\x03");
  EXPECT_NE(next.until(kPrompt).find("Ctrl-C again"), std::string::npos);
  next.type("\x03");
  next.rest();
  EXPECT_EQ(next.code, 0);
}

TEST_F(ChatTerminal, CtrlCStopsAnAnswerAndKeepsIt) {
  // Long enough to be interrupted.
  Terminal t(line("--device reference --temperature 0 --ctx 100000 --logit-bias 97+1000") + " -n 90000", 100);
  t.until(kPrompt);
  t.type("hi\r");
  t.until("aaa");  // the answer has begun
  t.type("\x03");
  const std::string end = t.until(kPrompt);
  EXPECT_NE(end.find("[stopped]"), std::string::npos) << end;
  EXPECT_EQ(end.find("^C"), std::string::npos) << end;  // the key is no text
  t.type("/save " + path("c.jsonl") + "\r");
  t.until(kPrompt);
  t.type("/nosuch\r");
  EXPECT_NE(t.until(kPrompt).find("unknown command"), std::string::npos);
  t.type("/quit\r");
  t.rest();
  EXPECT_EQ(t.code, 0);
  const auto row = nlohmann::json::parse(slurp(path("c.jsonl")));
  ASSERT_EQ(row["messages"].size(), 2u);
  EXPECT_TRUE(row["messages"][1]["content"].get<std::string>().starts_with("aaa"));
}

TEST_F(ChatTerminal, AnErrorInsideAnAnswerHasItsOwnLine) {
  Terminal t(std::string(TOY_BINARY) + " serve " + path("run") + " --device reference --ctx 100000 --port 0 2>" +
                 path("log") + " & echo $! >" + path("pid") + "; for i in $(seq 1200); do grep -q serving " +
                 path("log") + " && break; sleep 0.05; done; url=$(sed -n 's/.* at \\(.*\\);.*/\\1/p' " + path("log") +
                 "); exec env LC_ALL=C.UTF-8 TERM=xterm XDG_STATE_HOME=" + path("state") + " " + TOY_BINARY +
                 " chat --url $url --temperature 0 --logit-bias 97+100 -n 90000",
             100);
  t.until(kPrompt);
  t.type("hi\r");
  t.until("aaa");
  ASSERT_EQ(std::system(("kill -KILL $(cat " + path("pid") + ")").c_str()), 0);
  const std::string end = t.until(kPrompt);
  EXPECT_NE(end.find("\r\ntoy: http://"), std::string::npos) << end;
  t.type("\x04");
  t.rest();
  EXPECT_EQ(t.code, 0);
}

// As in many containers, and in editors that run programs.
TEST_F(ChatTerminal, WithoutALocaleOrCapabilities) {
  for (const char* locale : {"C", "none_NONE.UTF-8"}) {
    Terminal t(line("--temperature 0" + ascii(), std::string("TERM=dumb LC_ALL=") + locale), 100);
    std::string all = t.until("> ");
    t.type("h\u00e4\u65e5!\r");
    all += t.until("]\r\n> ");
    t.type("/save " + path("c.jsonl") + "\r");
    all += t.until("> ");
    t.type("\x04");
    all += t.rest();
    EXPECT_EQ(t.code, 0);
    EXPECT_EQ(all.find('\x1b'), std::string::npos) << all;
    EXPECT_EQ(nlohmann::json::parse(slurp(path("c.jsonl")))["messages"][0]["content"], "h\u00e4\u65e5!") << locale;
    std::remove(path("c.jsonl").c_str());
  }
}

TEST_F(ChatTerminal, NoColorIsPlain) {
  Terminal t(line("--temperature 0" + ascii(), "NO_COLOR=1"), 100);
  t.until("\x1b[?2004h> ");
  t.type("hi\r");
  std::string all = t.until("\x1b[?2004h> ");
  EXPECT_EQ(all.find("tokens/s"), std::string::npos) << all;
  t.type("/stats\r");
  t.until("\x1b[?2004h> ");
  t.type("hi\r");
  all = t.until("\x1b[?2004h> ");
  EXPECT_NE(all.find("tokens/s"), std::string::npos) << all;
  t.type("\x04");
  all += t.rest();
  EXPECT_EQ(all.find("\x1b[2m"), std::string::npos) << all;
  EXPECT_EQ(all.find("\x1b[1m"), std::string::npos) << all;
}

}  // namespace
