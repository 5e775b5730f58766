// The gated delta rule: values, states, the same bits however a sequence is cut.
#include <gtest/gtest.h>

#include "ops/gated_delta_data.h"
#include "testing/errors.h"
#include "toy/ops/ops.h"

namespace toy::test::gated_delta_rule_test {
namespace {

std::vector<Case> forward_cases() {
  std::vector<Case> cases;
  for (const auto& [c, attrs] : delta_cases()) cases.push_back({c.forward(), attrs});
  cases.push_back(
      {"q:[2,7,4]@(1,0,2)=range(-0.5,0.5) k:[7,4,2]@(0,2,1)=range(-0.5,0.5) v:[3,4,7]@(2,1,0) "
       "g:[4,7]@(1,0)=range(-1,0) beta:[4,7]@(1,0)=range(0,1) s0:[4,1,4,3]@(1,0,2,3) "
       "seq:i32[7]=runs(7@2) pos:i32[7]=runs(7@2)",
       kInterleave});
  return cases;
}

const OpSuite kRule{
    .op = "gated_delta_rule",
    .cases = forward_cases(),
    .bad = {{DeltaCase{2, 4, 3, 4, 1, "4@0"}.forward(),
             "gated_delta_rule: H=3 value heads are not a multiple of K=2 key heads", kInterleave},
            {DeltaCase{1, 4, 0, 4, 1, "4@0"}.forward(),
             "gated_delta_rule: H=0 value heads are not a multiple of K=1 key heads", kInterleave},
            {"q:[4,1,2] k:[4,1,2] v:[4,2,3] g:[4,3] beta:[4,2] s0:none seq:i32[4]=runs(4@0) pos:i32[4]=runs(4@0)",
             "gated_delta_rule: g is [4,3], expected [4,2] or [4,2,2]", kInterleave},
            {"q:[4,1,2] k:[4,1,2] v:[4,2,3] g:[4,2] beta:[4,2] s0:[1,2,3,2] seq:i32[4]=runs(4@0) pos:i32[4]=runs(4@0)",
             "gated_delta_rule: s0 has P=3, q has P=2", kInterleave},
            {"q:[4,1,2] k:[4,2,2] v:[4,2,3] g:[4,2] beta:[4,2] s0:none seq:i32[4]=runs(4@0) pos:i32[4]=runs(4@0)",
             "gated_delta_rule: k has K=2, q has K=1", kInterleave}},
    .bound = by_sensitivity(),
    .loss_outputs = {0, 1},
    .rows = {"q", "k", "v", "g", "beta", "seq", "pos"},
    .prepare = normalize_keys};

std::vector<Case> update_cases() {
  std::vector<Case> cases;
  for (const auto& [c, attrs] : delta_cases())
    if (c.states) cases.push_back({c.update(), attrs});
  return cases;
}

const OpSuite kUpdate{
    .op = "gated_delta_rule_update",
    .cases = update_cases(),
    .bad = {{DeltaCase{2, 4, 3, 4, 1, "4@0"}.update(),
             "gated_delta_rule_update: H=3 value heads are not a multiple of K=2 key heads", kInterleave}},
    .bound = by_sensitivity(),
    .rows = {"q", "k", "v", "g", "beta", "seq", "pos"},
    .prepare = normalize_keys};

const bool kDone = register_suite(kRule) && register_suite(kUpdate);

// Gates from none to a reset, keys that are all the same, states that are flushed: within the suite's bound.
TEST(GatedDeltaRule, GatesAndKeysOfAllKinds) {
  for (const DeltaRuleAttrs& attrs : {kInterleave, kPlain})
    for (const DeltaCase& c : extreme_cases()) expect_within_bound(kRule, {c.forward(), attrs});
}

// Many rows, wide heads: error relative to the largest element. A token's roundings are random and forgotten, so they
// do not grow with their number; P terms in a chain are within P u of their magnitudes.
TEST(GatedDeltaRule, ManyRowsAndWideHeads) {
  for (const int rows : {1, 2, 31, 32, 33, 100, 300})
    for (const bool vector_gate : {false, true})
      for (const char* gate : {"range(-0.2,0)", "const(-1e-4)", "range(-30,0)"})
        for (const DeltaRuleAttrs& attrs : {kTile, kPlainTile}) {
          const DeltaCase c{
              2, 40, 4, 70, 2, std::to_string(rows) + "@0," + std::to_string(rows / 2 + 1) + "@5", vector_gate, gate};
          const Built b = build_op(*find_op(kRule.op), operands_of(kRule, {c.forward(), attrs}), attrs);
          const Results expected = Program(b, reference_device()).run(), actual = Program(b, cpu_device(2)).run();
          for (size_t o = 0; o < 2; ++o) {
            double largest = 0;
            for (const double v : expected[o]) largest = std::max(largest, std::fabs(v));
            expect_close(actual[o], expected[o],
                         std::vector<double>(expected[o].size(), double(c.width) * 0x1p-24 * largest), c.forward());
          }
        }
}

TEST(GatedDeltaRule, DenormalStatesCountAsZeros) {
  DeltaCase c{1, 8, 1, 16, 1, "5@3"};
  c.s0 = "const(1e-39)";
  Built b = build_op(*find_op(kRule.op), operands_of(kRule, {c.forward(), kInterleave}), kInterleave);
  const Results small = Program(b, cpu_device(1)).run();
  std::fill(b.feed["s0"].begin(), b.feed["s0"].end(), 0.0);
  const Results zero = Program(b, cpu_device(1)).run();
  for (size_t o = 0; o < 2; ++o) expect_same(small[o], zero[o], "output " + std::to_string(o));
}

constexpr int kRows = 19, kHeads = 4, kWidth = 6, kValues = 37, kStates = 2;

// Rows [begin, begin + n) of both sequences.
Results piece(Device& device, const Feed& all, const Feed& carried, int begin, int n, bool vector_gate,
              const DeltaRuleAttrs& attrs) {
  DeltaCase c{2, kWidth, kHeads, kValues, kStates, "", vector_gate};
  c.runs = std::to_string(n) + "@" + std::to_string(begin) + "," + std::to_string(n) + "@" + std::to_string(begin);
  auto operands = parse_operands(c.update());
  for (OperandData& o : operands) {
    if (o.name == "s") o.values = carried.at("s");
    if (o.name == "s" || o.dtype == DType::i32) continue;
    const std::vector<double>& from = all.at(o.name);
    const int64_t width = int64_t(from.size()) / (2 * kRows);
    for (int64_t s = 0; s < 2; ++s)
      std::copy_n(from.begin() + (s * kRows + begin) * width, n * width, o.values.begin() + s * n * width);
  }
  return Program(build_op(*find_op("gated_delta_rule_update"), operands, attrs), device).run();
}

TEST(GatedDeltaRule, TheSameBitsHoweverASequenceIsCut) {
  for (const bool vector_gate : {false, true})
    for (const DeltaRuleAttrs& attrs : {kInterleave, kTile, kPlain}) {
      DeltaCase c{2, kWidth, kHeads, kValues, kStates, "19@0,19@0", vector_gate};
      c.gate = "range(-1.5,0)";  // decays on both sides of a half, in any order
      const Case test{c.forward(), attrs};
      const Built whole = build_op(*find_op(kRule.op), operands_of(kRule, test), attrs);
      for (Device* device : {&cpu_device(1), &cpu_device(3), &reference_device(), emulated_devices()[2]}) {
        const Results expected = Program(whole, *device).run();
        for (const int cut : {19, 8, 7, 2, 1}) {
          Results o(2);
          // What is in the states before position 0 does not matter.
          Feed carried{{"s", std::vector<double>(size_t(kStates * kHeads * kWidth * kValues), 1e30)}};
          for (int begin = 0; begin < kRows; begin += cut) {
            const int n = std::min(cut, kRows - begin);
            const Results y = piece(*device, whole.feed, carried, begin, n, vector_gate, attrs);
            carried["s"] = y[0];
            for (int s = 0; s < 2; ++s)
              o[size_t(s)].insert(o[size_t(s)].end(), y[1].begin() + s * n * kHeads * kValues,
                                  y[1].begin() + (s + 1) * n * kHeads * kValues);
          }
          const std::string what = std::string(device->name()) + ", pieces of " + std::to_string(cut);
          o[0].insert(o[0].end(), o[1].begin(), o[1].end());
          expect_same(o[0], expected[0], what);
          expect_same(carried["s"], expected[1], what + ", state");
        }
      }
    }
}

// A head map is what repeating the keys by hand gives.
TEST(GatedDeltaRule, HeadMaps) {
  const DeltaCase shared{2, 3, 6, 4, 1, "5@2"}, apart{6, 3, 6, 4, 1, "5@2"};
  for (const DeltaRuleAttrs& attrs : {kInterleave, kTile}) {
    const auto operands = operands_of(kRule, {shared.forward(), attrs});
    auto repeated = operands;
    for (size_t i = 0; i < 2; ++i) {
      repeated[i].stored = {5, 6, 3};
      repeated[i].values.clear();
      for (size_t n = 0; n < 5; ++n)
        for (size_t h = 0; h < 6; ++h)
          for (size_t p = 0; p < 3; ++p)
            repeated[i].values.push_back(
                operands[i].values[(n * 2 + (attrs.heads == HeadMap::tile ? h % 2 : h / 3)) * 3 + p]);
    }
    for (Device* device : {&cpu_device(2), &reference_device(), emulated_devices()[2]}) {
      const Results a = Program(build_op(*find_op(kRule.op), operands, attrs), *device).run();
      const Results b = Program(build_op(*find_op(kRule.op), repeated, kInterleave), *device).run();
      for (size_t o = 0; o < 2; ++o) expect_same(a[o], b[o], std::string(device->name()));
    }
  }
}

TEST(GatedDeltaRule, OtherSequencesDoNotMatter) {
  const DeltaCase c{1, 4, 2, 5, 3, "4@0,5@3,2@0"};
  for (const DeltaRuleAttrs& attrs : {kInterleave, kPlain}) {
    const Built b = build_op(*find_op(kRule.op), operands_of(kRule, {c.forward(), attrs}), attrs);
    for (Device* device : {&cpu_device(2), &reference_device(), emulated_devices()[2]}) {
      Program program(b, *device);
      const Results before = program.run();
      Feed feed = b.feed;
      for (size_t i = 4 * 4; i < 9 * 4; ++i) feed["k"][i] = NAN;
      std::fill_n(feed["s0"].begin(), 40, NAN);  // sequence 0 starts at position 0
      const Results after = program.run(feed);
      for (size_t i = 0; i < 11 * 10; ++i)
        EXPECT_TRUE((i >= 40 && i < 90) || after[0][i] == before[0][i]) << device->name() << " " << i;
      for (size_t i = 0; i < 3 * 40; ++i)
        EXPECT_TRUE((i >= 40 && i < 80) || after[1][i] == before[1][i]) << device->name() << " state " << i;
    }
  }
}

// No rows leave every state as it was, and every gradient of a state.
TEST(GatedDeltaRule, NoRows) {
  const std::string rows = "q:[0,1,4] k:[0,1,4] v:[0,2,5] g:[0,2] beta:[0,2] ", ints = " seq:i32[0] pos:i32[0]";
  for (const DeltaRuleAttrs& attrs : {kInterleave, kPlain})
    for (Device* device : {&cpu_device(2), &reference_device(), emulated_devices()[2]}) {
      const auto run = [&](const std::string& op, const std::string& text) {
        const auto operands = parse_operands(text);
        return std::pair(Program(build_op(*find_op(op), operands, attrs), *device).run(), operands);
      };
      const auto [y, in] = run("gated_delta_rule", rows + "s0:[3,2,4,5]" + ints);
      EXPECT_TRUE(y[0].empty());
      expect_same(y[1], in[5].values, "states");
      const auto [z, held] = run("gated_delta_rule_update", "s:[3,2,4,5] " + rows + ints);
      expect_same(z[0], held[0].values, "updated states");
      const auto [grad, from] = run("gated_delta_rule_grad", rows + "s0:[3,2,4,5] do:[0,2,5] ds:[3,2,4,5]" + ints);
      expect_same(grad[5], from[7].values, "ds0");
    }
}

// A sequence that begins again within a call, and one without rows.
TEST(GatedDeltaRule, ASequenceMayBeginAgain) {
  const std::string head =
      "q:[4,1,1]=const(1) k:[4,1,1]=const(1) v:[4,1,1]=list(1,2,4,8) g:[4,1]=const(0) beta:[4,1]=const(0.5) "
      "s0:[2,1,1,1]=list(16,5) ";
  const Built b = build_op(*find_op(kRule.op),
                           parse_operands(head + "seq:i32[4]=list(0,0,0,0) pos:i32[4]=list(3,4,0,1)"), kInterleave);
  const Built update = build_op(*find_op("gated_delta_rule_update"),
                                parse_operands("s:[2,1,1,1]=list(16,5) " + head.substr(0, head.find("s0:")) +
                                               "seq:i32[4]=list(0,0,0,0) pos:i32[4]=list(3,4,0,1)"),
                                kInterleave);
  for (Device* device : {&cpu_device(1), &cpu_device(3), &reference_device(), emulated_devices()[2]}) {
    const Results y = Program(b, *device).run(), z = Program(update, *device).run();
    EXPECT_EQ(y[0], (std::vector<double>{8.5, 5.25, 2, 5})) << device->name();
    EXPECT_EQ(y[1], (std::vector<double>{5, 5})) << device->name();
    EXPECT_EQ(z[0], y[1]) << device->name();
    EXPECT_EQ(z[1], y[0]) << device->name();
  }
}

TEST(GatedDeltaRule, SequencesWithoutAStateAreNamed) {
  const auto message = [](const std::string& seq, const std::string& pos, Device& device) {
    const std::string text = "q:[2,1,1] k:[2,1,1] v:[2,1,1] g:[2,1]=const(0) beta:[2,1] seq:i32[2]=list(" + seq +
                             ") pos:i32[2]=list(" + pos + ")";
    const Built b = build_op(*find_op("gated_delta_rule_update"), parse_operands("s:[1,1,1,1] " + text), kInterleave);
    return toy::testing::error_of([&] { Program(b, device).run(); });
  };
  for (Device* device : {&cpu_device(2), &reference_device(), emulated_devices()[2]}) {
    EXPECT_EQ(message("0,1", "0,0", *device), "gated_delta_rule_update: row 1 has sequence 1");
    EXPECT_EQ(message("0,-1", "0,0", *device), "gated_delta_rule_update: row 1 has sequence -1");
    EXPECT_EQ(message("0,0", "0,2", *device),
              "gated_delta_rule_update: row 1 resumes sequence 0 after a gap; give the rows of a sequence together");
  }
}

}  // namespace
}  // namespace toy::test::gated_delta_rule_test
