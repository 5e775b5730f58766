#include "toy/synth/chats.h"

#include <fmt/format.h>

#include "toy/base/philox.h"

namespace toy {
namespace {

struct Animal {
  const char *name, *home, *food;
};
constexpr Animal kAnimals[] = {
    {"a badger", "a den", "worms"},      {"a bee", "a hive", "nectar"},     {"a bear", "a cave", "berries"},
    {"a beaver", "a lodge", "bark"},     {"a rabbit", "a burrow", "grass"}, {"a sparrow", "a nest", "seeds"},
    {"a spider", "a web", "flies"},      {"a horse", "a stable", "hay"},    {"a frog", "a pond", "insects"},
    {"an owl", "a hollow tree", "mice"}, {"an otter", "a river", "fish"},   {"a squirrel", "a tree", "nuts"},
    {"a hen", "a coop", "corn"},         {"a whale", "the sea", "krill"},   {"a mole", "a tunnel", "beetles"}};
constexpr const char* kOpposites[][2] = {{"big", "small"}, {"hot", "cold"},   {"old", "new"},    {"dark", "light"},
                                         {"fast", "slow"}, {"dry", "wet"},    {"high", "low"},   {"hard", "soft"},
                                         {"rich", "poor"}, {"full", "empty"}, {"loud", "quiet"}, {"long", "short"}};
constexpr const char* kNames[] = {"Hazel", "Rowan", "Iris",  "Jasper", "Clara",
                                  "Oscar", "Nora",  "Felix", "Alma",   "Theo"};

// Draws of one conversation.
class Dice {
 public:
  Dice(uint64_t seed, int64_t i) : random_(seed, fmt::format("chat {}", i)) {}
  int64_t below(int64_t n) { return int64_t(random_.below(at_++, uint64_t(n))); }
  template <class T, size_t N>
  const T& of(const T (&list)[N]) {
    return list[below(int64_t(N))];
  }

 private:
  Philox random_;
  uint64_t at_ = 0;
};

void animal(Dice& dice, std::vector<ChatTurn>& turns) {
  const Animal& a = dice.of(kAnimals);
  const bool home_first = dice.below(2) == 0;
  const std::string subject = a.name, capital = char(subject[0] - 'a' + 'A') + subject.substr(1);
  const auto answer = [&](const std::string& who, const char* verb, const char* what) {
    return fmt::format("{} {}{}.", who, verb, what);
  };
  turns.push_back(home_first
                      ? ChatTurn{fmt::format("Where does {} live?", a.name), answer(capital, "lives in ", a.home)}
                      : ChatTurn{fmt::format("What does {} eat?", a.name), answer(capital, "eats ", a.food)});
  if (dice.below(2) == 0) return;
  turns.push_back(home_first ? ChatTurn{"And what does it eat?", answer("It", "eats ", a.food)}
                             : ChatTurn{"And where does it live?", answer("It", "lives in ", a.home)});
}

void sum(Dice& dice, std::vector<ChatTurn>& turns) {
  const int64_t a = dice.below(10), b = dice.below(10);
  turns.push_back({fmt::format("What is {} plus {}?", a, b), fmt::format("{} plus {} is {}.", a, b, a + b)});
}

void opposite(Dice& dice, std::vector<ChatTurn>& turns) {
  const auto& pair = dice.of(kOpposites);
  const int64_t first = dice.below(2);
  turns.push_back({fmt::format("What is the opposite of {}?", pair[first]),
                   fmt::format("The opposite of {} is {}.", pair[first], pair[1 - first])});
}

void facts(Dice& dice, std::vector<ChatTurn>& turns) {
  constexpr void (*kFacts[])(Dice&, std::vector<ChatTurn>&) = {animal, animal, sum, opposite};
  dice.of(kFacts)(dice, turns);
}

}  // namespace

std::vector<ChatTurn> chat_turns(uint64_t seed, int64_t i) {
  Dice dice(seed, i);
  std::vector<ChatTurn> turns;
  const char* name = nullptr;  // of whoever asks
  if (dice.below(4) == 0) turns.push_back({"Hello!", "Hello! What would you like to know?"});
  for (int64_t topics = 1 + dice.below(3); topics > 0; --topics) {
    if (dice.below(5) > 0) {
      facts(dice, turns);
    } else if (name) {
      turns.push_back({"What is my name?", fmt::format("Your name is {}.", name)});
    } else {
      name = dice.of(kNames);
      turns.push_back({fmt::format("My name is {}.", name), fmt::format("Nice to meet you, {}.", name)});
    }
  }
  if (name && dice.below(2) == 0) turns.push_back({"What is my name?", fmt::format("Your name is {}.", name)});
  if (dice.below(6) == 0) turns.push_back({"Thank you!", "You are welcome."});
  return turns;
}

std::string write_chats(uint64_t seed, int64_t rows) {
  std::string out;
  for (int64_t i = 0; i < rows; ++i) {
    std::string messages;
    for (const ChatTurn& t : chat_turns(seed, i))
      messages += fmt::format(R"({}{{"role": "user", "content": "{}"}}, {{"role": "assistant", "content": "{}"}})",
                              messages.empty() ? "" : ", ", t.question, t.answer);
    out += fmt::format("{{\"messages\": [{}]}}\n", messages);
  }
  return out;
}

}  // namespace toy
