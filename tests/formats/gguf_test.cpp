// Round trips through the writer and the reader, typed metadata, and files in the wild.
#include "toy/formats/gguf.h"
#include "toy/tensor/quantize.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <limits>
#include <numeric>

#include "gguf_raw.h"
#include "testing/errors.h"
#include "testing/files.h"
#include "toy/base/error.h"
#include "toy/formats/mapped_file.h"

namespace toy::gguf::gguf_test {
namespace {

using namespace testing;
using namespace toy::testing;
namespace fs = std::filesystem;

class GgufFile : public ::testing::Test, protected Folder {};

std::map<std::string, Value> all_value_types() {
  const float nan = std::bit_cast<float>(0x7fc12345u);
  return {{"u8", uint8_t(255)},
          {"i8", int8_t(-128)},
          {"u16", uint16_t(65535)},
          {"i16", int16_t(-32768)},
          {"u32", uint32_t(4294967295u)},
          {"i32", std::numeric_limits<int32_t>::min()},
          {"u64", ~uint64_t(0)},
          {"i64", std::numeric_limits<int64_t>::min()},
          {"f32", 0x1.234568p-130f},
          {"f64", -0.0},
          {"bool", true},
          {"string", std::string("a\0b\xff", 4)},
          {"empty", std::string()},
          {"u8s", Array(std::vector<uint8_t>{0, 1, 255})},
          {"i8s", Array(std::vector<int8_t>{-1, 127})},
          {"u16s", Array(std::vector<uint16_t>{1, 65535})},
          {"i16s", Array(std::vector<int16_t>{-1})},
          {"u32s", Array(std::vector<uint32_t>{7, 4294967295u})},
          {"i32s", Array(std::vector<int32_t>{-7, 7})},
          {"u64s", Array(std::vector<uint64_t>{~0ull})},
          {"i64s", Array(std::vector<int64_t>{-1, 1})},
          {"f32s", Array(std::vector<float>{1.5f, std::numeric_limits<float>::infinity()})},
          {"f64s", Array(std::vector<double>{1e300, -0.0})},
          {"bools", Array(std::vector<bool>{true, false, true})},
          {"strings", Array(std::vector<std::string>{"", "x", std::string("\0", 1)})},
          {"none", Array(std::vector<std::string>{})},
          {"nan", nan}};
}

TEST_F(GgufFile, MetadataRoundTrip) {
  Writer writer("llama");
  for (const auto& [key, value] : all_value_types()) writer.set(key, value);
  writer.finish(path("a.gguf"));
  const File file = File::open(path("a.gguf"));
  EXPECT_EQ(file.metadata().size(), all_value_types().size() + 1);
  EXPECT_EQ(file.get_string("general.architecture"), "llama");
  EXPECT_TRUE(file.tensors().empty());
  EXPECT_EQ(file.file_bytes(), slurp(path("a.gguf")).size());
  for (const auto& [key, value] : all_value_types()) {
    const Value& read = file.metadata().find(key)->second;
    EXPECT_EQ(read.index(), value.index()) << key;
    if (key == "nan")
      EXPECT_EQ(std::bit_cast<uint32_t>(std::get<float>(read)), 0x7fc12345u);
    else
      EXPECT_TRUE(read == value) << key;
  }
  EXPECT_TRUE(std::signbit(std::get<double>(file.metadata().find("f64")->second)));
}

TEST_F(GgufFile, KeysInOrderOfFirstSet) {
  Writer writer("toy");
  writer.set("z", 1u);
  writer.set("a", 2u);
  writer.set("z", 3u);
  writer.set("general.architecture", std::string("llama"));
  writer.finish(path("a.gguf"));
  Raw expected;
  expected.header(0, 3).key_string("general.architecture", "llama").key("z", kU32, 3u).key("a", kU32, 2u).pad();
  EXPECT_EQ(slurp(path("a.gguf")), expected.bytes);
}

TEST_F(GgufFile, TensorsOnDisk) {
  std::vector<float> a(6);
  std::iota(a.begin(), a.end(), 1.0f);
  int32_t b = -5;
  Writer writer("x");
  writer.add("a", View(a.data(), DType::f32, {2, 3}), DType::f32);
  writer.add("b", View(&b, DType::i32, {1}), DType::i32);
  writer.finish(path("a.gguf"));
  Raw expected;
  expected.header(2, 1).key_string("general.architecture", "x");
  expected.tensor("a", {3, 2}, 0, 0).tensor("b", {1}, 26, 32).pad();  // innermost first
  for (const float v : a) expected.put(v);
  expected.pad().put(b).pad();
  EXPECT_EQ(slurp(path("a.gguf")), expected.bytes);

  writer.finish(path("b.gguf"));
  EXPECT_EQ(slurp(path("b.gguf")), expected.bytes) << "the same writer gives the same bytes";
  const File file = File::open(path("a.gguf"));
  EXPECT_EQ(file.tensors()[0].shape, (Shape{2, 3}));
  EXPECT_EQ(file.require("b").data, file.tensors()[1].data);
}

TEST_F(GgufFile, EveryDTypeBitExact) {
  const Shape shape{3, 1, 2, 256};  // rows of whole blocks of every type
  std::vector<uint64_t> random(size_t(shape.count()));
  for (size_t i = 0; i < random.size(); ++i) random[i] = 0x9E3779B97F4A7C15ull * (i + 1);  // any bits, NaNs too
  Writer writer("x");
  for (const DTypeInfo& d : kDTypes) writer.add(std::string(d.name), View(random.data(), d.type, shape), d.type);
  writer.finish(path("a.gguf"));
  const File file = File::open(path("a.gguf"));
  for (const DTypeInfo& d : kDTypes) {
    const TensorInfo& t = file.require(d.name);
    std::string name(d.name);
    for (char& c : name) c = char(std::toupper(c));
    EXPECT_EQ(t.type_name, name);
    EXPECT_EQ(t.dtype, d.type);
    EXPECT_EQ(t.shape, shape);
    ASSERT_EQ(t.bytes, size_t(shape.count() / d.block * d.bytes));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(t.data) % 32, 0u);
    EXPECT_EQ(std::memcmp(t.data, random.data(), t.bytes), 0) << name;
  }
}

// Stores `values` as `stored` and gives the bits back.
template <class Bits, class T>
std::vector<Bits> stored_bits(const std::string& path, std::vector<T> values, DType from, DType stored) {
  Writer writer("x");
  writer.add("t", View(values.data(), from, {int64_t(values.size())}), stored);
  writer.finish(path);
  const File file = File::open(path);
  const TensorInfo& t = file.require("t");
  std::vector<Bits> bits(values.size());
  EXPECT_EQ(t.bytes, bits.size() * sizeof(Bits));
  std::memcpy(bits.data(), t.data, t.bytes);
  return bits;
}

// Every finite f16, the ties between neighbours and the f32 numbers beside each tie. The value of an f16 is
// computed here from its definition, in f64; infinity counts as 2^16, the number that would follow the
// largest.
TEST_F(GgufFile, RoundsToF16) {
  const auto value = [](int bits) {
    const int exponent = bits >> 10, fraction = bits & 1023;
    return exponent ? std::ldexp(1024 + fraction, exponent - 25) : std::ldexp(fraction, -24);
  };
  std::vector<float> values;
  std::vector<uint16_t> expected;
  for (int bits = 0; bits < 0x7c00; ++bits)
    for (const int sign : {0, 0x8000}) {
      const double low = value(bits), middle = (low + value(bits + 1)) / 2;
      const float tie = float(middle), s = sign ? -1.0f : 1.0f;
      ASSERT_EQ(double(tie), middle);
      for (const auto& [v, b] : {std::pair{float(low), bits}, std::pair{std::nextafter(tie, 0.0f), bits},
                                 std::pair{tie, bits + (bits & 1)}, std::pair{std::nextafter(tie, 1e9f), bits + 1}}) {
        values.push_back(s * v);
        expected.push_back(uint16_t(sign | b));
      }
    }
  const auto read = stored_bits<uint16_t>(path("a.gguf"), values, DType::f32, DType::f16);
  EXPECT_TRUE(read == expected);
  for (size_t i = 0; i < read.size(); ++i)
    if (read[i] != expected[i]) FAIL() << values[i] << " became " << read[i] << ", not " << expected[i];
}

TEST_F(GgufFile, RoundsToBF16) {
  std::vector<float> values;
  std::vector<uint16_t> expected;
  for (uint32_t bits = 0; bits < 0x7f80; ++bits)
    for (const uint32_t sign : {0u, 0x8000u}) {
      const uint32_t base = (sign | bits) << 16;
      for (const auto& [low, up] : {std::pair{0u, 0u}, std::pair{1u, 0u}, std::pair{0x7fffu, 0u},
                                    std::pair{0x8000u, bits & 1}, std::pair{0x8001u, 1u}, std::pair{0xffffu, 1u}}) {
        values.push_back(std::bit_cast<float>(base | low));
        expected.push_back(uint16_t(sign | (bits + up)));
      }
    }
  const auto read = stored_bits<uint16_t>(path("a.gguf"), values, DType::f32, DType::bf16);
  EXPECT_TRUE(read == expected);
}

TEST_F(GgufFile, ConvertsSpecialValues) {
  const float inf = std::numeric_limits<float>::infinity(), huge = std::numeric_limits<float>::max();
  const auto f16 = stored_bits<uint16_t>(path("a.gguf"), std::vector<float>{inf, -inf, huge, -huge, -0.0f, 1e-45f},
                                         DType::f32, DType::f16);
  EXPECT_EQ(f16, (std::vector<uint16_t>{0x7c00, 0xfc00, 0x7c00, 0xfc00, 0x8000, 0}));
  const auto bf16 = stored_bits<uint16_t>(path("a.gguf"), std::vector<float>{inf, -inf, huge, -huge, -0.0f, 1e-45f},
                                          DType::f32, DType::bf16);
  EXPECT_EQ(bf16, (std::vector<uint16_t>{0x7f80, 0xff80, 0x7f80, 0xff80, 0x8000, 0}));
  const float small_nan = std::bit_cast<float>(0x7f800001u);  // its payload would vanish
  for (const DType stored : {DType::f16, DType::bf16}) {
    const auto bits =
        stored_bits<uint16_t>(path("a.gguf"), std::vector<float>{small_nan, -small_nan}, DType::f32, stored);
    const uint16_t infinity = stored == DType::f16 ? 0x7c00 : 0x7f80;
    EXPECT_GT(bits[0] & 0x7fff, infinity);
    EXPECT_EQ(bits[1], bits[0] | 0x8000);
  }
  // From f64 in two roundings: to f32 (a tie here), then on.
  const std::vector<double> wide = {1 + 0x1p-11 + 0x1p-40, 1e300, 0x1p-1074, 1.0 / 3};
  EXPECT_EQ(stored_bits<uint16_t>(path("a.gguf"), wide, DType::f64, DType::f16),
            (std::vector<uint16_t>{0x3c00, 0x7c00, 0, 0x3555}));
  EXPECT_EQ(stored_bits<float>(path("a.gguf"), wide, DType::f64, DType::f32),
            (std::vector<float>{1 + 0x1p-11f, inf, 0, 1.0f / 3}));
}

TEST_F(GgufFile, WidensExactly) {
  std::vector<uint16_t> all(0x7c00);
  std::iota(all.begin(), all.end(), uint16_t(0));
  const auto f64 = stored_bits<double>(path("a.gguf"), all, DType::f16, DType::f64);
  const auto f32 = stored_bits<float>(path("a.gguf"), all, DType::f16, DType::f32);
  for (size_t i = 0; i < all.size(); ++i) {
    const int exponent = int(i) >> 10, fraction = int(i) & 1023;
    const double v = exponent ? std::ldexp(1024 + fraction, exponent - 25) : std::ldexp(fraction, -24);
    ASSERT_EQ(f64[i], v);
    ASSERT_EQ(double(f32[i]), v);
  }
  EXPECT_EQ(stored_bits<float>(path("a.gguf"), std::vector<uint16_t>{0x4049, 0x8001}, DType::bf16, DType::f32),
            (std::vector<float>{std::bit_cast<float>(0x40490000u), std::bit_cast<float>(0x80010000u)}));
}

// Rows of several views in one tensor, rounded or not; the views lie anywhere in memory.
// By convert(): the same blocks as in one piece, and the same values back.
TEST_F(GgufFile, QuantizesAndDequantizes) {
  const Shape shape{3, 32768};  // more than a piece
  std::vector<float> values(size_t(shape.count())), back(values.size());
  for (size_t i = 0; i < values.size(); ++i) values[i] = float(int(i * 2654435761 % 2001) - 1000) * 0.001f;
  const View view(values.data(), DType::f32, shape);
  for (const DType type : {DType::q8_0, DType::q6_k}) {
    Writer writer("x");
    writer.add("t", view, type);
    writer.finish(path("a.gguf"));
    const File file = File::open(path("a.gguf"));
    std::vector<std::byte> blocks(bytes_of(type, shape));
    quantize(type, values, {}, blocks.data());
    ASSERT_EQ(file.require("t").bytes, blocks.size());
    EXPECT_EQ(std::memcmp(file.require("t").data, blocks.data(), blocks.size()), 0);

    Writer plain("x");
    plain.add("t", View(blocks.data(), type, shape), DType::f32);
    plain.finish(path("b.gguf"));
    const File floats = File::open(path("b.gguf"));
    dequantize(type, blocks.data(), back);
    EXPECT_EQ(std::memcmp(floats.require("t").data, back.data(), back.size() * 4), 0);
  }
}

TEST_F(GgufFile, PartsBecomeOneTensor) {
  std::vector<float> a(6), b(3), c(9);
  std::iota(a.begin(), a.end(), 0.0f), std::iota(b.begin(), b.end(), 6.0f), std::iota(c.begin(), c.end(), 9.0f);
  const std::vector<View> parts{View(a.data(), DType::f32, {2, 3}), View(b.data(), DType::f32, {1, 3}),
                                View(c.data(), DType::f32, {3, 3})};
  const std::vector<View> lines{View(b.data(), DType::f32, {3}), View(a.data(), DType::f32, {6})};
  Writer w("x");
  w.add("f32", parts, DType::f32);
  w.add("f16", parts, DType::f16);
  w.add("bias", lines, DType::f32);
  w.finish(path("m.gguf"));
  const File f = File::open(path("m.gguf"));
  EXPECT_EQ(f.require("f32").shape, (Shape{6, 3}));
  EXPECT_EQ(f.require("f16").shape, (Shape{6, 3}));
  EXPECT_EQ(f.require("bias").shape, Shape{9});
  const float* values = reinterpret_cast<const float*>(f.require("f32").data);
  for (int i = 0; i < 18; ++i) EXPECT_EQ(values[i], float(i));
  const float* bias = reinterpret_cast<const float*>(f.require("bias").data);
  EXPECT_EQ(std::vector<float>(bias, bias + 9), (std::vector<float>{6, 7, 8, 0, 1, 2, 3, 4, 5}));
  Writer bad("x");
  const std::vector<View> other{parts[0], View(b.data(), DType::f32, {3, 1})};
  expect_contains(error_of([&] { bad.add("w", other, DType::f32); }), "rows of [3,1] cannot follow [2,3]");
  expect_contains(error_of([&] { bad.add("w", std::span<const View>{}, DType::f32); }), "there is no view");
}

TEST_F(GgufFile, WriterRefuses) {
  float x[8] = {};
  const View row(x, DType::f32, {8});
  Writer writer("llama");
  writer.add("t", row, DType::f32);
  const auto add = [&](std::string name, const View& v, DType stored) {
    return error_of([&] { writer.add(std::move(name), v, stored); });
  };
  View strided(x, DType::f32, {2, 2});
  strided.stride = {4, 1};
  expect_contains(add("t", row, DType::f32), "gguf: tensor 't': added twice");
  expect_contains(add("", row, DType::f32), "a name has 1 to 63 bytes, not 0");
  expect_contains(add(std::string(64, 'a'), row, DType::f32), "a name has 1 to 63 bytes, not 64");
  expect_contains(add("u", row, DType::i32), "tensor 'u': f32 cannot be stored as i32");
  expect_contains(add("u", View(x, DType::i32, {8}), DType::f16), "i32 cannot be stored as f16");
  expect_contains(add("u", View(x, DType::f32, {2, 4}), DType::q4_k),
                  "gguf: tensor 'u': row length 4 is not a multiple of 256, the block size of q4_k");
  expect_contains(add("u", View(x, DType::f32, {}), DType::f32), "[] has 0 dimensions; a file holds 1 to 4");
  expect_contains(add("u", View(x, DType::f32, {1, 1, 1, 1, 1}), DType::f32), "has 5 dimensions");
  expect_contains(add("u", View(x, DType::f32, {2, 0}), DType::f32), "[2,0] has no elements");
  expect_contains(add("u", View(nullptr, DType::f32, {2}), DType::f32), "the view has no memory");
  expect_contains(add("u", View(x, DType::q8_0, {0, 32}), DType::q8_0), "[0,32] has no elements");
  expect_contains(add("u", strided, DType::f32), "the view [2,2] is not contiguous");
  expect_contains(error_of([&] { writer.set("", 1u); }), "a key has 1 to 65535 bytes, not 0");
  expect_contains(error_of([&] { writer.set("general.alignment", 64u); }), "32-byte alignment; leave the key out");
  expect_contains(error_of([&] { writer.set("general.architecture", 1u); }), "expected a string");
  expect_contains(error_of([&] { Writer(""); }), "the architecture is empty");
}

TEST_F(GgufFile, UnwritableFolder) {
  Writer writer("llama");
  expect_contains(error_of([&] { writer.finish(path("none/a.gguf")); }), "none does not exist; create it first");
  expect_contains(error_of([&] { writer.finish(path()); }), "is a folder; give the name of a file");
  EXPECT_EQ(entries(), 0u);
}

// A limit on the size of files stands in for a full disk: write() fails half-way either way.
TEST_F(GgufFile, FailedWriteHarmsNothing) {
  write("a.gguf", "the old file");
  std::vector<float> big(1 << 16);
  Writer writer("llama");
  writer.add("t", View(big.data(), DType::f32, {1 << 16}), DType::f16);
  struct rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit low = {50'000, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &low), 0);
  ErrorCode code = ErrorCode::bad_input;
  std::string text = "no error";
  try {
    writer.finish(path("a.gguf"));
  } catch (const Error& e) {
    code = e.code(), text = e.what();
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(code, ErrorCode::bad_input);
  expect_contains(text, "a.gguf: File too large after 50000 bytes");
  EXPECT_EQ(slurp(path("a.gguf")), "the old file");
  EXPECT_EQ(entries(), 1u) << "the temporary file is gone";
}

TEST_F(GgufFile, TypedMetadata) {
  Writer writer("llama");
  for (const auto& [key, value] : all_value_types()) writer.set(key, value);
  writer.set("n", int64_t(12));
  writer.set("third", 1.0 / 3);
  writer.set("huge", 1e39);
  writer.finish(path("a.gguf"));
  const File file = File::open(path("a.gguf"));
  EXPECT_TRUE(file.has("n"));
  EXPECT_FALSE(file.has("m"));
  EXPECT_EQ(file.get_u32("u32"), 4294967295u);
  EXPECT_EQ(file.get_u32("n"), 12u);
  EXPECT_EQ(file.get_u32("u8"), 255u);
  EXPECT_EQ(file.get_u32("m", 9), 9u);
  EXPECT_EQ(file.get_f32("third"), 1.0f / 3);
  EXPECT_EQ(file.get_f32("m", 2.5f), 2.5f);
  EXPECT_EQ(file.get_f32("f32", 2.5f), 0x1.234568p-130f);
  EXPECT_TRUE(file.get_bool("bool", false));
  EXPECT_TRUE(file.get_bool("m", true));
  EXPECT_EQ(file.get_string("m", "none"), "none");
  EXPECT_EQ(file.get_strings("strings").size(), 3u);
  EXPECT_EQ(file.get_i32s("i32s"), (std::vector<int32_t>{-7, 7}));
  EXPECT_EQ(file.get_f32s("f32s")[0], 1.5f);
  expect_contains(error_of([&] { file.get_u32("m"); }), "a.gguf: the metadata key 'm' is missing");
  expect_contains(error_of([&] { file.get_u32("f32"); }), "metadata key 'f32': expected u32, found f32");
  expect_contains(error_of([&] { file.get_u32("bool"); }), "expected u32, found bool");
  expect_contains(error_of([&] { file.get_u32("u32s", 1); }), "expected u32, found array of u32");
  expect_contains(error_of([&] { file.get_u32("i8"); }), "metadata key 'i8': -128 does not fit into u32");
  expect_contains(error_of([&] { file.get_u32("u64"); }), "18446744073709551615 does not fit into u32");
  expect_contains(error_of([&] { file.get_f32("u32"); }), "expected f32, found u32");
  expect_contains(error_of([&] { file.get_f32("huge"); }), "1e+39 does not fit into f32");
  expect_contains(error_of([&] { file.get_bool("u8", true); }), "expected bool, found u8");
  expect_contains(error_of([&] { file.get_string("u8"); }), "expected string, found u8");
  expect_contains(error_of([&] { file.get_i32s("u32s"); }), "expected array of i32, found array of u32");
  expect_contains(error_of([&] { file.get_strings("string"); }), "expected array of string, found string");
  expect_contains(error_of([&] { file.require("w"); }), "a.gguf: the tensor 'w' is missing (0 tensors are there)");
}

TEST_F(GgufFile, Opening) {
  expect_contains(error_of([&] { File::open(path("none")); }), "none: no such file");
  expect_contains(error_of([&] { File::open(path()); }), "is a folder");
  expect_contains(error_of([&] { File::open("/dev/null"); }), "is a device, pipe or socket");
  write("empty", "");
  expect_contains(error_of([&] { File::open(path("empty")); }), "the file is empty");
  if (::geteuid() == 0) return;  // root may read everything
  write("secret", "x");
  fs::permissions(path("secret"), fs::perms::none);
  expect_contains(error_of([&] { File::open(path("secret")); }), "no permission to read it");
}

TEST_F(GgufFile, MappingOutlivesTheFile) {
  write("a.gguf", small_valid_file());
  std::shared_ptr<const void> alive;
  const std::byte* data;
  {
    const File file = File::open(path("a.gguf"));
    alive = file.keep_alive();
    data = file.require("a").data;
  }
  fs::remove(path("a.gguf"));
  EXPECT_EQ(data[5], std::byte(5));
}

TEST_F(GgufFile, MappedAheadItHoldsTheSame) {
  const std::vector<float> values(1 << 20, 2.5f);  // several pieces, the last one not whole
  Writer w("test");
  w.add("t", View(const_cast<float*>(values.data()), DType::f32, {1 << 20}), DType::f32);
  w.finish(path("m.gguf"));
  for (int i = 0; i < 20; ++i) {
    File f = File::open(path("m.gguf"));
    f.map_ahead();
    if (i % 2) continue;  // closed while the thread maps
    EXPECT_EQ(std::memcmp(f.require("t").data, values.data(), values.size() * 4), 0);
  }
}

TEST_F(GgufFile, TruncatedWhileMapped) {
  write("a.gguf", std::string(1 << 16, 'x'));
  const auto touch = [&] {
    install_sigbus_message();
    const MappedFile mapped = MappedFile::open(path("a.gguf"));
    fs::resize_file(path("a.gguf"), 0);
    const volatile std::byte* p = mapped.bytes().data();
    std::exit(int(p[40'000]));
  };
  EXPECT_EXIT(touch(), ::testing::ExitedWithCode(1), "toy: a mapped file was truncated while in use");
}

TEST(Gguf, ReadsQuantizedTypesAndVersion2) {
  Raw raw;
  raw.header(2, 0, 2).tensor("q", {256, 2}, 12, 0).tensor("n", {32}, 39, 288).data(288 + 17);
  const Aligned aligned(raw.bytes);
  const File file = File::parse(aligned.span(), "x");
  EXPECT_EQ(file.require("q").type_name, "Q4_K");
  EXPECT_EQ(file.require("q").dtype, DType::q4_k);
  EXPECT_EQ(file.require("q").bytes, 288u);
  EXPECT_EQ(file.require("q").shape, (Shape{2, 256}));
  EXPECT_EQ(file.require("n").type_name, "MXFP4");
  EXPECT_EQ(file.find("n")->data[0], std::byte(288 % 256));
}

TEST(Gguf, LargerAlignment) {
  Raw raw;
  raw.header(1, 1).key("general.alignment", kU32, 128u).tensor("t", {4}, 0, 128).pad(128).data(128 + 16);
  const Aligned aligned(raw.bytes);
  const File file = File::parse(aligned.span(), "x");
  EXPECT_EQ(file.require("t").data, aligned.span().data() + 256);
}

TEST(SharedGguf, Stories260K) {
  const std::string path = shared_path("data/stories260K.gguf");
  if (path.empty()) GTEST_SKIP() << "no data/stories260K.gguf under TOY_SHARED_DIR";
  const File file = File::open(path);
  EXPECT_EQ(file.get_string("general.architecture"), "llama");
  EXPECT_EQ(file.get_u32("llama.embedding_length"), 64u);
  EXPECT_EQ(file.get_u32("llama.block_count"), 5u);
  EXPECT_EQ(file.get_strings("tokenizer.ggml.tokens").size(), 512u);
  EXPECT_EQ(file.get_f32s("tokenizer.ggml.scores").size(), 512u);
  const TensorInfo& embedding = file.require("token_embd.weight");
  EXPECT_EQ(embedding.shape, (Shape{512, 64}));
  EXPECT_EQ(embedding.dtype, DType::f32);
  EXPECT_EQ(file.require("blk.0.ffn_down.weight").shape, (Shape{64, 172}));
  for (const TensorInfo& t : file.tensors())
    for (size_t i = 0; i < t.bytes; i += 4) {
      float v;
      std::memcpy(&v, t.data + i, 4);
      ASSERT_LT(std::abs(v), 100.0f) << t.name;
    }
}

TEST(SharedGguf, Vocabularies) {
  const std::pair<const char*, size_t> files[] = {{"ggml-vocab-gpt-2.gguf", 50257},
                                                  {"ggml-vocab-llama-spm.gguf", 32000}};
  for (const auto& [name, tokens] : files) {
    const std::string path = shared_path(std::string("data/vocab/") + name);
    if (path.empty()) GTEST_SKIP() << "no data/vocab/" << name << " under TOY_SHARED_DIR";
    const File file = File::open(path);
    EXPECT_EQ(file.get_strings("tokenizer.ggml.tokens").size(), tokens) << name;
    EXPECT_EQ(file.get_i32s("tokenizer.ggml.token_type").size(), tokens) << name;
    EXPECT_TRUE(file.tensors().empty());
  }
}

}  // namespace
}  // namespace toy::gguf::gguf_test
