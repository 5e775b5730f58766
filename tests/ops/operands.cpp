#include "ops/operands.h"

#include <cmath>
#include <cstdlib>
#include <numeric>
#include <sstream>
#include <stdexcept>

#include "toy/base/philox.h"
#include "toy/tensor/convert.h"

namespace toy::test {
namespace {

[[noreturn]] void broken(std::string_view text) {
  throw std::invalid_argument("operands of a test case: '" + std::string(text) + "'");
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, at);) parts.push_back(part);
  return parts;
}

Shape parse_dims(const std::string& text) {
  Shape s;
  for (const std::string& d : split(text, ',')) s.push_back(std::stoll(d));
  return s;
}

DType parse_dtype(const std::string& text) {
  for (const DType t : {DType::f32, DType::f16, DType::bf16, DType::i32})
    if (text == name_of(t)) return t;
  if (!text.empty()) broken(text);
  return DType::f32;
}

// What stands between an opening bracket at `at` and its closing one; `at` moves behind it.
std::string bracketed(const std::string& text, size_t& at, char close) {
  const size_t end = text.find(close, at);
  if (end == std::string::npos) broken(text);
  const std::string inside = text.substr(at + 1, end - at - 1);
  at = end + 1;
  return inside;
}

struct Generator {
  const Philox& random;
  const std::string& name;
  const std::vector<std::string>& args;
  size_t count;

  double arg(size_t i) const { return std::stod(args.at(i)); }
  std::vector<double> each(double (*f)(const Generator&, uint64_t)) const {
    std::vector<double> v(count);
    for (size_t i = 0; i < count; ++i) v[i] = f(*this, i);
    return v;
  }
  std::vector<double> runs() const {
    std::vector<double> v;
    for (size_t r = 0; r < args.size(); ++r) {
      const auto parts = split(args[r], '@');
      for (int i = 0; i < std::stoi(parts.at(0)); ++i)
        v.push_back(name == "seq" ? double(r) : double(std::stoi(parts.at(1)) + i));
    }
    return v;
  }
  std::vector<double> pages() const {
    std::vector<double> v(static_cast<size_t>(arg(0)));
    std::iota(v.begin(), v.end(), 0.0);
    for (size_t i = v.size(); i > 1; --i) std::swap(v[i - 1], v[random.below(i, i)]);
    v.resize(count);
    return v;
  }
};

std::vector<double> generate(const std::string& kind, const Generator& g) {
  if (kind.empty()) return g.each([](const Generator& s, uint64_t i) { return 3 * s.random.uniform(i) - 1.5; });
  if (kind == "range")
    return g.each(
        [](const Generator& s, uint64_t i) { return s.arg(0) + (s.arg(1) - s.arg(0)) * s.random.uniform(i); });
  if (kind == "steps")
    return g.each([](const Generator& s, uint64_t i) {
      const auto count = static_cast<uint64_t>((s.arg(1) - s.arg(0)) / s.arg(2));
      return s.arg(0) + s.arg(2) * double(s.random.below(i, count));
    });
  if (kind == "const") return g.each([](const Generator& s, uint64_t) { return s.arg(0); });
  if (kind == "angles")
    return g.each([](const Generator& s, uint64_t i) {
      const double angle = 6.3 * s.random.uniform(i / 2);
      return i % 2 ? std::sin(angle) : std::cos(angle);
    });
  if (kind == "below")
    return g.each([](const Generator& s, uint64_t i) { return double(s.random.below(i, uint64_t(s.arg(0)))); });
  if (kind == "targets")
    return g.each([](const Generator& s, uint64_t i) {
      return s.random.below(2 * i, 4) == 0 ? -1.0 : double(s.random.below(2 * i + 1, uint64_t(s.arg(0))));
    });
  if (kind == "list") return g.each([](const Generator& s, uint64_t i) { return s.arg(i); });
  if (kind == "runs") return g.runs();
  if (kind == "pages") return g.pages();
  broken(kind);
}

OperandData parse_one(const std::string& text, std::string_view all) {
  OperandData o;
  size_t at = text.find(':');
  if (at == std::string::npos) broken(text);
  o.name = text.substr(0, at++);
  if (text.substr(at) == "none") return o.absent = true, o;
  const size_t open = text.find('[', at);
  if (open == std::string::npos) broken(text);
  o.dtype = parse_dtype(text.substr(at, open - at));
  at = open;
  o.stored = parse_dims(bracketed(text, at, ']'));
  if (text.substr(at, 2) == "@(") o.order = parse_dims(bracketed(text, ++at, ')'));
  std::string kind;
  std::vector<std::string> args;
  if (at < text.size() && text[at] == '=') {
    const size_t paren = std::min(text.find('(', at), text.size());
    kind = text.substr(at + 1, paren - at - 1);
    at = paren;
    if (at < text.size()) args = split(bracketed(text, at, ')'), ',');
  }
  if (at != text.size()) broken(text);
  const Philox random(hash_name(all), o.name);
  o.values = generate(kind, {random, o.name, args, size_t(o.stored.count())});
  if (int64_t(o.values.size()) != o.stored.count()) broken(text);
  for (double& v : o.values) v = round_to(o.dtype, v);
  return o;
}

}  // namespace

double round_to(DType t, double v) {
  switch (t) {
    case DType::f32:
      return float(v);
    case DType::f16:
      return to_float(to_f16(float(v)));
    case DType::bf16:
      return to_float(to_bf16(float(v)));
    default:
      return v;
  }
}

Shape OperandData::seen_shape() const {
  if (order.rank() == 0) return stored;
  Shape s;
  for (const int64_t d : order) s.push_back(stored[int(d)]);
  return s;
}

std::vector<double> OperandData::seen() const {
  View v(const_cast<double*>(values.data()), DType::f64, stored);
  const View whole = v;
  for (int i = 0; i < order.rank(); ++i) {
    v.shape[i] = whole.shape[int(order[i])];
    v.stride[size_t(i)] = whole.stride[size_t(order[i])];
  }
  std::vector<double> out(values.size());
  convert(v, View(out.data(), DType::f64, v.shape));
  return out;
}

std::vector<OperandData> parse_operands(std::string_view text) {
  std::vector<OperandData> operands;
  for (const std::string& part : split(std::string(text), ' '))
    if (!part.empty()) operands.push_back(parse_one(part, text));
  return operands;
}

}  // namespace toy::test
