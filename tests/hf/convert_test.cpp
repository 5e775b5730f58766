// Hugging Face folders: what is written equals what transformers writes (tests/golden/make_hf_golden.py), and what is
// read of it equals the file that llama.cpp's converter writes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "folders.h"
#include "testing/errors.h"
#include "testing/family_golden.h"
#include "text/spm_raw.h"
#include "toy/formats/safetensors.h"
#include "toy/hf/convert.h"
#include "toy/models/model.h"

namespace toy::convert_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// A family's model as a GGUF and as a folder with transformers' config.json.
class HfFamily : public ::testing::TestWithParam<const char*> {
 protected:
  HfFamily() : gguf_(g_.write()), folder_(g_.folder.path("hf")) {
    hf::convert_gguf(gguf::File::open(gguf_), folder_);
    own_config_ = testing::read_json_file(folder_ + "/config.json");
    testing::write_text(folder_ + "/config.json", testing::golden_of(GetParam()).at("config").dump());
  }
  std::string import(const hf::ConvertOptions& options = {}) const {
    const std::string path = g_.folder.path("again.gguf");
    hf::convert_folder(folder_, path, options);
    return path;
  }
  const testing::GoldenFamily g_{GetParam()};
  const std::string gguf_, folder_;
  json own_config_;
};

TEST_P(HfFamily, TensorsAreThoseOfTransformers) {
  const safetensors::File file = safetensors::File::open(folder_ + "/model.safetensors");
  EXPECT_EQ(file.tensors().size(), testing::golden_of(GetParam()).at("tensors"));
  double sum = 0, size = 0, logarithms = 0;
  for (const auto& [name, view] : file.tensors()) {
    ASSERT_EQ(view.dtype, DType::f32) << name;
    const uint64_t hash = testing::hash_of(name);
    for (int64_t i = 0; i < view.count(); ++i) {
      sum += double(view.as<float>()[i]) * testing::uniform(hash, i);
      size += std::abs(double(view.as<float>()[i]));
    }
    if (name.ends_with("A_log"))
      for (int64_t i = 0; i < view.count(); ++i) logarithms += std::abs(double(view.as<float>()[i]));
  }
  // The order of the sum differs, and logarithms in f32, which NumPy may have rounded the other way.
  EXPECT_NEAR(sum, testing::golden_of(GetParam()).at("sum"), 1e-12 * size + 0x1p-23 * logarithms / 2);
}

TEST_P(HfFamily, AFolderOfTransformersBecomesTheSameModel) {
  const gguf::File want = gguf::File::open(gguf_), got = gguf::File::open(import());
  ModelSpec a = spec_from_gguf(want), b = spec_from_gguf(got);
  b.name = a.name;
  EXPECT_TRUE(a == b) << to_json(a).dump() << "\n" << to_json(b).dump();
  ASSERT_EQ(got.tensors().size(), want.tensors().size());
  for (const gguf::TensorInfo& t : want.tensors()) {
    const gguf::TensorInfo& other = got.require(t.name);
    ASSERT_EQ(other.shape, t.shape) << t.name;
    const auto* x = reinterpret_cast<const float*>(t.data);
    const auto* y = reinterpret_cast<const float*>(other.data);
    const bool is_rate = t.name.ends_with("ssm_a");
    for (int64_t i = 0; i < t.shape.count(); ++i) {
      // Norms of some are stored less 1, which rounds once at the size of 1. The logarithm of a rate rounds by half an
      // ulp, which becomes an error of the rate in proportion to it; and the rate rounds.
      const double rate = std::abs(double(x[i])),
                   of_rate = is_rate ? 0x1.01p-24 * rate * (1 + std::abs(std::log(rate))) : 0;
      ASSERT_NEAR(x[i], y[i], t.name.ends_with("norm.weight") ? 0x1p-23 : of_rate) << t.name;
    }
  }
}

TEST_P(HfFamily, ItsOwnConfigSaysTheSame) {
  const ModelSpec with_theirs = spec_from_gguf(gguf::File::open(import()));
  testing::write_text(folder_ + "/config.json", own_config_.dump());
  EXPECT_TRUE(with_theirs == spec_from_gguf(gguf::File::open(import()))) << own_config_.dump(1);
}

TEST_P(HfFamily, TypesAreKeptOrChosen) {
  const gguf::File half = gguf::File::open(import({.type = DType::bf16}));
  for (const FileTensor& t : file_tensors(spec_from_gguf(half)))
    EXPECT_EQ(*half.require(t.name).dtype, t.parts.front().narrow ? DType::bf16 : DType::f32) << t.name;
  const std::string folder = g_.folder.path("bf16");
  hf::convert_gguf(half, folder);
  const safetensors::File file = safetensors::File::open(folder + "/model.safetensors");
  for (const auto& [name, view] : file.tensors()) EXPECT_EQ(view.dtype, DType::bf16) << name;
  EXPECT_EQ(testing::read_json_file(folder + "/config.json").at("dtype"), "bfloat16");
  hf::convert_folder(folder, g_.folder.path("kept.gguf"));
  const gguf::File kept = gguf::File::open(g_.folder.path("kept.gguf"));
  const gguf::TensorInfo &a = kept.require("token_embd.weight"), &b = half.require("token_embd.weight");
  ASSERT_EQ(a.dtype, DType::bf16);
  EXPECT_EQ(std::memcmp(a.data, b.data, a.bytes), 0);
}

INSTANTIATE_TEST_SUITE_P(Transformers, HfFamily,
                         ::testing::Values("qwen2", "qwen3", "smollm3", "olmo2", "olmo3", "gemma", "gemma2", "gemma3",
                                           "gemma4", "gemma4_e", "phi3", "granite", "mixtral", "qwen3moe", "olmoe",
                                           "granitemoe", "gpt_oss", "llama", "gpt2", "qwen35", "qwen35_r1", "qwen35moe",
                                           "qwen35moe_r1", "qwen3next", "qwen3next_r1", "mamba2", "granitehybrid",
                                           "granitehybrid_rope", "nemotron_h", "nemotron_h_moe", "lfm2", "lfm2moe",
                                           "kimi_linear"),
                         [](const auto& test) { return std::string(test.param); });

// ---- other folders

// Gemma3ForConditionalGeneration, whose text part is a model of its own; names are those of transformers 5, and older.
TEST(HfMultimodal, TheTextPartIsConverted) {
  const testing::GoldenFamily g("gemma3");
  const std::string folder = g.folder.path("hf"), out = g.folder.path("again.gguf"), gguf = g.write();
  const ModelSpec want = spec_from_gguf(gguf::File::open(gguf));
  const std::string old = "language_model.", now = "model.language_model.";
  for (const bool is_old : {true, false}) {
    hf::convert_gguf(gguf::File::open(gguf), folder);
    json text = testing::golden_of("gemma3").at("config"),
         config = {{"model_type", "gemma3"}, {"eos_token_id", {1, 106}}};
    text.erase("eos_token_id"), text.erase("architectures");
    config["text_config"] = text, config["vision_config"] = {{"hidden_size", 16}};
    testing::write_text(folder + "/config.json", config.dump());
    const std::string part = is_old ? "" : "model.";
    testing::change_tensors(folder,
                            [&](const std::string& n) {
                              return is_old ? old + n : n.starts_with("model.") ? now + n.substr(6) : n;
                            },
                            {part + "vision_tower.vision_model.encoder.layers.0.mlp.fc1.weight",
                             part + "multi_modal_projector.mm_soft_emb_norm.weight"});
    const hf::Converted done = hf::convert_folder(folder, out);
    ASSERT_EQ(done.warnings.size(), 2u);  // the other one: there is no tokenizer
    EXPECT_NE(done.warnings[0].find("2 tensors"), std::string::npos) << done.warnings[0];
    const gguf::File got = gguf::File::open(out);
    ModelSpec spec = spec_from_gguf(got);
    spec.name = want.name;
    EXPECT_TRUE(spec == want);
    EXPECT_EQ(got.tensors().size(), gguf::File::open(gguf).tensors().size());
    fs::remove_all(folder);
  }
}

// Mistral's first files have a window of 4096, or say nothing, which means the same; later ones say null: none.
// transformers writes them so where there are ten layers or more.
TEST(HfGemma4, NumbersOfLayersMayHaveZerosInFront) {
  const testing::GoldenFamily g("gemma4_e");
  const std::string folder = g.folder.path("hf"), out = g.folder.path("out.gguf"), file = folder + "/config.json";
  const gguf::File want = gguf::File::open(g.write());
  hf::convert_gguf(want, folder);
  json config = testing::golden_of("gemma4_e").at("config");
  const json each = config.at("per_layer_config");
  ASSERT_FALSE(each.empty());
  json& padded = config["per_layer_config"] = json::object();
  for (const auto& [layer, values] : each.items()) padded["0" + layer] = values;
  testing::write_text(file, config.dump());
  hf::convert_folder(folder, out);
  ModelSpec got = spec_from_gguf(gguf::File::open(out)), asked = spec_from_gguf(want);
  got.name = asked.name;
  EXPECT_TRUE(got == asked);

  for (const char* layer : {"06", "-1", "x", ""}) {
    config["per_layer_config"] = {{layer, {{"head_dim", 16}}}};
    testing::write_text(file, config.dump());
    const std::string error = testing::error_of([&] { hf::convert_folder(folder, out); });
    for (const std::string fact : {"per_layer_config", "is not the number of a layer, 0 to 5"})
      EXPECT_NE(error.find(fact), std::string::npos) << error;
  }
}

TEST(HfMistral, AWindowThatIsNullIsNone) {
  const testing::GoldenFamily g("llama");
  const std::string folder = g.folder.path("hf"), out = g.folder.path("out.gguf");
  hf::convert_gguf(gguf::File::open(g.write()), folder);
  json config = testing::golden_of("llama").at("config");
  config["model_type"] = "mistral", config["architectures"] = {"MistralForCausalLM"};
  const auto window = [&] {
    testing::write_text(folder + "/config.json", config.dump());
    hf::convert_folder(folder, out);
    return spec_from_gguf(gguf::File::open(out)).layers.front().window;
  };
  config.erase("sliding_window");
  EXPECT_EQ(window(), 4096);
  config["sliding_window"] = 16;
  EXPECT_EQ(window(), 16);
  config["sliding_window"] = nullptr;
  EXPECT_EQ(window(), 0);
}

TEST(HfGptOss, LayersWithAWindowNeedOne) {
  const testing::GoldenFamily g("gpt_oss");
  const std::string folder = g.folder.path("hf");
  hf::convert_gguf(gguf::File::open(g.write()), folder);
  json config = testing::golden_of("gpt_oss").at("config");
  config["sliding_window"] = nullptr;
  testing::write_text(folder + "/config.json", config.dump());
  const std::string text = testing::error_of([&] { hf::convert_folder(folder, g.folder.path("out.gguf")); });
  EXPECT_NE(text.find("'sliding_window' is 0"), std::string::npos) << text;
}

// tokenizer.model without a tokenizer.json, as folders of Llama 2 and Mistral had it.
TEST(HfTokenizer, OfASentencePieceFileAlone) {
  const testing::GoldenFamily g("llama");
  const std::string folder = g.folder.path("hf"), out = g.folder.path("out.gguf");
  hf::convert_gguf(gguf::File::open(g.write()), folder);
  testing::write_text(folder + "/tokenizer.model", testing::small_model(2));
  testing::write_text(folder + "/added_tokens.json", R"({"<|x|>": 7})");
  testing::write_text(
      folder + "/tokenizer_config.json",
      R"({"bos_token": "<s>", "eos_token": {"content": "</s>"}, "add_bos_token": true, "add_eos_token": false})");
  EXPECT_EQ(hf::convert_folder(folder, out).warnings, std::vector<std::string>());
  const auto tokenizer = load_tokenizer(gguf::File::open(out));
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->kind(), "spm");
  EXPECT_EQ(tokenizer->vocab_size(), 90);
  EXPECT_EQ(tokenizer->bos(), 1);
  EXPECT_EQ(tokenizer->eos(), 2);
  EXPECT_TRUE(tokenizer->adds_bos());
  EXPECT_EQ(tokenizer->encode("ab<|x|>a b"), (std::vector<int32_t>{5, 7, 3, 6, 4}));
  EXPECT_EQ(tokenizer->encode(""), std::vector<int32_t>());

  const std::string back = g.folder.path("back"), again = g.folder.path("again.gguf");
  hf::convert_gguf(gguf::File::open(out), back);
  EXPECT_TRUE(fs::exists(back + "/config.json"));
  // More pieces than the embedding has rows.
  testing::Proto large = testing::small_pieces();
  for (int i = 0; i < 90; ++i) large.piece("x" + std::to_string(i), -10);
  testing::write_text(folder + "/tokenizer.model", large.message(2, testing::small_trainer_spec(2)).bytes);
  const std::string text = testing::message_of([&] { hf::convert_folder(folder, again); });
  EXPECT_NE(text.find("97 tokens"), std::string::npos) << text;
  EXPECT_NE(text.find("90 rows"), std::string::npos) << text;
  EXPECT_FALSE(fs::exists(again));
}

// ---- Gemma 4's tokenizer

const json& gemma4_golden() {
  static const json golden =
      testing::read_json_file(std::string(TOY_SOURCE_DIR) + "/tests/golden/gemma4_tokenizer.golden.json");
  return golden;
}

// Its folder with this tokenizer.json.
struct Gemma4Folder {
  explicit Gemma4Folder(const json& tokenizer) {
    hf::convert_gguf(gguf::File::open(g.write()), folder);
    testing::write_text(folder + "/tokenizer.json", tokenizer.dump());
    testing::write_text(folder + "/tokenizer_config.json", R"({"bos_token": "<bos>", "eos_token": "<eos>"})");
  }
  const testing::GoldenFamily g{"gemma4"};
  const std::string folder = g.folder.path("hf"), out = g.folder.path("out.gguf");
};

json small_gemma4() {
  json t = gemma4_golden().at("tokenizer");
  t["added_tokens"] = json::array();
  json& vocab = t["model"]["vocab"] = {{"<unk>", 0}, {"<bos>", 1}, {"<eos>", 2}};
  const auto add = [&](const std::string& text, bool special, bool normalized) {
    const size_t id = vocab.size();
    t["added_tokens"].push_back({{"id", id}, {"content", text}, {"special", special}, {"normalized", normalized}});
    vocab[text] = id;
  };
  for (const char* text : {"a", "b", "\u2581", "\n", "\n\n", "ab", "\u2581ab"}) vocab[text] = vocab.size();
  add("<|channel>", true, false);
  add("<turn|>", true, false);
  add("<unused0>", false, false);
  add("\u2581\u2581", false, true);
  add("\u2581\u2581\u2581", false, false);
  t["model"]["merges"] =
      json::parse(R"([["a", "b"], ["\u2581", "ab"], ["\u2581", "\u2581"], ["\u2581\u2581", "\u2581"], ["\n", "\n"]])");
  return t;
}

TEST(HfGemma4Tokenizer, ThereAndBack) {
  const Gemma4Folder f(small_gemma4());
  EXPECT_EQ(hf::convert_folder(f.folder, f.out).warnings, std::vector<std::string>());
  const gguf::File file = gguf::File::open(f.out);
  EXPECT_EQ(file.get_string("tokenizer.ggml.model"), "gemma4");
  const auto tokenizer = load_tokenizer(file);
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->vocab_size(), spec_from_gguf(file).vocab);
  const auto id = [&](const char* text) {
    const std::vector<int32_t> ids = tokenizer->encode(text, {.parse_special = true});
    return ids.size() == 1 ? ids[0] : -1;
  };
  EXPECT_EQ(encode_prompt(*tokenizer, "ab ab"), (std::vector<int32_t>{1, 8, 9}));
  EXPECT_EQ(encode_prompt(*tokenizer, ""), std::vector<int32_t>{1});
  // Answers show a channel; a turn ends them.
  EXPECT_EQ(tokenizer->token_bytes(id("<|channel>")), "<|channel>");
  EXPECT_EQ(tokenizer->token_bytes(id("<turn|>")), "");
  EXPECT_EQ(tokenizer->end_of_generation(), (std::vector<int32_t>{2, id("<turn|>")}));
  // Found in a text: the one that is looked for after spaces were marked. The other is what merges make of three
  // spaces.
  EXPECT_EQ(tokenizer->encode("   "), (std::vector<int32_t>{id("  "), 5}));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("   <unused0>\n\n")), "   <unused0>\n\n");

  const std::string back = f.g.folder.path("back"), again = f.g.folder.path("again.gguf");
  hf::convert_gguf(file, back);
  const json written = testing::read_json_file(back + "/tokenizer.json");
  EXPECT_EQ(written["model"]["merges"], small_gemma4()["model"]["merges"]);
  for (const json& token : written["added_tokens"]) {
    const std::string text = token["content"];
    EXPECT_EQ(token["special"], text.find("unused") == text.npos && text != "\u2581\u2581") << text;
    EXPECT_EQ(token["normalized"], text == "\u2581\u2581") << text;
  }
  EXPECT_EQ(hf::convert_folder(back, again).warnings, std::vector<std::string>());
  const gguf::File second = gguf::File::open(again);
  for (const char* key : {"tokenizer.ggml.tokens", "tokenizer.ggml.merges"})
    EXPECT_EQ(second.get_strings(key), file.get_strings(key)) << key;
  const std::vector<int32_t>&types = file.get_i32s("tokenizer.ggml.token_type"),
        &second_types = second.get_i32s("tokenizer.ggml.token_type");
  for (size_t i = 0; i < 15; ++i) EXPECT_EQ(second_types[i], types[i]) << i;  // what fills up becomes normal
  EXPECT_EQ(load_tokenizer(second)->end_of_generation(), tokenizer->end_of_generation());
}

TEST(HfGemma4Tokenizer, WarnsOfFlagsThatAGgufCannotSay) {
  json t = small_gemma4();
  t["added_tokens"][0]["lstrip"] = t["added_tokens"][1]["rstrip"] = true;
  t["added_tokens"][2]["single_word"] = true, t["added_tokens"][3]["lstrip"] = false;
  const Gemma4Folder f(t);
  EXPECT_EQ(hf::convert_folder(f.folder, f.out).warnings,
            (std::vector<std::string>{"'<|channel>' (and 1 more) should swallow the spaces next to it (lstrip, "
                                      "rstrip), which a GGUF cannot say; texts may get other ids there",
                                      "'<unused0>' should be found as a complete word only (single_word), which a GGUF "
                                      "cannot say; texts may get other ids there"}));
}

TEST(HfGemma4Tokenizer, MergesThatNameNoTokenAndMergesAcrossLines) {
  json t = small_gemma4();
  t["model"]["merges"].push_back(json::array({"a", "c"}));
  const Gemma4Folder bad(t);
  const std::string text = testing::error_of([&] { hf::convert_folder(bad.folder, bad.out); });
  EXPECT_NE(text.find("merge 5, [\"a\",\"c\"], names 'c', which is no token"), std::string::npos) << text;
  EXPECT_FALSE(fs::exists(bad.out));

  t = small_gemma4();
  t["model"].erase("merges");
  testing::write_text(bad.folder + "/tokenizer.json", t.dump());
  const std::string missing = testing::error_of([&] { hf::convert_folder(bad.folder, bad.out); });
  EXPECT_NE(missing.find("tokenizer.json"), std::string::npos) << missing;

  t = small_gemma4();
  t["model"]["vocab"]["a\n"] = t["model"]["vocab"].size();
  t["model"]["merges"].push_back(json::array({"a", "\n"}));
  const Gemma4Folder mixed(t);
  const auto warnings = hf::convert_folder(mixed.folder, mixed.out).warnings;
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("1 merges join a line break"), std::string::npos) << warnings[0];
}

}  // namespace
}  // namespace toy::convert_test
