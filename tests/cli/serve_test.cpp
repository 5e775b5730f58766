// toy serve: what it refuses to start with, and how it ends. tests/serve has its answers.
#include "cli_fixture.h"

namespace {

class ServeCli : public Cli {
 protected:
  void SetUp() override {
    ASSERT_EQ(toy("train from-scratch --corpus " + tiny_corpus() + kSmall + "--steps 1 --out " + path("run")).code, 0);
  }
  // Starts the server as $pid, sets $port, runs the lines, and returns what they print.
  std::string with_server(const std::string& options, const std::string& lines) const {
    const std::string script = write(
        "script.sh", "rm -f " + path("log") + "\n" + TOY_BINARY + " serve " + path("run") + " --port 0 " + options +
                         " 2>" + path("log") + " & pid=$!\nfor i in $(seq 1200); do grep -q serving " + path("log") +
                         " && break; sleep 0.05; done\nport=$(sed -n 's/.*127.0.0.1:\\([0-9]*\\);.*/\\1/p' " +
                         path("log") + ")\nexec 3<>/dev/tcp/127.0.0.1/$port\n" + lines + "\n");
    EXPECT_EQ(std::system(("bash " + script + " >" + path("printed") + " 2>" + path("errors")).c_str()), 0)
        << slurp(path("errors")) << slurp(path("log"));
    return slurp(path("printed"));
  }
  // A file that nobody else may read.
  std::string secret(const char* name, const char* text) const {
    const std::string file = write(name, text);
    fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write);
    return file;
  }
  static std::string request(const std::string& body, const std::string& target = "/v1/completions") {
    return "printf 'POST " + target +
           " HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\nContent-Length: " + std::to_string(body.size()) +
           "\\r\\n\\r\\n%s' '" + body + "' >&3\n";
  }
};

TEST_F(ServeCli, RefusesToStart) {
  const std::string serve = "serve " + path("run");
  refuses("serve", {"MODEL is missing"});
  refuses("serve none.gguf", {"none.gguf"});
  refuses(std::string("serve ") + TOY_GOLDEN + " --port 0", {"tokenizer"});
  refuses(serve + " --port 65536", {"--port", "0 to 65535"});
  refuses(serve + " --host no.such.host.invalid", {"no.such.host.invalid", "127.0.0.1"});
  refuses(serve + " --host localhost:8080", {"host 'localhost:8080' has a port", "--host localhost --port 8080"});
  refuses(serve + " --host http://127.0.0.1", {"host 'http://127.0.0.1' is a URL; leave out http://"});
  refuses(serve + " --port 0 --alias ''", {"--alias"});
  refuses(serve + " --parallel 0", {"--parallel", "1 to 1024"});
  refuses(serve + " --port 0 --cache 5X", {"cache", "5X"});
  refuses(serve + " --port 0 --state " + write("file", "text"), {"state", "file"});
  refuses(serve + " --port 0 --cache 100T", {"cache: '100T' is more than", "free; use --cache ", "M or less"});
  refuses(serve + " --port 0 --api-key-file " + secret("keys", "\n \n"), {"no API keys"});
  refuses(serve + " --port 0 --api-key-file " + path("none"), {"none"});
  refuses(serve + " --port 0 --chat-template " + path("none.jinja"), {"none.jinja"});
  refuses(serve + " --port 0 --chat-template " + write("bad.jinja", "{% if %}"), {"bad.jinja", "line 1"});
  const std::string text = secret("text.pem", "text");
  refuses(serve + " --port 0 --tls-cert " + text, {"--tls-key"});
  refuses(serve + " --port 0 --tls-key " + text, {"--tls-cert"});
  refuses(serve + " --port 0 --tls-cert " + path("none.pem") + " --tls-key " + text, {"none.pem", "cannot be read"});
  refuses(serve + " --port 0 --tls-cert " + text + " --tls-key " + text, {"text.pem", "PEM"});
  EXPECT_EQ(with_server("", std::string(TOY_BINARY) + " serve " + path("run") +
                                " --port $port 2>&1; echo $?; kill $pid; wait $pid; echo $?")
                .find("toy: port "),
            0u);
  const std::string printed = slurp(path("printed"));
  EXPECT_NE(printed.find("is in use; choose another with --port\n2\n0\n"), std::string::npos) << printed;
}

TEST_F(ServeCli, AdaptersAreModels) {
  const std::string lora = path("letters"), serve = "serve " + path("run") + " --port 0 --lora ";
  ASSERT_EQ(toy("train lora --model " + path("run/model.gguf") + " --corpus " + tiny_corpus() +
                " --rank 2 --batch 2 --tokens 16 --steps 1 --out " + lora)
                .code,
            0);
  const std::string list =
      "printf 'GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' >&3\ncat <&3\n";
  const std::string printed =
      with_server("--lora " + lora + " --lora half=" + lora + ":0.5", list + "kill $pid; wait $pid");
  for (const char* id : {R"("id":"run")", R"("id":"letters")", R"("id":"half")", R"("parent":"run")"})
    EXPECT_NE(printed.find(id), std::string::npos) << id << printed;
  refuses(serve + lora + " --lora " + lora + ":0.5", {"two models are called 'letters'", "NAME="});
  refuses(serve + "run=" + lora, {"two models are called 'run'"});
  refuses(serve + "a=" + path("none.gguf"), {"none.gguf"});
  refuses("infer " + path("run") + " --prompt a --lora a=" + lora, {"a=" + lora});
}

// The model has none of its own.
// One word with --url is the model where the server has such one, and else the message; an endpoint is no part of the
// address.
TEST_F(ServeCli, AWordForAServerIsItsModelOrTheMessage) {
  const std::string toy_chat = std::string(TOY_BINARY) + " chat -n 1 --url http://127.0.0.1:$port";
  const std::string printed = with_server(
      "--chat-template " + write("chat.jinja", "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"),
      toy_chat + " hi 2>&1 >/dev/null </dev/null; echo $?\n" + toy_chat +
          "/v1/chat/completions hi there 2>&1 "
          ">/dev/null; echo $?\n" +
          toy_chat + "/v1/chat/completions 'hi there' 2>&1 >/dev/null; echo $?\necho hi | " + toy_chat +
          " run 2>&1 >/dev/null; echo $?\nkill $pid; wait $pid");
  EXPECT_EQ(printed,
            "toy: the server has no model 'hi', so it is the message (models: run)\n0\n"
            "toy: the server lists no model 'hi'; it may answer with another one (models: run)\n0\n0\n0\n");
}

TEST_F(ServeCli, ATemplateWithoutTheUserIsSaid) {
  with_server("--chat-template " +
                  write("deaf.jinja", "{% for m in messages if m.role != 'user' %}{{ m.content }}{% endfor %}"),
              "kill $pid; wait $pid");
  EXPECT_NE(slurp(path("log")).find("the chat template does not show what the user says"), std::string::npos);
}

TEST_F(ServeCli, AChatTemplateFromAFile) {
  const std::string ask =
      request(R"({"messages": [{"role": "user", "content": "a"}], "max_tokens": 2})", "/v1/chat/completions") +
      "cat <&3\nkill $pid; wait $pid";
  EXPECT_NE(
      with_server("", ask).find("no chat template; use /v1/completions, or start the server with --chat-template "),
      std::string::npos)
      << slurp(path("printed"));
  EXPECT_NE(slurp(path("log")).find("the model has no chat template, so it answers /v1/completions, but no"),
            std::string::npos);
  const std::string jinja = write("chat.jinja", "{% for m in messages %}{{ m.content }}{% endfor %}");
  EXPECT_NE(with_server("--chat-template " + jinja, ask).find("\"completion_tokens\":2"), std::string::npos)
      << slurp(path("printed"));
}

TEST_F(ServeCli, FinishesRequestsAtSigterm) {
  const std::string printed =
      with_server("--alias me", request(R"({"prompt": "the", "max_tokens": 60, "ignore_eos": true, "stream": true})") +
                                    "read -r line <&3\nkill -TERM $pid\ncat <&3\nwait $pid\necho code $?");
  EXPECT_NE(printed.find("data: [DONE]"), std::string::npos) << printed;
  EXPECT_NE(printed.find("\"model\":\"me\""), std::string::npos);
  EXPECT_TRUE(printed.ends_with("code 0\n")) << printed;
}

// Requests that take longer than --grace are told, and the server has done what it was asked to.
TEST_F(ServeCli, TellsRequestsWhenTheGraceIsOver) {
  const std::string printed =
      with_server("--grace 0 --parallel 1",
                  request(R"({"prompt": "the", "max_tokens": 60, "n": 128, "ignore_eos": true, "stream": true})") +
                      "read -r line <&3\nkill -TERM $pid\ncat <&3\nwait $pid\necho code $?");
  EXPECT_NE(printed.find("\"message\":\"the server is shutting down\""), std::string::npos) << printed;
  EXPECT_TRUE(printed.ends_with("0\r\n\r\ncode 0\n")) << printed;
}

// The weights that were loaded stay: what another program puts in their place is for the next start.
TEST_F(ServeCli, AModelThatIsReplacedWhileServing) {
  const std::string ask = request(R"({"prompt": "the", "max_tokens": 8, "temperature": 0})") + "cat <&3 >",
                    again = "\nexec 3<>/dev/tcp/127.0.0.1/$port\n";
  with_server("", ask + path("before") + "\nmv " + write("other.gguf", "no model") + " " + path("run/model.gguf") +
                      again + ask + path("after") + "\nrm " + path("run/model.gguf") + again + ask + path("removed") +
                      "\nkill -TERM $pid\nwait $pid");
  const auto text = [&](const char* name) {
    const std::string all = slurp(path(name)), part = all.substr(std::min(all.find("\"choices\""), all.size()));
    return part.substr(0, part.find("\"usage\""));
  };
  EXPECT_FALSE(text("before").empty());
  EXPECT_EQ(text("after"), text("before"));
  EXPECT_EQ(text("removed"), text("before"));
}

// --draft: the text stays the same, and /metrics counts.
TEST_F(ServeCli, ProposedTokensChangeNoText) {
  const std::string ask =
      request(
          R"({"prompt": "aaaaaa", "max_tokens": 50, "temperature": 0, "ignore_eos": true, "logit_bias": {"97": 50}})") +
      "cat <&3\nexec 4<>/dev/tcp/127.0.0.1/$port\nprintf 'GET /metrics HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: "
      "close\\r\\n\\r\\n' "
      ">&4\ncat <&4\nkill -TERM $pid\nwait $pid\n";
  for (const std::string draft : {"", "--draft ngram", "--draft ngram --draft-max 3"}) {
    const std::string printed = with_server(draft, ask);
    EXPECT_NE(printed.find("\"text\":\"" + std::string(50, 'a') + "\""), std::string::npos) << printed;
    EXPECT_EQ(printed.find("\ntoy_draft_tokens_total 0\n") == std::string::npos, !draft.empty()) << printed;
    EXPECT_EQ(printed.find("\ntoy_draft_tokens_accepted_total 0\n") == std::string::npos, !draft.empty()) << printed;
  }
  refuses("serve " + path("run") + " --port 0 --draft none.gguf", {"none.gguf"});
}

// A state outlives the server: the next one computes one token of the prompt, and writes the same text.
TEST_F(ServeCli, StatesOutliveTheServer) {
  const auto send = [](const std::string& target, const std::string& body) {
    return "exec 3<>/dev/tcp/127.0.0.1/$port\nprintf 'POST " + target +
           " HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\nContent-Length: " + std::to_string(body.size()) +
           "\\r\\n\\r\\n%s' '" + body + "' >&3\ncat <&3\n";
  };
  const std::string prompt = "\"prompt\": \"" + std::string(100, 'e') + "\"", end = "kill -TERM $pid\nwait $pid\n",
                    write = send("/v1/completions", "{" + prompt + R"(, "max_tokens": 8, "temperature": 0})"),
                    state = "--state " + path("states");
  const auto text_of = [](const std::string& printed) {
    const size_t at = printed.find("\"choices\"");
    return at == printed.npos ? printed : printed.substr(at, printed.find("\"usage\"") - at);
  };
  const std::string before =
      with_server(state, send("/v1/state", R"({"action": "save", "name": "e", )" + prompt + "}") + write + end);
  EXPECT_NE(before.find(R"("name":"e")"), std::string::npos) << before;
  const std::string after = with_server(
      state,
      send("/v1/state", R"({"action": "restore", "name": "e"})") + write +
          "exec 3<>/dev/tcp/127.0.0.1/$port\nprintf 'GET /metrics HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: "
          "close\\r\\n\\r\\n' >&3\ncat <&3\n" +
          end);
  EXPECT_EQ(text_of(after), text_of(before));
  EXPECT_NE(after.find("\ntoy_prompt_tokens_total 100\n"), std::string::npos) << after;
  EXPECT_NE(after.find("\ntoy_prompt_tokens_shared_total 99\n"), std::string::npos) << after;
  const std::string other =
      with_server(state + " --kv f16", send("/v1/state", R"({"action": "restore", "name": "e"})") + end);
  EXPECT_NE(other.find(" 409 "), std::string::npos) << other;
}

// While the first one waits for a request that takes longer: the system ends the process.
TEST_F(ServeCli, ASecondSignalEndsAtOnce) {
  const std::string printed = with_server(
      "--grace 600 --parallel 1",
      request(R"({"prompt": "the", "max_tokens": 60, "n": 128, "ignore_eos": true, "stream": true})") +
          "read -r line <&3\nkill -INT $pid\nsleep 0.1\nkill -INT $pid\nwait $pid 2>/dev/null\necho code $?");
  EXPECT_EQ(printed, "code 130\n");
}

}  // namespace
