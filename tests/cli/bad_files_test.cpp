// Files that are wrong, through the program: exit code 2, one line that says what and where, nothing half-written.
#include <cstring>
#include <functional>

#include "cli/cli_fixture.h"
#include "toy/base/memory.h"

namespace {

using nlohmann::json;

// A field of a tensor in the header of a GGUF file: name, rank, dimensions from the innermost on, type, offset.
class Header {
 public:
  explicit Header(std::string bytes) : bytes_(std::move(bytes)) {}
  void dimension(const std::string& tensor, size_t i, int64_t n) { put(at(tensor) + 4 + 8 * i, n); }
  void type(const std::string& tensor, uint32_t type) { put(at(tensor) + 4 + 8 * rank(tensor), type); }
  void offset(const std::string& tensor, uint64_t n) { put(at(tensor) + 8 + 8 * rank(tensor), n); }
  void name(const std::string& tensor, const std::string& other) {
    bytes_.replace(at(tensor) - tensor.size(), tensor.size(), other);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  size_t at(const std::string& tensor) const {
    const uint64_t size = tensor.size();
    const std::string key = std::string(reinterpret_cast<const char*>(&size), 8) + tensor;
    return bytes_.find(key) + key.size();
  }
  uint32_t rank(const std::string& tensor) const {
    uint32_t n = 0;
    std::memcpy(&n, bytes_.data() + at(tensor), sizeof n);
    return n;
  }
  template <class T>
  void put(size_t at, T value) {
    std::memcpy(bytes_.data() + at, &value, sizeof value);
  }
  std::string bytes_;
};

class BadFiles : public Cli {
 protected:
  const std::string q_ = "blk.0.attn_q.weight", golden_ = fs::path(TOY_GOLDEN).parent_path().string() + "/";

  Header header(const std::string& golden) const { return Header(slurp(golden_ + golden + ".model.gguf")); }
  // By each command that reads a model.
  void all_refuse(const Header& header, const std::vector<std::string>& words) const {
    const std::string model = write("bad.gguf", header.bytes()), text = write("text.txt", "some text\n");
    write("stdout", ""), write("stderr", "");
    const size_t before = entries();
    refuses("infer " + model + " --prompt-ids 1,2 -n 1", words);
    refuses("describe " + model, words);
    refuses("eval " + model + " --file " + text, words);
    refuses("convert " + model + " " + path("hf"), words);
    EXPECT_EQ(entries(), before);
  }
};

TEST_F(BadFiles, MergesThatNameNoToken) {
  refuses("tokenizer encode " + golden_ + "../fuzz/corpus/tokenizer/bad_merge_no_token.gguf --text a",
          {"tokenizer.ggml.merges[2], \"b c\", names \"bc\", which is no token"});
}

TEST_F(BadFiles, MergesOfGemma4) {
  const std::string encode = "tokenizer encode " + golden_ + "../fuzz/corpus/tokenizer/";
  EXPECT_EQ(toy(encode + "ok_gemma4.gguf --text ' abab' --no-bos").out, "7 6\n");
  refuses(encode + "bad_gemma4_merge_names.gguf --text a",
          {"tokenizer.ggml.merges[0]", "names \"c\", which is no token"});
  refuses(encode + "bad_gemma4_no_merges.gguf --text a", {"'tokenizer.ggml.merges' is missing"});
}

TEST_F(BadFiles, ATensorPastTheEnd) {
  Header h = header("llama_untied");
  h.offset(q_, uint64_t(1) << 30);
  all_refuse(h, {"bad.gguf", q_, "after the file's end"});
  refuses("quantize " + path("bad.gguf") + " " + path("q.gguf") + " --type q8_0", {q_, "after the file's end"});
  refuses("convert " + path("bad.gguf") + " " + path("f.gguf") + " --type f16", {q_, "after the file's end"});
  refuses(
      "train warm-start --init " + path("bad.gguf") + " --corpus " + tiny_corpus() + " --steps 1 --out " + path("run"),
      {q_, "after the file's end"});
  EXPECT_FALSE(fs::exists(path("run")));
}

TEST_F(BadFiles, AnUnknownTypeAndRowsThatAreNotWholeBlocks) {
  Header h = header("llama_untied");
  h.type(q_, 999);
  all_refuse(h, {"bad.gguf", q_, "unknown type 999"});
  h.type(q_, 2);
  all_refuse(h, {"bad.gguf", q_, "row length 24", "32", "Q4_0"});
}

TEST_F(BadFiles, VocabularyAndEmbeddingThatDisagree) {
  Header h = header("eval_bytes");
  h.dimension("token_embd.weight", 1, 250);
  const std::string model = write("bad.gguf", h.bytes()), text = tiny_corpus();
  for (const std::string& command : {"infer " + model + " --prompt a", "eval " + model + " --file " + text,
                                     "train warm-start --init " + model + " --corpus " + text + " --out " + path("r")})
    refuses(command, {"bad.gguf", "256 tokens", "250 rows"});
  EXPECT_FALSE(fs::exists(path("r")));
}

TEST_F(BadFiles, TensorsThatAreMissingOrUnknown) {
  Header missing = header("llama_untied"), unknown = header("llama_bias");
  missing.name("blk.1.ffn_up.weight", "blk.1.ffn_xp.weight");
  all_refuse(missing, {"'blk.1.ffn_up.weight' is missing", "llama", "nearest is 'blk.1.ffn_xp.weight'"});
  unknown.name("blk.0.attn_q.bias", "blk.0.attn_z.bias");
  all_refuse(unknown, {"'blk.0.attn_z.bias' is not known", "llama", "nearest is 'blk.0.attn_"});
}

// Dimensions as JSON: not JSON, and others than those of the other keys.
TEST_F(BadFiles, DimensionsOfTheArchitectureToy) {
  const Result run = toy("train from-scratch --corpus " + tiny_corpus() + kSmall +
                         "--layers 'gdn,attn(window=8)' --steps 1 --out " + path("run"));
  ASSERT_EQ(run.code, 0) << run.err;
  const std::string sound = slurp(path("run") + "/model.gguf"), key = "toy.dimensions";
  const auto refused_with = [&](size_t at, char instead, const std::string& words) {
    std::string bytes = sound;
    bytes[at] = instead;
    all_refuse(Header(bytes), {"bad.gguf", key, words});
  };
  const size_t first = sound.find('{', sound.find(key)),
               context = sound.find_first_of("123456789", sound.find("\"context\"", first));
  ASSERT_LT(context, sound.size());
  refused_with(first, 'x', "not JSON");
  refused_with(context, sound[context] == '9' ? '8' : '9', "other keys say");
}

// Half a terabyte of nothing, which takes no room on the disk.
// Of the last tensor in the file.
TEST_F(BadFiles, WeightsThatAreNaN) {
  const std::string corpus = tiny_corpus();
  ASSERT_EQ(toy("train from-scratch --corpus " + corpus + kSmall + "--steps 1 --out " + path("run")).code, 0);
  std::string bytes = slurp(path("run/model.gguf"));
  bytes.replace(bytes.size() - 128, 128, std::string(128, '\xff'));
  write("nan.gguf", bytes);
  const std::vector<std::string> says{"nan.gguf: tensor '", "' holds NaN, so the file is broken"};
  refuses("infer " + path("nan.gguf") + " --prompt 'the cat' --n 1", says);
  refuses("eval " + path("nan.gguf") + " --ctx 8 --file " + corpus, says);
}

TEST_F(BadFiles, AModelLargerThanMemory) {
  constexpr int64_t kRows = (int64_t(1) << 31) - 64, kBytes = kRows * 24 * 4;
  if (toy::total_memory() >= size_t(kBytes)) GTEST_SKIP() << "this machine has more memory than the file";
  Header h = header("llama_untied");
  for (const char* name : {"token_embd.weight", "output.weight"}) h.dimension(name, 1, kRows);
  h.offset("token_embd.weight", 1 << 20), h.offset("output.weight", (1 << 20) + kBytes);
  const std::string model = write("bad.gguf", h.bytes());
  std::error_code error;
  fs::resize_file(model, uintmax_t(2 * kBytes + (2 << 20)), error);
  if (error) GTEST_SKIP() << "no sparse files here: " << error.message();
  refuses("infer " + model + " --prompt-ids 1 -n 1", {"memory", "bad.gguf", "192", "GiB"});
}

// ---- Hugging Face folders

class BadFolders : public Cli {
 protected:
  const std::string hf_ = path("hf"), out_ = path("out.gguf");
  void SetUp() override { ASSERT_EQ(toy("convert " + std::string(TOY_GOLDEN) + " " + hf_).code, 0); }
  void refuse(const std::vector<std::string>& words) const {
    const size_t before = entries();
    refuses("convert " + hf_ + " " + out_, words);
    EXPECT_EQ(entries(), before);
  }
  void tokenizer(const json& vocab, const json& merges) const {
    const json t = {{"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
                    {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", merges}}}};
    write("hf/tokenizer.json", t.dump());
  }
};

TEST_F(BadFolders, HeadersThatLie) {
  const std::string bytes = slurp(hf_ + "/model.safetensors"), name = "model.layers.0.self_attn.q_proj.weight";
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  const json header = json::parse(bytes.substr(8, length));
  const auto with = [&](const std::function<void(json&)>& change) {
    json h = header;
    change(h);
    std::string text = h.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    const uint64_t n = text.size();
    write("hf/model.safetensors", std::string(reinterpret_cast<const char*>(&n), 8) + text + bytes.substr(8 + length));
  };
  with([&](json& h) { h[name]["data_offsets"] = {0, int64_t(1) << 40}; });
  refuse({"model.safetensors", name, "1099511627776"});
  with([&](json& h) { h[name]["data_offsets"] = {100, 50}; });
  refuse({"model.safetensors", name, "[100,50]"});
  with([&](json& h) { h[name]["shape"] = {int64_t(1) << 40, int64_t(1) << 40}; });
  refuse({"model.safetensors", name, "1099511627776"});
  with([&](json& h) { h[name]["dtype"] = "Q9"; });
  refuse({"model.safetensors", name, "Q9"});
  with([&](json& h) { h["model.layers.0.self_attn.q_prox.weight"] = h[name], h.erase(name); });
  refuse({"'" + name + "' is missing", "LlamaForCausalLM", "nearest"});
  write("hf/model.safetensors", bytes.substr(0, 1000));
  refuse({"model.safetensors", "cut off"});
  write("hf/model.safetensors", std::string(8, '\x7f') + bytes.substr(8));
  refuse({"model.safetensors", "header"});
  fs::remove(hf_ + "/model.safetensors");
  refuse({"neither model.safetensors nor model.safetensors.index.json"});
}

TEST_F(BadFolders, TokenizersThatLie) {
  tokenizer({{"a", 0}, {"b", 1}, {"ab", 2}}, {"a c"});
  refuse({"tokenizer.json", "merge 0", "'c'", "no token"});
  tokenizer({{"a", 0}, {"b", 1}}, {"a b"});
  refuse({"tokenizer.json", "merge 0", "'ab'", "no token"});
  tokenizer({{"a", 0}, {"b", 0}}, json::array());
  refuse({"tokenizer.json", "'a'", "'b'", "same id"});
  tokenizer({{"a", 0}, {"b", 1 << 24}}, json::array());
  refuse({"tokenizer.json", "'b'", "16777216", "48 rows"});
  tokenizer({{"a", -1}}, json::array());
  refuse({"tokenizer.json", "-1"});
  write("hf/tokenizer.json", "{\"model\": ");
  refuse({"tokenizer.json", "not JSON", "the text ends too early"});
  write("hf/tokenizer.json", std::string(100000, '['));
  refuse({"tokenizer.json", "levels"});
  write("hf/config.json", "[]");
  refuse({"config.json", "not a JSON object"});
}

}  // namespace
