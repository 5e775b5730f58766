// Causal attention over the rows of a batch, its gradient and its mask.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/harness.h"
#include "toy/ops/ops.h"

namespace toy::test {
namespace {

std::string rows(int n, int heads, int kv, int width, const std::string& runs) {
  const auto shape = [&](int h) {
    return "[" + std::to_string(n) + "," + std::to_string(h) + "," + std::to_string(width) + "]";
  };
  const std::string ints = "i32[" + std::to_string(n) + "]=runs(" + runs + ")";
  return "q:" + shape(heads) + " k:" + shape(kv) + " v:" + shape(kv) + " seq:" + ints + " pos:" + ints;
}

std::vector<Case> cases() {
  return {{rows(1, 1, 1, 1, "1@0"), AttentionAttrs{1, 0}},
          {rows(7, 2, 1, 4, "7@0"), AttentionAttrs{0.5, 0}},
          {rows(9, 6, 2, 5, "4@0,1@7,4@62"), AttentionAttrs{0.4, 0}},
          {rows(13, 2, 2, 8, "13@3"), AttentionAttrs{0.35, 4}},
          {rows(9, 4, 2, 3, "2@0,7@60"), AttentionAttrs{0.6, 1}},
          {"q:[3,7,4]@(1,0,2) k:[7,4,3]@(0,2,1) v:[3,7,4]@(1,0,2) seq:i32[7]=runs(3@0,4@0) "
           "pos:i32[7]=runs(3@0,4@0)",
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
            {"q:[4,2,4] k:[4,2,3] v:[4,2,3] seq:i32[4]=runs(4@0) pos:i32[4]=runs(4@0)",
             "attention: k has P=3, q has P=4", AttentionAttrs{}},
            {"q:[4,2,4] k:[4,2,4] v:[4,1,4] seq:i32[4]=runs(4@0) pos:i32[4]=runs(4@0)",
             "attention: v has K=1, k has K=2", AttentionAttrs{}}},
    .bound = by_sensitivity(),
    .loss_outputs = {0, 1},
    .rows = {"q", "k", "v", "seq", "pos"}};

// o and lse are what attention gives for these q, k, v.
void attend(std::vector<OperandData>& operands, const Attrs& attrs) {
  const std::vector<OperandData> forward{operands[0], operands[1], operands[2], operands[6], operands[7]};
  const Results y = Program(build_op(*find_op("attention"), forward, attrs), reference_device()).run();
  operands[3].values = y[0];
  operands[4].values = y[1];
}

std::string grad_rows(int n, int heads, int kv, int width, const std::string& runs, bool of_lse = false) {
  const std::string text = rows(n, heads, kv, width, runs), q = text.substr(2, text.find(' ') - 2);
  const std::string lse = "[" + std::to_string(n) + "," + std::to_string(heads) + "]";
  const size_t at = text.find(" seq:");
  return text.substr(0, at) + " o:" + q + " lse:" + lse + " do:" + q + text.substr(at) +
         " dlse:" + (of_lse ? lse : "none");
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

const OpSuite kMask{.op = "attention_mask",
                    .cases = {{"seq:i32[1]=runs(1@0) pos:i32[1]=runs(1@0)", AttentionAttrs{}},
                              {"seq:i32[9]=runs(4@0,1@7,4@62) pos:i32[9]=runs(4@0,1@7,4@62)", AttentionAttrs{1, 0}},
                              {"seq:i32[13]=runs(13@3) pos:i32[13]=runs(13@3)", AttentionAttrs{1, 4}},
                              {"seq:i32[6]=list(0,0,0,0,1,1) pos:i32[6]=list(0,1,0,1,0,2)", AttentionAttrs{1, 0}},
                              {"seq:i32[150]=runs(70@0,80@30) pos:i32[150]=runs(70@0,80@30)", AttentionAttrs{1, 33}}},
                    .bad = {{"seq:i32[3]=list(0,0,0) pos:i32[2]=list(0,1)", "attention_mask: pos has N=2, seq has N=3",
                             AttentionAttrs{}},
                            {"seq:i32[2]=list(0,0) pos:i32[2]=list(0,1)", "attention_mask: window -1 is negative",
                             AttentionAttrs{1, -1}}},
                    .bound = exact()};

const bool kDone = register_suite(kAttention) && register_suite(kAttentionGrad) && register_suite(kMask);

// The rule itself, written once more: same sequence, no gap in the positions between, not later, within the
// window.
TEST(AttentionMask, FollowsTheRule) {
  const std::vector<int> seq{0, 0, 0, 1, 1, 1, 1, 0, 0}, pos{0, 1, 2, 5, 6, 8, 9, 3, 4};
  for (const int window : {0, 1, 2, 3}) {
    const Built b = build_op(*find_op("attention_mask"),
                             parse_operands("seq:i32[9]=list(0,0,0,1,1,1,1,0,0) pos:i32[9]=list(0,1,2,5,6,8,9,3,4)"),
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
}  // namespace toy::test
