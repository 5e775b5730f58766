// Models in GGUF, of whatever family: tensors, their types and memory, the tokenizer.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <set>
#include <unordered_set>

#include "models/families/families.h"
#include "toy/base/memory.h"
#include "toy/base/nearest.h"
#include "toy/base/threads.h"
#include "toy/base/utf8.h"
#include "toy/models/embedding_rule.h"
#include "toy/models/grow.h"
#include "toy/models/model.h"
#include "toy/runs/run.h"
#include "toy/tensor/convert.h"
#include "toy/tensor/quantize.h"

namespace toy {
namespace {

std::vector<std::string_view> quantized_types() {
  std::vector<std::string_view> names;
  for (const DTypeInfo& t : kDTypes)
    if (is_quantized(t.type)) names.push_back(gguf::type_name(t.type));
  return names;
}

// llama.cpp writes matrices of one row as vectors.
bool is_stored_as(const Shape& in_file, const Shape& wanted) {
  return in_file == wanted || (wanted.rank() == 2 && wanted[0] == 1 && in_file.rank() == 1 && in_file[0] == wanted[1]);
}

// Metadata decides; the file was validated, but not its dimensions against its tensors. A tensor that nobody asks for
// would have changed the result: refused, as llama.cpp refuses it.
void check_against_tensors(const gguf::File& f, const ModelSpec& spec) {
  const auto hint = [](const std::string& name, const std::vector<std::string>& there) {
    const std::string near = nearest(name, there);
    return near.empty() ? "" : fmt::format("; the nearest is '{}'", near);
  };
  const std::vector<FileTensor> tensors = file_tensors(spec);
  const Family& family = family_of(spec);
  std::vector<std::string> known, found, unknown;
  if (family.extra_tensors) known = family.extra_tensors(spec);
  for (const FileTensor& t : tensors) known.push_back(t.name);
  const std::unordered_set<std::string> all(known.begin(), known.end());
  for (const gguf::TensorInfo& info : f.tensors()) {
    found.push_back(info.name);
    if (!all.contains(info.name)) unknown.push_back(info.name);
  }
  for (const FileTensor& t : tensors) {
    const gguf::TensorInfo* info = f.find(t.name);
    if (!info)
      fail("{}: the tensor '{}' is missing, which the architecture {} has ({} tensors are there{})", f.path(), t.name,
           spec.architecture, found.size(), hint(t.name, unknown.empty() ? found : unknown));
    check(is_stored_as(info->shape, t.shape), "{}: tensor '{}' is {}, the metadata ask for {}", f.path(), t.name,
          info->shape.str(), t.shape.str());
    const bool readable =
        info->dtype && (is_float(*info->dtype) || (is_quantized(*info->dtype) && t.shape.rank() >= 2));
    check(readable, "{}: tensor '{}' is {}; supported: F32, F16, BF16, and for matrices {}", f.path(), t.name,
          info->type_name, fmt::join(quantized_types(), ", "));
  }
  if (!unknown.empty())
    fail("{}: tensor '{}' is not known in the architecture {} as these metadata state it{}", f.path(), unknown.front(),
         spec.architecture, hint(unknown.front(), known));
}

// Weights that the device can use as they lie in the file need no memory of their own.
bool as_it_lies(const TensorSpec& t, DType in_file) {
  if (t.trained || t.in_file != TensorSpec::InFile::same) return false;
  if (!t.narrow && is_float(in_file)) return in_file == DType::f32;  // filters and the like
  return t.shape.rank() >= 2 ? in_file != DType::f64 : in_file == DType::f32;
}

void require_memory_for(const gguf::File& f, const ModelSpec& spec, const std::vector<FileTensor>& tensors,
                        const Device& device) {
  size_t bytes = 0, mapped = 0;  // mapped: what every token reads
  bool quantized = false;
  for (const FileTensor& t : tensors) {
    const gguf::TensorInfo& info = f.require(t.name);
    const bool trained = std::any_of(t.parts.begin(), t.parts.end(), [](const TensorSpec& p) { return p.trained; });
    if (!trained && as_it_lies(t.parts.front(), *info.dtype) && device.storage(*info.dtype) == *info.dtype) {
      const bool by_row = t.shape.rank() > 2 || (t.name == "token_embd.weight" && !spec.tied) ||
                          t.name == "per_layer_token_embd.weight";  // experts, embeddings
      mapped += by_row ? 0 : info.bytes;
      if (!device.host_visible()) bytes += info.bytes;  // uploaded
      continue;
    }
    bytes += size_t(t.shape.count()) * size_of(device.storage(DType::f32));
    quantized = quantized || (is_quantized(*info.dtype) && trained);
  }
  const Device::Memory memory = device.memory();
  check(!device.host_visible() || memory.total == 0 || mapped <= memory.total,
        "memory: every token reads {} of weights from {}, and this machine has {}; use a smaller model or fewer bits",
        format_bytes(mapped), f.path(), format_bytes(memory.total));
  require_memory(
      device, bytes,
      fmt::format("holding the weights of {}{}", f.path(), quantized ? ", which are quantized there, as f32" : ""));
}

// Each thread takes its share of the blocks. The first broken one is named, whichever thread finds it.
void dequantize_tensor(const gguf::File& f, const gguf::TensorInfo& info, ThreadPool& threads, float* out) {
  const DTypeInfo& type = info_of(*info.dtype);
  std::vector<int64_t> broken(size_t(threads.size()));
  threads.run([&](int thread) {
    const Range mine = part(info.shape.count() / type.block, thread, threads.size());
    const std::byte* const from = info.data + size_t(mine.begin) * type.bytes;
    const int64_t found = find_broken_block(type.type, from, mine.size());
    broken[size_t(thread)] = found < 0 ? -1 : mine.begin + found;
    if (found < 0) dequantize(type.type, from, {out + mine.begin * type.block, size_t(mine.size() * type.block)});
  });
  for (const int64_t block : broken)
    check(block < 0, "{}: tensor '{}': the scale of block {} is infinite or not a number; the file is damaged",
          f.path(), info.name, block);
}

void load_quantized(const gguf::File& f, const gguf::TensorInfo& info, ThreadPool& threads, ParamStore& params) {
  params.add(info.name, {DType::f32, info.shape, 0});
  const HostTensor to = params.host(info.name);
  if (params.device().host_visible() && to.view().dtype == DType::f32)
    return dequantize_tensor(f, info, threads, to.view().as<float>());
  std::vector<float> values(size_t(info.shape.count()));
  dequantize_tensor(f, info, threads, values.data());
  params.write(info.name, values);
}

void load_tensor(const gguf::File& f, const gguf::TensorInfo& info, bool as_is, ThreadPool& threads,
                 ParamStore& params) {
  const View host(const_cast<std::byte*>(info.data), *info.dtype, info.shape);
  if (as_is) return params.bind(info.name, host, f.keep_alive(), true);
  if (is_quantized(*info.dtype)) return load_quantized(f, info, threads, params);
  params.add(info.name, {DType::f32, info.shape, 0});  // gains and biases are always f32
  params.write(info.name, host);
}

// Rates of decay, of which a file holds -exp.
void load_logarithms(const gguf::File& f, const gguf::TensorInfo& info, const std::string& name, ParamStore& params) {
  std::vector<float> values(size_t(info.shape.count()));
  convert(View(const_cast<std::byte*>(info.data), *info.dtype, info.shape),
          View(values.data(), DType::f32, info.shape));
  for (size_t i = 0; i < values.size(); ++i) {
    check(values[i] < 0 && std::isfinite(values[i]), "{}: tensor '{}': element {} is {}, expected below 0", f.path(),
          info.name, i, values[i]);
    values[i] = float(std::log(-double(values[i])));
  }
  params.add(name, {DType::f32, info.shape, 0});
  params.write(name, values);
}

// Rows of a tensor lie one behind the other, in every type: a part is a tensor of its own.
void load_parts(const gguf::File& f, const FileTensor& t, ThreadPool& threads, ParamStore& params) {
  gguf::TensorInfo part = f.require(t.name);
  const size_t row_bytes = part.bytes / size_t(t.shape[0]);
  for (const TensorSpec& p : t.parts) {
    if (p.in_file == TensorSpec::InFile::minus_exp) return load_logarithms(f, part, p.name, params);
    part.name = p.name, part.shape = p.shape, part.bytes = row_bytes * size_t(p.shape[0]);
    load_tensor(f, part, as_it_lies(p, *part.dtype), threads, params);
    part.data += part.bytes;
  }
}

void warn_of_types(const gguf::File& f, const std::vector<FileTensor>& all, std::vector<std::string>& out) {
  size_t tensors = 0, stored = 0, loaded = 0;
  std::set<std::string> types;
  for (const FileTensor& file : all)
    if (const gguf::TensorInfo& t = f.require(file.name);
        is_quantized(*t.dtype) && !as_it_lies(file.parts.front(), *t.dtype)) {
      ++tensors, stored += t.bytes, loaded += size_t(t.shape.count()) * 4;
      types.insert(t.type_name);
    }
  if (tensors)
    out.push_back(fmt::format("{} matrices are {} and are dequantized to f32 when loaded: {} in the file, {} in memory",
                              tensors, fmt::join(types, ", "), format_bytes(stored), format_bytes(loaded)));
}

// Files with a vocabulary alone are made to test tokenizers; what they say of an architecture has no weights to it.
void check_holds_weights(const gguf::File& f) {
  if (!f.tensors().empty()) return;
  check(
      !f.has("tokenizer.ggml.tokens"),
      "{}: it holds a vocabulary and no weights ({} tokens, tokenizer.ggml.model {}), so it cannot be run or trained; "
      "`toy tokenizer encode` and `decode` take it where they know its kind",
      f.path(), f.get_strings("tokenizer.ggml.tokens").size(), f.get_string("tokenizer.ggml.model", "absent"));
  fail("{}: it holds metadata and no weights, so it cannot be run or trained", f.path());
}

// Files beside a model that look like one.
void check_is_model(const gguf::File& f) {
  const std::string type =
      f.get_string("general.architecture") == "clip" ? "mmproj" : f.get_string("general.type", "model");
  check(type != "adapter", "{0}: an adapter; give the model that it belongs to, and --lora {0}", f.path());
  check(type != "mmproj", "{}: a projector for images (mmproj), which toy does not read; give the model beside it",
        f.path());
  check(type != "imatrix", "{0}: an importance matrix; give a model, and this file to toy quantize --imatrix {0}",
        f.path());
}

constexpr std::string_view kPooling = ".pooling_type", kHeadPooling = ".classifier.pooling_type";
constexpr std::array<std::string_view, 5> kPoolings{"", "mean", "cls", "last", "rank"};  // as llama.cpp numbers them

// Metadata that no weight here depends on, and that stay true whatever the weights are trained to or stored as.
bool is_for_others(std::string_view key) {
  constexpr std::array kOfTheFile{"general.alignment", "general.file_type", "general.quantization_version"};
  if (key.starts_with("general.")) return std::find(kOfTheFile.begin(), kOfTheFile.end(), key) == kOfTheFile.end();
  return key.starts_with("tokenizer.chat_template") || key.ends_with(kPooling) || key.starts_with(kEmbeddingKeys) ||
         key.ends_with(".classifier.output_labels") ||
         (key.starts_with("tokenizer.ggml.") && key.ends_with("_token_id"));
}

}  // namespace

namespace {

// `m`: the defaults of its family.
ModelSpec read_spec(Metadata& metadata, ModelSpec m) {
  const gguf::File& f = metadata.file();
  m.name = one_line(f.get_string("general.name", m.architecture));  // it will be printed on terminals
  m.d_model = metadata.u32("embedding_length");
  m.context = metadata.u32("context_length");
  const char* rows = m.vision.there() ? "head.weight" : "token_embd.weight";
  m.vocab = f.require(rows).shape[0];
  if (holds(m, "tied")) m.tied = f.find("output.weight") == nullptr;
  const int64_t blocks = metadata.u32("block_count"), vocab = metadata.u32("vocab_size", m.vocab);
  check(blocks >= 1 && blocks <= kMaxLayers, "{}: {} is {}, expected 1 to {}", f.path(), metadata.key("block_count"),
        blocks, kMaxLayers);
  if (vocab != m.vocab)
    metadata.warn(
        fmt::format("{} is {}, {} has {} rows, which are used", metadata.key("vocab_size"), vocab, rows, m.vocab));
  metadata.ignore("tensor_data_layout");
  const int64_t pooling = metadata.u32("pooling_type", 0);
  check(pooling < int64_t(kPoolings.size()), "{}: {} is {}, expected 0 to {}", f.path(), metadata.key("pooling_type"),
        pooling, kPoolings.size() - 1);
  check(
      metadata.flag("attention.causal", m.causal) || !m.causal,
      "{}: {} is false: its tokens see those after them, which toy computes for encoders such as bert, but not for {}; "
      "use llama.cpp for the embeddings of this one",
      f.path(), metadata.key("attention.causal"), m.architecture);
  m.layers = repeated(m.layers, size_t(blocks));
  family_of(m).read(metadata, m);
  return m;
}

}  // namespace

ModelSpec spec_from_gguf(const gguf::File& f, const Families& more) {
  check_is_model(f);
  check_holds_weights(f);
  const std::string architecture = f.get_string("general.architecture");
  Metadata metadata(f, architecture);
  ModelSpec m = read_spec(metadata, spec_of(architecture, more, f.path()));
  try {
    m.validate();
  } catch (const Error& e) {
    fail("{}: {}", f.path(), e.what());
  }
  check_against_tensors(f, m);
  return m;
}

std::string stated_pooling(const std::map<std::string, gguf::Value, std::less<>>& metadata) {
  for (const auto& [key, value] : metadata)
    if (key.ends_with(kPooling) && !key.ends_with(kHeadPooling))
      return std::visit(
          [](const auto& v) {
            if constexpr (std::is_integral_v<std::decay_t<decltype(v)>>)
              if (size_t(v) < kPoolings.size()) return std::string(kPoolings[size_t(v)]);
            return std::string();
          },
          value);
  return "";
}

EmbeddingRule embedding_rule(const std::map<std::string, gguf::Value, std::less<>>& metadata) {
  EmbeddingRule rule{.pooling = stated_pooling(metadata)};
  if (const auto it = metadata.find(kNormalizeKey); it != metadata.end()) {
    const bool* flag = std::get_if<bool>(&it->second);
    check(flag != nullptr, "{} is not true or false", kNormalizeKey);
    rule.normalize = *flag;
  }
  if (const auto it = metadata.find(kMaxTokensKey); it != metadata.end()) {
    const auto* number = std::get_if<uint32_t>(&it->second);
    check(number && *number > 0, "{} is not a number above 0", kMaxTokensKey);
    rule.max_tokens = *number;
  }
  return rule;
}

uint32_t pooling_number(std::string_view pooling) {
  if (pooling == "none") return 0;
  const auto it = std::find(kPoolings.begin() + 1, kPoolings.end(), pooling);
  check(it != kPoolings.end(), "the pooling '{}' is not known; there are: none, mean, cls, last, rank", pooling);
  return uint32_t(it - kPoolings.begin());
}

std::vector<std::string> warnings_of(const gguf::File& f, const ModelSpec& m) {
  std::vector<std::string> out;
  if (const std::string unsupported = unsupported_tokenizer(f); !unsupported.empty())
    out.push_back(
        fmt::format("{}, only {}; the model takes token ids, but no text", unsupported, kSupportedTokenizers));
  if (f.get_string("tokenizer.ggml.model", "none") == "gpt2" && !f.has("tokenizer.ggml.pre"))
    if (const OptionalTokenizer t = try_load_tokenizer(f); t.tokenizer && !t.warning.empty()) out.push_back(t.warning);
  ModelSpec defaults = family_of(m).defaults;
  defaults.family = m.family;
  Metadata metadata(f, m.architecture);
  read_spec(metadata, std::move(defaults));  // once more: what it asks for, and what it says of it
  for (std::string& text : metadata.warnings()) out.push_back(std::move(text));
  return out;
}

namespace {

// `mapped`: what the device can use as it lies, although training changes it.
Model load(const gguf::File& f, ModelSpec spec, const Device& device, bool mapped) {
  const std::string& path = f.path();
  Model m{std::move(spec), std::make_unique<ParamStore>(device), nullptr};
  if (unsupported_tokenizer(f).empty()) m.tokenizer = load_tokenizer(f);  // else warnings_of() says so
  if (m.tokenizer)
    check(m.tokenizer->vocab_size() == m.spec.vocab, "{}: {} {} {}, {} has {} rows", path,
          m.spec.vision.there() ? "there are" : "the tokenizer has", m.tokenizer->vocab_size(),
          m.spec.vision.there() ? "classes" : "tokens", m.spec.vision.there() ? "head.weight" : "token_embd.weight",
          m.spec.vocab);
  m.warnings = warnings_of(f, m.spec);
  std::vector<FileTensor> tensors = file_tensors(m.spec);
  for (FileTensor& t : tensors)
    for (TensorSpec& p : t.parts) p.trained = p.trained && !mapped;
  warn_of_types(f, tensors, m.warnings);
  for (const auto& [key, value] : f.metadata())
    if (is_for_others(key)) m.metadata.emplace(key, value);
  require_memory_for(f, m.spec, tensors, device);
  ThreadPool threads(device.host_threads());
  for (const FileTensor& t : tensors) load_parts(f, t, threads, *m.params);
  return m;
}

}  // namespace

Model load_model(const std::string& path, const Device& device, LoadMode mode, const Families& more) {
  const gguf::File f = gguf::File::open(runs::model_path(path));
  f.map_ahead();
  return load(f, spec_from_gguf(f, more), device, mode == LoadMode::mapped);
}

Model load_model(const std::string& path, const Device& device, const ModelSpec& spec) {
  return load(gguf::File::open(runs::model_path(path)), spec, device, false);
}

Weights::DTypeOf held_types(const gguf::File& f, const ModelSpec& spec) {
  std::map<std::string, DType> types;
  for (const FileTensor& t : file_tensors(spec))
    for (const TensorSpec& p : t.parts)
      if (const DType in_file = *f.require(t.name).dtype; as_it_lies(p, in_file)) types[p.name] = in_file;
  return [types = std::move(types)](const std::string& name) {
    const auto it = types.find(name);
    return it == types.end() ? DType::f32 : it->second;
  };
}

void write_dimensions(const ModelSpec& s, gguf::Writer& w, DType stored) {
  MetadataWriter metadata(w, s.architecture);
  w.set("general.name", s.name);
  w.set("general.file_type", uint32_t(stored == DType::f16     ? 1
                                      : stored == DType::bf16  ? 32
                                      : stored == DType::mxfp4 ? 38
                                                               : 0));
  metadata.u32("context_length", s.context);
  metadata.u32("embedding_length", s.d_model);
  metadata.u32("block_count", int64_t(s.layers.size()));
  family_of(s).write(metadata, s);
  metadata.u32("vocab_size", s.vocab);
}

namespace {

// The embedding of a model with a lens, which exists nowhere but in the file, piece by piece.
void write_folded(const Model& m, DType stored, const gguf::Writer::Sink& sink) {
  ThreadPool threads(m.params->device().host_threads());
  const std::vector<float> lens = m.params->read(kLens);
  const int64_t rows = m.spec.vocab, width = m.spec.d_model;
  std::vector<float> values(size_t(std::min(rows, kFoldedRows) * width));
  std::vector<std::byte> bytes(bytes_of(stored, int64_t(values.size())));
  for (int64_t first = 0; first < rows; first += kFoldedRows) {
    const int64_t n = std::min(kFoldedRows, rows - first), count = n * width;
    folded_rows(m, lens, first, {values.data(), size_t(count)}, threads);
    convert_finite(View(values.data(), DType::f32, {n, width}), View(bytes.data(), stored, {n, width}));
    sink({bytes.data(), bytes_of(stored, count)});
  }
}

}  // namespace

void save_model(const Model& m, const std::string& path, DType stored) {
  const ModelSpec& s = m.spec;
  check(m.params != nullptr, "save: the model has no weights");
  check(stored == DType::f32 || stored == DType::f16 || stored == DType::bf16,
        "save: weights cannot be stored as {}; expected f32, f16 or bf16", name_of(stored));
  s.validate();
  gguf::Writer w(s.architecture);
  write_dimensions(s, w, stored);
  if (m.tokenizer)
    m.tokenizer->save(w);
  else
    w.set("tokenizer.ggml.model", std::string("none"));
  for (const auto& [key, value] : m.metadata)
    if (!w.has(key)) w.set(key, value);
  std::deque<HostTensor> kept;  // until they are written
  std::deque<std::vector<float>> changed;
  for (const FileTensor& t : file_tensors(s)) {
    if (t.parts.front().name == kDonorEmbedding) {
      w.add(t.name, t.shape, stored, [&m, stored](const gguf::Writer::Sink& sink) { write_folded(m, stored, sink); });
      continue;
    }
    std::vector<View> parts;
    if (const TensorSpec& p = t.parts.front(); p.in_file == TensorSpec::InFile::minus_exp) {
      std::vector<float>& values = changed.emplace_back(m.params->read(p.name));
      using Float = std::numeric_limits<float>;  // a rate is finite and below 0, also of a training that diverged
      for (float& v : values) v = float(-std::clamp(std::exp(double(v)), double(Float::min()), double(Float::max())));
      w.add(t.name, View(values.data(), DType::f32, p.shape), DType::f32);
      continue;
    }
    for (const TensorSpec& p : t.parts) parts.push_back(kept.emplace_back(m.params->host(p.name)).view());
    w.add(t.name, parts, t.parts.front().narrow ? stored : DType::f32);
  }
  w.finish(path);
}

}  // namespace toy
