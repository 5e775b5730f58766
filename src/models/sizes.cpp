// Sizes by name, and from a file of dimensions.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>

#include "models/families/families.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/nearest.h"
#include "toy/base/options.h"

namespace toy {
namespace {

struct Size {
  const char *name, *architecture;
  int64_t d_model, d_ff, layers, heads, kv_heads, d_head, vocab, context;
  double rope_base = 0;  // where positions are rope
  bool own_output = false;
};

// Dimensions of the published models; `tiny`, `small`, `gpt2-tiny` and the hybrids are ours. In hybrids, three of four
// layers are Gated DeltaNet with heads like those of attention, and a quarter of each head of attention turns.
constexpr Size kSizes[] = {
    {"tiny", "llama", 64, 176, 4, 4, 2, 16, 256, 512, 1e4},
    {"small", "llama", 128, 352, 4, 4, 2, 32, 512, 512, 1e4},
    {"stories15m", "llama", 288, 768, 6, 6, 6, 48, 32000, 1024, 1e4},
    {"smollm2-135m", "llama", 576, 1536, 30, 9, 3, 64, 49152, 8192, 1e5},
    {"tinyllama-1b", "llama", 2048, 5632, 22, 32, 4, 64, 32000, 2048, 1e4, true},
    {"smollm2-360m", "llama", 960, 2560, 32, 15, 5, 64, 49152, 8192, 1e5},
    {"gpt2-tiny", "gpt2", 64, 256, 4, 4, 4, 16, 256, 512},
    {"gpt2-124m", "gpt2", 768, 3072, 12, 12, 12, 64, 50257, 1024},
    {"hybrid-tiny", "qwen35", 64, 176, 4, 4, 2, 16, 256, 512, 1e4},
    {"hybrid-60m", "qwen35", 512, 1536, 12, 8, 2, 64, 32000, 8192, 1e4},
    {"gpt2-355m", "gpt2", 1024, 4096, 24, 16, 16, 64, 50257, 1024},
    {"bert-tiny", "bert", 128, 512, 2, 2, 2, 64, 30522, 512},
    {"bert-mini", "bert", 256, 1024, 4, 4, 4, 64, 30522, 512},
    {"bert-small", "bert", 512, 2048, 4, 8, 8, 64, 30522, 512},
    {"bert-base", "bert", 768, 3072, 12, 12, 12, 64, 30522, 512},
};
// Of pictures: 64 patches of 32 x 32 pixels, until a data set says otherwise.
constexpr Size kImageSizes[] = {
    {"vit-micro", "vit", 64, 256, 4, 4, 4, 16, 10, 64},
    {"vit-lite", "vit", 256, 512, 7, 4, 4, 64, 10, 64},
    {"vit-tiny", "vit", 192, 768, 12, 3, 3, 64, 10, 64},
};

std::vector<std::string> names_of(std::span<const Size> sizes) {
  std::vector<std::string> names;
  for (const Size& s : sizes) names.push_back(s.name);
  return names;
}

ModelSpec make(const Size& s) {
  ModelSpec m = spec_of(s.architecture, {}, s.name);
  m.name = s.name;
  m.d_model = s.d_model;
  m.vocab = s.vocab;
  m.context = s.context;
  if (s.own_output) m.tied = false;
  if (m.positions == PositionKind::rope) m.rope.base = float(s.rope_base);
  m.layers = repeated(m.layers, size_t(s.layers));
  for (LayerSpec& l : m.layers) {
    l.heads = s.heads, l.kv_heads = s.kv_heads, l.d_head = s.d_head, l.d_ff = s.d_ff;
    if (m.architecture != "qwen35") continue;
    if (DeltaNet* delta = std::get_if<DeltaNet>(&l.mixer))
      delta->key_heads = delta->value_heads = s.heads, delta->width = s.d_head;
    l.rope_dims = s.d_head / 4;
  }
  return m;
}

// "tiny 0.2"
std::vector<std::string> sizes_with_parameters() {
  std::vector<std::string> names;
  for (const Size& s : kSizes) {
    const double millions = double(parameter_count(make(s))) / 1e6;
    names.push_back(fmt::format("{} {:.{}f}", s.name, millions, millions < 10 ? 1 : 0));
  }
  return names;
}

}  // namespace

std::vector<std::string> size_names() { return names_of(kSizes); }

std::vector<std::string> image_size_names() { return names_of(kImageSizes); }

// "gpt2-124m" of "124M": names that have this between hyphens, in letters of any case.
static std::vector<std::string> sizes_with_part(const std::string& part) {
  std::string wanted = "-" + part + "-";
  std::ranges::transform(wanted, wanted.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  std::vector<std::string> found = size_names();
  std::erase_if(found, [&](const std::string& name) { return ("-" + name + "-").find(wanted) == name.npos; });
  return found;
}

ModelSpec model_spec(const std::string& size_or_file, int64_t vocab, int64_t context, const Families& more) {
  ModelSpec m;
  bool found = false;
  for (const Size& s : kSizes)
    if (size_or_file == s.name) m = make(s), found = true;
  for (const Size& s : kImageSizes)
    if (size_or_file == s.name) m = make(s), found = true;
  if (!found) {
    std::error_code error;
    check(!std::filesystem::is_directory(size_or_file, error),
          "size: '{0}' is a folder; use a name such as tiny, or a JSON file of dimensions (toy train warm-start --init "
          "'{0}' begins with the weights of a run)",
          size_or_file);
    std::ifstream f(size_or_file);
    if (!f) {
      if (size_or_file.ends_with(".json")) fail("size: {}", no_such_file(size_or_file));
      const std::string near = nearest(size_or_file, size_names());
      if (!near.empty()) fail("there is no size '{}'; did you mean '{}'?", size_or_file, near);
      if (const auto longer = sizes_with_part(size_or_file); !longer.empty())
        fail("there is no size '{}'; did you mean {}?", size_or_file, alternatives(longer));
      fail("there is no size '{}'; use one of {} (millions of parameters), or a JSON file of dimensions", size_or_file,
           fmt::join(sizes_with_parameters(), ", "));
    }
    std::stringstream text;
    text << f.rdbuf();
    m = spec_from_json(read_json<nlohmann::json>(size_or_file, text.str()), size_or_file, more);
  }
  if (vocab > 0) m.vocab = vocab;
  if (context > 0) m.context = context;
  m.validate();
  return m;
}

}  // namespace toy
