// pprint.pformat(): as Python writes a value over several lines.
#include <algorithm>

#include "chat/formatting.h"
#include "chat/py_text.h"

namespace toy::chat {
namespace {

constexpr int64_t kWidth = 80;

// Dicts in the order of their keys, at every level.
Value with_sorted_dicts(const Value& v, Budget& budget) {
  const Budget::Nested nested(budget);
  if (v.list()) {
    std::vector<Value> items;
    for (const Value& one : v.list()->items) items.push_back(with_sorted_dicts(one, budget));
    return make_list(std::move(items), budget, v.list()->kind);
  }
  if (!v.dict()) return v;
  auto items = v.dict()->items();
  std::stable_sort(items.begin(), items.end(), [&](const auto& x, const auto& y) {
    const Value &a = x.first, &b = y.first;
    const bool comparable = (a.text() && b.text()) || (a.is_number() && b.is_number());
    return comparable ? is_less(a, b, budget) : a.kind() < b.kind();
  });
  Table<Value> table;
  for (auto& [key, value] : items) table.set(std::move(key), with_sorted_dicts(value, budget), budget);
  return make_dict(std::move(table), budget);
}

std::string repr_of(const Value& v, Budget& budget) {
  TextBuilder out(budget);
  append_repr(v, out);
  return out.take();
}

class Printer {
 public:
  explicit Printer(Budget& budget) : out_(budget) {}
  std::string take() { return out_.take(); }

  // `allowance`: characters that follow it on its last line.
  void print(const Value& v, int64_t indent, int64_t allowance, bool outermost) {
    const Budget::Nested nested(out_.budget());
    const std::string all = repr_of(v, out_.budget());
    if (count_characters(all) <= kWidth - indent - allowance) return void(out_ += all);
    if (v.text()) return text(*v.text(), indent, allowance, outermost);
    const List* list = v.list() && v.list()->has_numbers() ? v.list() : nullptr;
    if (!list && !v.dict()) return void(out_ += all);
    const std::string_view close = v.dict() ? "}" : !list->is_tuple() ? "]" : list->items.size() == 1 ? ",)" : ")";
    out_ += v.dict() ? "{" : list->is_tuple() ? "(" : "[";
    const size_t n = v.dict() ? v.dict()->items().size() : list->items.size();
    for (size_t i = 0; i < n; ++i) {
      if (i > 0) line(indent + 1, ",");
      const int64_t after = i + 1 < n ? 1 : allowance + int64_t(close.size());
      int64_t used = indent + 1;
      if (v.dict()) {
        const std::string key = repr_of(v.dict()->items()[i].first, out_.budget());
        out_ += key;
        out_ += ": ";
        used += count_characters(key) + 2;
      }
      print(v.dict() ? v.dict()->items()[i].second : list->items[i], used, after, false);
    }
    out_ += close;
  }

 private:
  void line(int64_t indent, std::string_view before) {
    out_ += before;
    out_ += "\n";
    out_.repeat(" ", uint64_t(indent));
  }

  // A text as several, which Python joins: each line, and a long one after white space.
  void text(const std::string& all, int64_t indent, int64_t allowance, bool outermost) {
    if (outermost) ++indent, ++allowance;
    std::vector<std::string> chunks;
    const std::vector<std::string_view> every = lines(all, true);
    for (size_t i = 0; i < every.size(); ++i) {
      const bool last = i + 1 == every.size();
      const int64_t width = kWidth - indent;
      const std::string whole = repr(every[i]);
      if (count_characters(whole) <= width - (last ? allowance : 0))
        chunks.push_back(whole);
      else
        cut(every[i], width, last ? allowance : 0, chunks);
    }
    if (outermost && chunks.size() > 1) out_ += "(";
    for (size_t i = 0; i < chunks.size(); ++i) {
      if (i > 0) line(indent, "");
      out_ += chunks[i];
    }
    if (outermost && chunks.size() > 1) out_ += ")";
  }

  void cut(std::string_view rest, int64_t width, int64_t allowance, std::vector<std::string>& chunks) {
    std::string current;
    while (!rest.empty()) {
      size_t end = 0;
      while (end < rest.size() && leading_space(rest.substr(end, 4)) == 0) ++end;
      end += leading_space(rest.substr(end));
      const std::string candidate = current + std::string(rest.substr(0, end));
      out_.budget().spend_characters(candidate.size());
      const bool fits = count_characters(repr(candidate)) <= width - (end == rest.size() ? allowance : 0);
      if (!fits && !current.empty()) chunks.push_back(repr(current));
      current = fits ? candidate : std::string(rest.substr(0, end));
      rest.remove_prefix(end);
    }
    if (!current.empty()) chunks.push_back(repr(current));
  }

  TextBuilder out_;
};

}  // namespace

std::string pretty(const Value& v, Budget& budget) {
  Printer printer(budget);
  printer.print(with_sorted_dicts(v, budget), 0, 0, true);
  return printer.take();
}

}  // namespace toy::chat
