// Which tokenizer: from a file, or from the words of a command line.
#include "toy/text/tokenizer.h"

#include <algorithm>
#include <charconv>

#include "text/bpe/bpe.h"
#include "text/byte_tokenizer.h"
#include "text/spm/spm.h"
#include "text/wordpiece.h"
#include "toy/base/error.h"
#include "toy/base/options.h"
#include "toy/formats/mapped_file.h"
#include "toy/text/class_names.h"

namespace toy {
namespace {

constexpr std::string_view kAcceptedSpecs =
    "use \"bytes\", \"bpe:V\", \"spm:V\" or \"unigram:V\" with the number of tokens V, such as spm:512, or a file with "
    "one: a GGUF, or SentencePiece's .model";

constexpr const char* kMergesKey = "tokenizer.ggml.merges";

bool is_byte_tokenizer(const gguf::File& file) {
  return (!file.has(kMergesKey) || file.get_strings(kMergesKey).empty()) &&
         are_byte_tokens(file.get_strings("tokenizer.ggml.tokens"));
}

std::shared_ptr<const Tokenizer> load_gpt2(const gguf::File& file) {
  if (is_ranked_spm(file)) return load_spm(file, SpmModel::ranked);
  return is_byte_tokenizer(file) ? make_byte_tokenizer() : load_bpe(file);
}

/// A value of tokenizer.ggml.model, and what loads it.
struct Loader {
  std::string_view model;
  std::shared_ptr<const Tokenizer> (*load)(const gguf::File& file);
};
constexpr Loader kLoaders[] = {
    {"none", load_class_names},
    {"no_vocab", [](const gguf::File&) { return std::shared_ptr<const Tokenizer>(); }},
    {"llama", [](const gguf::File& file) { return load_spm(file, SpmModel::bpe); }},
    {"t5", [](const gguf::File& file) { return load_spm(file, SpmModel::unigram); }},
    {"gemma4", [](const gguf::File& file) { return load_spm(file, SpmModel::ranked); }},
    {"gpt2", load_gpt2},
    {"bert", load_wordpiece},
};

const Loader* loader_of(const gguf::File& file) {
  const std::string model = file.get_string("tokenizer.ggml.model", "none");
  const auto found = std::find_if(std::begin(kLoaders), std::end(kLoaders),
                                  [&](const Loader& loader) { return loader.model == model; });
  return found == std::end(kLoaders) ? nullptr : found;
}

}  // namespace

std::vector<int32_t> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  std::vector<int32_t> ids;
  EncodePlace place;
  encode_part(text, true, place, ids, options);
  return ids;
}

std::string unsupported_tokenizer(const gguf::File& file) {
  const std::string model = file.get_string("tokenizer.ggml.model", "none");
  const Loader* loader = loader_of(file);
  if (loader == nullptr) return fmt::format("its tokenizer '{}' is not supported", model);
  if (model != "gpt2" || is_ranked_spm(file) || pre_tokenizer_of(file) != nullptr) return {};
  return fmt::format("its tokenizer '{}' with the pre-tokenizer '{}' is not supported", model,
                     file.get_string("tokenizer.ggml.pre"));
}

std::shared_ptr<const Tokenizer> load_tokenizer(const gguf::File& file) {
  const std::string unsupported = unsupported_tokenizer(file);
  check(unsupported.empty(), "{}: {}, only {}", file.path(), unsupported, kSupportedTokenizers);
  return loader_of(file)->load(file);
}

OptionalTokenizer try_load_tokenizer(const gguf::File& file) {
  try {
    OptionalTokenizer result = {load_tokenizer(file), {}};
    if (result.tokenizer && result.tokenizer->kind() == "bpe" && !file.has("tokenizer.ggml.pre"))
      result.warning =
          "tokenizer.ggml.pre is missing; texts are cut by llama.cpp's default rules, which may not be the model's";
    return result;
  } catch (const Error& e) {
    if (e.code() != ErrorCode::bad_input) throw;
    return {nullptr, e.what()};
  }
}

std::shared_ptr<const Tokenizer> load_spm_model(std::span<const std::byte> bytes, const std::string& name) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return std::make_shared<const SpmTokenizer>(parse_spm_model(text, name));
}

std::shared_ptr<const Tokenizer> load_tokenizer_file(const std::string& path) {
  const MappedFile file = MappedFile::open(path);
  const std::span<const std::byte> bytes = file.bytes();
  const std::string_view start(reinterpret_cast<const char*>(bytes.data()), std::min<size_t>(bytes.size(), 4));
  if (start != "GGUF") {
    // A ModelProto begins with the key of one of its fields 1 to 5, all of wire type 2; the library writes 1 first.
    const uint8_t key = uint8_t(start[0]);
    check(key % 8 == 2 && key >= 0x0A && key <= 0x2A, "{}: neither a GGUF file nor a SentencePiece .model file{}", path,
          path.ends_with(".json") ? "; toy convert FOLDER OUT.gguf reads it with the rest of its folder" : "");
    return load_spm_model(bytes, path);
  }
  auto tokenizer = load_tokenizer(gguf::File::open(path));
  check(tokenizer != nullptr, "{}: the file has no tokenizer", path);
  return tokenizer;
}

bool is_tokenizer_spec(std::string_view spec) {
  if (spec == "bytes") return true;
  return spec.starts_with("bpe:") || spec.starts_with("spm:") || spec.starts_with("unigram:");
}

std::shared_ptr<const Tokenizer> make_tokenizer(std::string_view spec, std::string_view corpus,
                                                const ControlTokens* control) {
  if (spec == "bytes") return control ? make_byte_tokenizer(*control) : make_byte_tokenizer();
  const size_t colon = spec.find(':');
  const std::string_view kind = spec.substr(0, colon);
  check(colon != spec.npos || (kind != "bpe" && kind != "spm" && kind != "unigram"),
        "tokenizer \"{0}\": the number of its tokens is missing; write {0}:512, say", spec);
  check(colon != spec.npos && (kind == "bpe" || kind == "spm" || kind == "unigram"), "unknown tokenizer \"{}\": {}",
        spec, kAcceptedSpecs);
  const std::string_view number = spec.substr(colon + 1);
  SpmTrainOptions options;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), options.vocab_size);
  check(error != std::errc::result_out_of_range, "tokenizer \"{}\": no vocabulary has {} tokens; {}", spec, number,
        kAcceptedSpecs);
  const bool is_number = error == std::errc() && end == number.data() + number.size();
  const std::string meant = is_number ? "" : whole_number_of(number);
  check(is_number || meant.empty(), "tokenizer \"{}\": write {}:{}", spec, kind, meant);
  check(is_number, "tokenizer \"{}\": \"{}\" is not a number; {}", spec, number, kAcceptedSpecs);
  if (control) options.control = *control;
  if (kind == "bpe") return train_bpe(corpus, options.vocab_size, options.control);
  return kind == "spm" ? train_spm(corpus, options) : train_unigram(corpus, options);
}

bool add_bos(const Tokenizer& tokenizer, std::vector<int32_t>& ids) {
  const std::optional<int32_t> bos = tokenizer.bos();
  if (!tokenizer.adds_bos() || !bos || (!ids.empty() && ids.front() == *bos)) return false;
  ids.insert(ids.begin(), *bos);
  return true;
}

std::vector<int32_t> encode_prompt(const Tokenizer& tokenizer, std::string_view text, EncodeOptions options) {
  std::vector<int32_t> ids = tokenizer.encode(text, options);
  add_bos(tokenizer, ids);
  return ids;
}

std::vector<int32_t> encode_complete(const Tokenizer& tokenizer, std::string_view text, EncodeOptions options) {
  std::vector<int32_t> ids = encode_prompt(tokenizer, text, options);
  const std::optional<int32_t> eos = tokenizer.eos();
  if (tokenizer.adds_eos() && eos && (ids.empty() || ids.back() != *eos)) ids.push_back(*eos);
  return ids;
}

}  // namespace toy
