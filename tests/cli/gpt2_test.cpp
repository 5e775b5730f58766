// The commands on a GPT-2: as a file, as a size, and at the end of its learned positions.
#include <cmath>

#include "cli/cli_fixture.h"

namespace {

using nlohmann::json;

class CliGpt2 : public Cli {
 protected:
  std::string model(const std::string& more = "") const {
    const Result r = toy(
        "train from-scratch --size gpt2-tiny --tokenizer bytes --batch 2 --tokens 16 --lr 3e-3 --steps 40 --corpus " +
        tiny_corpus() + " --context 48 --out " + path("first") + more);
    EXPECT_EQ(r.code, 0) << r.err;
    return path("first/model.gguf");
  }
};

TEST_F(CliGpt2, TrainsSavesAndGoesOn) {
  const std::string first = model(" --sample 8"), text = write("window.txt", "the cat sat on ma");
  const Result text_of = toy("infer " + first + " --prompt 'the cat' --n 12 --temperature 0");
  EXPECT_EQ(text_of.code, 0) << text_of.err;
  EXPECT_FALSE(text_of.out.empty());
  const Result e = toy("eval " + first + " --file " + text + " --ctx 16 --json");
  ASSERT_EQ(e.code, 0) << e.err;
  const double before = json::parse(e.out).at("nats_per_token");
  EXPECT_LT(before, 4);  // a new model begins at log 256 = 5.5
  const Result warm = toy("train warm-start --corpus " + text + " --val-fraction 0 --batch 1 --tokens 16 --init " +
                          first + " --steps 20 --lr 1e-3 --out " + path("second"));
  ASSERT_EQ(warm.code, 0) << warm.err;
  const size_t at = warm.out.find("loss=");
  ASSERT_NE(at, std::string::npos);
  // f32 against f64, as in train_test.cpp; the text has six digits behind the point.
  EXPECT_NEAR(std::stod(warm.out.substr(at + 5)), before, (256 + 8) * 0x1p-24 * before + 5e-7);
  const Result after = toy("eval " + path("second/model.gguf") + " --file " + text + " --ctx 16 --json");
  // The saved weights are those that went on, on this very window. How far they go is the golden steps' matter.
  EXPECT_LT(json::parse(after.out).at("nats_per_token").get<double>(), before);
}

TEST_F(CliGpt2, NarrowFilesKeepPositionsInF32) {
  const std::string half = model(" --dtype f16");
  EXPECT_EQ(toy("infer " + half + " --prompt 'the cat' --n 4").code, 0);
  const auto parameters = json::parse(toy("describe " + half + " --json").out);
  // 2 bytes for each element of a matrix, 4 for positions [48,64] and for gains and biases: of two norms (4 x 64), q,
  // k, v, output (4 x 64), up (256) and down (64) in 4 layers, and of the last norm.
  const int64_t all = parameters.at("parameters"), wide = 48 * 64 + 4 * (8 * 64 + 256 + 64) + 2 * 64;
  EXPECT_EQ(parameters.at("weight_bytes"), 2 * all + 2 * wide);
}

TEST_F(CliGpt2, Describe) {
  const Result card = toy("describe gpt2-124m");
  ASSERT_EQ(card.code, 0) << card.err;
  for (const char* words :
       {"124439808", "12 layers of causal attention and gelu", "learned positions", "layer norm epsilon 1e-05",
        "biases of attn_q, attn_k, attn_v, attn_output, ffn_up, ffn_down"})
    EXPECT_NE(card.out.find(words), std::string::npos) << words << "\n" << card.out;
  const std::string first = model();  // 48 positions: fewer than a training step has by default
  EXPECT_EQ(toy("describe " + first).code, 0);
  EXPECT_NE(toy("describe " + first + " --graph decode").out.find("layer_norm"), std::string::npos);
  refuses("describe " + first + " --tokens 49", {"tokens is 49", "48 positions"});
  refuses("describe " + first + " --ctx 49", {"context is 49", "48 positions"});
}

TEST_F(CliGpt2, JsonSize) {
  const std::string size = write("size.json", R"({"architecture": "gpt2", "d_model": 24, "n_layers": 2, "n_heads": 4,
                                                  "d_ff": 40, "context": 32, "tied": false})");
  const Result r = toy("train from-scratch --size " + size + " --batch 2 --tokens 16 --steps 3 --corpus " +
                       tiny_corpus() + " --out " + path("run"));
  ASSERT_EQ(r.code, 0) << r.err;
  const json j = json::parse(toy("describe " + path("run/model.gguf") + " --json").out).at("model");
  EXPECT_EQ(j.at("architecture"), "gpt2");
  EXPECT_EQ(j.at("tied"), false);
  EXPECT_EQ(j.at("context"), 32);
  refuses("describe " + write("bad.json", R"({"architecture": "gpt2", "d_model": 24, "n_layers": 2, "n_heads": 4,
                                              "d_ff": 40, "rope_base": 500})"),
          {"bad.json", "rope_base"});
}

TEST_F(CliGpt2, NothingBeyondTheLearnedPositions) {
  const std::string first = model(), infer = "infer " + first + " --prompt 'the cat' ";
  EXPECT_EQ(toy(infer + "--n 41").code, 0);  // 7 + 41 = 48
  EXPECT_EQ(toy(infer).code, 0);             // as many as fit
  refuses(infer + "--n 42", {"49 positions of 48", "no more positions"});
  refuses(infer + "--n 9223372036854775807", {"and 9223372036854775807 to generate", "9223372036854775814 positions"});
  refuses(infer + "--ctx 64", {"ctx is 64", "48 positions"});
  refuses("eval " + first + " --file " + tiny_corpus() + " --ctx 49", {"ctx is 49", "48 positions"});
  const std::string warm = "train warm-start --steps 1 --batch 1 --corpus " + tiny_corpus() + " --out " +
                           path("second") + " --init " + first;
  refuses(warm + " --tokens 49", {"tokens is 49", "48 positions"});
  refuses(warm + " --tokens 16 --context 64", {"context is 64", "48 positions"});
  refuses(warm + " --tokens 16 --context 32", {"context is 32", "48 positions"});
  EXPECT_EQ(toy(warm + " --tokens 48 --context 48").code, 0);
}

}  // namespace
