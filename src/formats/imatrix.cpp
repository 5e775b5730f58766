#include "toy/formats/imatrix.h"

#include <cmath>
#include <list>

#include "gguf_cursor.h"
#include "gguf_types.h"
#include "sniff.h"
#include "toy/base/error.h"
#include "toy/formats/gguf.h"
#include "toy/formats/mapped_file.h"

namespace toy::gguf {
namespace {

constexpr std::string_view kSums = ".in_sum2", kCounts = ".counts";
constexpr const char *kDatasets = "imatrix.datasets", *kChunks = "imatrix.chunk_count",
                     *kChunkSize = "imatrix.chunk_size";

constexpr const char* kMeasures = "toy quantize imatrix MODEL --file TEXT --out FILE measures one";

std::span<const float> floats_of(const File& file, const TensorInfo& t) {
  check(t.dtype == DType::f32, "{}: tensor {} is {}, expected F32", file.path(), in_quotes(t.name), t.type_name);
  return {reinterpret_cast<const float*>(t.data), size_t(t.shape.count())};
}

// Sums of squares and how many went into them, one count for each expert. An expert that was never asked counts evenly.
Imatrix from_gguf(const File& file) {
  Imatrix m;
  if (file.has(kDatasets)) m.datasets = file.get_strings(kDatasets);
  m.chunks = file.get_u32(kChunks, 0);
  m.chunk_size = file.get_u32(kChunkSize, 0);
  for (const TensorInfo& t : file.tensors()) {
    if (!t.name.ends_with(kSums)) continue;
    const std::string name = t.name.substr(0, t.name.size() - kSums.size());
    const std::span<const float> sums = floats_of(file, t);
    const std::span<const float> counts = floats_of(file, file.require(name + std::string(kCounts)));
    check(sums.size() % counts.size() == 0, "{}: tensor {} has {} sums for {} counts", file.path(), in_quotes(name),
          sums.size(), counts.size());
    for (const float n : counts)
      check(n >= 0 && std::isfinite(n), "{}: tensor {}: a count is {}", file.path(), in_quotes(name), n);
    m.counts[name].assign(counts.begin(), counts.end());
    std::vector<float>& means = m.columns[name];
    const size_t width = sums.size() / counts.size();
    for (size_t i = 0; i < sums.size(); ++i)
      means.push_back(counts[i / width] > 0 ? sums[i] / counts[i / width] : 1.0f);
  }
  return m;
}

// Number of entries; name, calls and values of each, the sums of `calls` means; then, in newer files, the number of
// chunks and the name of the text. Numbers are i32, and so are the lengths of names.
Imatrix from_dat(std::span<const std::byte> bytes, const std::string& file) {
  Imatrix m;
  Cursor in(bytes, file);
  const auto read_count = [&](std::string_view things, size_t least) {
    const std::string what = fmt::format("the number of {}", things);
    const auto n = in.read<int32_t>(what);
    if (n < 0) in.fail("{} is {}; neither an imatrix nor a GGUF file", what, n);
    in.check_count(uint64_t(n), least, things);
    return size_t(n);
  };
  const auto read_text = [&](std::string_view what) {
    std::string text(read_count(fmt::format("characters of {}", what), 1), '\0');
    in.read_into(text.data(), text.size(), what);
    return text;
  };
  in.set_context("imatrix in the older format");
  const size_t entries = read_count("entries", 16);
  for (size_t i = 0; i < entries; ++i) {
    in.set_context(fmt::format("entry {} of {}", i + 1, entries));
    const std::string name = read_text("the name");
    in.set_context(fmt::format("entry {}", in_quotes(name)));
    const auto calls = in.read<int32_t>("the number of calls");
    std::vector<float> values(read_count("values", sizeof(float)));
    in.read_into(values.data(), values.size(), "the values");
    if (calls > 0)
      for (float& v : values) v /= float(calls);
    m.counts[name] = {float(calls)};
    if (!m.columns.emplace(name, std::move(values)).second) in.fail("the name occurs twice");
  }
  in.set_context("the end");
  if (in.remaining() > 0) m.chunks = uint32_t(in.read<int32_t>("the number of chunks"));
  if (in.remaining() > 0) m.datasets.push_back(read_text("the name of the text"));
  return m;
}

}  // namespace

Imatrix parse_imatrix(std::span<const std::byte> bytes, const std::string& name) {
  const bool gguf = bytes.size() >= kMagic.size() && std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0;
  const std::string other = gguf ? "" : describe_foreign_file(bytes);
  check(other.empty(), "{}: no importance matrix: {}; {}", name, other, kMeasures);
  Imatrix m = gguf ? from_gguf(File::parse(bytes, name)) : from_dat(bytes, name);
  if (m.columns.empty()) {
    const bool model = gguf && File::parse(bytes, name).has("general.architecture");
    fail("{}: {}it holds no importance matrix; {}", name, model ? "it is a model, and " : "", kMeasures);
  }
  for (const auto& [tensor, values] : m.columns)
    for (const float v : values)
      check(v >= 0 && std::isfinite(v), "{}: tensor {}: an importance is {}", name, in_quotes(tensor), v);
  return m;
}

Imatrix read_imatrix(const std::string& path) {
  const MappedFile file = MappedFile::open(path);
  return parse_imatrix(file.bytes(), path);
}

void write_imatrix(const Imatrix& imatrix, const std::string& path) {
  Writer writer("imatrix");
  writer.set("general.type", "imatrix");
  writer.set(kDatasets, Array(imatrix.datasets));
  writer.set(kChunks, imatrix.chunks);
  writer.set(kChunkSize, imatrix.chunk_size);
  std::list<std::vector<float>> kept;  // until finish()
  const auto add = [&](const std::string& name, std::vector<float> values, int64_t rows) {
    std::vector<float>& v = kept.emplace_back(std::move(values));
    writer.add(name, View(v.data(), DType::f32, {rows, int64_t(v.size()) / rows}), DType::f32);
  };
  for (const auto& [name, means] : imatrix.columns) {
    const auto found = imatrix.counts.find(name);
    check(found != imatrix.counts.end() && !found->second.empty() && means.size() % found->second.size() == 0,
          "imatrix: {} columns of {} have no counts that fit", means.size(), in_quotes(name));
    const std::vector<float>& counts = found->second;
    std::vector<float> sums = means;
    for (size_t i = 0; i < sums.size(); ++i) sums[i] *= counts[i / (sums.size() / counts.size())];
    add(name + std::string(kSums), std::move(sums), int64_t(counts.size()));
    add(name + std::string(kCounts), counts, int64_t(counts.size()));
  }
  writer.finish(path);
}

}  // namespace toy::gguf
