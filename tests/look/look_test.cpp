// A look inside: against transformers (tests/golden/make_look_golden.py), against decoding for every family, and parts
// of it against what they mean.
#include "toy/look/look.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "backend/forwarding_device.h"
#include "look/parts.h"
#include "testing/errors.h"
#include "testing/family_golden.h"
#include "testing/hybrids.h"
#include "testing/models.h"
#include "testing/test_device.h"
#include "toy/backend/devices.h"
#include "toy/base/json_text.h"
#include "toy/decode/decoder.h"
#include "toy/decode/sampler.h"
#include "toy/ops/ops.h"
#include "toy/runtime/evaluate.h"

namespace toy::look_test {
namespace {

using nlohmann::json;
using testing::GoldenFamily;
using testing::numbers;

std::vector<std::string> golden_names(const std::string& ending) {
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(std::string(TOY_SOURCE_DIR) + "/tests/golden"))
    if (const std::string name = file.path().filename(); name.ends_with(ending))
      names.push_back(name.substr(0, name.size() - ending.size()));
  std::sort(names.begin(), names.end());
  return names;
}

// ---- transformers

class LookGolden : public ::testing::TestWithParam<std::string> {
 protected:
  // A score is scale q.k of at most 30 in these models; q and k are rounded to f32 once by the reference, and the cpu
  // rounds after each operation, with 128 units for logits (family_golden_test.cpp). A weight p moves by p times twice
  // the change of a score.
  static double tolerance(bool reference) { return (reference ? 2 * 2 * 30 : 128 * 30) * 0x1p-24; }
};

TEST_P(LookGolden, AttentionNormsAndLens) {
  const GoldenFamily family(GetParam());
  const gguf::File golden = gguf::File::open(fmt::format("{}/tests/golden/{}.look.gguf", TOY_SOURCE_DIR, GetParam()));
  const std::vector<int32_t> ids = numbers<int32_t>(golden, "ids"), rows = golden.get_i32s("golden.rows");
  const auto attention = numbers<float>(golden, "attention"), norms = numbers<float>(golden, "norms"),
             lens = numbers<float>(golden, "lens");
  for (const bool reference : {true, false}) {
    const auto device = reference ? make_reference_device() : make_test_device(2);
    const Model model = load_model(family.write(), *device);
    const Look seen = look(*device, model, ids, {.top = model.spec.vocab, .exact = true});
    const double tolerance = LookGolden::tolerance(reference);
    size_t at = 0;
    for (const LayerLook& layer : seen.layers)
      for (const HeadLook& head : layer.heads)
        for (const int32_t row : rows)
          for (size_t j = 0; j < ids.size(); ++j, ++at)
            ASSERT_NEAR(head.weights[size_t(row) * ids.size() + j], attention.at(at), tolerance) << row << " " << j;
    EXPECT_EQ(at, attention.size());
    for (size_t point = 0; point <= seen.layers.size(); ++point) {
      const std::vector<double>& of_rows = point == 0 ? seen.norm : seen.layers[point - 1].norm;
      const std::vector<LensPoint>& predicted = point == 0 ? seen.lens : seen.layers[point - 1].lens;
      for (size_t t = 0; t < ids.size(); ++t) {
        const double want = norms.at(point * ids.size() + t);
        ASSERT_NEAR(of_rows[t], want, want * tolerance) << point << " " << t;
      }
      for (size_t r = 0; r < rows.size(); ++r)
        for (const TokenChance& c : predicted[size_t(rows[r])].top) {
          const size_t place = (point * rows.size() + r) * size_t(model.spec.vocab) + size_t(c.id);
          ASSERT_NEAR(c.probability, lens.at(place), tolerance) << point << " " << r;
        }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Transformers, LookGolden, ::testing::ValuesIn(golden_names(".look.gguf")),
                         [](const auto& info) { return info.param; });

// ---- every family

class LookFamily : public ::testing::TestWithParam<std::string> {};

TEST_P(LookFamily, EndsAtDecodingsBitsAndRowsSumToOne) {
  const GoldenFamily family(GetParam());
  const auto device = make_test_device(2);
  const Model model = load_model(family.write(), *device);
  const std::vector<int32_t> ids(family.ids.begin(), family.ids.begin() + 40);
  const Look seen = look(*device, model, ids);
  Decoder decoder(*device, model, {.sequences = 1, .context = 40, .max_rows = 40, .kv = DType::f32});
  std::vector<DecodeRow> rows;
  for (const int32_t id : ids) rows.push_back({0, id, true});
  decoder.decode(rows);
  for (size_t t = 0; t < ids.size(); ++t) {
    const auto best = top_logprobs(decoder.logits(t), 5);
    for (size_t i = 0; i < best.size(); ++i) {
      EXPECT_EQ(seen.output(t).top[i].id, best[i].id);
      EXPECT_DOUBLE_EQ(seen.output(t).top[i].probability, std::exp(best[i].logprob));
    }
    EXPECT_EQ(seen.output(t).kl, 0);
  }
  bool some = false;
  for (size_t l = 0; l < seen.layers.size(); ++l) {
    const LayerLook& layer = seen.layers[l];
    EXPECT_FALSE(layer.added.empty()) << l;
    EXPECT_EQ(layer.experts.size(), model.spec.layers[l].experts.count > 0 ? ids.size() : 0) << l;
    for (const HeadLook& head : layer.heads)
      for (size_t row = 0; row < ids.size(); ++row) {
        double sum = 0;
        for (size_t j = 0; j < ids.size(); ++j) {
          sum += head.weights[row * ids.size() + j];
          const bool visible = j <= row && (layer.window == 0 || row - j < size_t(layer.window));
          if (!visible) {
            EXPECT_EQ(head.weights[row * ids.size() + j], 0);
          }
        }
        if (model.spec.layers[l].sinks)
          EXPECT_LT(sum, 1);
        else
          EXPECT_NEAR(sum, 1, 40 * 0x1p-24);
      }
    for (const StateHead& s : layer.states) {
      EXPECT_EQ(s.norm.size(), ids.size());
      EXPECT_GT(s.norm.back(), 0);
    }
    some = some || !layer.heads.empty() || !layer.states.empty() || layer.mixer == "conv";
  }
  EXPECT_TRUE(some);
}

INSTANTIATE_TEST_SUITE_P(All, LookFamily, ::testing::ValuesIn(golden_names(".family.gguf")),
                         [](const auto& info) { return info.param; });

// ---- what blocks add

TEST(Look, AdditionsSumToTheRows) {
  const auto device = make_reference_device();
  const Model model = random_model(
      testing::small_model(
          "tiny",
          {.vocab = 31, .d_model = 16, .context = 32, .layers = 3, .heads = 2, .kv_heads = 1, .d_head = 8, .d_ff = 24}),
      *device, 3);
  const std::vector<int32_t> ids = testing::random_ids(9, 31, Philox(1));
  const looking::Taps taps = looking::run_blocks(*device, model, ids, true, false);
  for (size_t l = 0; l < 3; ++l) {
    ASSERT_EQ(taps.added[l].size(), 2u);
    EXPECT_EQ(taps.added[l][0].part, "mixer");
    EXPECT_EQ(taps.added[l][1].part, "ffn");
    for (size_t i = 0; i < taps.x[l].size(); ++i) {
      const double sum = double(taps.x[l][i]) + taps.added[l][0].values[i] + taps.added[l][1].values[i];
      EXPECT_NEAR(sum, taps.x[l + 1][i], 8 * 0x1p-24);  // four roundings of numbers below 2
    }
  }
}

// ---- heads

// Query head (pair, g, map) meets the key head of its map, which without pairs it does where g = map or G = 1.
TEST(Look, DifferentialHeadsAreTheQueryHeads) {
  const auto device = make_reference_device();
  const auto of = [&](int64_t heads, bool differential) {
    const json spec{{"architecture", "toy"},
                    {"name", "d"},
                    {"d_model", 32},
                    {"n_layers", 1},
                    {"n_heads", heads},
                    {"n_kv", 4},
                    {"d_head", 8},
                    {"d_ff", 32},
                    {"vocab", 31},
                    {"context", 64},
                    {"differential", differential}};
    const Model model = random_model(spec_from_json(spec, "test"), *device, 5);
    return look(*device, model, testing::random_ids(20, 31, Philox(2)));
  };
  for (const int64_t heads : {4, 8}) {
    const Look plain = of(heads, false), pairs = of(heads, true);
    ASSERT_EQ(pairs.layers[0].heads.size(), size_t(heads));
    for (size_t h = 0; h < size_t(heads); ++h)
      if (heads == 4 || h % 2 == h / 2 % 2) {
        EXPECT_EQ(plain.layers[0].heads[h].weights, pairs.layers[0].heads[h].weights) << h;
      }
  }
}

TEST(Look, ScoresOfMadeHeads) {
  constexpr int64_t kTokens = 9, kCopy = 4;
  std::vector<float> before(kTokens * kTokens, 0), uniform = before, induction = before;
  for (int64_t i = 0; i < kTokens; ++i) {
    before[size_t(i * kTokens + std::max<int64_t>(0, i - 1))] = 1;
    for (int64_t j = 0; j <= i; ++j) uniform[size_t(i * kTokens + j)] = float(1 / double(i + 1));
    induction[size_t(i * kTokens + std::max<int64_t>(0, i - kCopy + 1))] = 1;
  }
  HeadScores s = looking::scores_of_text(before, kTokens);
  EXPECT_EQ(s.previous, 1);
  EXPECT_EQ(s.first, 1.0 / 8);
  EXPECT_EQ(s.entropy, 0);
  EXPECT_EQ(s.distance, 1);
  looking::score_repetition(before, kTokens, 1, kCopy, s);
  EXPECT_EQ(s.induction, 0);
  EXPECT_EQ(s.roles(), std::vector<std::string>{"previous token"});
  s = looking::scores_of_text(uniform, kTokens);
  double mean = 0, entropy = 0;
  for (int i = 1; i < kTokens; ++i) mean += 1.0 / (i + 1) / 8, entropy += std::log(i + 1.0) / 8;
  EXPECT_NEAR(s.previous, mean, 1e-7);
  EXPECT_NEAR(s.first, mean, 1e-7);
  EXPECT_NEAR(s.entropy, entropy, 1e-6);
  EXPECT_NEAR(s.distance, (1 + 2 + 3 + 4 + 5 + 6 + 7 + 8) / 2.0 / 8, 1e-6);
  looking::score_repetition(induction, kTokens, 1, kCopy, s);
  EXPECT_EQ(s.induction, 1);
  EXPECT_EQ(s.duplicate, 0);
}

TEST(Look, OneTokenHasNoScores) {
  const auto device = make_reference_device();
  const Model model = random_model(
      testing::small_model(
          "tiny", {.vocab = 31, .d_model = 16, .context = 4, .heads = 2, .kv_heads = 2, .d_head = 8, .d_ff = 24}),
      *device, 3);
  const Look one = look(*device, model, std::vector<int32_t>{3});
  EXPECT_TRUE(std::isnan(one.layers[0].heads[0].scores.previous));
  EXPECT_TRUE(std::isnan(one.layers[0].heads[0].scores.induction));  // a context of 4 holds no repetition
  EXPECT_EQ(one.random_tokens, 0);
  EXPECT_EQ(one.layers[0].heads[0].weights, std::vector<float>{1});
  EXPECT_TRUE(
      json::parse(json_text(to_json(one, nullptr))).at("layers")[0].at("heads")[0].at("previous_token").is_null());
}

// ---- recurrences

class LookRule : public ::testing::TestWithParam<std::tuple<bool, bool, HeadMap>> {};

TEST_P(LookRule, NormsAreThoseOfTheOpsStates) {
  const auto [by_channel, delta, map] = GetParam();
  constexpr int64_t kT = 6, K = 2, P = 3, H = 4, V = 5;
  const Philox random(7);
  uint64_t at = 0;
  const auto draw = [&](int64_t n, double scale, double shift) {
    std::vector<float> x(static_cast<size_t>(n));
    for (float& v : x) v = float(scale * random.normal(at++) + shift);
    return x;
  };
  looking::RuleTap tap{0,  {map, delta},          K, P, H, V, draw(kT * K * P, 0.4, 0), draw(kT * H * V, 1, 0),
                       {}, draw(kT * H, 0.1, 0.5)};
  tap.gate = draw(by_channel ? kT * H * P : kT * H, 0.1, -0.5);
  ThreadPool team(2);
  const std::vector<StateHead> heads = looking::run_rule(tap, kT, team);
  ASSERT_EQ(heads.size(), size_t(H));
  for (int64_t t = 1; t <= kT; ++t) {
    Graph g;
    const auto constant = [&](const std::vector<float>& x, const Shape& shape) {
      return g.constant({DType::f32, shape, 0}, std::vector<double>(x.begin(), x.begin() + shape.count()));
    };
    const Value k = constant(tap.k, {t, K, P}), v = constant(tap.v, {t, H, V});
    const Value gate = by_channel ? constant(tap.gate, {t, H, P}) : constant(tap.gate, {t, H});
    std::vector<double> position;
    for (int64_t i = 0; i < t; ++i) position.push_back(double(i));
    const TensorType ids{DType::i32, {t}, 0};
    const Value states =
        gated_delta_rule(k, k, v, gate, constant(tap.beta, {t, H}), fill(g, {1, H, P, V}, 0),
                         g.constant(ids, std::vector<double>(size_t(t), 0)), g.constant(ids, position), tap.attrs)
            .s;
    const std::vector<double> norms = evaluate(sqrt(sum(sum(states * states, 3), 2))).values;
    for (size_t h = 0; h < size_t(H); ++h)  // both in f64 from the same numbers
      EXPECT_NEAR(heads[h].norm[size_t(t - 1)], norms[h], norms[h] * 1e-12) << t << " " << h;
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, LookRule,
                         ::testing::Combine(::testing::Bool(), ::testing::Bool(),
                                            ::testing::Values(HeadMap::interleave, HeadMap::tile)));

// ---- options, errors, files

TEST(Look, LastRowsThreadsAndErrors) {
  const auto device = make_test_device(1);
  const Model model = random_model(spec_from_json(json::parse(testing::kQwen35), "test"), *device, 3);
  const std::vector<int32_t> ids = testing::random_ids(30, 61, Philox(4));
  const Look all = look(*device, model, ids), some = look(*device, model, ids, {.rows = 7});
  EXPECT_EQ(some.first_row, 23);
  const size_t with_attention = 3;
  const std::vector<float>&full = all.layers[with_attention].heads[1].weights,
        &part = some.layers[with_attention].heads[1].weights;
  EXPECT_EQ(std::vector<float>(full.end() - 7 * 30, full.end()), part);
  EXPECT_EQ(all.layers[with_attention].heads[1].scores.first, some.layers[with_attention].heads[1].scores.first);
  const auto two = make_test_device(2);
  const Model same = random_model(model.spec, *two, 3);
  EXPECT_EQ(json_text(to_json(all, nullptr)), json_text(to_json(look(*two, same, ids), nullptr)));
  using testing::expect_contains, testing::message_of;
  expect_contains(message_of([&] { look(*device, model, std::vector<int32_t>{}); }), "no tokens");
  expect_contains(message_of([&] { look(*device, model, std::vector<int32_t>{61}); }), "0 to 60");
  expect_contains(message_of([&] { look(*device, model, ids, {.top = 0}); }), "top");
  const std::vector<int32_t> longer(size_t(model.spec.context) + 1, 3);
  expect_contains(message_of([&] { look(*device, model, longer); }), "positions");
}

// A device with as little memory as is wanted, which counts what runs on it.
class SmallDevice final : public ForwardingDevice {
 public:
  explicit SmallDevice(Device& to) : ForwardingDevice(to) {}
  ~SmallDevice() override { close(); }
  Memory memory() const override { return {size_t(1) << 40, free}; }
  void run(Program& program, std::span<double> seconds) override {
    ++runs;
    ForwardingDevice::run(program, seconds);
  }
  size_t free = size_t(1) << 40;
  int runs = 0;
};

// What a call refuses, or "".
template <class Call>
std::string refusal(const Call& call) {
  try {
    call();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::bad_input);
    return e.what();
  }
  return "";
}

// What does not fit is refused before anything runs, with a number of tokens that does.
TEST(Look, TextsThatAreTooLongForTheMemoryAreRefused) {
  const auto cpu = make_cpu_device(2);
  SmallDevice device(*cpu);
  const ModelSpec spec = testing::small_model(
      "tiny", {.vocab = 61, .d_model = 32, .context = 2048, .heads = 4, .kv_heads = 2, .d_head = 8, .d_ff = 48});
  const Model model = random_model(spec, device, 3);
  const std::vector<int32_t> ids = testing::random_ids(400, 61, Philox(4));
  const auto begins = [&](size_t tokens, const LookOptions& o = {}) {
    const int before = device.runs;
    const std::string message = refusal([&] {
      const LookJob job(device, model, {ids.begin(), ids.begin() + int64_t(tokens)}, o);
    });
    EXPECT_EQ(device.runs, before);
    return message;
  };
  const auto bytes = [&](const LookOptions& o) {
    const looking::LookMemory m = looking::memory_of_look(device, model, 400, o);
    return m.device + m.host;
  };
  // All weights of attention, those of a head for each thread.
  const size_t square = size_t(400) * 400 * sizeof(float), heads = spec.layers.size() * 4;
  EXPECT_GT(bytes({}), (heads + 2) * square);
  EXPECT_LT(bytes({}), 2 * (heads + 2) * square);
  EXPECT_LT(bytes({.rows = 64}), bytes({}) - (heads - 2) * square);
  EXPECT_GT(bytes({.output = LookOptions::page}), bytes({}) + (heads - 2) * square);
  EXPECT_GT(bytes({.output = LookOptions::json}), bytes({.output = LookOptions::page}) + 4 * heads * square);
  device.free = bytes({});
  EXPECT_EQ(begins(400), "");
  device.free = bytes({}) - 1;
  const std::string refused = begins(400);
  testing::expect_contains(refused, "memory: a look at 400 tokens needs");
  testing::expect_contains(refused, ", or keep the attention of the last 64 alone (--rows 64)");
  const std::string use = "use at most ";
  const size_t most = std::stoul(refused.substr(refused.find(use) + use.size()));
  EXPECT_GT(most, 370u);
  EXPECT_EQ(begins(most), "");
  EXPECT_NE(begins(most + 1), "");
  EXPECT_EQ(begins(400, {.rows = 64}), "");
  const auto compared = [&] {
    compare_looks(device, {.model = model}, {.model = model, .without = {{0, 1}}}, ids, {});
  };
  device.free = 20 * square / 10;
  testing::expect_contains(refusal(compared), "memory: a look at 400 tokens needs");
  EXPECT_EQ(device.runs, 0);
  device.free = 10 << 10;
  testing::expect_contains(begins(400), "use a smaller model or more memory");
  device.free = size_t(1) << 40;
  EXPECT_EQ(refusal(compared), "");
  EXPECT_GT(device.runs, 0);
}

TEST(Look, ThePageHasEverythingInIt) {
  const auto device = make_test_device(2);
  const Model model = random_model(spec_from_json(json::parse(testing::kQwen35), "test"), *device, 3);
  const std::vector<int32_t> ids = testing::random_ids(12, 61, Philox(4));
  const std::string page = to_html(look(*device, model, ids), nullptr, "</script><b>&");
  EXPECT_EQ(page.find("://"), page.npos);
  EXPECT_EQ(page.find("src="), page.npos);
  EXPECT_NE(page.find("<title>&lt;/script&gt;&lt;b&gt;&amp;</title>"), page.npos);
  const std::string begin = "const data = ";
  const size_t at = page.find(begin) + begin.size();
  const json data = json::parse(page.substr(at, page.find(";\n", at) - at));
  EXPECT_EQ(data.at("title"), "</script><b>&");
  EXPECT_EQ(data.at("layers").size(), 4u);
  // Four heads, the lower triangle of 12 by 12, three bytes in four letters.
  EXPECT_EQ(data.at("layers")[3].at("attention").get<std::string>().size(), size_t(4 * 78 / 3 * 4));
}

}  // namespace
}  // namespace toy::look_test
