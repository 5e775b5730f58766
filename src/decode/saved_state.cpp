#include "toy/decode/saved_state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>

#include "toy/base/checksum.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"

namespace toy {
namespace {

constexpr const char *kArchitecture = "toy-state", *kVersionKey = "state.version", *kChecksumKey = "state.checksum",
                     *kMadeWith = "state.made_with.", *kTokens = "tokens", *kNames = "state.adapter.names",
                     *kIds = "state.adapter.ids", *kFactors = "state.adapter.factors";
constexpr uint32_t kVersion = 1;

std::span<const std::byte> bytes_of_tokens(const std::vector<int32_t>& tokens) {
  return std::as_bytes(std::span(tokens));
}

void add_text(Xxh64& sum, std::string_view text) { sum.update(std::as_bytes(std::span(text))); }

// Of all that decides about what follows the tokens.
uint64_t checksum_of(const SavedState& s) {
  Xxh64 sum;
  for (const auto& [name, value] : s.card.made_with) add_text(sum, fmt::format("{}={}\n", name, value));
  for (const StateAdapter& a : s.card.adapters)
    add_text(sum, fmt::format("{}*{}\n", a.id, std::bit_cast<uint32_t>(a.factor)));
  sum.update(bytes_of_tokens(s.tokens));
  for (const std::vector<std::byte>& slot : s.snapshot.slots) sum.update(slot);
  return sum.digest();
}

// Any bytes as a tensor: GGUF has no type for the layouts of pages. No tensor is empty, but few slots are.
void add_words(gguf::Writer& out, const std::string& name, std::span<const std::byte> bytes) {
  constexpr size_t kWord = sizeof(int32_t);
  if (bytes.empty()) return;
  if (bytes.size() % kWord != 0) fail_internal("state: {} has {} bytes, no multiple of {}", name, bytes.size(), kWord);
  out.add(name, View(const_cast<std::byte*>(bytes.data()), DType::i32, {int64_t(bytes.size() / kWord)}), DType::i32);
}

std::span<const std::byte> words(const gguf::File& file, const std::string& name) {
  const gguf::TensorInfo* t = file.find(name);
  if (t == nullptr) return {};
  check(t->dtype == DType::i32 && t->shape.rank() == 1, "{}: '{}' is not a list of i32; save the state again",
        file.path(), name);
  return {t->data, t->bytes};
}

// Tensors of an adapter, or of the model itself (-1), in the model's order.
void add_tensors(Xxh64& sum, const Model& model, int adapter) {
  for (const TensorSpec& t : tensors_of(model.spec)) {
    if (t.adapter != adapter) continue;
    const HostTensor values = model.params->host(t.name);
    add_text(sum, name_of(values.view().dtype));
    sum.update({values.view().as<const std::byte>(), values.view().bytes()});
  }
}

// Not of the name: a file may move.
std::string weights_checksum(const Model& model) {
  Xxh64 sum;
  nlohmann::ordered_json dimensions = to_json(model.spec);
  dimensions.erase("name");
  add_text(sum, json_text(dimensions));
  add_tensors(sum, model, -1);
  return checksum_text(sum.digest());
}

}  // namespace

std::vector<std::string> adapter_checksums(const Model& model) {
  std::vector<std::string> list;
  for (const AdapterSpec& adapter : model.spec.adapters) {
    Xxh64 sum;
    for (const auto& [name, map] : adapter.maps)
      add_text(sum, fmt::format("{} {} {} {} {}\n", name, map.rank, std::bit_cast<uint32_t>(map.scale),
                                int(map.magnitude), map.principal));
    add_tensors(sum, model, int(list.size()));
    list.push_back(checksum_text(sum.digest()));
  }
  return list;
}

std::map<std::string, std::string> made_with(const Model& model, Decoder& decoder) {
  const ModelSpec& spec = model.spec;
  const DecodeState& state = decoder.state();
  std::map<std::string, std::string> m{{"model", weights_checksum(model)},
                                       {"kv", std::string(name_of(decoder.kv()))},
                                       {"activations", decoder.rounds() ? "rounded" : "exact"},
                                       {"device", std::string(state.slots().device().name())}};
  const auto has_gains = [](const LayerSpec& l) { return l.qk_norm == LayerSpec::head_norm; };
  if (decoder.kv() == DType::q8_0)
    m["keys"] = std::ranges::any_of(spec.layers, has_gains) ? "balanced and turned" : "turned";
  std::vector<int64_t> windows;
  for (const PagePool& pool : state.pools())
    if (pool.window > 0) windows.push_back(pool.window);
  if (!windows.empty()) {
    m["windows"] = fmt::format("{}", fmt::join(windows, ","));
    m["take_back"] = std::to_string(state.shape().take_back);
  }
  if (!spec.rope.long_factors.empty())
    m["rope_factors"] = decoder.context() > spec.rope.original_context ? "long" : "short";
  return m;
}

uint64_t write_state(const SavedState& saved, const DecodeState& state, const std::string& path) {
  const std::vector<StateSlot>& slots = state.slot_list();
  check(saved.snapshot.length > 0 && int64_t(saved.tokens.size()) == saved.snapshot.length &&
            saved.snapshot.slots.size() == slots.size(),
        "state: {} tokens and {} slots for a snapshot of {} positions of {} slots", saved.tokens.size(),
        saved.snapshot.slots.size(), saved.snapshot.length, slots.size());
  gguf::Writer out(kArchitecture);
  out.set(kVersionKey, kVersion);
  out.set(kChecksumKey, checksum_text(checksum_of(saved)));
  for (const auto& [name, value] : saved.card.made_with) out.set(kMadeWith + name, value);
  if (!saved.card.adapters.empty()) {
    std::vector<std::string> names, ids;
    std::vector<float> factors;
    for (const StateAdapter& a : saved.card.adapters)
      names.push_back(a.name), ids.push_back(a.id), factors.push_back(a.factor);
    out.set(kNames, gguf::Array(names));
    out.set(kIds, gguf::Array(ids));
    out.set(kFactors, gguf::Array(factors));
  }
  add_words(out, kTokens, bytes_of_tokens(saved.tokens));
  for (size_t i = 0; i < slots.size(); ++i) add_words(out, slots[i].name, saved.snapshot.slots[i]);
  return out.finish(path, FileAccess::owner);
}

StateCard read_state_card(const gguf::File& file) {
  const std::string kind = file.get_string("general.architecture", "");
  check(kind == kArchitecture, "{}: not a saved state: its architecture is '{}', not '{}'", file.path(), kind,
        kArchitecture);
  const uint32_t version = file.get_u32(kVersionKey);
  check(version == kVersion, "{}: a state of version {}; this toy reads version {}, so save the state again",
        file.path(), version, kVersion);
  StateCard card{.made_with = {}, .adapters = {}, .tokens = int64_t(words(file, kTokens).size() / sizeof(int32_t))};
  for (const auto& [key, value] : file.metadata())
    if (key.starts_with(kMadeWith)) card.made_with[key.substr(std::strlen(kMadeWith))] = file.get_string(key);
  if (!file.has(kIds)) return card;
  const std::vector<std::string>&names = file.get_strings(kNames), &ids = file.get_strings(kIds);
  const std::vector<float>& factors = file.get_f32s(kFactors);
  check(names.size() == ids.size() && ids.size() == factors.size(),
        "{}: {} names, {} ids and {} factors of adapters; save the state again", file.path(), names.size(), ids.size(),
        factors.size());
  for (size_t i = 0; i < ids.size(); ++i) card.adapters.push_back({names[i], ids[i], factors[i]});
  return card;
}

SavedState read_state(const gguf::File& file, const DecodeState& state) {
  SavedState saved{.card = read_state_card(file), .tokens = {}, .snapshot = {}};
  const int64_t length = saved.card.tokens;
  check(length >= 1, "{}: the state has no tokens; save the state again", file.path());
  check(length <= state.context(), "{}: the state has {} tokens, and the context holds {}; use a larger --ctx",
        file.path(), length, state.context());
  const std::vector<StateSlot>& slots = state.slot_list();
  const std::vector<size_t> bytes = state.snapshot_bytes(length);
  const size_t tensors = 1 + slots.size() - size_t(std::ranges::count(bytes, 0u));
  check(file.tensors().size() == tensors, "{}: {} tensors, expected {}; save the state again", file.path(),
        file.tensors().size(), tensors);
  for (size_t i = 0; i < slots.size(); ++i)  // before anything is allocated
    if (const size_t has = words(file, slots[i].name).size(); has != bytes[i])
      fail("{}: '{}' has {} bytes, but {} positions have {}; save the state again", file.path(), slots[i].name, has,
           length, bytes[i]);
  const std::span<const std::byte> tokens = words(file, kTokens);
  saved.tokens.resize(size_t(length));
  std::memcpy(saved.tokens.data(), tokens.data(), tokens.size());
  saved.snapshot.length = length;
  for (const StateSlot& slot : slots) {
    const std::span<const std::byte> part = words(file, slot.name);
    TensorType& type = saved.snapshot.types.emplace_back(slot.type);
    type.shape[0] = 1;
    saved.snapshot.slots.emplace_back(part.begin(), part.end());
  }
  const std::string right = checksum_text(checksum_of(saved)), found = file.get_string(kChecksumKey);
  check(found == right, "{}: the checksum is {}, not {}: the file is damaged; save the state again", file.path(), right,
        found);
  return saved;
}

}  // namespace toy
