// toy convert with Hugging Face folders: there and back, progress, what is refused, and that an interrupted conversion
// leaves nothing. (What is in the files: tests/hf/convert_test.cpp.)
#include "cli/cli_fixture.h"
#include "cli/terminal.h"

namespace {

using nlohmann::json;

class CliConvert : public Cli {
 protected:
  const std::string golden_ = TOY_GOLDEN, hf_ = path("hf"), out_ = path("out.gguf");

  void SetUp() override { ASSERT_EQ(toy("convert " + golden_ + " " + hf_).code, 0); }
  // With the shim that counts what is done to files in this folder.
  std::string shimmed(const std::string& arguments, const std::string& more) const {
    return std::string("LD_PRELOAD=") + TOY_DISK_SHIM + " TOY_SHIM_ROOT=" + path("work") + " " + more + " " +
           TOY_BINARY + " " + arguments + " >" + path("stdout") + " 2>" + path("stderr");
  }
  int run(const std::string& line) const {
    const int status = std::system(line.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
};

TEST_F(CliConvert, ThereAndBackGivesTheSameModel) {
  for (const char* name : {"config.json", "generation_config.json", "model.safetensors"})
    EXPECT_TRUE(fs::exists(hf_ + "/" + name)) << name;
  const Result r = toy("convert " + hf_ + " " + out_ + " --json");
  ASSERT_EQ(r.code, 0) << r.err;
  const json j = json::parse(r.out);
  EXPECT_EQ(j.at("class"), "LlamaForCausalLM");
  EXPECT_EQ(j.at("out"), out_);
  EXPECT_EQ(j.at("bytes"), fs::file_size(out_));
  EXPECT_EQ(j.at("warnings").size(), 1u);  // there is no tokenizer
  const std::string prompt = " --prompt-ids 1,2,3 -n 5 --temperature 0 --json --top-logprobs 3 --exact";
  const json a = json::parse(toy("infer " + golden_ + prompt).out), b = json::parse(toy("infer " + out_ + prompt).out);
  EXPECT_EQ(a.at("ids"), b.at("ids"));
  EXPECT_EQ(a.at("top_logprobs"), b.at("top_logprobs"));
  const Result again = toy("convert " + hf_ + " " + out_ + " --overwrite");
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_TRUE(again.out.ends_with(out_ + "\n")) << again.out;
  EXPECT_EQ(std::count(again.err.begin(), again.err.end(), '\n'), 1) << again.err;
}

TEST_F(CliConvert, NothingThatIsNotOursIsReplaced) {
  const std::string notes = write("notes.gguf", "mine"), full = path("full");
  write("full/notes.txt", "mine");
  fs::create_directory(path("empty"));
  const size_t before = entries();
  refuses("convert " + hf_ + " " + path("hf2"), {"hf2", ".gguf"});
  refuses("convert " + hf_ + " " + hf_, {"hf", ".gguf"});
  refuses("convert " + hf_ + " " + notes, {"notes.gguf", "was not written by this command"});
  refuses("convert " + hf_ + " " + path("none/out.gguf"), {"none", "mkdir -p"});
  refuses("convert " + path("none") + " " + path("o.gguf"), {"none", "no such file"});
  write("full/model.safetensors", "");
  refuses("convert " + full + " " + path("o.gguf"), {"full", "no config.json"});
  fs::remove(full + "/model.safetensors");
  refuses("convert " + golden_ + " " + full, {"full", "not an empty folder"});
  refuses("convert " + golden_ + " " + hf_, {"hf", "not an empty folder"});
  refuses("convert " + golden_ + " " + path("none/hf"), {"none", "mkdir -p"});
  EXPECT_EQ(slurp(notes), "mine");
  EXPECT_EQ(entries("full"), 1u);
  EXPECT_EQ(entries("hf"), 3u);
  EXPECT_EQ(entries(), before);
  EXPECT_EQ(toy("convert " + golden_ + " " + path("empty")).code, 0);
  EXPECT_EQ(entries("empty"), 3u);
}

// A folder of the name that this process writes to first may be there: a process of the same number left it.
TEST_F(CliConvert, AFolderOfTheTemporaryNameIsLeftAlone) {
  const std::string out = path("again"),
                    line = "part=" + out + ".part$$; mkdir $part && echo mine > $part/notes && exec " +
                           std::string(TOY_BINARY) + " convert " + golden_ + " " + out + " 2> " + path("stderr");
  EXPECT_EQ(run("bash -c '" + line + "'"), 2);
  EXPECT_NE(slurp(path("stderr")).find("it exists; remove it"), std::string::npos) << slurp(path("stderr"));
  EXPECT_FALSE(fs::exists(out));
  EXPECT_EQ(run("test -f " + out + ".part*/notes"), 0);
}

// In front of calls that change a file. One that comes after the last tensor ends nothing.
TEST_F(CliConvert, ASignalLeavesAllOrNothing) {
  fs::create_directory(path("work"));
  for (const bool to_folder : {true, false}) {
    const std::string out = path(to_folder ? "work/hf" : "work/out.gguf");
    const std::string command = "convert " + (to_folder ? golden_ : hf_) + " " + out;
    fs::remove(path("log"));
    ASSERT_EQ(run(shimmed(command, "TOY_SHIM_LOG=" + path("log"))), 0);
    const std::string log = slurp(path("log"));
    const size_t complete = to_folder ? entries("work/hf") : fs::file_size(out);
    int ended = 0;
    for (int64_t k = 1; k <= std::count(log.begin(), log.end(), '\n'); k += 3) {
      fs::remove_all(out);
      const std::string at = " TOY_SHIM_SIGNAL_AT=" + std::to_string(k);
      const int code = run(shimmed(command, "TOY_SHIM_SIGNAL=" + std::to_string(SIGTERM) + at));
      ASSERT_TRUE(code == 0 || code == 128 + SIGTERM) << code << at;
      ended += code != 0;
      EXPECT_EQ(entries("work"), code == 0 ? 1u : 0u) << at;
      if (code == 0) {
        EXPECT_EQ(to_folder ? entries("work/hf") : fs::file_size(out), complete) << at;
      }
    }
    EXPECT_GT(ended, 0);
    fs::remove_all(out);
  }
}

TEST_F(CliConvert, ShowsProgressAndCtrlCEndsIt) {
  if (!Terminal::is_available()) GTEST_SKIP() << "this system has no pseudo terminals (/dev/pts)";
  for (const std::string& command : {"convert " + hf_ + " " + out_, "convert " + golden_ + " " + path("hf2")}) {
    Terminal terminal(std::string(TOY_BINARY) + " " + command, 80);
    const std::string output = terminal.rest();
    EXPECT_EQ(terminal.code, 0) << output;
    EXPECT_NE(output.find("tensor"), std::string::npos) << output;
  }
  fs::create_directory(path("work"));
  const std::string at = "TOY_SHIM_SIGNAL=" + std::to_string(SIGINT) + " TOY_SHIM_SIGNAL_AT=2";
  Terminal terminal(shimmed("convert " + golden_ + " " + path("work/hf"), at), 80);
  terminal.rest();
  EXPECT_EQ(terminal.code, 130);
  EXPECT_EQ(entries("work"), 0u);
}

// A full disk, from some call on. After the rename all is there.
TEST_F(CliConvert, AFullDiskLeavesNothing) {
  fs::create_directory(path("work"));
  for (const bool to_folder : {true, false}) {
    const std::string out = path(to_folder ? "work/hf" : "work/out.gguf");
    const std::string command = "convert " + (to_folder ? golden_ : hf_) + " " + out;
    fs::remove(path("log"));
    ASSERT_EQ(run(shimmed(command, "TOY_SHIM_LOG=" + path("log"))), 0);
    const std::string log = slurp(path("log"));
    const int64_t calls = std::count(log.begin(), log.end(), '\n');
    for (int64_t k = calls; k > 0; k -= 4) {
      fs::remove_all(out);
      ASSERT_EQ(run(shimmed(command, "TOY_SHIM_FULL_AT=" + std::to_string(k))), 2) << slurp(path("stderr"));
      EXPECT_EQ(entries("work"), k == calls ? 1u : 0u) << k;
    }
    fs::remove_all(out);
  }
}

}  // namespace
