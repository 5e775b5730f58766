// The paged cache of the cpu device: the bits of attention for pieces of a prefill and decoding among others, for each
// type of keys and values.
#include "backend/attention_data.h"
#include "backend/cpu/attention/kv_page.h"
#include "toy/tensor/quantize.h"

namespace toy::test::attention_paged_test {
namespace {

constexpr DType kCacheTypes[] = {DType::f32, DType::f16, DType::q8_0};

// Values as a cache of that type holds them.
void round_to(DType type, Array<float>& a) {
  for (size_t i = 0; i < a.size() && type == DType::f16; ++i) a[i] = to_float(to_f16(a[i]));
  for (size_t at = 0; at < a.size() && type == DType::q8_0; at += 32) {
    int8_t level[32];
    const float scale = to_float(round_q8_0(std::span<const float, 32>(a.data() + at, 32), level));
    for (size_t i = 0; i < 32; ++i) a[at + i] = scale * float(level[i]);
  }
}

// A cache for `slots` sequences of `per_seq` pages, scattered, full of NaN.
struct Cache {
  DType type;
  Shape keys, values;
  Array<int8_t> kc, vc;  // bytes
  Array<int32_t> table;
  Cache(DType type_in, int64_t slots, int64_t per_seq, int64_t kv_heads, int64_t p)
      : type(type_in),
        keys({slots * per_seq + 1, kv_heads, p, 64}),
        values({slots * per_seq + 1, kv_heads, 64, p}),
        kc({int64_t(bytes_of(type, keys.count()))}),
        vc({int64_t(bytes_of(type, keys.count()))}),
        table({slots, per_seq}) {
    std::memset(kc.data(), 0xFF, kc.size());
    std::memset(vc.data(), 0xFF, vc.size());
    const int64_t n = slots * per_seq;
    for (int64_t i = 0; i < n; ++i) table[size_t(i)] = int32_t(n - i);  // page 0 is never used
  }
  View k_view() { return view(kc, keys); }
  View v_view() { return view(vc, values); }

  // Element p of the key or value at a slot.
  template <class T>
  float key(int64_t page, int64_t head, int64_t slot, int64_t p) {
    const cpu::KvPage<T> at(k_view(), page, head, keys[2]);
    if constexpr (std::is_same_v<T, cpu::Q8>)
      return to_float(at.scale[p / 32 * 64 + slot]) * float(at.at[p * 64 + slot]);
    else
      return to_float(at.at[p * 64 + slot]);
  }
  template <class T>
  float value(int64_t page, int64_t head, int64_t slot, int64_t p) {
    const int64_t width = keys[2];
    const cpu::KvPage<T> at(v_view(), page, head, width);
    if constexpr (std::is_same_v<T, cpu::Q8>)
      return to_float(at.scale[slot * (width / 32) + p / 32]) * float(at.at[slot * width + p]);
    else
      return to_float(at.at[slot * width + p]);
  }

 private:
  View view(Array<int8_t>& bytes, const Shape& shape) const { return View(bytes.data(), type, shape); }
};

// Rows picked from `x` go through the cache: keys and values are appended, then the queries attend.
std::vector<float> step(Cache& cache, const Data& x, const std::vector<int64_t>& rows, int threads) {
  const int64_t n = int64_t(rows.size()), qd = x.c.heads * x.c.p, kd = x.c.kv_heads * x.c.p;
  Array<float> q({n, x.c.heads, x.c.p}), k({n, x.c.kv_heads, x.c.p}), v({n, x.c.kv_heads, x.c.p}),
      o({n, x.c.heads, x.c.p});
  Array<int32_t> seq({n}), pos({n});
  for (int64_t i = 0; i < n; ++i) {
    std::copy_n(x.q.data() + rows[i] * qd, qd, q.data() + i * qd);
    std::copy_n(x.k.data() + rows[i] * kd, kd, k.data() + i * kd);
    std::copy_n(x.v.data() + rows[i] * kd, kd, v.data() + i * kd);
    seq[i] = x.seq[rows[i]], pos[i] = x.pos[rows[i]];
  }
  EXPECT_FALSE(run_kernel(
      cpu::kv_append_kernel(),
      {cache.k_view(), cache.v_view(), k.view(), v.view(), seq.view(), pos.view(), cache.table.view(), View{}},
      {cache.k_view(), cache.v_view()}, KvAppendAttrs{cache.type}, threads));
  EXPECT_FALSE(run_kernel(cpu::attention_paged_kernel(),
                          {q.view(), cache.k_view(), cache.v_view(), seq.view(), pos.view(), cache.table.view()},
                          {o.view()}, x.attrs, threads));
  EXPECT_TRUE(o.intact() && cache.kc.intact() && cache.vc.intact());
  return copy_of(o);
}

// Cases that a cache of the type can hold: runs from position 0, one for each sequence.
std::vector<Case> paged_cases(DType type) {
  std::vector<Case> all = {
      {"P 64", 9, 3, 64, 0, {{0, 0, 200}}},
      {"P 20, window", 2, 2, 20, 70, {{0, 0, 200}}},
      {"P 1", 1, 1, 1, 0, {{0, 0, 130}}},
      {"P 80, many heads", 12, 1, 80, 0, {{0, 0, 130}}},
      {"window of three", 4, 2, 33, 3, {{0, 0, 70}}},
      {"P 256", 2, 1, 256, 0, {{0, 0, 66}}},
      {"P 96, 7 heads of a group", 14, 2, 96, 0, {{0, 0, 130}}},
      {"P 32, window", 3, 3, 32, 70, {{0, 0, 200}}},
  };
  std::erase_if(all, [type](const Case& c) { return c.p % info_of(type).block != 0; });
  return all;
}

// `f` for each instruction set, type of cache and case, with rounded keys and values, which change nothing in a cache
// of that type, and attention over all rows at once.
template <class F>
void for_each_cache(const F& f, std::vector<RunCase> runs = {}) {
  for_each_target([&] {
    for (const DType type : kCacheTypes)
      for (Case c : paged_cases(type)) {
        SCOPED_TRACE(std::string(name_of(type)) + " " + c.name);
        if (!runs.empty()) c.runs = runs;
        Data x(c), rounded(c);
        round_to(type, rounded.k), round_to(type, rounded.v);
        rounded.forward(1);
        std::copy_n(rounded.o.data(), x.o.size(), x.o.data());
        f(type, c, x);
      }
  });
}

// Each row sees rounded keys and values of all rows, also of its own piece: the bits of attention on rounded ones.
TEST(AttentionPaged, prefill_in_pieces_has_the_bits_of_training) {
  for_each_cache([](DType type, const Case& c, const Data& x) {
    for (int64_t piece : {1, 7, 64, 1000}) {
      Cache cache(type, 1, 4, c.kv_heads, c.p);
      for (int64_t at = 0; at < c.rows(); at += piece) {
        std::vector<int64_t> rows;
        for (int64_t i = at; i < std::min(at + piece, c.rows()); ++i) rows.push_back(i);
        const auto o = step(cache, x, rows, piece == 7 ? 3 : 1);
        ASSERT_TRUE(same_bits(o.data(), x.o.data() + at * c.heads * c.p, o.size()))
            << "pieces of " << piece << ", row " << at;
      }
    }
  });
}

TEST(AttentionPaged, decoding_among_others_has_the_same_bits) {
  const auto check = [](DType type, const Case& c, const Data& x) {
    Cache cache(type, 3, 3, c.kv_heads, c.p);
    std::vector<int64_t> done(3, 0);
    const int64_t begin[] = {0, 70, 200}, prefill[] = {60, 63, 1}, count[] = {70, 130, 5};
    for (bool first = true;; first = false) {
      std::vector<int64_t> rows;
      for (int s : {1, 0, 2})
        for (int64_t n = first ? prefill[s] : 1; n > 0 && done[s] < count[s]; --n) rows.push_back(begin[s] + done[s]++);
      if (rows.empty()) break;
      const auto o = step(cache, x, rows, 2);
      const size_t width = size_t(c.heads * c.p);
      for (size_t i = 0; i < rows.size(); ++i)
        ASSERT_TRUE(same_bits(o.data() + i * width, x.o.data() + size_t(rows[i]) * width, width)) << rows[i];
    }
  };
  for_each_cache(check, {{2, 0, 70}, {0, 0, 130}, {1, 0, 5}});
}

template <class T>
void expect_slots_written(DType type, int64_t width) {
  Data x({"", 3, 3, width, 0, {{1, 62, 4}}});
  Cache cache(type, 2, 2, 3, width);
  step(cache, x, {0, 1, 2, 3}, 2);
  round_to(type, x.k), round_to(type, x.v);
  for (int64_t page = 0; page < 5; ++page)
    for (int64_t h = 0; h < 3; ++h)
      for (int64_t slot = 0; slot < 64; ++slot)
        for (int64_t p = 0; p < width; ++p) {
          const float k = cache.key<T>(page, h, slot, p), v = cache.value<T>(page, h, slot, p);
          const int64_t row = page == cache.table[2] ? slot - 62 : page == cache.table[3] ? slot + 2 : -1;
          if (row < 0 || row > 3) {
            ASSERT_TRUE(std::isnan(k) && std::isnan(v));
          } else {
            ASSERT_EQ(k, x.k[(row * 3 + h) * width + p]);
            ASSERT_EQ(v, x.v[(row * 3 + h) * width + p]);
          }
        }
}

TEST(KvAppend, writes_its_slots_and_nothing_else) {
  for_each_target([] {
    expect_slots_written<float>(DType::f32, 5);
    expect_slots_written<F16>(DType::f16, 5);
    expect_slots_written<F16>(DType::f16, 150);
    expect_slots_written<cpu::Q8>(DType::q8_0, 64);
  });
}

// Blocks at the ends of what the type can hold: as round_q8_0() says, on every instruction set.
TEST(KvAppend, rounds_blocks_as_the_codec_does) {
  const std::vector<float> factors{0,      0x1p-30f, 0x1p-25f, 127 * 0x1p-24f, 1e-5f, 1,    127,
                                   8.3e6f, 8.4e6f,   1e30f,    INFINITY,       kNan,  -1e9f};
  for_each_target([&] {
    Data x({"", 1, 1, 32, 0, {{0, 0, int64_t(factors.size())}}});
    for (size_t i = 0; i < x.k.size(); ++i) x.k[i] *= factors[i / 32], x.v[i] *= factors[i / 32];
    std::vector<int64_t> rows;
    for (size_t i = 0; i < factors.size(); ++i) rows.push_back(int64_t(i));
    Cache cache(DType::q8_0, 1, 1, 1, 32);
    step(cache, x, rows, 1);
    round_to(DType::q8_0, x.k), round_to(DType::q8_0, x.v);
    for (int64_t row = 0; row < int64_t(factors.size()); ++row)
      for (int64_t p = 0; p < 32; ++p) {
        const float k = cache.key<cpu::Q8>(cache.table[0], 0, row, p),
                    v = cache.value<cpu::Q8>(cache.table[0], 0, row, p);
        const float want_k = x.k[row * 32 + p], want_v = x.v[row * 32 + p];
        EXPECT_TRUE(k == want_k || (std::isnan(k) && std::isnan(want_k))) << row << " " << k << " " << want_k;
        EXPECT_TRUE(v == want_v || (std::isnan(v) && std::isnan(want_v))) << row << " " << v << " " << want_v;
      }
  });
}

TEST(AttentionPaged, names_bad_rows) {
  const Case c{"", 1, 1, 4, 0, {{0, 0, 3}}};
  const auto errors = [&](int64_t row, int32_t seq, int32_t pos, int32_t page) {
    Data x(c);
    Cache cache(DType::f32, 2, 1, 1, 4);
    x.seq[row] = seq, x.pos[row] = pos;
    if (page != 1) cache.table[0] = page;
    const auto a = run_kernel(cpu::kv_append_kernel(),
                              {cache.k_view(), cache.v_view(), x.k.view(), x.v.view(), x.seq.view(), x.pos.view(),
                               cache.table.view(), View{}},
                              {cache.k_view(), cache.v_view()}, KvAppendAttrs{}, 2);
    const auto b =
        run_kernel(cpu::attention_paged_kernel(),
                   {x.q.view(), cache.k_view(), cache.v_view(), x.seq.view(), x.pos.view(), cache.table.view()},
                   {x.o.view()}, x.attrs, 2);
    EXPECT_TRUE(x.o.intact() && cache.kc.intact() && cache.vc.intact());
    return std::vector{a.value_or(""), b.value_or("")};
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(errors(0, 0, 0, 1), (Texts{"", ""}));
  EXPECT_EQ(errors(1, 2, 1, 1), (Texts{"kv_append: row 1 has sequence 2", "attention_paged: row 1 has sequence 2"}));
  EXPECT_EQ(errors(1, -1, 1, 1), (Texts{"kv_append: row 1 has sequence -1", "attention_paged: row 1 has sequence -1"}));
  EXPECT_EQ(errors(2, 0, 64, 1), (Texts{"kv_append: row 2 has position 64", "attention_paged: row 2 has position 64"}));
  EXPECT_EQ(errors(2, 0, -5, 1), (Texts{"kv_append: row 2 has position -5", "attention_paged: row 2 has position -5"}));
  EXPECT_EQ(errors(0, 0, 0, 3)[1], "attention_paged: row 0 has page 3");
  EXPECT_EQ(errors(0, 0, 0, -1)[1], "attention_paged: row 0 has page -1");
}

}  // namespace
}  // namespace toy::test::attention_paged_test
