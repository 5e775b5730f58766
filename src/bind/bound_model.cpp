#include "bind/bound_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bind/adapters.h"
#include "bind/json_options.h"
#include "toy/base/error.h"
#include "toy/eval/score.h"

namespace toy::bind {
namespace {

struct ReadOptions : TextOptions {
  static void fields(auto& o, auto&& f) { TextOptions::read_fields(o, f); }
};

constexpr int64_t kRows = 512;  // of prompts that are read together

}  // namespace

std::shared_ptr<BoundModel> BoundModel::load(const std::string& what, std::string_view json) {
  JsonOptions given("load", json);
  LoadOptions o;
  given.read(o);
  given.finish();
  const ModelFinder finder;
  const std::string path = finder.model(what);
  std::vector<GivenAdapter> adapters;
  for (const std::string& text : o.lora) adapters.push_back(parse_adapter(text, false, finder));
  auto device = SharedDevice::get(o);
  const Turn turn(*device);
  Model model = load_model(path, device->device());
  apply_adapters(model, adapters);
  return std::shared_ptr<BoundModel>(new BoundModel(std::move(device), path, std::move(model)));
}

const Tokenizer& BoundModel::tokenizer() const {
  require_tokenizer(model_, path_, "use token ids");
  return *model_.tokenizer;
}

std::string BoundModel::spec_json() const { return json_text(to_json(model_.spec)); }

std::vector<int32_t> BoundModel::prompt_ids(const std::string& text, const TextOptions& options) const {
  const EncodeOptions o{.parse_special = options.parse_special};
  return options.bos ? encode_prompt(tokenizer(), text, o) : tokenizer().encode(text, o);
}

void BoundModel::check_ids(std::span<const int32_t> ids) const {
  check(!ids.empty(), "the prompt is empty; give a text to continue");
  for (const int32_t id : ids)
    check(id >= 0 && id < model_.spec.vocab, "token id {} is outside the vocabulary; use 0 to {}", id,
          model_.spec.vocab - 1);
}

std::vector<float> BoundModel::logits(std::span<const int32_t> ids, std::string_view json) {
  constexpr size_t kPiece = 64;  // tokens whose logits are held twice
  check_ids(ids);
  ReadOptions o;
  JsonOptions given("logits", json);
  given.read(o);
  given.finish();
  const Turn turn(*device_);
  auto decoder = take_decoder(int64_t(ids.size()), o, false);
  std::vector<float> all;
  all.reserve(ids.size() * size_t(model_.spec.vocab));
  for (size_t at = 0; at < ids.size(); at += kPiece) {
    std::vector<DecodeRow> rows;
    for (const int32_t id : ids.subspan(at, std::min(kPiece, ids.size() - at)))
      rows.push_back({.sequence = 0, .token = id, .logits = true});
    decoder->decode(rows);
    for (size_t i = 0; i < rows.size(); ++i) {
      const std::span<const float> row = decoder->logits(i);
      all.insert(all.end(), row.begin(), row.end());
    }
  }
  give_back(std::move(decoder), o, false);
  return all;
}

std::vector<std::vector<float>> BoundModel::embed(std::span<const TextToEmbed> texts, std::string_view json,
                                                  size_t& width) {
  JsonOptions given("embed", json);
  EmbedTextOptions o;
  given.read(o);
  given.finish();
  const EmbedOptions options = o.of(model_);
  std::vector<bool> cut;
  const auto ids = ids_to_embed(model_, path_, texts, o.prefix, "use token ids", cut);
  width = size_t(options.dimensions > 0 ? options.dimensions : model_.spec.d_model);
  const Turn turn(*device_);
  return embed_tokens(device_->device(), model_, ids, options);
}

EvalText BoundModel::text_to_score(const std::string& text, const ScoreTextOptions& options) const {
  model_.spec.require_positions(options.score.context, "context");
  const auto documents = options.by_documents ? split_documents(text) : std::vector<std::string>{text};
  check(!documents.empty(), "by_documents: the text has only blank lines");
  return tokenize_for_eval(tokenizer(), documents, options.bos, {.parse_special = options.parse_special});
}

std::unique_ptr<Turn> BoundModel::turn_to_read() const {
  return device_->device().host_visible() ? nullptr : std::make_unique<Turn>(*device_);
}

HostTensor BoundModel::tensor(const std::string& name) const {
  const auto turn = turn_to_read();
  return model_.params->host(name);
}

std::vector<float> BoundModel::values(const std::string& name) const {
  const auto turn = turn_to_read();
  return model_.params->read(name);
}

TextScore BoundModel::score(const std::string& text, const ScoreTextOptions& options, std::vector<TokenScore>& tokens,
                            const std::function<bool()>& stop) {
  const EvalText ids = text_to_score(text, options);
  const Turn turn(*device_);
  return score_text(device_->device(), model_, ids, options.score, [&](const TokenScore& t) {
    tokens.push_back(t);
    if (stop()) throw Stopped();
  });
}

std::unique_ptr<Decoder> BoundModel::take_decoder(int64_t positions, const TextOptions& o, bool repack) {
  const std::scoped_lock lock(mutex_);
  const bool fits =
      idle_ && idle_->context() >= positions && idle_kv_ == o.kv && idle_exact_ == o.exact && idle_repacks_ == repack;
  if (!fits) {
    idle_.reset();
    // Room for texts that are somewhat longer, as long as the model knows their positions.
    const int64_t roomy = (positions + kRows - 1) / kRows * kRows;
    const int64_t context = std::max(positions, std::min(roomy, model_.spec.context));
    return std::make_unique<Decoder>(
        device_->device(), model_,
        DecoderOptions{.context = context, .max_rows = kRows, .kv = o.kv, .exact = o.exact, .repack = repack});
  }
  auto decoder = std::move(idle_);
  decoder->state().reset(0);
  return decoder;
}

void BoundModel::give_back(std::unique_ptr<Decoder> decoder, const TextOptions& o, bool repack) {
  const std::scoped_lock lock(mutex_);
  idle_ = std::move(decoder), idle_kv_ = o.kv, idle_exact_ = o.exact, idle_repacks_ = repack;
}

}  // namespace toy::bind
