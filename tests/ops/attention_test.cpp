// Attention over the rows of a batch, its gradient and its mask; causal, and up to an end given by row.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/harness.h"
#include "toy/ops/ops.h"

namespace toy::test::attention_test {
namespace {

std::string plain_rows(int n, int heads, int kv, int width, const std::string& runs) {
  const auto shape = [&](int h) {
    return "[" + std::to_string(n) + "," + std::to_string(h) + "," + std::to_string(width) + "]";
  };
  const std::string ints = "i32[" + std::to_string(n) + "]=runs(" + runs + ")";
  return "q:" + shape(heads) + " k:" + shape(kv) + " v:" + shape(kv) + " seq:" + ints + " pos:" + ints;
}

std::string rows(int n, int heads, int kv, int width, const std::string& runs) {
  return plain_rows(n, heads, kv, width, runs) + " until:none";
}

std::vector<Case> cases() {
  return {{rows(1, 1, 1, 1, "1@0"), AttentionAttrs{1, 0}},
          {rows(7, 2, 1, 4, "7@0"), AttentionAttrs{0.5, 0}},
          {rows(9, 6, 2, 5, "4@0,1@7,4@62"), AttentionAttrs{0.4, 0}},
          {rows(13, 2, 2, 8, "13@3"), AttentionAttrs{0.35, 4}},
          {rows(9, 4, 2, 3, "2@0,7@60"), AttentionAttrs{0.6, 1}},
          {"q:[3,7,4]@(1,0,2) k:[7,4,3]@(0,2,1) v:[3,7,4]@(1,0,2) seq:i32[7]=runs(3@0,4@0) "
           "pos:i32[7]=runs(3@0,4@0) until:none",
           AttentionAttrs{0.5, 0}},
          {rows(150, 6, 2, 16, "70@0,80@30"), AttentionAttrs{0.25, 0}},
          {rows(150, 3, 3, 16, "150@100"), AttentionAttrs{0.25, 70}},
          {rows(11, 6, 2, 5, "4@0,7@60"), AttentionAttrs{1.5, 0, 2}},       // softcap, 3 query heads a key head
          {rows(70, 10, 2, 8, "70@3"), AttentionAttrs{0.9, 20, 0.7}},       // 5 query heads, all capped hard
          {rows(9, 5, 1, 280, "2@0,7@60"), AttentionAttrs{0.0625, 0, 30}},  // multi-query, wide heads
          {rows(70, 2, 1, 4, "70@480"), AttentionAttrs{0.7, 0}}};           // two chunks of keys: they meet at 512
}

const OpSuite kAttention{
    .op = "attention",
    .cases = cases(),
    .bad = {{rows(4, 5, 2, 4, "4@0"), "attention: H=5 query heads are not a multiple of K=2 kv heads",
             AttentionAttrs{}},
            {rows(4, 0, 2, 4, "4@0"), "attention: q has H=0, expected at least 1", AttentionAttrs{}},
            {rows(4, 4, 2, 4, "4@0"), "attention: scale is inf, expected a number", AttentionAttrs{INFINITY}},
            {rows(4, 4, 2, 4, "4@0"), "attention: window -1 is negative", AttentionAttrs{1, -1}},
            {rows(4, 4, 2, 4, "4@0"), "attention: softcap is -3, expected 0 (none) or more", AttentionAttrs{1, 0, -3}},
            {"q:[4,2,4] k:[4,2,3] v:[4,2,3] seq:i32[4]=runs(4@0) pos:i32[4]=runs(4@0) until:none",
             "attention: k has P=3, q has P=4", AttentionAttrs{}},
            {"q:[4,2,4] k:[4,2,4] v:[4,1,4] seq:i32[4]=runs(4@0) pos:i32[4]=runs(4@0) until:none",
             "attention: v has K=1, k has K=2", AttentionAttrs{}}},
    .bound = by_sensitivity(),
    .loss_outputs = {0, 1},
    .rows = {"q", "k", "v", "seq", "pos"}};

// o and lse are what attention gives for these q, k, v.
void attend(std::vector<OperandData>& operands, const Attrs& attrs) {
  const std::vector<OperandData> forward{operands[0], operands[1], operands[2], operands[6], operands[7], operands[9]};
  const Results y = Program(build_op(*find_op("attention"), forward, attrs), reference_device()).run();
  operands[3].values = y[0];
  operands[4].values = y[1];
}

std::string grad_rows(int n, int heads, int kv, int width, const std::string& runs, bool of_lse = false) {
  const std::string text = plain_rows(n, heads, kv, width, runs), q = text.substr(2, text.find(' ') - 2);
  const std::string lse = "[" + std::to_string(n) + "," + std::to_string(heads) + "]";
  const size_t at = text.find(" seq:");
  return text.substr(0, at) + " o:" + q + " lse:" + lse + " do:" + q + text.substr(at) +
         " dlse:" + (of_lse ? lse : "none") + " until:none";
}

std::vector<Case> grad_cases() {
  return {{grad_rows(1, 1, 1, 1, "1@0"), AttentionAttrs{1, 0}},
          {grad_rows(7, 2, 1, 4, "7@0"), AttentionAttrs{0.5, 0}},
          {grad_rows(9, 6, 2, 5, "4@0,1@7,4@62"), AttentionAttrs{0.4, 0}},
          {grad_rows(13, 2, 2, 8, "13@3"), AttentionAttrs{0.35, 4}},
          {grad_rows(150, 6, 2, 16, "70@0,80@30"), AttentionAttrs{0.25, 0}},
          {grad_rows(150, 2, 2, 16, "150@100"), AttentionAttrs{0.25, 70}},
          {grad_rows(11, 6, 2, 5, "4@0,7@60"), AttentionAttrs{1.5, 0, 2}},
          {grad_rows(70, 10, 2, 8, "70@3"), AttentionAttrs{0.9, 20, 0.7}},
          {grad_rows(9, 5, 1, 280, "2@0,7@60"), AttentionAttrs{0.0625, 0, 30}},
          {grad_rows(70, 2, 1, 4, "70@480"), AttentionAttrs{0.7, 0}},
          {grad_rows(9, 6, 2, 5, "4@0,1@7,4@62", true), AttentionAttrs{0.4, 0}},
          {grad_rows(150, 2, 2, 16, "150@100", true), AttentionAttrs{0.25, 70}},
          {grad_rows(70, 10, 2, 8, "70@3", true), AttentionAttrs{0.9, 20, 0.7}}};
}

const OpSuite kAttentionGrad{
    .op = "attention_grad",
    .cases = grad_cases(),
    .bad = {{grad_rows(4, 5, 2, 4, "4@0"), "attention_grad: H=5 query heads are not a multiple of K=2 kv heads",
             AttentionAttrs{}},
            {grad_rows(4, 0, 2, 4, "4@0"), "attention_grad: q has H=0, expected at least 1", AttentionAttrs{}}},
    .bound = by_sensitivity(),
    .rows = {"q", "k", "v", "o", "lse", "do", "seq", "pos", "dlse"},
    .fixed_rows = true,
    .row_wise = false,
    .prepare = attend};

// The same with the position before which each row sees keys; none: up to its own.
std::string until(const std::string& text, const std::vector<int>& ends) {
  if (ends.empty()) return text;
  std::string list;
  for (const int end : ends) list += (list.empty() ? "" : ",") + std::to_string(end);
  const std::string before = text.substr(0, text.rfind(" until:"));
  return before + " until:i32[" + std::to_string(ends.size()) + "]=list(" + list + ")";
}
std::vector<int> repeat(const std::vector<std::pair<int, int>>& counts) {
  std::vector<int> list;
  for (const auto& [n, value] : counts) list.insert(list.end(), size_t(n), value);
  return list;
}
// Blocks of 16 positions see each other, and everything before them.
std::vector<int> blocks(int first, int n) {
  std::vector<int> list;
  for (int p = first; p < first + n; ++p) list.push_back((p / 16 + 1) * 16);
  return list;
}
// As far ahead as a window of w reaches back: the local layers of encoders.
std::vector<int> symmetric(int first, int n, int w) {
  std::vector<int> list;
  for (int p = first; p < first + n; ++p) list.push_back(p + w);
  return list;
}

struct UntilCase {
  int n, heads, kv, width;
  const char* runs;
  std::vector<int> ends;
  AttentionAttrs attrs;
};
std::vector<UntilCase> until_cases() {
  return {{1, 1, 1, 1, "1@0", {1}, {1, 0}},
          {9, 6, 2, 5, "4@0,1@7,4@62", repeat({{4, 4}, {1, 8}, {4, 66}}), {0.4, 0}},  // all of each run
          {7, 2, 1, 4, "7@0", {0, -3, 5, 2, 100, 6, 7}, {0.5, 0}},                    // less than itself, more than all
          {13, 2, 2, 8, "13@3", symmetric(3, 13, 4), {0.35, 4}},
          {150, 3, 3, 16, "70@0,80@30", repeat({{70, 70}, {80, 110}}), {0.25, 0}},  // three tiles of keys
          {150, 2, 2, 16, "150@100", blocks(100, 150), {0.25, 70}},
          {150, 4, 2, 8, "150@10", repeat({{100, 20}, {50, 160}}), {0.3, 0}},  // a prefix, then all
          {70, 10, 2, 8, "70@3", symmetric(3, 70, 20), {0.9, 20, 0.7}},        // softcap
          {70, 2, 1, 4, "70@480", repeat({{70, 550}}), {0.7, 0}},              // two chunks of keys
          // ALiBi: with 6 heads, slopes of both kinds.
          {9, 6, 2, 5, "4@0,1@7,4@62", repeat({{4, 4}, {1, 8}, {4, 66}}), {0.4, 0, 0, true}},
          {150, 3, 3, 16, "70@0,80@30", repeat({{70, 70}, {80, 110}}), {0.25, 0, 0, true}},
          {70, 10, 2, 8, "70@3", symmetric(3, 70, 20), {0.9, 20, 0.7, true}},
          {70, 2, 1, 4, "70@480", repeat({{70, 550}}), {0.7, 0, 0, true}},
          {70, 6, 2, 8, "3@0,67@3", {}, {0.5, 0, 0, true}}};
}
std::vector<Case> until_forward() {
  std::vector<Case> list;
  for (const UntilCase& c : until_cases())
    list.push_back({until(rows(c.n, c.heads, c.kv, c.width, c.runs), c.ends), c.attrs});
  return list;
}
std::vector<Case> until_backward() {
  std::vector<Case> list;
  for (const UntilCase& c : until_cases())
    for (const bool of_lse : {false, true})
      list.push_back({until(grad_rows(c.n, c.heads, c.kv, c.width, c.runs, of_lse), c.ends), c.attrs});
  return list;
}
const OpSuite kAttentionUntil{
    .op = "attention",
    .cases = until_forward(),
    .bad = {{until(rows(4, 2, 2, 4, "4@0"), {1, 2, 3}), "attention: until has N=3, q has N=4", AttentionAttrs{}}},
    .bound = by_sensitivity(),
    .loss_outputs = {0, 1},
    .row_wise = false,
    .title = "attention_until"};
const OpSuite kAttentionUntilGrad{.op = "attention_grad",
                                  .cases = until_backward(),
                                  .bound = by_sensitivity(),
                                  .fixed_rows = true,
                                  .row_wise = false,
                                  .prepare = attend,
                                  .title = "attention_until_grad"};

const OpSuite kMask{
    .op = "attention_mask",
    .cases = {{"seq:i32[1]=runs(1@0) pos:i32[1]=runs(1@0) until:none", AttentionAttrs{}},
              {"seq:i32[9]=runs(4@0,1@7,4@62) pos:i32[9]=runs(4@0,1@7,4@62) until:none", AttentionAttrs{1, 0}},
              {"seq:i32[13]=runs(13@3) pos:i32[13]=runs(13@3) until:none", AttentionAttrs{1, 4}},
              {"seq:i32[6]=list(0,0,0,0,1,1) pos:i32[6]=list(0,1,0,1,0,2) until:none", AttentionAttrs{1, 0}},
              {"seq:i32[150]=runs(70@0,80@30) pos:i32[150]=runs(70@0,80@30) until:none", AttentionAttrs{1, 33}},
              {"seq:i32[9]=runs(4@0,1@7,4@62) pos:i32[9]=runs(4@0,1@7,4@62) "
               "until:i32[9]=list(4,2,9,0,9,63,64,70,66)",
               AttentionAttrs{1, 0}},
              {until("seq:i32[150]=runs(70@0,80@30) pos:i32[150]=runs(70@0,80@30) until:none", blocks(0, 150)),
               AttentionAttrs{1, 33}}},
    .bad = {{"seq:i32[3]=list(0,0,0) pos:i32[2]=list(0,1) until:none", "attention_mask: pos has N=2, seq has N=3",
             AttentionAttrs{}},
            {"seq:i32[2]=list(0,0) pos:i32[2]=list(0,1) until:none", "attention_mask: window -1 is negative",
             AttentionAttrs{1, -1}}},
    .bound = exact()};

const bool kDone = register_suite(kAttention) && register_suite(kAttentionGrad) && register_suite(kMask) &&
                   register_suite(kAttentionUntil) && register_suite(kAttentionUntilGrad);

// The rule itself, written once more: same sequence, no gap in the positions between, not later, within the
// window.
TEST(AttentionMask, FollowsTheRule) {
  const std::vector<int> seq{0, 0, 0, 1, 1, 1, 1, 0, 0}, pos{0, 1, 2, 5, 6, 8, 9, 3, 4};
  for (const int window : {0, 1, 2, 3}) {
    const Built b =
        build_op(*find_op("attention_mask"),
                 parse_operands("seq:i32[9]=list(0,0,0,1,1,1,1,0,0) pos:i32[9]=list(0,1,2,5,6,8,9,3,4) until:none"),
                 AttentionAttrs{1, window});
    for (Device* device : {&cpu_device(2), &reference_device()}) {
      const Results y = Program(b, *device).run();
      for (size_t i = 0; i < 9; ++i)
        for (size_t j = 0; j < 9; ++j) {
          bool one_run = j <= i;
          for (size_t k = j; one_run && k < i; ++k) one_run = seq[k] == seq[k + 1] && pos[k] + 1 == pos[k + 1];
          const bool sees = one_run && (window == 0 || pos[i] - pos[j] < window);
          EXPECT_EQ(y[0][i * 9 + j], sees ? 0 : -INFINITY) << i << " " << j << " " << window << " " << device->name();
        }
    }
  }
}

// Of 8 heads and of 12, as published.
TEST(Alibi, Slopes) {
  for (int64_t h = 0; h < 8; ++h) EXPECT_EQ(alibi_slope(h, 8), std::exp2(-double(h + 1)));
  for (int64_t h = 0; h < 8; ++h) EXPECT_EQ(alibi_slope(h, 12), alibi_slope(h, 8));
  for (int64_t h = 8; h < 12; ++h) EXPECT_EQ(alibi_slope(h, 12), alibi_slope(2 * (h - 8), 16));
  EXPECT_EQ(alibi_slope(8, 12), std::exp2(-0.5));
}

// Equal keys: weights are softmax of -slope |i - j| alone, so with one slope, 2^-8, and two tokens, the value of the
// other weighs 1 / (1 + e^slope).
TEST(Alibi, WeighsByDistance) {
  Built b = build_op(*find_op("attention"), parse_operands(until(rows(2, 1, 1, 1, "2@0"), {2, 2})),
                     AttentionAttrs{1, 0, 0, true});
  b.feed["k"] = {0, 0}, b.feed["v"] = {0, 1};
  const double other = 1 / (1 + std::exp(std::exp2(-8)));
  for (Device* device : {&cpu_device(2), &reference_device()}) {
    const Results y = Program(b, *device).run();
    EXPECT_NEAR(y[0][0], other, 1e-7) << device->name();
    EXPECT_NEAR(y[0][1], 1 - other, 1e-7) << device->name();
  }
}

// What a row cannot see does not reach it, not even NaN.
TEST(Attention, OtherSequencesAndLaterRowsDoNotMatter) {
  const std::string text = rows(9, 4, 2, 3, "4@0,5@0");
  const Built b = build_op(*find_op("attention"), parse_operands(text), AttentionAttrs{0.5, 0});
  for (Device* device : {&cpu_device(2), &reference_device()}) {
    Program program(b, *device);
    const Results before = program.run();
    Feed feed = b.feed;
    for (size_t i = 2 * 6; i < 4 * 6; ++i) feed["k"][i] = NAN, feed["v"][i] = INFINITY;  // rows 2 and 3
    const Results after = program.run(feed);
    for (size_t i = 0; i < 9; ++i)
      for (size_t p = 0; p < 12; ++p) {
        const bool poisoned = i == 2 || i == 3;
        EXPECT_TRUE(poisoned || after[0][i * 12 + p] == before[0][i * 12 + p]) << device->name() << " row " << i;
      }
  }
}

// Ends that are the rows' own positions, and ends before these, change no bit.
TEST(Attention, OwnPositionsAsEndsAreCausal) {
  const std::string text = rows(150, 6, 2, 16, "70@0,80@30");
  std::vector<int> ends;
  for (int p = 0; p < 70; ++p) ends.push_back(p % 3 == 0 ? 0 : p + 1);
  for (int p = 30; p < 110; ++p) ends.push_back(p + 1);
  const Built causal = build_op(*find_op("attention"), parse_operands(text), AttentionAttrs{0.25, 0});
  Built b = build_op(*find_op("attention"), parse_operands(until(text, ends)), AttentionAttrs{0.25, 0});
  for (const char* name : {"q", "k", "v"}) b.feed[name] = causal.feed.at(name);
  for (Device* device : {&cpu_device(2), &reference_device()}) {
    const Results expected = Program(causal, *device).run(), found = Program(b, *device).run();
    for (size_t o = 0; o < expected.size(); ++o) expect_same(found[o], expected[o], std::string(device->name()));
  }
}

// Not even NaN reaches a row from behind its end.
TEST(Attention, KeysBehindTheEndDoNotMatter) {
  const std::vector<int> ends{4, 4, 4, 4, 9, 9, 9, 9, 9};
  const Built b =
      build_op(*find_op("attention"), parse_operands(until(rows(9, 4, 2, 3, "9@0"), ends)), AttentionAttrs{0.5, 0});
  for (Device* device : {&cpu_device(2), &reference_device()}) {
    Program program(b, *device);
    const Results before = program.run();
    Feed feed = b.feed;
    for (size_t i = 5 * 6; i < 9 * 6; ++i) feed["k"][i] = NAN, feed["v"][i] = INFINITY;
    const Results after = program.run(feed);
    for (size_t i = 0; i < 4 * 12; ++i) EXPECT_EQ(after[0][i], before[0][i]) << device->name();
  }
}

// Documents packed into one batch, each a sequence of its own, against each of them alone: equal bits, of outputs and
// of gradients.
TEST(Attention, PackedDocumentsEqualUnpackedOnes) {
  const std::vector<int64_t> lengths{70, 1, 300, 5};
  const std::vector<std::string> names{"q", "k", "v"};
  const AttentionAttrs attrs{0.5, 0, 4};
  Built packed = build_op(*find_op("attention"), parse_operands(rows(376, 6, 2, 8, "70@0,1@0,300@0,5@0")), attrs);
  packed.outputs.resize(1);
  ask_for_gradients(packed, {0}, {packed.leaves[0], packed.leaves[1], packed.leaves[2]});
  const Results together = Program(packed, cpu_device(2)).run();
  int64_t at = 0;
  for (const int64_t n : lengths) {
    Built alone =
        build_op(*find_op("attention"), parse_operands(rows(int(n), 6, 2, 8, std::to_string(n) + "@0")), attrs);
    alone.outputs.resize(1);
    ask_for_gradients(alone, {0}, {alone.leaves[0], alone.leaves[1], alone.leaves[2]});
    const auto part = [&](const std::vector<double>& v) {
      const int64_t width = int64_t(v.size()) / 376;
      return std::vector<double>(v.begin() + at * width, v.begin() + (at + n) * width);
    };
    for (const char* name : {"q", "k", "v", "R0"}) alone.feed[name] = part(packed.feed[name]);
    const Results y = Program(alone, cpu_device(2)).run();
    for (size_t i = 1; i < y.size(); ++i) expect_same(y[i], part(together[i]), "d" + names[i - 1]);
    Built forward =
        build_op(*find_op("attention"), parse_operands(rows(int(n), 6, 2, 8, std::to_string(n) + "@0")), attrs);
    const Built whole =
        build_op(*find_op("attention"), parse_operands(rows(376, 6, 2, 8, "70@0,1@0,300@0,5@0")), attrs);
    for (const char* name : {"q", "k", "v"}) forward.feed[name] = part(whole.feed.at(name));
    expect_same(Program(forward, cpu_device(2)).run()[0], part(Program(whole, cpu_device(2)).run()[0]), "o");
    at += n;
  }
}

}  // namespace
}  // namespace toy::test::attention_test
