#include "toy/synth/questions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/nearest.h"
#include "toy/base/philox.h"

namespace toy {
namespace {

using nlohmann::ordered_json;

constexpr const char* kThings[] = {
    "apple",  "badger", "barn",   "basket", "bear",   "bell",    "berry",  "bird",   "boat",    "book",   "bottle",
    "bread",  "bridge", "bucket", "button", "cake",   "candle",  "carrot", "cart",   "chair",   "cheese", "clock",
    "cloud",  "coat",   "cup",    "deer",   "door",   "drum",    "duck",   "farm",   "feather", "fence",  "field",
    "fish",   "flag",   "flower", "forest", "fox",    "garden",  "gate",   "goat",   "goose",   "grass",  "hare",
    "hat",    "hen",    "hill",   "horse",  "jar",    "kettle",  "key",    "kite",   "ladder",  "lake",   "lamb",
    "lamp",   "leaf",   "letter", "map",    "meadow", "milk",    "mill",   "mirror", "moon",    "mouse",  "needle",
    "nest",   "nut",    "otter",  "owl",    "paper",  "path",    "pear",   "pebble", "pencil",  "pillow", "plum",
    "pocket", "pond",   "pot",    "puddle", "rabbit", "rain",    "ribbon", "ring",   "river",   "rock",   "rope",
    "sail",   "scarf",  "seed",   "sheep",  "shell",  "ship",    "shoe",   "snail",  "snow",    "spoon",  "stable",
    "star",   "stick",  "stone",  "swan",   "table",  "tail",    "tent",   "thorn",  "toad",    "tower",  "train",
    "tree",   "truck",  "tunnel", "turnip", "valley", "village", "wagon",  "wall",   "whale",   "wheat",  "wheel",
    "willow", "window", "wing",   "winter", "wolf",   "wood",    "yard"};
constexpr const char* kNames[] = {"Anna", "Ben", "Clara", "Dan",  "Ella", "Finn", "Grace", "Hugo", "Iris", "Jack",
                                  "Kate", "Leo", "Mina",  "Nora", "Otto", "Pia",  "Rosa",  "Sam",  "Tess", "Will"};
constexpr const char* kColors[] = {"red", "blue", "green", "black", "white", "yellow", "brown", "pink", "gray"};
constexpr const char* kCities[] = {"Oslo", "Rome", "Lima", "Cairo", "Paris", "Delhi", "Quito", "Seoul"};

// Draws of one question.
class Dice {
 public:
  Dice(uint64_t seed, std::string_view stream) : random_(seed, stream) {}
  int64_t below(int64_t n) { return int64_t(random_.below(at_++, uint64_t(n))); }
  int64_t from(int64_t least, int64_t most) { return least + below(most - least + 1); }
  template <class T, size_t N>
  T of(const T (&list)[N]) {
    return list[below(int64_t(N))];
  }
  /// n of them, none twice.
  template <size_t N>
  std::vector<std::string> some(const char* const (&list)[N], int64_t n) {
    std::vector<std::string> chosen;
    while (int64_t(chosen.size()) < n)
      if (std::string s = of(list); std::find(chosen.begin(), chosen.end(), s) == chosen.end())
        chosen.push_back(std::move(s));
    return chosen;
  }
  char letter(std::string_view letters) { return letters[size_t(below(int64_t(letters.size())))]; }

 private:
  Philox random_;
  uint64_t at_ = 0;
};

// A question and its answer.
using Pair = std::pair<std::string, std::string>;

// Half of them are made of syllables, so that nobody can know them.
std::string word(Dice& dice, int64_t level) {
  if (dice.below(2) == 0) return dice.of(kThings);
  std::string w;
  for (int64_t n = dice.from(1, level + 1); n > 0; --n) w += {dice.letter("bcdfghklmnprstvw"), dice.letter("aeiou")};
  if (dice.below(2) == 0) w += dice.letter("nst");
  return w;
}

Pair letters(Dice& dice, int64_t level) {
  std::string w = dice.of(kThings);
  while (level == 1 && w.size() > 5) w = dice.of(kThings);
  if (level == 3) w += dice.of(kThings);
  const char c = dice.below(7) > 0 ? dice.letter(w) : dice.letter("aeiourstnl");
  return {fmt::format("How many {} are in {}?", c, w), fmt::format("{}", std::count(w.begin(), w.end(), c))};
}

Pair words(Dice& dice, int64_t level) {
  std::vector<std::string> list;
  for (int64_t n = dice.from(2, 4 * level); n > 0; --n) list.emplace_back(dice.of(kThings));
  return {fmt::format("How many words: {}?", fmt::join(list, " ")), fmt::format("{}", list.size())};
}

Pair copy(Dice& dice, int64_t level) {
  const std::string w = word(dice, level);
  return {fmt::format("Repeat the word {}.", w), w};
}

Pair spell(Dice& dice, int64_t level) {
  const std::string w = word(dice, level);
  return {fmt::format("Spell {}.", w), fmt::format("{}", fmt::join(w.begin(), w.end(), " "))};
}

Pair reverse(Dice& dice, int64_t level) {
  const std::string w = word(dice, level);
  return {fmt::format("Reverse the word {}.", w), std::string(w.rbegin(), w.rend())};
}

// Of so many digits.
int64_t number(Dice& dice, int64_t digits) {
  constexpr int64_t kTens[] = {1, 10, 100, 1000};
  return dice.from(digits == 1 ? 0 : kTens[digits - 1], kTens[digits] - 1);
}

Pair add(Dice& dice, int64_t level) {
  int64_t a = number(dice, level), b = number(dice, dice.from(std::max<int64_t>(1, level - 1), level));
  if (dice.below(2) == 0) std::swap(a, b);
  return {fmt::format("What is {} + {}?", a, b), fmt::format("{}", a + b)};
}

Pair subtract(Dice& dice, int64_t level) {
  const int64_t a = number(dice, level), b = number(dice, dice.from(std::max<int64_t>(1, level - 1), level));
  return {fmt::format("What is {} - {}?", std::max(a, b), std::min(a, b)), fmt::format("{}", std::abs(a - b))};
}

Pair sort(Dice& dice, int64_t level) {
  std::vector<std::string> list = dice.some(kThings, level + 1);
  std::string asked = fmt::format("Sort: {}.", fmt::join(list, ", "));
  std::sort(list.begin(), list.end());
  return {std::move(asked), fmt::format("{}", fmt::join(list, ", "))};
}

Pair fact(Dice& dice, int64_t level) {
  const int64_t n = level + 1, i = dice.below(n);
  const std::vector<std::string> who = dice.some(kNames, n), color = dice.some(kColors, n),
                                 what = dice.some(kThings, n);
  std::string story;
  for (size_t k = 0; k < size_t(n); ++k) story += fmt::format("{} has a {} {}. ", who[k], color[k], what[k]);
  const size_t k = size_t(i);
  switch (dice.below(3)) {
    case 0:
      return {story + fmt::format("Who has the {}?", what[k]), who[k]};
    case 1:
      return {story + fmt::format("What color is the {}?", what[k]), color[k]};
    default:
      return {story + fmt::format("What does {} have?", who[k]), fmt::format("a {} {}", color[k], what[k])};
  }
}

Pair json(Dice& dice, int64_t level) {
  const std::string name = dice.of(kNames);
  const int64_t age = dice.from(3, 99);
  ordered_json j{{"name", name}, {"age", age}};
  std::string asked = fmt::format("As JSON: {} is {} years old", name, age);
  if (level >= 2) {
    j["likes"] = dice.of(kThings);
    asked += fmt::format(" and likes the {}", j["likes"].get<std::string>());
  }
  if (level >= 3) {
    const std::vector<std::string> has = dice.some(kThings, 2);
    j["has"] = has;
    asked += fmt::format(" and has a {} and a {}", has[0], has[1]);
  }
  return {asked + ".", json_text(j)};
}

Pair format(Dice& dice, int64_t level) {
  const std::vector<std::string> list = dice.some(kThings, level + 1);
  const char between = dice.letter("-+/_");
  const bool capitals = dice.below(2) == 0;
  std::string answer = fmt::format("{}", fmt::join(list, std::string(1, between)));
  if (capitals)
    std::transform(answer.begin(), answer.end(), answer.begin(), [](unsigned char c) { return char(std::toupper(c)); });
  return {fmt::format("Join with {}{}: {}.", between, capitals ? " in capitals" : "", fmt::join(list, ", ")), answer};
}

Pair tool(Dice& dice, int64_t level) {
  ordered_json call;
  std::string asked;
  switch (dice.below(level + 1)) {
    case 0: {
      const std::string city = dice.of(kCities);
      asked = fmt::format("Call weather for {}.", city);
      call = {{"name", "weather"}, {"arguments", {{"city", city}}}};
      break;
    }
    case 1: {
      const int64_t a = dice.from(2, 99), b = dice.from(2, 99);
      asked = fmt::format("Call multiply for {} and {}.", a, b);
      call = {{"name", "multiply"}, {"arguments", {{"a", a}, {"b", b}}}};
      break;
    }
    case 2: {
      const std::string name = dice.of(kNames);
      const int64_t hour = dice.from(1, 12);
      asked = fmt::format("Call remind for {} at {}.", name, hour);
      call = {{"name", "remind"}, {"arguments", {{"who", name}, {"hour", hour}}}};
      break;
    }
    default: {
      const std::vector<std::string> things = dice.some(kThings, 2);
      asked = fmt::format("Call buy for a {} and a {}.", things[0], things[1]);
      call = {{"name", "buy"}, {"arguments", {{"things", things}}}};
    }
  }
  return {asked, json_text(call)};
}

struct Kind {
  std::string_view name, about;
  Pair (*ask)(Dice& dice, int64_t level);
};
constexpr Kind kKinds[] = {{"letters", "how often a letter is in a word", letters},
                           {"words", "how many words there are", words},
                           {"copy", "repeat a word", copy},
                           {"spell", "a word with its letters apart", spell},
                           {"reverse", "a word from its end", reverse},
                           {"add", "sums; the level is the number of digits", add},
                           {"subtract", "differences; the level is the number of digits", subtract},
                           {"sort", "words in the order of the alphabet", sort},
                           {"fact", "who has what, from sentences", fact},
                           {"json", "a sentence as JSON", json},
                           {"format", "words joined as asked", format},
                           {"tool", "a call of a tool as JSON", tool}};

// The kind of "add:3", and its level.
std::pair<const Kind*, int64_t> kind_of(const std::string& text, int64_t level) {
  const size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  std::vector<std::string> names;
  for (const Kind& k : kKinds) names.emplace_back(k.name);
  const auto found = std::find_if(std::begin(kKinds), std::end(kKinds), [&](const Kind& k) { return k.name == name; });
  const std::string near = nearest(name, names);
  check(found != std::end(kKinds), "there is no kind of question '{}'; use {}{}", name, fmt::join(names, ", "),
        near.empty() ? "" : ". Did you mean '" + near + "'?");
  if (colon != text.npos) {
    const std::string given = text.substr(colon + 1);
    check(given.size() == 1 && given[0] >= '1' && given[0] <= '3', "kind '{}': the level is '{}'; use 1, 2 or 3", text,
          given);
    level = given[0] - '0';
  }
  check(level >= 1 && level <= 3, "level is {}; use 1, 2 or 3", level);
  return {found, level};
}

// Question i from the draws of a stream. Few are drawn until one is on the right side: an eighth is held out.
QaPair question_of(const QuestionOptions& o, int64_t i, const std::string& stream) {
  const size_t kinds = o.kinds.empty() ? std::size(kKinds) : o.kinds.size();
  const size_t at = size_t(i) % kinds;
  const auto [kind, level] = kind_of(o.kinds.empty() ? std::string(kKinds[at].name) : o.kinds[at], o.level);
  for (int64_t attempt = 0;; ++attempt) {
    Dice dice(o.seed, fmt::format("{} {} {} {}", stream, kind->name, i, attempt));
    auto [asked, answer] = kind->ask(dice, level);
    if (is_held_out(asked) == o.held_out)
      return {fmt::format("{}:{}", kind->name, level), std::move(asked), std::move(answer)};
  }
}

}  // namespace

std::vector<std::pair<std::string_view, std::string_view>> question_kinds() {
  std::vector<std::pair<std::string_view, std::string_view>> list;
  for (const Kind& k : kKinds) list.emplace_back(k.name, k.about);
  return list;
}

bool is_held_out(std::string_view question) { return Philox(0, question).word(0) % 8 == 0; }

QaPair question(const QuestionOptions& o, int64_t i) { return question_of(o, i, "question"); }

std::string answer_as_written(const QuestionOptions& o, int64_t i, int64_t writer) {
  const std::string answer = question(o, i).answer;
  const int64_t percent = Dice(o.seed, fmt::format("writer {} of answer {}", writer, i)).below(100);
  if (percent < 35) return answer;
  if (percent < 70) return fmt::format("The answer is {}.", answer);
  if (percent < 90) return answer + ", I think.";
  for (int64_t attempt = 0;; ++attempt)
    if (std::string wrong = question_of(o, i, fmt::format("wrong answer {}", attempt)).answer; wrong != answer)
      return wrong;
}

namespace {

// What a writer has that is not the answer alone.
std::string worse_answer(const QuestionOptions& o, int64_t i, const std::string& answer) {
  for (int64_t writer = 1;; ++writer)
    if (std::string written = answer_as_written(o, i, writer); written != answer) return written;
}

}  // namespace

std::string write_questions(const QuestionOptions& o, int64_t rows) {
  check(!o.mixed || o.form == QuestionForm::chats, "mixed answers are for the form chats");
  const auto message = [](const char* role, const std::string& content) {
    return ordered_json{{"role", role}, {"content", content}};
  };
  std::string out;
  for (int64_t i = 0; i < rows; ++i) {
    const QaPair q = question(o, i);
    const std::string prompt = fmt::format("Q: {}\nA:", q.question);
    const ordered_json user = message("user", q.question);
    ordered_json row;
    switch (o.form) {
      case QuestionForm::completions:
        row = {{"prompt", prompt}, {"completion", " " + q.answer + "\n"}};
        break;
      case QuestionForm::chats:
        row["messages"] = {user, message("assistant", o.mixed ? answer_as_written(o, i) : q.answer)};
        break;
      case QuestionForm::questions:
        row = {{"prompt", prompt}, {"answer", q.answer}, {"kind", q.kind}};
        break;
      case QuestionForm::chat_questions:
        row["messages"] = ordered_json::array({user});
        row["answer"] = q.answer, row["kind"] = q.kind;
        break;
      case QuestionForm::preferences:
        row["prompt"] = ordered_json::array({user});
        row["chosen"] = ordered_json::array({message("assistant", q.answer)});
        row["rejected"] = ordered_json::array({message("assistant", worse_answer(o, i, q.answer))});
        break;
      case QuestionForm::text:
        out += fmt::format("{} {}\n\n", prompt, q.answer);
        continue;
    }
    out += json_text(row) + "\n";
  }
  return out;
}

}  // namespace toy
