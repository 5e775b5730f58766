#include "train/tensor_pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "toy/base/error.h"
#include "toy/base/glob.h"
#include "toy/base/nearest.h"
#include "toy/models/adapter.h"

namespace toy {
namespace {

bool fits_any(const std::string& pattern, const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& n) { return matches(pattern, n); });
}

std::string without_stars(const std::string& pattern) {
  const size_t first = std::min(pattern.find_first_not_of('*'), pattern.size());
  return pattern.substr(first, pattern.find_last_not_of('*') + 1 - first);
}

// "blk.3.attn_q.*" of "model.layers.3.self_attn.q_proj.weight", "blk.*.attn_q.*" of "q_proj"; "" of other words.
std::string of_hf_name(const std::string& pattern, const std::vector<std::string>& names) {
  constexpr std::string_view kLayers = "layers.", kWeight = ".weight";
  std::string name = without_stars(pattern);
  if (name.ends_with(kWeight)) name.resize(name.size() - kWeight.size());
  const std::string ours = name_of_hf_module(name.substr(name.rfind('.') + 1));
  if (ours.empty()) return {};
  const size_t at = name.find(kLayers), number = at + kLayers.size();
  const std::string block = at == name.npos ? "*" : name.substr(number, name.find('.', number) - number);
  for (const std::string& p : {fmt::format("blk.{}.{}.*", block, ours), ours + ".*"})
    if (fits_any(p, names)) return p;
  return {};
}

// A part of a name needs stars around it. Other words may be a name, a block or what a name has in all blocks,
// mistyped.
std::string near_pattern(const std::string& pattern, const std::vector<std::string>& names) {
  const std::string part = without_stars(pattern);
  if (const std::string ours = of_hf_name(pattern, names); !ours.empty()) return ours;
  if (const size_t at = pattern.find("layers."); at != pattern.npos) {  // of Hugging Face
    const std::string number = pattern.substr(at + 7, pattern.find('.', at + 7) - (at + 7));
    if (const std::string block = fmt::format("blk.{}.*", number); fits_any(block, names)) return block;
  }
  if (const std::string inside = "*" + part + "*"; !part.empty() && fits_any(inside, names)) return inside;
  std::map<std::string, std::string> meant;  // word to pattern
  for (const std::string& name : names) {
    meant[name] = name;
    const size_t dot = name.starts_with("blk.") ? name.find('.', 4) : name.npos;
    if (dot == name.npos) continue;
    const std::string rest = name.substr(dot), stem = rest.substr(1, rest.find('.', 1) - 1);
    for (const std::string& p : {name.substr(0, dot) + ".*", "blk.*" + rest}) meant[p] = p;
    meant[stem] = "blk.*." + stem + ".*";
  }
  std::vector<std::string> words;
  for (const auto& [word, p] : meant) words.push_back(word);
  const std::string word = nearest(pattern, words);
  return word.empty() ? "" : meant[word];
}

}  // namespace

void require_match(std::string_view option, const std::string& pattern, const std::vector<std::string>& names,
                   std::string_view what) {
  if (fits_any(pattern, names)) return;
  const std::string near = near_pattern(pattern, names);
  fail("{}: no {}'s name fits '{}'; {}", option, what, pattern,
       near.empty() ? "names are like '" + names.back() + "'" : "did you mean '" + near + "'?");
}

}  // namespace toy
