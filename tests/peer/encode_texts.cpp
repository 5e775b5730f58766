// The ids of many texts: encode_texts MODEL, a GGUF or .model file. Numbers are u32 in the machine's order. stdin has,
// for each text, its bytes and how many they are; stdout gets for each the number of its ids, the ids, and the text
// that they decode to, likewise.
//   encode_texts MODEL --speed FILE    prints the MB/s of encoding a file on one thread, the best of some rounds
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "toy/base/clock.h"
#include "toy/text/tokenizer.h"

namespace {

void put(uint32_t n) { std::fwrite(&n, sizeof n, 1, stdout); }

int measure(const toy::Tokenizer& tokenizer, const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  double best = 1e9;
  for (double begin = toy::steady_seconds(); toy::steady_seconds() < begin + 2;) {
    const double start = toy::steady_seconds();
    tokenizer.encode(text);
    best = std::min(best, toy::steady_seconds() - start);
  }
  std::printf("%.1f\n", double(text.size()) / best * 1e-6);
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  const auto tokenizer = toy::load_tokenizer_file(argc > 1 ? argv[1] : "");
  if (argc == 4 && std::string(argv[2]) == "--speed") return measure(*tokenizer, argv[3]);
  std::string text;
  for (uint32_t bytes; std::fread(&bytes, sizeof bytes, 1, stdin) == 1;) {
    text.resize(bytes);
    if (std::fread(text.data(), 1, bytes, stdin) != bytes) return 2;
    const std::vector<int32_t> ids = tokenizer->encode(text);
    const std::string back = tokenizer->decode(ids);
    put(uint32_t(ids.size()));
    std::fwrite(ids.data(), sizeof(int32_t), ids.size(), stdout);
    put(uint32_t(back.size()));
    std::fwrite(back.data(), 1, back.size(), stdout);
  }
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "encode_texts: %s\n", e.what());
  return 1;
}
