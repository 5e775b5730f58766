// The static libraries can be linked into a shared one, which shows nothing of them but what it wants to.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <string>

namespace {

TEST(Binding, ComputesAndCatchesErrors) {
  void* library = dlopen(TOY_PROBE, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto probe = reinterpret_cast<double (*)(const char*, char*, size_t)>(dlsym(library, "toy_probe"));
  ASSERT_NE(probe, nullptr);
  std::array<char, 400> error{};
  EXPECT_EQ(probe("cpu", error.data(), error.size()), 10) << error.data();
  EXPECT_EQ(probe("reference", error.data(), error.size()), 10) << error.data();
  EXPECT_EQ(probe("abacus", error.data(), error.size()), -1);
  EXPECT_NE(std::string(error.data()).find("abacus"), std::string::npos) << error.data();
}

TEST(Binding, ShowsNothingOfToy) {
  std::FILE* names = popen("nm -D --defined-only '" TOY_PROBE "'", "r");
  ASSERT_NE(names, nullptr);
  std::string text;
  std::array<char, 4096> piece;
  while (const size_t n = std::fread(piece.data(), 1, piece.size(), names)) text.append(piece.data(), n);
  ASSERT_EQ(pclose(names), 0);
  EXPECT_NE(text.find(" toy_probe\n"), std::string::npos) << text;
  for (const char* of_toy : {" _ZN3toy", " _ZNK3toy", " _ZTIN3toy", " _ZTSN3toy", " _ZTVN3toy"})
    EXPECT_EQ(text.find(of_toy), std::string::npos) << text;
}

}  // namespace
