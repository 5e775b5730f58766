#include "toy/synth/stories.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "synth/teller.h"
#include "toy/base/error.h"
#include "toy/base/philox.h"

namespace toy::stories_test {
namespace {

std::vector<std::string> split_stories(const std::string& text) {
  std::vector<std::string> stories;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find("\n\n", begin) + 2;
    stories.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return stories;
}

const WordList& list_named(std::string_view name) {
  for (const WordList& list : word_lists())
    if (list.fields[0] == name) return list;
  throw std::runtime_error("no such list");
}

bool contains_word(const std::string& text, const std::string& word) {
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const bool starts = at == 0 || !isalpha(text[at - 1]);
    const bool ends = at + word.size() == text.size() || !isalpha(text[at + word.size()]);
    if (starts && ends) return true;
  }
  return false;
}

// Draws, and checks at each choice point that the text could tell the options apart. Also sums what an option
// costs on average (the entropy of the choice).
class AuditingChooser : public DrawingChooser {
 public:
  AuditingChooser(uint64_t seed, uint64_t story, std::string& out) : DrawingChooser(seed, story, out) {}
  double entropy = 0;

 protected:
  size_t select(std::span<const Weighted> options, double total) override {
    for (const Weighted& a : options) {
      if (a.weight <= 0) continue;
      entropy -= a.weight / total * std::log(a.weight / total);
      for (const Weighted& b : options) {
        const bool prefix = b.head.substr(0, a.head.size()) == a.head;
        if (&a != &b && b.weight > 0 && prefix) ADD_FAILURE() << '"' << a.head << "\" begins \"" << b.head << '"';
      }
    }
    return DrawingChooser::select(options, total);
  }
};

TEST(Stories, AreDeterministic) {
  const std::string text = write_stories({3, 20000});
  EXPECT_EQ(text, write_stories({3, 20000}));
  EXPECT_NE(text.substr(0, 200), write_stories({4, 20000}).substr(0, 200));
  EXPECT_EQ(text.substr(0, 5000), write_stories({3, 5000}).substr(0, 5000));  // story i depends on (seed, i) alone
  EXPECT_GE(text.size(), 20000u);
  EXPECT_LT(text.size(), 22000u);
}

TEST(Stories, EmptyText) {
  double nats = 1;
  EXPECT_EQ(write_stories({1, 0}, &nats), "");
  EXPECT_EQ(nats, 0);
  EXPECT_EQ(score_stories("").stories, 0);
  EXPECT_EQ(score_stories("").nats_per_byte(), 0);
  EXPECT_THROW(write_stories({1, -1}), Error);
}

TEST(Stories, ArePlainTextOfTheRightLength) {
  const std::string text = write_stories({5, 1000000});
  for (const char c : text) ASSERT_TRUE(c == '\n' || (c >= ' ' && c <= '~')) << int(c);
  const auto stories = split_stories(text);
  for (const std::string& story : stories) {
    EXPECT_GE(story.size(), 300u) << story;
    EXPECT_LE(story.size(), 1000u) << story;
    EXPECT_EQ(story.find('\n'), story.size() - 2);
    EXPECT_EQ(story.find_first_of("[]{}<>|@"), std::string::npos) << story;
    EXPECT_EQ(story.find("  "), std::string::npos) << story;
    for (const char* vowel : {" a a", " a e", " a i", " a u"}) EXPECT_EQ(story.find(vowel), std::string::npos) << story;
  }
  const double mean = double(text.size()) / double(stories.size());
  EXPECT_GT(mean, 300);
  EXPECT_LT(mean, 700);
}

TEST(Stories, NoTwoOf10000AreEqual) {
  const auto stories = split_stories(write_stories({6, 8000000}));
  ASSERT_GE(stories.size(), 10000u);
  const std::set<std::string> different(stories.begin(), stories.end());
  EXPECT_EQ(different.size(), stories.size());
}

TEST(Stories, ScoreIsTheWritersSum) {
  for (const uint64_t seed : {1u, 2u, 99u}) {
    double nats = 0;
    const std::string text = write_stories({seed, 300000}, &nats);
    const StoryScore score = score_stories(text);
    EXPECT_EQ(score.nats, nats);
    EXPECT_EQ(score.bytes, int64_t(text.size()));
    EXPECT_EQ(score.stories, int64_t(split_stories(text).size()));
  }
}

TEST(Stories, ScoreOfStoriesInAnyOrder) {
  const auto stories = split_stories(write_stories({7, 3000}));
  ASSERT_GE(stories.size(), 3u);
  const double first = score_stories(stories[0]).nats, second = score_stories(stories[1]).nats;
  EXPECT_NEAR(score_stories(stories[1] + stories[0]).nats, first + second, 1e-9);
}

// A choice's cost differs from the choice's entropy by a difference of mean zero if the draws follow the
// weights.
TEST(Stories, DrawsFollowTheWeights) {
  double difference = 0, squares = 0, entropy = 0;
  constexpr int kStories = 5000;
  for (uint64_t story = 0; story < kStories; ++story) {
    std::string text;
    AuditingChooser chooser(11, story, text);
    tell_story(chooser);
    const double d = chooser.nats() - chooser.entropy;
    difference += d, squares += d * d, entropy += chooser.entropy;
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_LT(std::abs(difference), 4.5 * std::sqrt(squares));
  EXPECT_GT(entropy / kStories, 100);
}

// Counts words in the text itself: names are drawn alike, the weather after the season's weights.
TEST(Stories, FrequenciesAreWhatIsClaimed) {
  const auto stories = split_stories(write_stories({12, 5000000}));
  std::map<std::string, double> names, weathers;
  double autumns = 0;
  for (const std::string& story : stories) {
    size_t found = 0;
    for (const auto& row : list_named("name").rows) {
      const std::string name(row[0]);
      if (contains_word(story, name)) names[name] += 1, ++found;
    }
    EXPECT_EQ(found, 1u) << story;
    if (story.find("One autumn ") == std::string::npos || story.find("One autumn night") != std::string::npos) continue;
    autumns += 1;
    for (const char* weather : {"rain", "sun", "wind", "snow", "fog"}) {
      const size_t at = story.find(", ", story.find("One autumn "));
      if (contains_word(story.substr(at, 24), std::string("the ") + weather)) weathers[weather] += 1;
    }
  }
  const double expected = double(stories.size()) / double(names.size());
  double chi = 0;
  for (const auto& [name, count] : names) chi += (count - expected) * (count - expected) / expected;
  const double freedom = double(names.size() - 1);
  EXPECT_EQ(names.size(), list_named("name").rows.size());
  EXPECT_LT(chi, freedom + 4.5 * std::sqrt(2 * freedom));
  EXPECT_NEAR(weathers["rain"] / autumns, 4.0 / 11, 0.06);
  EXPECT_NEAR(weathers["sun"] / autumns, 1.0 / 11, 0.04);
  EXPECT_EQ(weathers["snow"], 0);
}

// The hero is he or she throughout, and what was named once is meant again.
TEST(Stories, AreConsistent) {
  const auto stories = split_stories(write_stories({13, 1000000}));
  for (const std::string& story : stories) {
    const std::vector<std::string_view>* hero = nullptr;
    for (const auto& row : list_named("name").rows) {
      if (contains_word(story, std::string(row[0]))) hero = &row;
    }
    ASSERT_NE(hero, nullptr) << story;
    const bool she = (*hero)[1] == "she";
    for (const char* word : {"he", "He", "him", "his"}) EXPECT_FALSE(she && contains_word(story, word)) << story;
    for (const char* word : {"she", "She", "her"}) EXPECT_FALSE(!she && contains_word(story, word)) << story;
    const auto follows = [&](const std::string& effect, const std::string& cause) {
      if (story.find(effect) == std::string::npos) return;
      EXPECT_TRUE(contains_word(story.substr(0, story.find(effect)), cause)) << effect << " without " << cause;
    };
    const std::string his((*hero)[3]);
    follows("dried " + his + " wet ", "the rain");
    follows("cooled " + his + " hot ", "the sun");
    follows("shook the snow from " + his, "the snow");
    follows("hung out a ", "the fog");
    const size_t moral = story.rfind("So the ") + 7;
    const std::string trait_and_kind = story.substr(moral, story.find(" learned ", moral) - moral);
    EXPECT_TRUE(contains_word(story.substr(0, moral - 7), trait_and_kind)) << story;
  }
}

// The sun does not shine at night, snow does not fall in summer.
TEST(Stories, WeatherSuitsTheTime) {
  const std::string text = write_stories({16, 2000000});
  for (const char* season : {"spring", "summer", "autumn", "winter"}) {
    for (const char* link : {"while", "as", "when"}) {
      EXPECT_EQ(text.find(std::string(season) + " night, " + link + " the sun"), std::string::npos);
      EXPECT_EQ(text.find(std::string("summer noon, ") + link + " the snow"), std::string::npos);
    }
  }
}

// Another byte makes no story or another one (a word of the same list and length); most bytes make none.
TEST(Stories, APerturbedTextIsNoticed) {
  const std::string text = split_stories(write_stories({14, 1}))[0];
  const Philox random(1, "perturb");
  size_t rejected = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    std::string other = text;
    other[i] = char('a' + random.below(i, 26));
    if (other == text) continue;
    try {
      EXPECT_EQ(score_stories(other).stories, 1);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_input);
      EXPECT_NE(std::string(error.what()).find("byte"), std::string::npos);
      ++rejected;
    }
  }
  EXPECT_GT(rejected, text.size() / 2);
}

TEST(Stories, AWrongPronounIsRejected) {
  std::string text = split_stories(write_stories({14, 1}))[0];
  const bool she = contains_word(text, "She") || contains_word(text, "she") || contains_word(text, "her");
  const size_t at = text.rfind(", and felt ");
  ASSERT_NE(at, std::string::npos);
  std::string other = text;
  for (const char* ending : {"At home ", "Later ", "Back in the "}) {
    const size_t begin = other.find(ending);
    if (begin == std::string::npos) continue;
    const std::string from = she ? " she " : " he ", to = she ? " he " : " she ";
    other.replace(other.find(from, begin), from.size(), to);
  }
  ASSERT_NE(other, text);
  EXPECT_THROW(score_stories(other), Error);
}

TEST(Stories, MessagesGiveTheOffset) {
  const std::string text = write_stories({15, 2000});
  const auto message = [](const std::string& bad) -> std::string {
    try {
      score_stories(bad);
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing was thrown";
  };
  EXPECT_NE(message("Hello world").find("byte 0: the grammar does not write \"Hello world\""), std::string::npos);
  EXPECT_NE(message(text + "?").find("byte " + std::to_string(text.size())), std::string::npos);
  EXPECT_NE(message(text.substr(0, text.size() - 1)).find("ends at byte " + std::to_string(text.size() - 1)),
            std::string::npos);
  for (size_t cut = 1; cut < 400; cut += 7) EXPECT_THROW(score_stories(text.substr(0, cut)), Error) << cut;
}

// The lists' half of the proof that a text has one derivation; AuditingChooser checks the patterns as they
// are used.
TEST(StoryWords, NoneBeginsAnother) {
  for (const WordList& list : word_lists()) {
    for (size_t a = 0; a < list.rows.size(); ++a) {
      EXPECT_EQ(list.rows[a].size(), list.fields.size()) << list.fields[0] << ": " << list.rows[a][0];
      for (size_t b = 0; b < list.rows.size(); ++b) {
        if (a == b) continue;
        const std::string_view first = list.rows[a][0], second = list.rows[b][0];
        EXPECT_NE(second.substr(0, first.size()), first) << list.fields[0] << ": " << second;
      }
    }
  }
}

}  // namespace
}  // namespace toy::stories_test
