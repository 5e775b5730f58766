#include "toy/decode/decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "toy/base/memory.h"
#include "toy/models/transformer.h"

namespace toy {
namespace {

// The input for what each row multiplies an adapter with.
std::string factors_name(size_t adapter) { return fmt::format("adapter.{}", adapter); }

}  // namespace

DecodeGraph build_decode_graph(const ModelSpec& spec, const Weights::DTypeOf& dtype_of, DecodeShape shape,
                               int64_t max_rows, bool hidden, bool adapters_by_sequence, bool likeliest,
                               const Weights::ValuesOf& values_of) {
  spec.require_positions(shape.context, "context");
  DecodeGraph d{std::make_unique<Graph>(), {}, {}};
  Graph& g = *d.graph;
  const int rows = g.declare_rows("rows", max_rows), wanted = g.declare_rows("logit_rows", max_rows);
  const Value tokens = g.input("tokens", g.rows_type(rows, DType::i32), spec.vocab);
  const nn::Context ctx{.batch = {.sequence = g.input("sequence", g.rows_type(rows, DType::i32), shape.sequences),
                                  .position = g.input("position", g.rows_type(rows, DType::i32), shape.context)}};
  std::vector<Value> tables;
  for (const PagePool& pool : page_pools(spec, shape))
    tables.push_back(g.input(pool.table(), {DType::i32, {shape.sequences, shape.pages_per_sequence()}, 0}, pool.pages));
  std::vector<nn::LayerState> layers(spec.layers.size());
  for (const StateSlot& s : state_slots(spec, shape)) {
    layers[s.layer].slots.push_back(g.param(s.name, s.type));
    if (s.kind == StateSlot::Kind::paged) layers[s.layer].page_table = tables[s.pool];
  }
  std::vector<Value> factors;
  for (size_t i = 0; adapters_by_sequence && i < spec.adapters.size(); ++i)
    factors.push_back(g.input(factors_name(i), g.rows_type(rows, DType::f32, {1})));
  const Transformer model(spec, Weights(g, dtype_of, values_of).with_factors(factors), shape.context);
  const Value x = model(tokens, ctx, layers);
  const auto scope = g.scope("logits");
  const Value picked = g.input("logit_rows", g.rows_type(wanted, DType::i32), max_rows);
  d.outputs = {model.head.logits(embedding(x, picked), picked)};
  if (hidden) {
    const int asked = g.declare_rows("hidden_rows", max_rows);
    d.outputs.push_back(embedding(x, g.input("hidden_rows", g.rows_type(asked, DType::i32), max_rows)));
  }
  if (likeliest) {
    const Value logits = d.outputs[0];
    const TopK best = top_k(logits, std::min<int64_t>(kLikeliest, spec.vocab));
    d.outputs.insert(d.outputs.end(), {best.ids, best.values, max(logits, 1)});
  }
  for (const nn::LayerState& l : layers) d.updates.insert(d.updates.end(), l.slots.begin(), l.slots.end());
  return d;
}

namespace {

// The dtypes of a model's tensors in memory.
Weights::DTypeOf dtypes_of(const Model& model) {
  return [store = model.params.get()](const std::string& name) { return store->type(name).dtype; };
}

PlanOptions plan_options(const DecoderOptions& options) {
  PlanOptions o{.fuse = !options.check_finite};
  if (!options.exact) o.products = DType::q8_0;
  o.repack = options.repack;
  return o;
}

// A cache holds the states of all sequences and a page. The rest is for pages, and half of it for snapshots where
// pages are not all that a sequence holds.
void share_out(DecodeShape& shape, const ModelSpec& spec, size_t cache) {
  constexpr size_t kMost = size_t(1) << 30;
  shape.shared_pages = 1;
  const size_t page = shared_page_bytes(spec, shape), snapshot = kept_state_bytes(spec, shape);
  if (page == 0) shape.shared_pages = 0;
  const size_t least = state_bytes(spec, shape);
  check(cache >= least || snapshot > 0, "cache: {} is less than one page of {} positions, which takes {}",
        format_bytes(cache), kPagePositions, format_bytes(least));
  check(cache >= least,
        "cache: {} is less than {} for windows and recurrent states of {} sequences; use a larger --cache",
        format_bytes(cache), format_bytes(least), shape.sequences);
  size_t left = cache - least;
  if (snapshot > 0) shape.snapshots = int64_t(std::min((page > 0 ? left / 2 : left) / snapshot, kMost));
  left -= size_t(shape.snapshots) * snapshot;
  if (page > 0) shape.shared_pages += int64_t(std::min(left / page, kMost));
}

}  // namespace

namespace {

DecodeShape shape_of(const ModelSpec& spec, const Weights::DTypeOf& dtype_of, const DecoderOptions& options) {
  check(options.context >= 0, "decoder: a context of {} positions, expected at least 1, or 0 for the model's own",
        options.context);
  check(options.max_rows >= 1, "decoder: at most {} rows together, expected at least 1", options.max_rows);
  const int64_t context = options.context > 0 ? options.context : spec.context;
  DecodeShape shape{options.sequences, context, options.kv.value_or(default_kv(spec, dtype_of))};
  shape.take_back = options.take_back;
  shape.validate();
  spec.require_positions(context, "context");  // before there is memory for them
  shape.rows = std::min(options.max_rows, shape.context * shape.sequences);
  state_slots(spec, shape);  // can its layers have this type of keys and values?
  if (options.cache > 0) share_out(shape, spec, options.cache);
  return shape;
}

// Bytes of a model's matrices, as if all of them had that type.
size_t matrix_bytes(const ModelSpec& spec, DType type) {
  size_t bytes = 0;
  for (const TensorSpec& t : tensors_of(spec))
    bytes += t.shape.rank() < 2 || t.shape.back() % info_of(type).block != 0 ? size_t(t.shape.count()) * sizeof(float)
                                                                             : bytes_of(type, t.shape);
  return bytes;
}

}  // namespace

DecodeShape decode_shape(const Model& model, const DecoderOptions& options) {
  return shape_of(model.spec, dtypes_of(model), options);
}

void require_room_to_decode(Device& device, const std::string& path, const DecoderOptions& options) {
  const size_t have = device.memory().free;
  if (device.host_visible() || have == 0) return;
  const gguf::File file = gguf::File::open(path);
  ModelSpec spec = spec_from_gguf(file);
  spec.roles.freeze = {"*"};
  const Weights::DTypeOf held = held_types(file, spec);
  size_t weights = 0;
  for (const TensorSpec& t : tensors_of(spec)) weights += bytes_of(device.storage(held(t.name)), t.shape);
  if (weights > have) {
    std::string smaller = "use a smaller model";
    for (const DType type : {DType::q4_k, DType::q8_0})  // the best that fits
      if (const size_t bytes = matrix_bytes(spec, type); bytes < have)
        smaller = fmt::format("as {} they would take {} (toy quantize)", name_of(type), format_bytes(bytes));
    fail("memory: the weights of {} need {}, and {} are free{}; {}", path, format_bytes(weights), format_bytes(have),
         where_memory_is(device), smaller);
  }
  DecoderOptions o = options;
  o.context = o.context > 0 ? std::min(o.context, spec.context) : spec.context;
  const auto needs = [&](int64_t context) {
    o.context = context;
    return weights + decoder_bytes(device, spec, held, o);
  };
  const int64_t wanted = o.context;
  const size_t bytes = needs(wanted);
  if (bytes <= have) return;
  int64_t fits = 0;
  for (int64_t too_many = wanted; too_many - fits > 1;) {
    const int64_t middle = fits + (too_many - fits) / 2;
    (needs(middle) <= have ? fits : too_many) = middle;
  }
  fail("memory: the weights of {} and decoding {} sequence{} of {} positions need {}, and {} are free{}; {}", path,
       o.sequences, o.sequences == 1 ? "" : "s", wanted, format_bytes(bytes), format_bytes(have),
       where_memory_is(device),
       fits > 0 ? fmt::format("{} positions would fit", fits) : "use fewer sequences, a smaller model or fewer bits");
}

bool rounds_activations(const Device& device, const Model& model, const DecoderOptions& options) {
  if (options.exact || !device.has_products(DType::q8_0)) return false;
  const std::vector<TensorSpec> tensors = tensors_of(model.spec);
  return std::ranges::any_of(tensors, [&](const TensorSpec& t) { return is_quantized(model.params->stored(t.name)); });
}

size_t decoder_bytes(Device& device, const ModelSpec& spec, const Weights::DTypeOf& dtype_of,
                     const DecoderOptions& options) {
  const DecodeShape shape = shape_of(spec, dtype_of, options);
  const DecodeGraph d = build_decode_graph(spec, dtype_of, shape, shape.rows, options.hidden,
                                           options.adapters_by_sequence, !device.host_visible());
  const Plan plan = compile(*d.graph, d.outputs, d.updates, device, plan_options(options));
  return state_bytes(spec, shape, &device) + plan.arena_bytes + plan.input_bytes(device) + plan.repacked_bytes();
}

size_t decoder_bytes(Device& device, const Model& model, const DecoderOptions& options) {
  return decoder_bytes(device, model.spec, dtypes_of(model), options);
}

Decoder::Decoder(Device& device, const Model& model, const DecoderOptions& options)
    : vocab_(model.spec.vocab),
      width_(model.spec.d_model),
      rounds_(rounds_activations(device, model, options)),
      gives_hidden_(options.hidden),
      tells_likeliest_(!device.host_visible()) {
  const DecodeShape shape = decode_shape(model, options);
  require_memory(device, state_bytes(model.spec, shape, &device), "the state of all sequences");
  max_rows_ = shape.rows;
  state_ = std::make_unique<DecodeState>(model.spec, device, shape);
  if (options.adapters_by_sequence)
    for (const AdapterSpec& adapter : model.spec.adapters) {
      factors_.emplace_back(size_t(shape.sequences), 1.0f);
      magnitudes_.push_back(std::ranges::any_of(
          adapter.maps, [](const auto& map) { return map.second.magnitude != AdapterSpec::Magnitude::none; }));
    }
  Weights::ValuesOf values;
  if (shape.kv == DType::q8_0)
    values = [store = model.params.get()](const std::string& name) { return store->read(name); };
  const DecodeGraph d = build_decode_graph(model.spec, dtypes_of(model), shape, max_rows_, options.hidden,
                                           options.adapters_by_sequence, tells_likeliest_, values);
  auto plan = std::make_shared<const Plan>(compile(*d.graph, d.outputs, d.updates, device, plan_options(options)));
  require_memory(device, plan->arena_bytes + plan->input_bytes(device), "decoding with this context");
  require_memory(device, plan->repacked_bytes(), "the repacked weights");
  session_ = std::make_unique<Session>(device, plan,
                                       std::initializer_list<const ParamStore*>{model.params.get(), &state_->slots()});
  session_->check_finite(options.check_finite);
  check_finite_ = options.check_finite;
}

void Decoder::decode(std::span<const DecodeRow> rows) {
  std::vector<int64_t> more(size_t(state_->sequences()));
  for (size_t i = 0; i < rows.size(); ++i) {  // all checks come before anything is changed
    const DecodeRow& r = rows[i];
    check(r.sequence >= 0 && r.sequence < state_->sequences(), "decoder: row {}: sequence {} of {}", i, r.sequence,
          state_->sequences());
    check(r.token >= 0 && r.token < vocab_, "token {} at index {} is outside the vocabulary (0 to {})", r.token, i,
          vocab_ - 1);
    check(!r.hidden || gives_hidden_, "decoder: row {} asks for hidden states; make the decoder with `hidden`", i);
    check(i == 0 || r.sequence == rows[i - 1].sequence || more[size_t(r.sequence)] == 0,
          "decoder: rows of sequence {} do not stand together", r.sequence);
    ++more[size_t(r.sequence)];
  }
  std::vector<int64_t> before;
  for (int s = 0; s < state_->sequences(); ++s) before.push_back(state_->length(s));
  for (int s = 0; s < state_->sequences(); ++s)
    check(state_->length(s) + more[size_t(s)] <= state_->context(),
          "context: {} positions in use and {} more do not fit into {}; use a larger --ctx, or less text",
          state_->length(s), more[size_t(s)], state_->context());
  if (state_->shape().shared_pages > 0) state_->require_pages(more);
  // What cannot be taken back is copied, where a call can fail: all that the others read was checked above.
  std::vector<std::pair<int, StateSnapshot>> kept;
  if (check_finite_ && (state_->recurrent() || int64_t(rows.size()) > max_rows_))
    for (int s = 0; s < state_->sequences(); ++s)
      if (more[size_t(s)] > 0) kept.emplace_back(s, state_->snapshot(s));
  forget_results();
  try {
    for (size_t at = 0; at < rows.size(); at += size_t(max_rows_))
      run_piece(rows.subspan(at, std::min(rows.size() - at, size_t(max_rows_))));
  } catch (...) {  // positions that were not computed must not count
    for (int s = 0; s < state_->sequences(); ++s) {
      const int64_t length = std::min(state_->length(s), before[size_t(s)]);
      state_->truncate(s, length >= state_->shortest(s) ? length : 0);
    }
    for (const auto& [s, snapshot] : kept) state_->restore(s, snapshot);
    forget_results();
    throw;
  }
}

void Decoder::forget_results() {
  logits_.clear(), hidden_.clear(), likeliest_.clear(), likeliest_logits_.clear(), most_.clear();
  logits_count_ = 0;
}

// An output of `width` columns, of all rows of the call that want logits.
template <class T>
std::span<const T> Decoder::read(Output output, std::vector<T>& all) const {
  const size_t outputs = session_->plan().outputs.size(), at = output == Output::logits ? 0 : outputs - size_t(output);
  const std::lock_guard lock(reading_);
  if (all.size() == logits_count_ * width_of(output)) return all;
  if constexpr (std::is_same_v<T, float>) {
    const std::vector<float> piece = session_->values(at);
    all.insert(all.end(), piece.begin(), piece.end());
  } else {
    const HostTensor piece = session_->output(at);
    all.insert(all.end(), piece.view().as<T>(), piece.view().as<T>() + piece.view().count());
  }
  return all;
}

size_t Decoder::width_of(Output output) const {
  if (output == Output::maximum) return 1;
  return output == Output::logits ? size_t(vocab_) : size_t(std::min<int64_t>(kLikeliest, vocab_));
}

// Before another piece takes the place of the last one.
void Decoder::read_all() const {
  read(Output::logits, logits_);
  if (!tells_likeliest_) return;
  read(Output::likeliest, likeliest_);
  read(Output::likeliest_logits, likeliest_logits_);
  read(Output::maximum, most_);
}

void Decoder::check_adapters(std::span<const float> factors) const {
  if (factors.empty()) return;
  check(!factors_.empty(), "adapters: {} factors for a decoder whose sequences all use the same adapters",
        factors.size());
  check(factors.size() == factors_.size(), "adapters: {} factors for {} adapters", factors.size(), factors_.size());
  for (size_t i = 0; i < factors.size(); ++i) {
    check(std::isfinite(factors[i]), "adapters: a factor is {}, expected a number", factors[i]);
    check(!magnitudes_[i] || factors[i] == 0 || factors[i] == 1,
          "adapters: adapter {} has magnitudes (DoRA), and its factor is {}; use 0 or 1, or load it with another scale",
          i, factors[i]);
  }
}

void Decoder::use_adapters(int sequence, std::span<const float> factors) {
  check(sequence >= 0 && sequence < state_->sequences(), "decoder: sequence {} of {}", sequence, state_->sequences());
  check_adapters(factors);
  for (size_t i = 0; i < factors_.size(); ++i) factors_[i][size_t(sequence)] = factors.empty() ? 1 : factors[i];
}

void Decoder::run_piece(std::span<const DecodeRow> rows) {
  read_all();
  tokens_.clear(), sequences_.clear(), positions_.clear(), wanted_.clear(), wanted_hidden_.clear();
  state_->slide();
  for (const DecodeRow& r : rows) {
    if (r.logits) wanted_.push_back(int32_t(tokens_.size()));
    if (r.hidden) wanted_hidden_.push_back(int32_t(tokens_.size()));
    tokens_.push_back(r.token);
    sequences_.push_back(r.sequence);
    positions_.push_back(int32_t(state_->extend(r.sequence, 1)));
  }
  session_->set_rows("rows", int64_t(rows.size()));
  session_->set_rows("logit_rows", int64_t(wanted_.size()));
  session_->set("tokens", tokens_);
  session_->set("sequence", sequences_);
  session_->set("position", positions_);
  for (size_t pool = 0; pool < state_->pools().size(); ++pool)
    session_->set(state_->pools()[pool].table(), state_->page_table(pool));
  session_->set("logit_rows", wanted_);
  if (gives_hidden_) {
    session_->set_rows("hidden_rows", int64_t(wanted_hidden_.size()));
    session_->set("hidden_rows", wanted_hidden_);
  }
  for (size_t i = 0; i < factors_.size(); ++i) {
    std::vector<float> of_rows;
    for (const int32_t s : sequences_) of_rows.push_back(factors_[i][size_t(s)]);
    session_->set(factors_name(i), of_rows);
  }
  ++calls_;
  try {
    session_->run();
  } catch (const Error& e) {
    throw Error(e.code(), fmt::format("decoding: call {}, {} rows: {}", calls_, rows.size(), e.what()));
  }
  logits_count_ += wanted_.size();
  if (!tells_likeliest_) read_all();
  if (wanted_hidden_.empty()) return;
  const std::vector<float> states = session_->values(1);
  hidden_.insert(hidden_.end(), states.begin(), states.end());
}

std::span<const float> Decoder::logits(size_t i) const {
  check(i < logits_count(), "decoder: logits {} of {}", i, logits_count());
  return read(Output::logits, logits_).subspan(i * size_t(vocab_), size_t(vocab_));
}

bool Decoder::tells_likeliest(size_t i) const {
  check(i < logits_count(), "decoder: logits {} of {}", i, logits_count());
  return tells_likeliest_ && std::isfinite(read(Output::maximum, most_)[i]);
}

std::optional<int32_t> Decoder::largest(size_t i) const {
  if (!tells_likeliest(i)) return {};
  return read(Output::likeliest, likeliest_)[i * width_of(Output::likeliest)];
}

std::optional<Decoder::Likeliest> Decoder::likeliest(size_t i) const {
  if (!tells_likeliest(i)) return {};
  const size_t n = width_of(Output::likeliest);
  return Likeliest{read(Output::likeliest, likeliest_).subspan(i * n, n),
                   read(Output::likeliest_logits, likeliest_logits_).subspan(i * n, n)};
}

std::span<const float> Decoder::hidden(size_t i) const {
  check(i < hidden_count(), "decoder: hidden states {} of {}", i, hidden_count());
  return std::span(hidden_).subspan(i * size_t(width_), size_t(width_));
}

}  // namespace toy
