// toy quantize: types, patterns, importance matrices, and that nothing half-written remains.
#include <cmath>
#include <cstring>

#include "cli/cli_fixture.h"
#include "cli/terminal.h"
#include "toy/formats/gguf.h"

namespace {

using nlohmann::json;

class CliQuantize : public Cli {
 protected:
  const std::string model_ = path("run/model.gguf"), out_ = path("q.gguf"), text_ = tiny_corpus();

  void SetUp() override {
    ASSERT_EQ(toy("train from-scratch --corpus " + text_ + kSmall + "--steps 3 --out " + path("run")).code, 0);
  }
  json quantize(const std::string& options, const std::string& in = "") const {
    const Result r = toy("quantize " + (in.empty() ? model_ : in) + " " + out_ + " --overwrite --json " + options);
    EXPECT_EQ(r.code, 0) << options << "\n" << r.err;
    return r.code == 0 ? json::parse(r.out) : json();
  }
  static const json& tensor(const json& j, const std::string& name) {
    for (const json& t : j.at("tensors"))
      if (t.at("name") == name) return t;
    throw std::runtime_error("no tensor " + name);
  }
  double perplexity(const std::string& model) const {
    const Result r = toy("eval " + model + " --file " + text_ + " --ctx 64 --json");
    EXPECT_EQ(r.code, 0) << r.err;
    return json::parse(r.out).at("perplexity");
  }
};

TEST_F(CliQuantize, WritesAFileThatRunsAndTellsTheErrors) {
  const json j = quantize("--type q8_0");
  EXPECT_EQ(j.at("bytes"), fs::file_size(out_));
  EXPECT_EQ(j.at("bytes_before"), fs::file_size(model_));
  const json& down = tensor(j, "blk.0.ffn_gate.weight");
  EXPECT_EQ(down.at("from"), "F32");
  EXPECT_EQ(down.at("to"), "Q8_0");
  // 127 steps to the largest of a block: a uniform error of half a step is step / sqrt(12).
  EXPECT_GT(down.at("relative_error"), 1e-3);
  EXPECT_LT(down.at("relative_error"), 1e-2);
  EXPECT_EQ(tensor(j, "blk.0.attn_norm.weight").at("to"), "F32");
  EXPECT_EQ(tensor(j, "blk.0.attn_norm.weight").at("rmse"), 0);
  const double before = perplexity(model_);
  EXPECT_NEAR(perplexity(out_), before, 0.01 * before);
  const std::string bytes = slurp(out_);
  const Result text = toy("quantize " + model_ + " " + out_ + " --type Q8_0 --threads 1 --overwrite");
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_EQ(slurp(out_), bytes);
  EXPECT_NE(text.out.find("blk.0.ffn_gate.weight     F32   Q8_0"), std::string::npos) << text.out;
  EXPECT_TRUE(text.out.ends_with(out_ + "\n")) << text.out;
}

TEST_F(CliQuantize, MixesPatternsAndPure) {
  const json mix = quantize("--type q4_k_m --tensor 'blk.*.ffn_up*=q8_0' --tensor '*ffn*=iq4_nl'");
  EXPECT_EQ(tensor(mix, "blk.0.ffn_up.weight").at("to"), "Q8_0");
  EXPECT_EQ(tensor(mix, "blk.0.ffn_gate.weight").at("to"), "IQ4_NL");
  EXPECT_EQ(tensor(mix, "blk.0.attn_q.weight").at("to"), "Q5_0");  // rows of 64 are no blocks of 256
  const json pure = quantize("--type q4_0 --pure");
  EXPECT_EQ(tensor(pure, "token_embd.weight").at("to"), "Q4_0");
  EXPECT_EQ(tensor(quantize("--type MXFP4"), "blk.0.ffn_gate.weight").at("to"), "MXFP4");
  const json back = quantize("--type f32", [&] {
    fs::rename(out_, path("q4.gguf"));
    return path("q4.gguf");
  }());
  EXPECT_EQ(tensor(back, "blk.0.ffn_down.weight").at("rmse"), 0);
  const Result again = toy("quantize " + path("q4.gguf") + " " + out_ + " --overwrite --type q8_0");
  EXPECT_NE(again.err.find("quantized already"), std::string::npos) << again.err;
}

TEST_F(CliQuantize, AnImportanceMatrixMovesTheErrorToOtherColumns) {
  const std::string imatrix = path("i.gguf");
  const Result r = toy("quantize imatrix " + model_ + " --file " + text_ + " --ctx 64 --out " + imatrix);
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.out, imatrix + "\n");
  const json plain = quantize("--type q4_0");
  const std::string bytes = slurp(out_);
  const json weighted = quantize("--type q4_0 --imatrix " + imatrix);
  EXPECT_NE(slurp(out_), bytes);
  for (const json& t : weighted.at("tensors"))
    EXPECT_EQ(t.at("weighted"), t.at("to") == "Q4_0" || t.at("name") == "token_embd.weight") << t;
  // What it weighs is not what is reported: unweighted, the error grows.
  EXPECT_GT(tensor(weighted, "blk.1.ffn_up.weight").at("rmse"), tensor(plain, "blk.1.ffn_up.weight").at("rmse"));
  EXPECT_NE(toy("quantize " + model_ + " " + out_ + " --overwrite --type q4_0 --imatrix " + imatrix).out.find("Q4_0 *"),
            std::string::npos);
  EXPECT_EQ(toy("quantize imatrix " + model_ + " --file " + text_ + " --ctx 64 --out " + imatrix).code, 0);  // its own
}

TEST_F(CliQuantize, RefusesAndLeavesNothing) {
  const std::string q = "quantize " + model_ + " ", other = write("notes.txt", "mine");
  const size_t entries = this->entries(), in_run = this->entries("run");
  const std::string before = slurp(model_);
  refuses("quantize", {"MODEL and OUT are missing"});
  refuses("quantize " + model_ + " --type q8_0",
          {"OUT is missing; write toy quantize " + model_ + " OUT.gguf --type q8_0"});
  refuses(q + out_, {"--type is missing"});
  refuses(q + out_ + " --type q9_9", {"q9_9", "did you mean Q8_0?"});
  refuses(q + model_ + " --type q8_0", {"OUT is", "the model"});
  refuses(q + path("run") + "/../run/model.gguf --type q8_0", {"OUT is", "the model"});
  refuses(q + other + " --type q8_0", {"notes.txt", "was not written by this command"});
  refuses(q + path("no/such/q.gguf") + " --type q8_0", {"no/such"});
  refuses("quantize " + path("none.gguf") + " " + out_ + " --type q8_0", {"none.gguf", "no such file"});
  refuses("quantize " + other + " " + out_ + " --type q8_0", {"notes.txt", "not a GGUF file"});
  refuses(q + out_ + " --type q8_0 --tensor ffn", {"--tensor is 'ffn'", "PATTERN=TYPE"});
  refuses(q + out_ + " --type q8_0 --tensor 'ffn=q9'", {"ffn=q9", "Q4_K"});
  refuses(q + out_ + " --type q8_0 --tensor 'fnn*=q4_0'", {"fnn*=q4_0", "no tensor"});
  refuses(q + out_ + " --type q8_0 --tensor '*attn_norm*=q4_0'", {"blk.0.attn_norm.weight", "keep their type"});
  refuses(q + out_ + " --type q8_0 --imatrix " + other, {"notes.txt"});
  refuses(q + out_ + " --type q8_0 --imatrix " + model_, {"holds no importance matrix"});
  refuses(q + out_ + " --type q8_0 --frob", {"unknown option '--frob'"});
  const std::string imatrix = "quantize imatrix " + model_ + " --file " + text_;
  refuses(imatrix, {"--out"});
  refuses(imatrix + " --out " + text_, {"--file"});
  refuses(imatrix + " --out " + model_, {"the model"});
  refuses(imatrix + " --out " + other, {"was not written by this command"});
  refuses("quantize imatrix " + model_ + " --file " + write("empty.txt", "") + " --out " + out_, {"empty"});
  fs::remove(path("empty.txt"));
  EXPECT_EQ(slurp(model_), before);
  EXPECT_EQ(slurp(other), "mine");
  EXPECT_EQ(this->entries("run"), in_run);
  EXPECT_EQ(this->entries(), entries);
}

// A damaged file is found out before, or while, the new one is written.
TEST_F(CliQuantize, DamagedInput) {
  std::string bytes = slurp(model_);
  refuses("quantize " + write("short.gguf", bytes.substr(0, bytes.size() - 4096)) + " " + out_ + " --type q8_0",
          {"short.gguf", "tensor"});
  const size_t entries = this->entries() + 1;
  const float nan = NAN;
  std::memcpy(bytes.data() + bytes.size() - 60000, &nan, sizeof nan);
  refuses("quantize " + write("nan.gguf", bytes) + " " + out_ + " --type q4_0", {"nan.gguf", "tensor", "nan"});
  EXPECT_FALSE(fs::exists(out_));
  EXPECT_EQ(this->entries(), entries);  // nan.gguf is new
}

TEST_F(CliQuantize, CtrlCLeavesNothing) {
  if (!Terminal::is_available()) GTEST_SKIP() << "this system has no pseudo terminals (/dev/pts)";
  // 8 M weights, which take a second or more.
  const std::string size = write("size.json", R"({"d_model": 256, "n_layers": 8, "n_heads": 4, "d_ff": 1024})");
  ASSERT_EQ(toy("train from-scratch --corpus " + text_ + " --size " + size +
                " --tokenizer bytes --batch 1 --tokens 8 --steps 1 --out " + path("large"))
                .code,
            0);
  const size_t entries = this->entries();
  Terminal terminal(
      std::string(TOY_BINARY) + " quantize " + path("large/model.gguf") + " " + out_ + " --type q2_k --threads 1", 80);
  terminal.until("tensor");
  terminal.type("\x03");
  const std::string output = terminal.rest();
  EXPECT_EQ(terminal.code, 130) << output;
  EXPECT_EQ(this->entries(), entries);
}

TEST_F(CliQuantize, ConvertDequantizes) {
  quantize("--type q4_0");
  const std::string back = path("back.gguf");
  const Result r = toy("convert " + out_ + " " + back + " --type f32 --json");
  ASSERT_EQ(r.code, 0) << r.err;
  for (const json& t : json::parse(r.out).at("tensors")) {
    EXPECT_EQ(t.at("to"), "F32") << t;
    EXPECT_EQ(t.at("rmse"), 0) << t;
  }
  EXPECT_GT(fs::file_size(back), 3 * fs::file_size(out_));
  const Result text = toy("convert " + out_ + " " + path("half.gguf") + " --type bf16");
  EXPECT_EQ(std::count(text.out.begin(), text.out.end(), '\n'), 2) << text.out;
  EXPECT_TRUE(text.out.ends_with(path("half.gguf") + "\n")) << text.out;
  refuses("convert " + out_ + " " + path("new.gguf"), {"--type is missing"});
  refuses("convert " + out_ + " " + back + " --type q4_0", {"--type is 'q4_0'", "f32"});
  refuses("convert " + out_ + " " + out_ + " --type f32", {"OUT is", "the model"});
  refuses("convert " + path("none.gguf") + " " + back + " --type f32", {"none.gguf", "no such file"});
  refuses("convert " + out_ + " " + text_ + " --type f32", {"was not written by this command"});
}

TEST_F(CliQuantize, ConvertWritesAChatTemplateAndKeepsTheTypes) {
  quantize("--type q4_0");
  const std::string chat = path("chat.gguf");
  const Result r = toy("convert " + out_ + " " + chat + " --json --chat-template " +
                       write("chat.jinja", "{{ messages[0].content }}"));
  ASSERT_EQ(r.code, 0) << r.err;
  for (const json& t : json::parse(r.out).at("tensors")) EXPECT_EQ(t.at("to"), t.at("from")) << t;
  const auto before = ::toy::gguf::File::open(out_), after = ::toy::gguf::File::open(chat);
  EXPECT_TRUE(after.has("tokenizer.chat_template"));
  EXPECT_EQ(after.get_u32("general.file_type"), before.get_u32("general.file_type"));
  for (const ::toy::gguf::TensorInfo& t : before.tensors()) {
    const ::toy::gguf::TensorInfo& copy = after.require(t.name);
    ASSERT_EQ(copy.bytes, t.bytes) << t.name;
    EXPECT_EQ(std::memcmp(copy.data, t.data, t.bytes), 0) << t.name;
  }
}

TEST_F(CliQuantize, ShowsProgressOnATerminal) {
  if (!Terminal::is_available()) GTEST_SKIP() << "this system has no pseudo terminals (/dev/pts)";
  Terminal terminal(std::string(TOY_BINARY) + " quantize " + model_ + " " + out_ + " --type q4_k_m", 80);
  const std::string output = terminal.rest();
  EXPECT_EQ(terminal.code, 0) << output;
  EXPECT_NE(output.find("tensor"), std::string::npos) << output;
}

}  // namespace
