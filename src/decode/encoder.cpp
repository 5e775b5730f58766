#include "toy/decode/encoder.h"

#include <algorithm>
#include <exception>
#include <numeric>

#include "toy/base/error.h"
#include "toy/base/memory.h"
#include "toy/decode/service.h"
#include "toy/models/transformer.h"

namespace toy {

EncoderGraph build_encoder_graph(const ModelSpec& spec, const Weights::DTypeOf& dtype_of, int64_t rows, bool fixed,
                                 bool pairs) {
  EncoderGraph e{std::make_unique<Graph>(), {}};
  Graph& g = *e.graph;
  // A decomposition of attention, such as that of GPUs, knows no run-time number of rows.
  const TensorType type = fixed ? i32({rows}) : g.rows_type(g.declare_rows("rows", rows), DType::i32);
  const Value tokens = g.input("tokens", type, spec.vocab);
  nn::Context ctx{
      .batch = {.sequence = g.input("sequence", type, rows), .position = g.input("position", type, spec.context)}};
  if (!spec.causal) ctx.until = g.input("until", type, spec.context + 1);
  if (pairs) ctx.token_type = g.input("token_type", type, spec.token_types);
  e.hidden = Transformer(spec, Weights(g, dtype_of), spec.context)(tokens, ctx);
  return e;
}

Encoder::Encoder(Device& device, const Model& model, const EncoderOptions& options)
    : device_(device), model_(model), options_(options), fixed_(!device.host_visible()) {
  check(!model.spec.vision.there(), "model {}: it reads pictures, and no text; use toy infer with --image",
        model.spec.name);
  check(!model.spec.causal || model.spec.score.there(),
        "model {}: its tokens see only those before them, so it is no encoder", model.spec.name);
  check(!options.pairs || model.spec.token_types > 1, "model {}: it has one token type, so pairs are plain texts",
        model.spec.name);
  check(options.rows >= 1, "encoder: {} rows together, expected at least 1", options.rows);
  prepare(options.rows);
}

// A plan for up to `rows` rows.
void Encoder::prepare(int64_t rows) {
  if (session_ && rows <= rows_) return;
  session_.reset();
  rows_ = rows;
  const EncoderGraph e = build_encoder_graph(
      model_.spec, [this](const std::string& name) { return model_.params->type(name).dtype; }, rows, fixed_,
      options_.pairs);
  PlanOptions o{.fuse = !options_.check_finite};
  if (!options_.exact) o.products = DType::q8_0;
  o.repack = options_.repack;
  const auto plan = std::make_shared<const Plan>(compile(*e.graph, std::vector{e.hidden}, {}, device_, o));
  require_memory(device_, plan->arena_bytes + plan->input_bytes(device_) + plan->repacked_bytes(),
                 "computing the embeddings");
  session_ = std::make_unique<Session>(device_, plan, std::initializer_list<const ParamStore*>{model_.params.get()});
  session_->check_finite(options_.check_finite);
}

void Encoder::require_possible(std::span<const int32_t> text, std::string_view what) const {
  check(!text.empty(), "{}: there are no tokens", what);
  check(int64_t(text.size()) <= context(), "{}: it has {} tokens; the model '{}' takes at most {}", what, text.size(),
        model_.spec.name, context());
  for (const int32_t id : text)
    check(id >= 0 && id < model_.spec.vocab, "{}: token {} is outside the vocabulary (0 to {})", what, id,
          model_.spec.vocab - 1);
}

void Encoder::encode(std::span<const std::vector<int32_t>> texts,
                     const std::function<void(size_t text, std::span<const float> hidden)>& take,
                     std::span<const size_t> second) {
  check(second.size() == (options_.pairs ? texts.size() : 0), "encoder: {} texts have {} second parts", texts.size(),
        second.size());
  for (size_t i = 0; i < texts.size(); ++i) require_possible(texts[i], fmt::format("text {}", i + 1));
  std::vector<size_t> order(texts.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return texts[a].size() > texts[b].size(); });
  for (size_t at = 0; at < order.size();) {
    size_t rows = texts[order[at]].size(), end = at + 1;
    while (end < order.size() && rows + texts[order[end]].size() <= size_t(options_.rows))
      rows += texts[order[end++]].size();
    prepare(int64_t(rows));
    run(texts, std::span(order).subspan(at, end - at), second, take);
    at = end;
  }
}

// The rows of a batch's texts, one text after the other.
void Encoder::run(std::span<const std::vector<int32_t>> texts, std::span<const size_t> batch,
                  std::span<const size_t> second,
                  const std::function<void(size_t text, std::span<const float> hidden)>& take) {
  std::vector<int32_t> tokens, sequences, positions, until, types;
  for (size_t s = 0; s < batch.size(); ++s) {
    const std::vector<int32_t>& text = texts[batch[s]];
    for (size_t p = 0; p < text.size(); ++p) {
      tokens.push_back(text[p]);
      sequences.push_back(int32_t(s)), positions.push_back(int32_t(p)), until.push_back(int32_t(text.size()));
      if (options_.pairs) types.push_back(p >= second[batch[s]]);
    }
  }
  if (!fixed_) session_->set_rows("rows", int64_t(tokens.size()));
  for (auto n = int64_t(tokens.size()); fixed_ && n < rows_; ++n)  // each is a text of its own
    tokens.push_back(0), sequences.push_back(int32_t(n)), positions.push_back(0), until.push_back(1);
  if (fixed_ && options_.pairs) types.resize(tokens.size());
  session_->set("tokens", tokens);
  session_->set("sequence", sequences);
  session_->set("position", positions);
  if (!model_.spec.causal) session_->set("until", until);
  if (options_.pairs) session_->set("token_type", types);
  session_->run();
  const std::vector<float> hidden = session_->values(0);
  size_t row = 0;
  for (const size_t i : batch) {
    take(i, std::span(hidden).subspan(row * size_t(width()), texts[i].size() * size_t(width())));
    row += texts[i].size();
  }
}

std::vector<std::vector<float>> Encoder::embed(std::span<const std::vector<int32_t>> texts,
                                               const EmbedOptions& options) {
  std::vector<std::vector<float>> vectors(texts.size());
  const std::vector<size_t> second(options_.pairs ? texts.size() : 0, SIZE_MAX);
  encode(
      texts, [&](size_t i, std::span<const float> hidden) { vectors[i] = pooled(hidden, width(), options); }, second);
  return vectors;
}

namespace {

std::vector<std::vector<float>> embed_by_decoder(Device& device, const Model& model,
                                                 std::span<const std::vector<int32_t>> texts,
                                                 const EmbedOptions& options) {
  check(options.pooling != Pooling::none,
        "model {}: it generates text, and an embedding of each token is for encoders; use --pooling mean, cls or last",
        model.spec.name);
  size_t longest = 1;
  for (const std::vector<int32_t>& text : texts) longest = std::max(longest, text.size());
  Decoder decoder(
      device, model,
      {.sequences = int(std::clamp<size_t>(texts.size(), 1, 16)), .context = int64_t(longest), .hidden = true});
  GenerationService service(decoder, nullptr);
  std::vector<std::vector<float>> vectors(texts.size());
  std::exception_ptr error;
  for (size_t i = 0; i < texts.size(); ++i) {
    TextRequest request{.prompt = texts[i], .options = {.max_tokens = 0}};
    request.embed = options;
    request.on_end = [&, i](const TextEnd& end) {
      if (end.error && !error) error = end.error;
      vectors[i] = end.embedding;
    };
    service.submit(std::move(request));
  }
  service.run();
  if (error) std::rethrow_exception(error);
  return vectors;
}

}  // namespace

std::vector<std::vector<float>> embed_tokens(Device& device, const Model& model,
                                             std::span<const std::vector<int32_t>> texts, const EmbedOptions& options) {
  if (texts.empty()) return {};
  if (model.spec.causal) return embed_by_decoder(device, model, texts, options);
  return Encoder(device, model).embed(texts, options);
}

std::vector<std::vector<float>> embed(Device& device, const Model& model, const std::vector<std::string>& texts,
                                      const EmbedOptions& options) {
  check(model.tokenizer != nullptr, "embed: the model {} has no tokenizer", model.spec.name);
  std::vector<std::vector<int32_t>> ids;
  for (const std::string& text : texts)
    ids.push_back(encode_for_embedding(*model.tokenizer, text, most_tokens_to_embed(model)));
  return embed_tokens(device, model, ids, options);
}

}  // namespace toy
