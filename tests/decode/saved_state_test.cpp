// States in files: what is continued from one has the bits of a fresh prefill, and no damaged file gets in.
#include "toy/decode/saved_state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "fuzz/saved_state_fuzz.h"
#include "testing/aligned.h"
#include "testing/errors.h"
#include "testing/files.h"
#include "testing/hybrids.h"
#include "testing/models.h"
#include "testing/test_device.h"
#include "toy/base/philox.h"
#include "toy/decode/generate.h"

namespace toy::saved_state_test {
namespace {

using testing::expect_contains;
using testing::message_of;

constexpr int32_t kVocab = 61;

using Tokens = std::vector<int32_t>;

Tokens tokens(size_t n, const std::string& stream) { return testing::random_ids(n, kVocab, Philox(7, stream.c_str())); }

struct Case {
  const char* name;
  const char* json;  // nullptr: a Llama, with windows in some layers or without
  bool windows = false;
  DType kv = DType::f32;
};

class SavedStates : public ::testing::TestWithParam<Case>, protected testing::Folder {
 protected:
  static ModelSpec spec() {
    if (GetParam().json) {
      nlohmann::json j = nlohmann::json::parse(GetParam().json);
      j["context"] = 1000;
      return spec_from_json(j, "test");
    }
    return testing::small_model("tiny", {.vocab = kVocab,
                                         .d_model = 64,
                                         .context = 1000,
                                         .layers = 4,
                                         .heads = 4,
                                         .kv_heads = 2,
                                         .d_head = 32,
                                         .d_ff = 96});
  }
  void SetUp() override {
    const int64_t windows[] = {0, 100, 70, 100};
    for (size_t i = 0; GetParam().windows && i < 4; ++i) model_.spec.layers[i].window = windows[i];
  }
  DecoderOptions options(int64_t max_rows = 256) const { return {.max_rows = max_rows, .kv = GetParam().kv}; }
  static void read(Decoder& d, const Tokens& ids) {
    std::vector<DecodeRow> rows;
    for (const int32_t id : ids) rows.push_back({0, id});
    d.decode(rows);
  }
  static std::vector<float> logits(Decoder& d, const Tokens& ids) {
    std::vector<DecodeRow> rows;
    for (const int32_t id : ids) rows.push_back({0, id, true});
    d.decode(rows);
    std::vector<float> all;
    for (size_t i = 0; i < ids.size(); ++i) all.insert(all.end(), d.logits(i).begin(), d.logits(i).end());
    return all;
  }
  SavedState saved(Decoder& d, const Tokens& ids) {
    return {.card = {.made_with = made_with(model_, d),
                     .adapters = {{"poems", "12ab:1", 0.5f}},
                     .tokens = int64_t(ids.size())},
            .tokens = ids,
            .snapshot = d.state().snapshot(0)};
  }

  std::unique_ptr<Device> device_ = make_test_device(2);
  Model model_ = random_model(spec(), *device_, 3, 2.0);
};

TEST_P(SavedStates, TheBitsAfterARestart) {
  for (const size_t n : {1, 64, 65, 300}) {
    const Tokens ids = tokens(n, "text"), more = tokens(70, "more");
    const std::string file = path(std::to_string(n) + ".state");
    std::vector<float> expected;
    {
      Decoder d(*device_, model_, options());
      read(d, ids);
      write_state(saved(d, ids), d.state(), file);
      expected = logits(d, more);
    }
    Decoder d(*device_, model_, options(100));
    const gguf::File opened = gguf::File::open(file);
    const StateCard card = read_state_card(opened);
    EXPECT_EQ(card.made_with, made_with(model_, d));
    EXPECT_EQ(card.tokens, int64_t(n));
    ASSERT_EQ(card.adapters.size(), 1u);
    EXPECT_EQ(card.adapters[0].name + card.adapters[0].id, "poems12ab:1");
    EXPECT_EQ(card.adapters[0].factor, 0.5f);
    const SavedState state = read_state(opened, d.state());
    EXPECT_EQ(state.tokens, ids);
    d.state().restore(0, state.snapshot);
    EXPECT_EQ(logits(d, more), expected) << n;
  }
}

// Whatever byte is missing or wrong: a message, and the state is as before.
TEST_P(SavedStates, DamagedFiles) {
  const Tokens ids = tokens(130, "text");
  const std::string file = path("whole.state");
  Decoder d(*device_, model_, options());
  read(d, ids);
  write_state(saved(d, ids), d.state(), file);
  const std::string bytes = testing::slurp(file);
  const auto refused = [&](const std::string& text) {
    const testing::Aligned aligned(text);
    return message_of([&] { read_state(gguf::File::parse(aligned.span(), "damaged.state"), d.state()); });
  };
  for (size_t n = 0; n < bytes.size(); n += 1 + n / 17) expect_contains(refused(bytes.substr(0, n)), "damaged.state");
  // Bits of the tensors, which no structure protects.
  const gguf::File opened = gguf::File::open(file);
  const std::byte* begin = opened.tensors().front().data;
  const gguf::TensorInfo& last = opened.tensors().back();
  const size_t header = bytes.size() - (size_t(last.data - begin) + (last.bytes + 31) / 32 * 32);
  for (const gguf::TensorInfo& t : opened.tensors()) {
    std::string wrong = bytes;
    char& byte = wrong[header + size_t(t.data - begin) + t.bytes / 2];
    byte = char(byte ^ 4);
    expect_contains(refused(wrong), "checksum");
  }
  EXPECT_EQ(d.state().length(0), 130);
}

TEST_P(SavedStates, FilesOfOthers) {
  Decoder d(*device_, model_, options());
  const Tokens ids = tokens(130, "text");
  read(d, ids);
  SavedState state = saved(d, ids);
  const auto refused = [&](Decoder& by) {
    return message_of([&] { read_state(gguf::File::open(path("f.state")), by.state()); });
  };
  write_state(state, d.state(), path("f.state"));
  Decoder small(*device_, model_, {.context = 129, .kv = GetParam().kv});
  expect_contains(refused(small), "--ctx");
  state.snapshot.slots.back().resize(state.snapshot.slots.back().size() / 2);
  write_state(state, d.state(), path("f.state"));
  expect_contains(refused(d), "bytes");
  gguf::Writer model("llama");
  model.finish(path("f.state"));
  expect_contains(refused(d), "not a saved state: its architecture is 'llama'");
  gguf::Writer newer("toy-state");
  newer.set("state.version", uint32_t(2));
  newer.finish(path("f.state"));
  expect_contains(refused(d), "version 2");
  newer.set("state.version", uint32_t(1));
  newer.finish(path("f.state"));
  expect_contains(refused(d), "tokens");
}

TEST_P(SavedStates, WhatTellsModelsApart) {
  Decoder d(*device_, model_, options());
  const std::map<std::string, std::string> mine = made_with(model_, d);
  Model same = random_model(spec(), *device_, 3, 2.0), other = random_model(spec(), *device_, 4, 2.0);
  same.spec = other.spec = model_.spec;
  same.spec.name = "renamed";
  EXPECT_EQ(made_with(same, d), mine);
  EXPECT_NE(made_with(other, d).at("model"), mine.at("model"));
  same.spec.norm_eps *= 2;
  EXPECT_NE(made_with(same, d).at("model"), mine.at("model"));
  Decoder exact(*device_, model_, {.kv = GetParam().kv == DType::f32 ? DType::f16 : DType::f32, .take_back = 3});
  EXPECT_NE(made_with(model_, exact).at("kv"), mine.at("kv"));
  EXPECT_EQ(mine.contains("take_back"), mine.contains("windows"));
  EXPECT_EQ(mine.contains("take_back"),
            mine != made_with(model_, exact) && made_with(model_, exact).contains("take_back"));
}

// A cache with room for some snapshots and pages.
DecoderOptions cached(const Model& model, DType kv, int sequences, int64_t snapshots, int64_t pages) {
  DecoderOptions o{.sequences = sequences, .kv = kv};
  DecodeShape shape = decode_shape(model, o);
  shape.shared_pages = 1;
  const size_t snapshot = kept_state_bytes(model.spec, shape), page = shared_page_bytes(model.spec, shape);
  o.cache = state_bytes(model.spec, shape) +
            (page > 0 && snapshot > 0 ? 2 : 1) * std::max(size_t(snapshots) * snapshot, size_t(pages - 1) * page);
  return o;
}

struct Result {
  std::vector<int32_t> ids;
  std::vector<double> logprobs;
  int64_t shared = 0;
  bool operator==(const Result& o) const { return ids == o.ids && logprobs == o.logprobs; }
};

GenerateRequest text(const Tokens& prompt, Result& to, int64_t n = 8) {
  return {
      .prompt = prompt, .eos = {}, .options = {.max_tokens = n}, .on_token = {}, .on_done = [&to](const Generated& g) {
        to.shared = g.shared;
        for (const GeneratedToken& t : g.tokens) to.ids.push_back(t.chosen.id), to.logprobs.push_back(t.chosen.logprob);
      }};
}

StateSnapshot state_after(Scheduler& s, const Tokens& prompt) {
  StateSnapshot snapshot;
  s.add({.prompt = prompt,
         .eos = {},
         .options = {.max_tokens = 0},
         .on_token = {},
         .on_done = {},
         .on_state = [&](StateSnapshot state) { snapshot = std::move(state); }});
  s.run();
  return snapshot;
}

GenerateRequest restoring(const Tokens& prompt, const StateSnapshot& state, int& done, std::string& error) {
  return {
      .prompt = prompt,
      .eos = {},
      .options = {.max_tokens = 0},
      .on_token = {},
      .on_done = [&](const Generated&) { ++done; },
      .on_error = [&](const std::exception_ptr& e) { error = testing::error_of([&] { std::rethrow_exception(e); }); },
      .state = std::make_shared<const StateSnapshot>(state)};
}

TEST_P(SavedStates, TextsContinueWithoutAPrefill) {
  const Tokens prompt = tokens(300, "prompt");
  StateSnapshot state;
  {
    Decoder d(*device_, model_, cached(model_, GetParam().kv, 2, 8, 20));
    Scheduler s(d);
    state = state_after(s, prompt);
    ASSERT_EQ(state.length, 300);
    const int64_t before = s.shared_tokens();
    const StateSnapshot again = state_after(s, prompt);  // nothing of it is computed
    EXPECT_EQ(s.shared_tokens() - before, 300);
    EXPECT_EQ(again.slots, state.slots);
  }
  Decoder d(*device_, model_, cached(model_, GetParam().kv, 2, 8, 20));
  Scheduler s(d);
  int done = 0;
  std::string error;
  s.add(restoring(prompt, state, done, error));
  s.run();
  EXPECT_EQ(done, 1);
  EXPECT_EQ(error, "");
  EXPECT_EQ(s.shared_tokens(), 0);
  for (const std::string name : {"x", "y", "z"}) {  // others use all sequences
    Result r;
    s.add(text(tokens(70, name), r));
    s.run();
  }
  // Several continuations at once.
  std::vector<Result> results(5);
  std::vector<Tokens> prompts;
  for (size_t i = 0; i < results.size(); ++i) {
    prompts.push_back(prompt);
    const Tokens more = tokens(1 + i * 10, std::to_string(i));
    prompts.back().insert(prompts.back().end(), more.begin(), more.end());
    s.add(text(prompts.back(), results[i]));
  }
  s.run();
  Decoder alone(*device_, model_, {.kv = GetParam().kv});
  for (size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i].shared, 300) << i;
    alone.state().reset(0);
    Scheduler fresh(alone);
    Result expected;
    fresh.add(text(prompts[i], expected));
    fresh.run();
    EXPECT_EQ(results[i], expected) << i;
  }
}

// It waits for room, takes that of prefixes, and preempts no text.
TEST_P(SavedStates, RestoredWhereThereIsLittleRoom) {
  const Tokens prompt = tokens(300, "prompt"), other = tokens(200, "other");
  Decoder big(*device_, model_, cached(model_, GetParam().kv, 1, 8, 20));
  Scheduler first(big);
  const StateSnapshot state = state_after(first, prompt);
  Result expected;
  first.add(text(other, expected, 40));
  first.run();
  Decoder d(*device_, model_, cached(model_, GetParam().kv, 2, 2, 7));
  Scheduler s(d);
  Result old, running, after;
  s.add(text(tokens(250, "old"), old));
  s.run();
  int done = 0;
  std::string error;
  s.add(text(other, running, 40));
  s.step();
  s.add(restoring(prompt, state, done, error));
  s.run();
  EXPECT_EQ(error, "");
  EXPECT_EQ(done, 1);
  EXPECT_EQ(running, expected);
  EXPECT_EQ(s.preemptions(), 0);
  Tokens more = prompt;
  more.push_back(3);
  s.add(text(more, after, 4));
  s.run();
  EXPECT_EQ(after.shared, 300);
}

// What does not fit the model is an error of its request alone.
TEST_P(SavedStates, AStateOfAnotherModel) {
  const Tokens prompt = tokens(100, "prompt");
  Decoder d(*device_, model_, cached(model_, GetParam().kv, 2, 2, 10));
  Scheduler s(d);
  StateSnapshot state = state_after(s, prompt);
  state.slots.back().resize(4);
  int done = 0;
  std::string error;
  Result running;
  s.add(restoring(prompt, state, done, error));
  s.add(text(prompt, running));
  s.run();
  EXPECT_EQ(done, 0);
  expect_contains(error, "other dimensions");
  EXPECT_EQ(running.ids.size(), 8u);
  EXPECT_THROW(s.add(restoring(tokens(99, "prompt"), state, done, error)), Error);
  GenerateRequest both = restoring(prompt, state, done, error);
  both.options.max_tokens = 1;
  EXPECT_THROW(s.add(both), Error);
}

TEST(SavedStateFuzz, Corpus) {
  int good = 0, bad = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TOY_SOURCE_DIR "/tests/fuzz/corpus/saved_state")) {
    const bool taken = fuzz::saved_state(testing::slurp(entry.path()));
    EXPECT_EQ(taken, entry.path().filename().string().starts_with("ok_")) << entry.path();
    ++(taken ? good : bad);
  }
  EXPECT_GE(good, 1);
  EXPECT_GE(bad, 5);
}

INSTANTIATE_TEST_SUITE_P(Models, SavedStates,
                         ::testing::Values(Case{"attention", nullptr}, Case{"f16", nullptr, false, DType::f16},
                                           Case{"q8_0", nullptr, false, DType::q8_0}, Case{"windows", nullptr, true},
                                           Case{"qwen35", testing::kQwen35},
                                           Case{"hybrid_windows", testing::kHybridWithWindows, false, DType::q8_0},
                                           Case{"shared_kv", testing::kHybridWithSharedKv, false, DType::f16},
                                           Case{"recurrent", testing::kOnlyRecurrent}),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace toy::saved_state_test
