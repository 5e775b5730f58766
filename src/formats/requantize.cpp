#include "toy/formats/requantize.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <memory>

#include "gguf_types.h"
#include "quant_mix.h"
#include "toy/base/error.h"
#include "toy/base/glob.h"
#include "toy/base/threads.h"
#include "toy/tensor/buffer.h"
#include "toy/tensor/convert.h"
#include "toy/tensor/quantize.h"

namespace toy::gguf {
namespace {

constexpr int64_t kPiece = 1 << 15;  // elements that a thread works on at a time, if a row has not more
constexpr int64_t kPieces = 8;       // for each thread, before they are written

// Those of one expert after the other; empty: none.
std::span<const float> importance_of(const File& file, const TensorInfo& t, const Imatrix* imatrix) {
  if (!imatrix) return {};
  const auto found = imatrix->columns.find(t.name);
  if (found == imatrix->columns.end()) return {};
  const int64_t experts = t.shape.rank() >= 3 ? t.shape.back(2) : 1;
  const auto expected = size_t(t.shape.back() * experts);
  if (found->second.size() == expected) return found->second;
  if (t.name == "token_embd.weight") return {};  // what llama-imatrix has for it, if tied, belongs to the output
  fail("{}: tensor {} has {} columns, the imatrix {}; it was made for another model", file.path(), in_quotes(t.name),
       expected, found->second.size());
}

/// Sums over one piece of rows.
struct PieceError {
  double square = 0, squared_error = 0, largest = 0;
};

/// One tensor on its way from type to type.
class Conversion {
 public:
  Conversion(const File& file, const TensorInfo& from, DType to, std::span<const float> importance)
      : file_(file),
        from_(from),
        to_(to),
        importance_(importance),
        width_(from.shape.back()),
        rows_(from.shape.count() / width_) {
    if (from.shape.rank() >= 3) rows_of_expert_ = from.shape.back(1);
  }

  /// Hands over the new bytes, in order; fills in the errors of `report`.
  void run(ThreadPool& threads, const Writer::Sink& sink, RequantizedTensor& report) const {
    const int64_t rows = std::max<int64_t>(1, kPiece / width_), pieces = (rows_ + rows - 1) / rows;
    const int64_t together = std::min(pieces, kPieces * threads.size());
    const size_t bytes = bytes_of(to_, rows * width_);
    const Buffer out(size_t(together) * bytes);
    std::vector<std::vector<float>> values(size_t(threads.size()), std::vector<float>(size_t(rows * width_)));
    std::vector<std::vector<float>> back(values);
    std::vector<PieceError> errors(static_cast<size_t>(together));
    std::vector<std::exception_ptr> failures(static_cast<size_t>(together));
    double square = 0, squared_error = 0;
    for (int64_t first = 0; first < pieces; first += together) {
      const int64_t n = std::min(together, pieces - first);
      threads.run([&](int thread) {
        for (int64_t i = threads.claim(); i < n; i = threads.claim()) try {
            errors[size_t(i)] = piece((first + i) * rows, rows, values[size_t(thread)].data(),
                                      back[size_t(thread)].data(), out.data() + size_t(i) * bytes);
          } catch (...) {
            failures[size_t(i)] = std::current_exception();
          }
      });
      for (int64_t i = 0; i < n; ++i) {
        if (failures[size_t(i)]) rethrow(failures[size_t(i)]);
        square += errors[size_t(i)].square;
        squared_error += errors[size_t(i)].squared_error;
        report.largest_error = std::max(report.largest_error, errors[size_t(i)].largest);
      }
      const int64_t last = std::min(rows_, (first + n) * rows);
      sink({out.data(), bytes_of(to_, (last - first * rows) * width_)});
    }
    const auto count = double(rows_ * width_);
    report.rms = std::sqrt(square / count), report.rmse = std::sqrt(squared_error / count);
  }

 private:
  PieceError piece(int64_t first, int64_t rows, float* values, float* back, std::byte* to) const {
    rows = std::min(rows, rows_ - first);
    const DType type = *from_.dtype;
    const Shape shape{rows, width_};
    convert(View(const_cast<std::byte*>(from_.data) + bytes_of(type, first * width_), type, shape),
            View(values, DType::f32, shape));
    store(first, rows, values, to);
    convert(View(to, to_, shape), View(back, DType::f32, shape));
    PieceError e;
    for (int64_t i = 0; i < shape.count(); ++i) {
      const double v = values[i], off = double(back[i]) - v;
      e.square += v * v, e.squared_error += off * off, e.largest = std::max(e.largest, std::fabs(off));
    }
    return e;
  }

  // Rows of one expert have the same importance.
  void store(int64_t first, int64_t rows, float* values, std::byte* to) const {
    if (!is_quantized(to_))
      return convert_finite(View(values, DType::f32, {rows, width_}), View(to, to_, {rows, width_}));
    for (int64_t row = first, end = first + rows; row < end;) {
      const int64_t expert = row / rows_of_expert_, next = std::min(end, (expert + 1) * rows_of_expert_);
      const auto count = size_t((next - row) * width_);
      quantize(to_, {values, count},
               importance_.empty() ? importance_ : importance_.subspan(size_t(expert * width_), size_t(width_)), to);
      values += count, to += bytes_of(to_, int64_t(count)), row = next;
    }
  }

  [[noreturn]] void rethrow(const std::exception_ptr& failure) const try {
    std::rethrow_exception(failure);
  } catch (const Error& e) {
    throw Error(e.code(), fmt::format("{}: tensor {}: {}", file_.path(), in_quotes(from_.name), e.what()));
  }

  const File& file_;
  const TensorInfo& from_;
  DType to_;
  std::span<const float> importance_;
  int64_t width_, rows_, rows_of_expert_ = std::numeric_limits<int64_t>::max();
};

}  // namespace

std::vector<std::string_view> mix_names() {
  std::vector<std::string_view> names;
  for (const Mix& m : mixes()) names.push_back(m.name);
  return names;
}

std::pair<std::string, DType> parse_type_rule(const std::string& text) {
  const size_t equals = text.rfind('=');
  check(equals != text.npos && equals > 0, "'{}'; use PATTERN=TYPE, such as 'blk.*.ffn_down*=Q6_K'", text);
  const std::string_view name = std::string_view(text).substr(equals + 1);
  const auto same = [](char a, char b) { return (a >= 'a' && a <= 'z' ? char(a - 'a' + 'A') : a) == b; };
  std::vector<std::string_view> known;
  for (const DTypeInfo& t : kDTypes) {
    if (t.type == DType::i32 || t.type == DType::f64) continue;
    known.push_back(type_name(t.type));
    if (std::ranges::equal(name, known.back(), same)) return {text.substr(0, equals), t.type};
  }
  fail("'{}'; use one of the types {}", text, fmt::join(known, ", "));
}

std::vector<RequantizedTensor> plan_requantize(const File& from, const RequantizeOptions& options) {
  check(from.get_string("general.type", "") != "adapter",
        "{0}: an adapter, whose matrices stay as they are; make one model of both: toy merge MODEL --lora {0} --type "
        "TYPE --out FILE",
        from.path());
  const bool keeps = options.mix.empty();
  const std::vector<DType> types =
      keeps ? std::vector<DType>()
            : types_in_mix(from, find_mix(options.mix), options.pure, options.imatrix != nullptr);
  std::vector<RequantizedTensor> plan;
  for (const TensorInfo& t : from.tensors()) {
    check(t.dtype.has_value(), "{}: tensor {} is {}, which is not supported", from.path(), in_quotes(t.name),
          t.type_name);
    RequantizedTensor& r = plan.emplace_back();
    r.name = t.name, r.shape = t.shape, r.from = r.to = *t.dtype;
    if (is_quantizable(t) && *t.dtype != DType::i32) {
      if (!keeps) r.to = types[plan.size() - 1];
      const auto given = std::find_if(options.types.begin(), options.types.end(),
                                      [&](const auto& pair) { return matches(pair.first, t.name); });
      if (given != options.types.end()) r.to = given->second;
      r.to = fit_to_rows(r.to, t.shape.back());
    }
    r.bytes_before = t.bytes, r.bytes_after = bytes_of(r.to, t.shape);
    r.weighted = r.to != r.from && is_quantized(r.to) && !importance_of(from, t, options.imatrix).empty();
  }
  return plan;
}

void requantize(const File& from, const std::string& path, const RequantizeOptions& options,
                const std::function<void(const RequantizedTensor&)>& done) {
  std::vector<RequantizedTensor> plan = plan_requantize(from, options);
  Writer writer(from.get_string(kArchitectureKey));
  if (!options.mix.empty()) writer.set("general.file_type", find_mix(options.mix).file_type);
  writer.set("general.quantization_version", uint32_t(2));
  for (const auto& [key, value] : options.metadata) writer.set(key, value);
  for (const auto& [key, value] : from.metadata())
    if (!writer.has(key) && key != kAlignmentKey && !key.starts_with("split.")) writer.set(key, value);
  ThreadPool threads(options.threads);
  for (size_t i = 0; i < plan.size(); ++i) {
    const TensorInfo& t = from.tensors()[i];
    RequantizedTensor& r = plan[i];
    writer.add(t.name, t.shape, r.to, [&](const Writer::Sink& sink) {
      if (r.to == r.from) {
        sink({t.data, t.bytes});
      } else {
        Conversion(from, t, r.to, importance_of(from, t, options.imatrix)).run(threads, sink, r);
      }
      if (done) done(r);
    });
  }
  writer.finish(path);
}

}  // namespace toy::gguf
