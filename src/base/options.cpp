#include "toy/base/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "toy/base/nearest.h"

namespace toy {
namespace {

// "gdn*3,attn(window=128,rope=none)"
class ListReader {
 public:
  ListReader(std::string_view what, std::string_view text, const ListForm& form)
      : what_(what), text_(text), form_(form) {}

  std::vector<ListedWord> read() {
    std::vector<ListedWord> list;
    do {
      ListedWord& listed = list.emplace_back();
      skip();
      listed.word = word(std::string("(*") + form_.between);
      if (std::find(form_.words.begin(), form_.words.end(), listed.word) == form_.words.end()) unknown(listed.word);
      if (take('(')) read_settings(listed);
      if (form_.most_times > 0 && take('*')) listed.times = number();
    } while (form_.between != 0 && take(form_.between));
    if (at_ < text_.size()) broken(form_.between ? fmt::format("'{}' or the end", form_.between) : "the end");
    return list;
  }

 private:
  void read_settings(ListedWord& listed) {
    if (take(')')) return;
    do {
      const size_t begin = at_;
      std::string key = word("=,)"), value = key;
      if (key.empty()) broken("a setting");
      if (take('='))
        value = word(",)");
      else if (form_.most_times == 0 && listed.settings.empty())
        key = listed.word;
      else
        broken("'='");
      for (const auto& [other, v] : listed.settings)
        if (other == key) at_ = begin, broken("each setting once");
      listed.settings.emplace_back(key, value);
    } while (take(','));
    if (!take(')')) broken("')'");
  }
  std::string word(std::string_view ends) {
    skip();
    const size_t end = std::min(text_.find_first_of(ends, at_), text_.size());
    std::string w(text_.substr(at_, end - at_));
    while (!w.empty() && w.back() == ' ') w.pop_back();
    at_ = end;
    return w;
  }
  int64_t number() {
    int64_t n = 0;
    skip();
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), n);
    if (error != std::errc() || n < 1 || n > form_.most_times)
      broken(fmt::format("a number from 1 to {}", form_.most_times));
    at_ = size_t(end - text_.data());
    return n;
  }
  bool take(char c) {
    skip();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  // What an unknown word is probably meant for. A number alone is how often a word is repeated, where that can be said.
  std::string meant(const std::string& unknown) const {
    const bool is_count = !unknown.empty() && unknown.find_first_not_of("0123456789") == unknown.npos;
    if (is_count && form_.most_times > 0) return form_.words.front() + "*" + unknown;
    return meant_choice(unknown, form_.words);
  }
  [[noreturn]] void unknown(const std::string& word) {
    const std::string near = meant(word), all = fmt::format("{}", fmt::join(form_.words, ", "));
    if (word.empty()) broken("one of " + all);
    fail("{}{}: there is no '{}'; {}", what_, word == text_ ? "" : fmt::format(" '{}'", text_), word,
         near.empty() ? "use one of " + all : fmt::format("did you mean '{}'?", near));
  }
  [[noreturn]] void broken(std::string_view wanted) {
    fail("{} '{}': expected {} at character {}", what_, text_, wanted, at_ + 1);
  }

  std::string_view what_, text_;
  const ListForm& form_;
  size_t at_ = 0;
};

}  // namespace

bool Limits::hold(double v) const {
  if (or_zero && v == 0) return true;
  return std::isfinite(v) && (above ? v > least : v >= least) && (below ? v < most : v <= most);
}

std::string Limits::text() const {
  if (std::isinf(least) && std::isinf(most)) return {};
  if (std::isinf(most))
    return above ? fmt::format("a number above {:.15g}", least) : fmt::format("{:.15g} or more", least);
  return fmt::format("{}{:.15g} to {}{:.15g}{}", above ? "above " : "", least, below ? "below " : "", most,
                     or_zero ? ", or 0" : "");
}

std::string Option::flag() const {
  std::string first(flags.empty() ? name : flags.substr(0, flags.find(',')));
  std::replace(first.begin(), first.end(), '_', '-');
  return flags.empty() ? "--" + first : first;
}

bool Option::belongs_to(std::string_view word) const {
  for (std::string_view rest = of; !rest.empty();) {
    const std::string_view first = rest.substr(0, rest.find(' '));
    if (first == word) return true;
    rest.remove_prefix(std::min(first.size() + 1, rest.size()));
  }
  return false;
}

std::string alternatives(const std::vector<std::string>& words) {
  if (words.empty()) return {};
  return fmt::format("{}{}{}", fmt::join(words.begin(), words.end() - 1, ", "), words.size() > 1 ? " or " : "",
                     words.back());
}

std::string whole_number_of(std::string_view text) {
  for (size_t comma = text.find(','); comma != text.npos; comma = text.find(',', comma + 1))
    if (text.find_first_not_of("0123456789", comma + 1) < comma + 4 || text.size() < comma + 4) return {};  // a list
  std::string digits(text);
  std::erase_if(digits, [](char c) { return c == '_' || c == ',' || c == '\''; });
  double number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  std::string_view unit(end, size_t(digits.data() + digits.size() - end));
  if (unit.size() == 2 && (unit[1] == 'b' || unit[1] == 'B')) unit.remove_suffix(1);
  const double scale = unit.empty()                 ? 1
                       : unit == "k" || unit == "K" ? 1e3
                       : unit == "m" || unit == "M" ? 1e6
                       : unit == "g" || unit == "G" ? 1e9
                                                    : 0;
  number *= scale;
  const bool whole = error == std::errc() && scale > 0 && number == std::trunc(number) && std::abs(number) < 0x1p53;
  return whole ? fmt::format("{:.0f}", number) : "";
}

// ", such as 0.95" for a percentage where a fraction is meant, or "".
static std::string fraction_of(double percent, const Limits& limits) {
  const bool is_fraction = limits.least >= 0 && limits.most <= 1;
  return is_fraction && percent > 1 && percent <= 100 && limits.hold(percent / 100)
             ? fmt::format(", such as {:.6g} for {:.6g}%", percent / 100, percent)
             : "";
}

template <class T>
std::string read_number(std::string_view text, const Limits& limits, T& value) {
  T number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool read = error == std::errc() && end == text.data() + text.size();
  const std::string range = limits.text();
  if constexpr (std::is_floating_point_v<T>) {
    if (!read || !std::isfinite(number)) {
      std::string dotted(text);
      std::ranges::replace(dotted, ',', '.');  // as many languages write it
      T meant = 0;
      const bool comma = dotted != text && read_number(std::string_view(dotted), limits, meant).empty();
      T percent = 0;
      if (text.ends_with('%') && read_number(text.substr(0, text.size() - 1), {}, percent).empty())
        return fmt::format("is '{}'; use a number without %, such as {:.6g}", text, double(percent) / 100);
      return fmt::format("is '{}'; use a finite number such as {}", text, comma ? dotted : "0.1 or 1e-3");
    }
  } else {
    const size_t sign = text.starts_with("-");
    if (text.size() == sign || text.find_first_not_of("0123456789", sign) != text.npos) {
      const std::string meant = whole_number_of(text);
      return fmt::format("is '{}'; use a whole number{}", text, meant.empty() ? "" : ", such as " + meant);
    }
    if (!read && range.find(" to ") == range.npos) {
      using Of = std::numeric_limits<T>;
      return fmt::format("is {}; use {} to {}", text,
                         std::isinf(limits.least) ? fmt::format("{}", Of::min()) : fmt::format("{:.15g}", limits.least),
                         Of::max());
    }
  }
  if (!read || !limits.hold(double(number)))
    return fmt::format("is {}; use {}{}", text, range, read ? fraction_of(double(number), limits) : "");
  return value = number, "";
}
template std::string read_number(std::string_view, const Limits&, int&);
template std::string read_number(std::string_view, const Limits&, int64_t&);
template std::string read_number(std::string_view, const Limits&, uint64_t&);
template std::string read_number(std::string_view, const Limits&, float&);
template std::string read_number(std::string_view, const Limits&, double&);

double parse_duration(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(end, size_t(text.data() + text.size() - end));
  const double scale = unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
  return error == std::errc() && std::isfinite(number) && number > 0 ? number * scale : 0;
}

void check_limits(const Option& option, double value) {
  const std::string range = option.limits.text();
  check(option.limits.hold(value), "{} is {:.15g}; use {}", option.name, value,
        range.empty() ? "a finite number" : range);
}

std::vector<ListedWord> read_list(std::string_view what, std::string_view text, const ListForm& form) {
  return ListReader(what, text, form).read();
}

namespace detail {

std::string value_text(double value) { return fmt::format("{}", value); }

void refuse_setting(std::string_view what, const std::string& word, const std::string& key,
                    const std::vector<std::pair<std::string, std::string>>& known) {
  std::vector<std::string> names, all;
  for (const auto& [name, takes] : known)
    names.push_back(name), all.push_back(takes.empty() ? name : fmt::format("{} ({})", name, takes));
  const std::string near = nearest(key, names),
                    has = all.empty() ? "no settings" : fmt::format("{}", fmt::join(all, ", "));
  check(key != word, "{}: {} takes no value without a name; it has {}", what, word, has);
  fail("{}: {} has no '{}'{}; it has {}", what, word, key,
       near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near), has);
}

}  // namespace detail
}  // namespace toy
