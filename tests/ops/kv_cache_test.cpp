// The paged cache: writing is exact, reading gives what attention over all rows gives.
#include <gtest/gtest.h>

#include "ops/harness.h"
#include "testing/errors.h"
#include "toy/ops/ops.h"
#include "toy/tensor/quantize.h"

namespace toy::test::kv_cache_test {
namespace {

const KvAppendAttrs kF32{DType::f32}, kF16{DType::f16};

// q8_0 pages have an order of their own: see the tests of the backend and below.
const OpSuite kAppend{
    .op = "kv_append",
    .cases = {{"kc:[3,1,2,64] vc:[3,1,64,2] k:[1,1,2] v:[1,1,2] seq:i32[1]=list(0) pos:i32[1]=list(64) "
               "table:i32[1,2]=pages(3) q:none",
               kF32},
              {"kc:[5,2,3,64] vc:[5,2,64,3] k:[9,2,3] v:[9,2,3] seq:i32[9]=runs(4@0,5@61) "
               "pos:i32[9]=runs(4@0,5@61) "
               "table:i32[2,2]=pages(5) q:none",
               kF32},
              {"kc:[5,2,3,64] vc:[5,2,64,3] k:[2,9,3]@(1,0,2) v:[9,3,2]@(0,2,1) seq:i32[9]=runs(9@60) "
               "pos:i32[9]=runs(9@60) "
               "table:i32[2,2]=pages(5) q:none",
               kF32},
              {"kc:[9,3,16,64] vc:[9,3,64,16] k:[200,3,16] v:[200,3,16] seq:i32[200]=runs(130@30,70@0) "
               "pos:i32[200]=runs(130@30,70@0) table:i32[2,3]=pages(9) q:none",
               kF32},
              {"kc:f16[9,3,7,64] vc:f16[9,3,64,7] k:[200,3,7] v:[200,3,7] seq:i32[200]=runs(130@30,70@0) "
               "pos:i32[200]=runs(130@30,70@0) table:i32[2,3]=pages(9) q:none",
               kF16}},
    .bad = {{"kc:[3,1,2,32] vc:[3,1,64,2] k:[1,1,2] v:[1,1,2] seq:i32[1]=list(0) pos:i32[1]=list(0) "
             "table:i32[1,2]=pages(3) q:none",
             "kv_append: kc has 32 in dimension 3, expected 64", kF32},
            {"kc:[3,1,2,64] vc:[3,1,64,2] k:[1,2,2] v:[1,2,2] seq:i32[1]=list(0) pos:i32[1]=list(0) "
             "table:i32[1,2]=pages(3) q:none",
             "kv_append: k has K=2, kc has K=1", kF32},
            {"kc:f16[3,1,2,64] vc:[3,1,64,2] k:[1,1,2] v:[1,1,2] seq:i32[1]=list(0) pos:i32[1]=list(0) "
             "table:i32[1,2]=pages(3) q:none",
             "kv_append: pages of keys are f16, of values f32; expected one type", kF16},
            {"kc:bf16[3,1,2,64] vc:bf16[3,1,64,2] k:[1,1,2] v:[1,1,2] seq:i32[1]=list(0) pos:i32[1]=list(0) "
             "table:i32[1,2]=pages(3) q:none",
             "kv_append: pages are bf16, expected f32, f16 or q8_0", KvAppendAttrs{DType::bf16}},
            {"kc:f16[3,1,2,64] vc:f16[3,1,64,2] k:[1,1,2] v:[1,1,2] seq:i32[1]=list(0) pos:i32[1]=list(0) "
             "table:i32[1,2]=pages(3) q:none",
             "kv_append: rounds to f32, but pages are f16", kF32},
            {"kc:[3,1,2,64] vc:[3,1,64,2] k:[1,1,2] v:[1,1,2] seq:i32[1]=list(0) pos:i32[1]=list(0) "
             "table:i32[1,2]=pages(3) q:[1,1,2]",
             "kv_append: q is for pages of q8_0, these are f32", kF32}},
    .bound = exact(),
    .rows = {"k", "v", "seq", "pos"}};

std::vector<Case> paged_cases() {
  std::vector<Case> cases;
  for (const int window : {0, 3, 70}) {
    cases.push_back(
        {"q:[2,2,3] kc:[3,1,3,64] vc:[3,1,64,3] seq:i32[2]=runs(1@0,1@70) pos:i32[2]=runs(1@0,1@70) "
         "table:i32[2,2]=list(0,1,2,1)",
         AttentionAttrs{0.5, window}});
    cases.push_back(
        {"q:[9,4,8] kc:[7,2,8,64] vc:[7,2,64,8] seq:i32[9]=runs(5@61,4@127) pos:i32[9]=runs(5@61,4@127) "
         "table:i32[2,3]=pages(7)",
         AttentionAttrs{0.3, window}});
    cases.push_back(
        {"q:[2,150,16]@(1,0,2) kc:[7,1,16,64] vc:[7,1,64,16] seq:i32[150]=runs(140@20,10@0) "
         "pos:i32[150]=runs(140@20,10@0) table:i32[2,3]=pages(7)",
         AttentionAttrs{0.25, window}});
  }
  // Lone rows far apart, whose keys are shared out by chunks; with a softcap, 3 and 5 query heads, P not a multiple
  // of 16.
  for (const AttentionAttrs& attrs : {AttentionAttrs{0.5, 0}, AttentionAttrs{0.5, 300, 2}})
    cases.push_back(
        {"q:[2,6,5] kc:[20,2,5,64] vc:[20,2,64,5] seq:i32[2]=runs(1@600,1@255) pos:i32[2]=runs(1@600,1@255) "
         "table:i32[2,10]=pages(20)",
         attrs});
  for (const int window : {0, 70})
    cases.push_back(
        {"q:[10,6,16] kc:f16[7,2,16,64] vc:f16[7,2,64,16] seq:i32[10]=runs(9@60,1@127) pos:i32[10]=runs(9@60,1@127) "
         "table:i32[2,3]=pages(7)",
         AttentionAttrs{0.3, window}});
  cases.push_back(
      {"q:[4,5,16] kc:[20,1,16,64] vc:[20,1,64,16] seq:i32[4]=runs(1@512,3@560) pos:i32[4]=runs(1@512,3@560) "
       "table:i32[2,10]=pages(20)",
       AttentionAttrs{0.4, 0, 3}});
  return cases;
}

const OpSuite kPaged{
    .op = "attention_paged",
    .cases = paged_cases(),
    .bad = {{"q:[1,3,2] kc:[3,2,2,64] vc:[3,2,64,2] seq:i32[1]=list(0) pos:i32[1]=list(0) "
             "table:i32[1,2]=pages(3)",
             "attention_paged: H=3 query heads are not a multiple of K=2 kv heads", AttentionAttrs{}},
            {"q:[1,0,2] kc:[3,2,2,64] vc:[3,2,64,2] seq:i32[1]=list(0) pos:i32[1]=list(0) "
             "table:i32[1,2]=pages(3)",
             "attention_paged: q has H=0, expected at least 1", AttentionAttrs{}},
            {"q:[1,2,2] kc:[3,2,2,64] vc:[3,2,64,2] seq:i32[1]=list(0) pos:i32[1]=list(0) "
             "table:i32[1,2]=pages(3)",
             "attention_paged: window -2 is negative", AttentionAttrs{1, -2}},
            {"q:[1,2,2] kc:[3,2,2,64] vc:[3,2,64,2] seq:i32[1]=list(0) pos:i32[1]=list(0) "
             "table:i32[1,2]=pages(3)",
             "attention_paged: alibi is for attention among the rows of a batch", AttentionAttrs{.alibi = true}}},
    .bound = by_sensitivity(),
    .rows = {"q", "seq", "pos"}};

const bool kDone = register_suite(kAppend) && register_suite(kPaged);

constexpr int64_t kFirst = 290, kSecond = 560, kRows = kFirst + kSecond, kHeads = 6, kKv = 2, kWidth = 32;

void round_as_cache(DType type, std::vector<double>& values) {
  if (type == DType::f16)
    for (double& v : values) v = to_float(to_f16(float(v)));
  for (size_t at = 0; at < values.size() && type == DType::q8_0; at += 32) {
    float block[32];
    int8_t level[32];
    std::copy_n(values.begin() + int64_t(at), 32, block);
    const float scale = to_float(round_q8_0(block, level));
    for (size_t i = 0; i < 32; ++i) values[at + i] = scale * float(level[i]);
  }
}

// Keys as a cache of q8_0 holds them that is given the queries.
void round_keys_by_queries(const std::vector<double>& queries, std::vector<double>& keys) {
  const size_t group = size_t(kHeads / kKv * kWidth);
  for (size_t i = 0; i < keys.size() / kWidth; ++i) {
    const std::vector<float> q(queries.begin() + int64_t(i * group), queries.begin() + int64_t((i + 1) * group));
    const std::vector<float> key(keys.begin() + int64_t(i) * kWidth, keys.begin() + int64_t(i + 1) * kWidth);
    int8_t level[kWidth];
    F16 scale;
    round_key_q8_0(key, q, &scale, level);
    for (size_t p = 0; p < kWidth; ++p) keys[i * kWidth + p] = to_float(scale) * float(level[p]);
  }
}

// Rows [begin, begin + n) of each operand, written to the pages and attended to; `cache` is carried from piece to
// piece.
// `lse`: gets log sum exp of the rows.
std::vector<double> piece_of(const std::vector<OperandData>& whole, int64_t begin, int64_t n, Device& device,
                             const AttentionAttrs& attrs, DType type, Feed& cache, std::vector<double>& lse,
                             bool by_queries) {
  auto piece = parse_operands(
      "kc:[18,2,32,64]=const(60000) vc:[18,2,64,32]=const(60000) q:[1,6,32] k:[1,2,32] v:[1,2,32] "
      "seq:i32[1]=list(0) pos:i32[1]=list(0) table:i32[2,9]=pages(18)");
  piece[0].dtype = piece[1].dtype = type;
  for (size_t i = 2; i < 7; ++i) {
    const OperandData& from = whole[i - 2];
    piece[i].stored[0] = n;
    const int64_t row = from.stored.count() / kRows;
    piece[i].values.assign(from.values.begin() + begin * row, from.values.begin() + (begin + n) * row);
  }
  Built b = build_operands(piece);
  for (const auto& [name, values] : cache) b.feed[name] = values;
  const KvPages pages = kv_append({b.operands[0], b.operands[1]}, b.operands[3], b.operands[4], b.operands[5],
                                  b.operands[6], b.operands[7], by_queries ? b.operands[2] : Value{});
  const Value o = attention_paged(b.operands[2], pages, b.operands[5], b.operands[6], b.operands[7], attrs);
  b.outputs = {o, pages.k, pages.v, attention_lse(o)};
  const Results y = Program(b, device).run();
  cache = {{"kc", y[1]}, {"vc", y[2]}};
  lse = y[3];
  return y[0];
}

// Two sequences that are appended in pieces of `cut` rows and read back from the pages, against attention over all of
// it, on keys and values that are rounded to the type of the pages. `last`: only so many rows at the end of the second
// sequence are compared, the others come in one piece.
void expect_paged_equals_attention(Device& device, int64_t cut, const AttentionAttrs& attrs, bool bits,
                                   DType type = DType::f32, int64_t last = kRows, bool by_queries = false) {
  const auto whole = parse_operands(
      "q:[850,6,32] k:[850,2,32] v:[850,2,32] seq:i32[850]=runs(290@0,560@0) pos:i32[850]=runs(290@0,560@0) "
      "until:none");
  auto rounded = whole;
  if (by_queries) round_keys_by_queries(rounded[0].values, rounded[1].values);
  if (!by_queries) round_as_cache(type, rounded[1].values);
  round_as_cache(type, rounded[2].values);
  const Results expected = Program(build_op(*find_op("attention"), rounded, attrs), device).run();
  Feed cache;
  std::vector<double> lse;
  if (last < kRows) piece_of(whole, 0, kRows - last, device, attrs, type, cache, lse, by_queries);
  for (int64_t begin = kRows - last; begin < kRows; begin += cut) {
    const int64_t n = std::min(cut, kRows - begin), width = kHeads * kWidth;
    const std::vector<double> y = piece_of(whole, begin, n, device, attrs, type, cache, lse, by_queries);
    const std::vector<double> rows(expected[0].begin() + begin * width, expected[0].begin() + (begin + n) * width);
    const std::vector<double> lses(expected[1].begin() + begin * kHeads, expected[1].begin() + (begin + n) * kHeads);
    const std::string what = std::string(device.name()) + " rows from " + std::to_string(begin);
    if (bits) {
      expect_same(y, rows, what);
      expect_same(lse, lses, what + ", lse");
      continue;
    }
    const auto few = [&](size_t size, double largest) {
      return std::vector<double>(size, largest * double(kRows + kWidth + 16) * unit_roundoff(DType::f64));
    };
    expect_close(y, rows, few(rows.size(), 1.5), what);             // values below 1.5
    expect_close(lse, lses, few(lses.size(), 30), what + ", lse");  // scores below 0.25 32 1.5^2 = 18, and log 560
  }
  static_assert(kHeads % kKv == 0);
}

// Prefill in pieces of any size, and decoding, where the keys of a row are shared out among threads by chunks.
TEST(KvCache, PagedAttentionGivesTheBitsOfAttention) {
  for (const DType type : {DType::f32, DType::f16})
    for (const AttentionAttrs& attrs :
         {AttentionAttrs{0.25, 0}, AttentionAttrs{0.25, 50}, AttentionAttrs{0.25, 300, 2}}) {
      for (const int64_t cut : {850, 64, 37}) expect_paged_equals_attention(cpu_device(2), cut, attrs, true, type);
      for (const int threads : {1, 2, 3}) expect_paged_equals_attention(cpu_device(threads), 1, attrs, true, type, 4);
      expect_paged_equals_attention(cpu_device(2), 7, attrs, true, type, 20);
      expect_paged_equals_attention(reference_device(), 300, attrs, false, type);
    }
}

// In one piece: the pages of the cpu cannot be carried through values.
TEST(KvCache, PagesOfQ8) {
  for (const bool by_queries : {false, true})
    for (const AttentionAttrs& attrs : {AttentionAttrs{0.25, 0}, AttentionAttrs{0.25, 300, 2}}) {
      for (const int threads : {1, 2, 3})
        expect_paged_equals_attention(cpu_device(threads), kRows, attrs, true, DType::q8_0, kRows, by_queries);
      expect_paged_equals_attention(reference_device(), kRows, attrs, false, DType::q8_0, kRows, by_queries);
    }
}

// A level's own rounding r_i, at most half a step, reaches the product as r_i u_i, and what follows spreads it: of the
// sum so far, element i leaves left_(i+1) / left_i, where left_i = |u|^2 / P + u_i^2 + ... + u_P^2.
TEST(KvCache, LevelsKeepTheProductWithQueries) {
  const size_t width = 96;
  std::vector<float> key(width), queries(2 * width), u(width);
  for (size_t i = 0; i < width; ++i) {
    key[i] = i % 32 == 0 ? 1.0f : 0.9f * std::sin(float(i * i));  // the largest meets no query: it is not moved
    for (size_t q : {i, i + width}) queries[q] = i % 32 == 0 ? 0.0f : 1 + std::cos(float(3 * q * q));
    u[i] = queries[i] + queries[i + width];
  }
  double squares = 0;
  for (const float v : u) squares += double(v) * v;
  F16 scale[3];
  int8_t level[96], nearest[96];
  round_key_q8_0(key, queries, scale, level);
  double product = 0, plain = 0, bound = 0, after = 0;
  for (size_t i = width; i-- > 0;) {
    const double step = to_float(scale[i / 32]);
    if (i % 32 == 31) round_q8_0(std::span<const float, 32>(key.data() + i - 31, 32), nearest + i - 31);
    product += (step * level[i] - key[i]) * u[i], plain += (step * nearest[i] - key[i]) * u[i];
    bound += step / 2 * std::fabs(u[i]) * (squares / width) / (squares / width + after);
    after += double(u[i]) * u[i];
  }
  EXPECT_LE(std::fabs(product), bound * (1 + 1e-3));  // f32: 96 additions of 2^-24, of sums up to P times as large
  EXPECT_GT(std::fabs(plain), std::fabs(product));
  round_key_q8_0(key, std::vector<float>(width), scale, level);
  for (size_t i = 0; i < width; ++i) EXPECT_EQ(level[i], nearest[i]) << i;
}

TEST(KvCache, PagesOfQ8NeedHeadsOfWholeBlocks) {
  auto operands = parse_operands(
      "kc:[3,1,16,64] vc:[3,1,64,16] k:[1,1,16] v:[1,1,16] seq:i32[1]=list(0) pos:i32[1]=list(0) "
      "table:i32[1,2]=list(0,1) q:none");
  for (OperandData* pages : {&operands[0], &operands[1]}) pages->dtype = DType::q8_0;
  EXPECT_EQ(toy::testing::error_of([&] { build_op(*find_op("kv_append"), operands, KvAppendAttrs{DType::q8_0}); }),
            "graph: tensor 'vc': row length 16 is not a multiple of 32, the block size of q8_0");
}

std::string message_of(const std::string& seq, const std::string& pos, const std::string& table, Device& device) {
  const Built b = build_op(*find_op("kv_append"),
                           parse_operands("kc:[3,1,2,64] vc:[3,1,64,2] k:[1,1,2] v:[1,1,2] seq:i32[1]=list(" + seq +
                                          ") pos:i32[1]=list(" + pos + ") table:i32[1,2]=list(" + table + ") q:none"),
                           kF32);
  return toy::testing::error_of([&] { Program(b, device).run(); });
}

TEST(KvCache, PlacesThatDoNotExistAreNamed) {
  for (Device* device : {&cpu_device(2), &reference_device(), emulated_devices()[0]}) {
    EXPECT_EQ(message_of("1", "0", "0,1", *device), "kv_append: row 0 has sequence 1");
    EXPECT_EQ(message_of("-1", "0", "0,1", *device), "kv_append: row 0 has sequence -1");
    EXPECT_EQ(message_of("0", "128", "0,1", *device), "kv_append: row 0 has position 128");
    EXPECT_EQ(message_of("0", "64", "0,3", *device), "kv_append: row 0 has page 3");
    EXPECT_EQ(message_of("0", "63", "2,-1", *device), "no error");
  }
}

}  // namespace
}  // namespace toy::test::kv_cache_test
