#include "toy/graph/signature.h"

#include <fmt/format.h>

#include <cctype>
#include <map>
#include <optional>

namespace toy {
namespace {

// Recursive-descent reader of the grammar in the header.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  std::string word() {
    skip();
    const size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(uint8_t(text_[at_])) || text_[at_] == '_')) ++at_;
    if (begin == at_) broken("a name");
    return std::string(text_.substr(begin, at_ - begin));
  }
  bool take(std::string_view s) {
    skip();
    if (text_.substr(at_, s.size()) != s) return false;
    at_ += s.size();
    return true;
  }
  void expect(std::string_view s) {
    if (!take(s)) broken(s);
  }
  bool done() {
    skip();
    return at_ == text_.size();
  }

  OperandSpec operand() {
    OperandSpec o;
    o.name = word();
    for (bool more = true; more;) {
      if (take("..."))
        o.variadic = true;
      else if (take("?"))
        o.optional = true;
      else if (take("!"))
        o.donated = true;
      else
        more = false;
    }
    if (o.donated && (o.optional || o.variadic)) broken("a donated operand that is always there, once");
    expect(":");
    skip();
    if (at_ < text_.size() && text_[at_] != '[') dtype(o);
    expect("[");
    if (take("...")) {
      o.free_shape = true;
      expect("]");
      return o;
    }
    while (!take("]")) {
      o.dims.push_back(dim());
      take(",");
    }
    return o;
  }

 private:
  void dtype(OperandSpec& o) {
    const std::string w = word();
    if (w == "float")
      o.dtypes = OperandSpec::any_float;
    else if (w == "weight")
      o.dtypes = OperandSpec::weight;
    else if (w == "any")
      o.dtypes = OperandSpec::any;
    else if (w == "i32")
      o.dtypes = OperandSpec::fixed, o.dtype = DType::i32;
    else if (w == "f32")
      o.dtypes = OperandSpec::fixed, o.dtype = DType::f32;
    else
      broken("float, weight, any, f32 or i32");
  }
  DimSpec dim() {
    DimSpec d;
    if (take("*"))
      d.kind = DimSpec::star;
    else if (take("@"))
      d.kind = DimSpec::attribute, d.name = word();
    else {
      d.name = word();
      if (std::isdigit(uint8_t(d.name[0]))) d.kind = DimSpec::number, d.size = std::stoll(d.name);
    }
    return d;
  }
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  [[noreturn]] void broken(std::string_view wanted) {
    fail_internal("signature '{}': expected {} at column {}", text_, wanted, at_);
  }
  std::string_view text_;
  size_t at_ = 0;
};

// What the letters of a signature stand for in one call.
class Bindings {
 public:
  Bindings(const std::string& op, const Attrs& attrs) : op_(op), attrs_(attrs) {}

  void match(const OperandSpec& spec, const TensorType& t, const std::string& who) {
    dtype(spec, t, who);
    if (spec.free_shape) return;
    const int fixed = fixed_dims(spec), lead = t.shape.rank() - fixed;
    const bool star = has_star(spec);
    check(lead >= 0 && (star || lead == 0), "{}: {} has {} dimensions {}, expected {}{}", op_, who, t.shape.rank(),
          t.shape.str(), star ? "at least " : "", fixed);
    int at = 0;
    for (const DimSpec& d : spec.dims) {
      if (d.kind == DimSpec::star) {
        match_star(t, lead, who);
        at += lead;
      } else {
        match_dim(d, t, at++, who);
      }
    }
  }

  TensorType make(const OperandSpec& spec) const {
    TensorType t;
    t.dtype = spec.dtypes == OperandSpec::fixed ? spec.dtype : float_.value_or(DType::f32);
    for (const DimSpec& d : spec.dims) {
      if (d.kind == DimSpec::star) {
        if (!star_) fail_internal("{}: output {} uses * which no input binds", op_, spec.name);
        for (const int64_t s : star_->shape) t.shape.push_back(s);
        if (t.shape.rank() == star_->shape.rank() && t.shape.rank() > 0) t.rows = star_->rows;
      } else {
        const Bound b = lookup(d, spec.name, spec.optional);
        if (t.shape.rank() == 0) t.rows = b.rows;
        t.shape.push_back(b.size);
      }
    }
    return t;
  }

 private:
  struct Bound {
    int64_t size = 0;
    int rows = 0;
    std::string who;
  };
  static bool has_star(const OperandSpec& s) {
    for (const DimSpec& d : s.dims)
      if (d.kind == DimSpec::star) return true;
    return false;
  }
  static int fixed_dims(const OperandSpec& s) { return int(s.dims.size()) - (has_star(s) ? 1 : 0); }

  void dtype(const OperandSpec& spec, const TensorType& t, const std::string& who) {
    if (spec.dtypes == OperandSpec::weight && is_quantized(t.dtype)) return;
    check(!is_quantized(t.dtype), "{}: {} is {}, a quantized type, which it does not take", op_, who, name_of(t.dtype));
    if (spec.dtypes == OperandSpec::any) return;
    if (spec.dtypes == OperandSpec::fixed) {
      check(t.dtype == spec.dtype, "{}: {} is {}, expected {}", op_, who, name_of(t.dtype), name_of(spec.dtype));
      return;
    }
    check(is_float(t.dtype), "{}: {} is {}, expected a float type", op_, who, name_of(t.dtype));
    if (spec.dtypes == OperandSpec::any_float || spec.dtypes == OperandSpec::weight) return;
    if (!float_) float_ = t.dtype, float_who_ = who;
    check(*float_ == t.dtype, "{}: {} is {}, {} is {}; cast one of them", op_, who, name_of(t.dtype), float_who_,
          name_of(*float_));
  }

  void match_star(const TensorType& t, int lead, const std::string& who) {
    TensorType part{
        .dtype = DType::f32, .shape = Shape(std::span(t.shape.begin(), size_t(lead))), .rows = lead > 0 ? t.rows : 0};
    if (!star_) {
      star_ = part, star_who_ = who;
      return;
    }
    check(*star_ == part, "{}: {} has leading dimensions {}, {} has {}", op_, who, part.shape.str(), star_who_,
          star_->shape.str());
  }

  void match_dim(const DimSpec& d, const TensorType& t, int at, const std::string& who) {
    const int64_t size = t.shape[at];
    const int rows = at == 0 ? t.rows : 0;
    if (d.kind == DimSpec::letter) {
      const auto [it, fresh] = bound_.try_emplace(d.name, Bound{size, rows, who});
      const Bound& b = it->second;
      check(b.size == size, "{}: {} has {}={}, {} has {}={}", op_, who, d.name, size, b.who, d.name, b.size);
      check(b.rows == rows, "{}: {} of {} and of {} have different run-time row counts", op_, d.name, who, b.who);
      return;
    }
    const int64_t expected = d.kind == DimSpec::number ? d.size : attribute(d.name);
    check(size == expected, "{}: {} has {} in dimension {}, expected {}", op_, who, size, at, expected);
  }

  Bound lookup(const DimSpec& d, const std::string& who, bool optional) const {
    if (d.kind == DimSpec::number) return {d.size, 0, who};
    if (d.kind == DimSpec::attribute) return {attribute(d.name), 0, who};
    const auto it = bound_.find(d.name);
    if (it == bound_.end() && optional) return {0, 0, who};  // it belongs to an operand that is absent
    if (it == bound_.end()) fail_internal("{}: output {} uses {} which no input binds", op_, who, d.name);
    return it->second;
  }

  int64_t attribute(const std::string& name) const {
    std::optional<int64_t> found;
    attrs_.visit([&](const char* field, const AttrValue& v) {
      if (name == field && std::holds_alternative<int64_t>(v)) found = std::get<int64_t>(v);
    });
    if (!found) fail_internal("{}: the attributes have no integer '{}'", op_, name);
    return *found;
  }

  const std::string& op_;
  const Attrs& attrs_;
  std::map<std::string, Bound> bound_;
  std::optional<TensorType> star_;
  std::optional<DType> float_;
  std::string star_who_, float_who_;
};

int index_of(const std::vector<OperandSpec>& operands, std::string_view name) {
  for (size_t i = 0; i < operands.size(); ++i)
    if (operands[i].name == name) return int(i);
  return -1;
}

}  // namespace

std::string TensorType::str() const {
  std::string s = fmt::format("{}[", name_of(dtype));
  for (int i = 0; i < shape.rank(); ++i) s += fmt::format("{}{}{}", i ? "," : "", i == 0 && rows ? "<=" : "", shape[i]);
  return s + "]";
}

Signature::Signature(const char* text) : text_(text) {
  Parser p(text_);
  name_ = p.word();
  p.expect("(");
  while (!p.take(")")) {
    inputs_.push_back(p.operand());
    p.take(",");
  }
  p.expect("->");
  while (!p.done()) {
    outputs_.push_back(p.operand());
    p.take(",");
  }
}

int Signature::input_index(std::string_view name) const { return index_of(inputs_, name); }
int Signature::output_index(std::string_view name) const { return index_of(outputs_, name); }

int Signature::donor_of(int o) const { return outputs_[o].donated ? input_index(outputs_[o].name) : -1; }

const OperandSpec& Signature::input_spec(size_t i) const { return inputs_[std::min(i, inputs_.size() - 1)]; }

std::vector<TensorType> Signature::infer(std::span<const TensorType* const> inputs, const Attrs& attrs) const {
  const bool variadic = !inputs_.empty() && inputs_.back().variadic;
  check(inputs.size() == inputs_.size() || (variadic && inputs.size() >= inputs_.size()),
        "{}: {} inputs given, expected {}", name_, inputs.size(), text_);
  Bindings bindings(name_, attrs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const OperandSpec& spec = input_spec(i);
    if (!inputs[i]) {
      check(spec.optional, "{}: input {} is missing", name_, spec.name);
      continue;
    }
    bindings.match(spec, *inputs[i],
                   spec.variadic ? fmt::format("{}[{}]", spec.name, i - inputs_.size() + 1) : spec.name);
  }
  std::vector<TensorType> types;
  for (const OperandSpec& o : outputs_) {
    if (o.donated && donor_of(int(types.size())) >= 0)
      types.push_back(*inputs[donor_of(int(types.size()))]);
    else
      types.push_back(bindings.make(o));
  }
  return types;
}

}  // namespace toy
