// Python's ==, < and in, and what is equal as the key of a dict.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "chat/text_search.h"
#include "chat/value.h"

namespace toy::chat {
namespace {

// Exact: it has all the digits of both.
long double exact(const Value& v) { return v.real() ? (long double)(*v.real()) : (long double)(v.as_integer("it")); }

bool same_text(std::string_view a, std::string_view b, Budget& budget) {
  if (a.size() != b.size()) return false;
  if (a.size() >= 16) budget.spend(a.size() / 16);
  return a == b;
}

// Of whole numbers and reals that are equal to them the same.
size_t hash_of_number(const Value& v) {
  if (!v.real()) return size_t(v.as_integer("it"));
  constexpr double kBeyond = 0x1p63;
  const double d = *v.real();
  if (d >= -kBeyond && d < kBeyond && d == std::floor(d)) return size_t(int64_t(d));
  return std::hash<double>()(d);
}

uint32_t mixed(size_t hash) {
  uint64_t h = uint64_t(hash) * 0x9e3779b97f4a7c15;  // the golden ratio: neighbours come far from each other
  return uint32_t(h >> 32);
}

}  // namespace

uint32_t hash_of_key(std::string_view key, Budget& budget) {
  budget.spend_reading(key.size());
  return mixed(std::hash<std::string_view>()(key));
}

uint32_t hash_of_key(const Value& key, Budget& budget) {
  if (key.text()) return hash_of_key(std::string_view(*key.text()), budget);
  budget.spend(1);
  if (key.is_number()) return mixed(hash_of_number(key));
  if (key.list() && key.list()->is_tuple()) {
    const Budget::Nested nested(budget);
    uint32_t out = 1;
    for (const Value& v : key.list()->items) out = mixed((size_t(out) << 32) + hash_of_key(v, budget));
    return out;
  }
  if (key.list() || key.dict()) throw Problem(fmt::format("{} cannot be the key of a dict", key.kind()));
  return mixed(key.data().index() + 1000);
}

bool is_same_key(const std::string& key, std::string_view other, Budget& budget) {
  return same_text(key, other, budget);
}
bool is_same_key(const Value& key, std::string_view other, Budget& budget) {
  return key.text() && same_text(*key.text(), other, budget);
}
bool is_same_key(const Value& key, const Value& other, Budget& budget) {
  if (other.text()) return is_same_key(key, std::string_view(*other.text()), budget);
  if (!other.is_number()) hash_of_key(other, budget);  // throws for what is no key
  return equals(key, other, budget);
}

bool equals(const Value& a, const Value& b, Budget& budget) {
  budget.spend(1);
  if (a.integer() && b.integer()) return *a.integer() == *b.integer();
  if (a.is_number() && b.is_number()) return exact(a) == exact(b);
  if (a.text() && b.text()) return same_text(*a.text(), *b.text(), budget);
  if (a.list() && b.list()) {
    const Budget::Nested nested(budget);
    const List &x = *a.list(), &y = *b.list();
    if (&x == &y) return true;
    if ((x.kind != y.kind && !(x.is_tuple() && y.is_tuple())) || x.items.size() != y.items.size()) return false;
    if (x.kind == List::generator) return false;
    for (size_t i = 0; i < x.items.size(); ++i)
      if (!equals(x.items[i], y.items[i], budget)) return false;
    return true;
  }
  if (a.dict() && b.dict()) {
    const Budget::Nested nested(budget);
    if (a.dict()->items().size() != b.dict()->items().size()) return false;
    for (const auto& [key, value] : a.dict()->items()) {
      const Value* other = b.dict()->table.find(key, budget);
      if (!other || !equals(value, *other, budget)) return false;
    }
    return true;
  }
  if (a.data().index() != b.data().index()) return false;
  return a.is_undefined() || a.is_none() || (a.function() && a.function() == b.function()) ||
         (a.space() && a.space() == b.space());
}

bool is_less(const Value& a, const Value& b, Budget& budget) {
  budget.spend(1);
  if (a.integer() && b.integer()) return *a.integer() < *b.integer();
  if (a.is_number() && b.is_number()) return exact(a) < exact(b);
  if (a.text() && b.text()) {
    budget.spend(std::min(a.text()->size(), b.text()->size()) / 16);
    return *a.text() < *b.text();  // the order of UTF-8 is that of code points
  }
  const auto has_order = [](const Value& v) { return v.list() && v.list()->has_numbers(); };
  if (has_order(a) && has_order(b) && a.list()->is_tuple() == b.list()->is_tuple()) {
    const Budget::Nested nested(budget);
    const auto &x = a.list()->items, &y = b.list()->items;
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i)
      if (!equals(x[i], y[i], budget)) return is_less(x[i], y[i], budget);
    return x.size() < y.size();
  }
  throw Problem(fmt::format("{} and {} have no order", a.kind(), b.kind()));
}

bool contains(const Value& all, const Value& one, Budget& budget) {
  if (all.text()) return find_text(*all.text(), one.as_text("what is looked for in a string"), budget) != kNotFound;
  if (all.dict()) {
    hash_of_key(one, budget);  // throws for what can be no key
    return all.dict()->table.find(one, budget) != nullptr;
  }
  if (all.is_undefined()) return false;
  if (!all.list()) throw Problem(fmt::format("'in' needs a string, list or dict, not {}", all.kind()));
  const List& list = *all.list();
  if (list.kind != List::generator)
    return std::any_of(list.items.begin(), list.items.end(), [&](const Value& v) { return equals(v, one, budget); });
  while (list.taken < list.items.size())
    if (equals(list.items[list.taken++], one, budget)) return true;
  return false;
}

}  // namespace toy::chat
