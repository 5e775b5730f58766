#include "hf/shards.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "hf/encoders.h"
#include "toy/base/error.h"
#include "toy/base/nearest.h"

namespace toy::hf {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPredicting = "mtp.";

// What old versions saved although it is computed.
bool is_buffer(std::string_view name) {
  constexpr std::array<std::string_view, 4> kEnds{"rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias",
                                                  "position_ids"};
  return std::any_of(kEnds.begin(), kEnds.end(), [&](std::string_view end) { return name.ends_with(end); });
}

}  // namespace

std::string plain_name(std::string_view name, const HfModel& model) {
  for (const std::string_view part :
       {"vision_tower.", "visual.", "multi_modal_projector.", "audio_tower.", "embed_vision.", "embed_audio."})
    if (name.starts_with(part) || (name.starts_with("model.") && name.substr(6).starts_with(part))) return "";
  if (name.starts_with(kPredicting)) return "";
  if (name.starts_with("model.language_model.")) return "model." + std::string(name.substr(21));
  if (name.starts_with("language_model.")) return std::string(name.substr(15));
  if (model.type == "kimi_linear")  // of dense layers, as transformers saves them
    for (const std::string_view map : {"gate_proj", "up_proj", "down_proj"}) {
      const std::string saved = fmt::format(".block_sparse_moe.{}.weight", map);
      if (name.ends_with(saved))
        return fmt::format("{}.mlp.{}.weight", name.substr(0, name.size() - saved.size()), map);
    }
  if (is_encoder(model)) return plain_encoder_name(name, model);
  if (model.type == "gpt2" && !name.starts_with("transformer.") && !name.starts_with("lm_head."))
    return "transformer." + std::string(name);
  return std::string(name);
}

std::set<std::string> files_of_index(const Config& index) {
  std::set<std::string> files;
  const Config map = index.object("weight_map");
  for (const auto& [tensor, file] : map.values().items()) {
    check(file.is_string(), "{}: the file of '{}' is not a string", index.path(), tensor);
    const std::string name = file;
    check(!name.empty() && name.find_first_of(std::string_view("/\0", 2)) == name.npos && name != "." && name != "..",
          "{}: '{}' is not the name of a file in the same folder", index.path(), name);
    files.insert(name);
  }
  check(!files.empty(), "{}: 'weight_map' names no files", index.path());
  return files;
}

Shards Shards::open(const std::string& folder, const HfModel& model) {
  Shards s;
  s.folder_ = folder, s.class_name_ = model.class_name;
  const std::string index = folder + "/model.safetensors.index.json", single = folder + "/model.safetensors";
  if (!fs::exists(index)) {
    check(fs::exists(single), "{}: there is neither model.safetensors nor model.safetensors.index.json{}", folder,
          fs::exists(fs::path(folder) / "pytorch_model.bin") ? "; pytorch_model.bin is not read, so save the model as "
                                                               "safetensors"
                                                             : "");
    s.add(safetensors::File::open(single), model);
    return s;
  }
  const Config config = Config::open(index);
  for (const std::string& file : files_of_index(config)) {
    check(fs::exists(folder + "/" + file), "{}: the file '{}' is missing, which the index names; download it into {}",
          index, file, folder);
    s.add(safetensors::File::open(folder + "/" + file), model);
  }
  const Config map = config.object("weight_map");
  for (const auto& [tensor, file] : map.values().items()) {
    const std::string name = plain_name(tensor, model);
    check(name.empty() || s.tensors_.contains(name) || s.bytes_.contains(name), "{}: the tensor '{}' is not in '{}'",
          index, tensor, file.get<std::string>());
  }
  return s;
}

void Shards::leave_out(std::string_view name) { ++(name.starts_with(kPredicting) ? predicting_ : of_other_parts_); }

void Shards::add(safetensors::File file, const HfModel& model) {
  for (const auto& [name, view] : file.tensors()) {
    const std::string plain = plain_name(name, model);
    if (plain.empty()) {
      leave_out(name);
      continue;
    }
    check(tensors_.emplace(plain, view).second, "{}: the tensor '{}' is there twice", file.path(), plain);
  }
  for (const auto& [name, bytes] : file.bytes()) {
    const std::string plain = plain_name(name, model);
    if (plain.empty()) {
      leave_out(name);
      continue;
    }
    check(bytes_.emplace(plain, bytes).second, "{}: the tensor '{}' is there twice", file.path(), plain);
  }
  files_.push_back(std::move(file));  // the mapping does not move
}

void Shards::add(const std::string& path, const std::string& start) {
  files_.push_back(safetensors::File::open(path));
  for (const auto& [name, view] : files_.back().tensors()) tensors_.emplace(start + name, view);
}

const View* Shards::find(const std::string& name) {
  const auto it = tensors_.find(name);
  if (it == tensors_.end()) return nullptr;
  asked_.insert(name);
  return &it->second;
}

const safetensors::Bytes* Shards::find_bytes(const std::string& name) {
  const auto it = bytes_.find(name);
  if (it == bytes_.end() || it->second.type != "U8") return nullptr;
  asked_.insert(name);
  return &it->second;
}

const View& Shards::require(const std::string& name) {
  if (const View* view = find(name)) return *view;
  if (const auto it = bytes_.find(name); it != bytes_.end())
    fail("the tensor '{}' is {}; supported: F32, F16, BF16, F64", name, it->second.type);
  const std::string near = nearest(name, names());
  fail("the tensor '{}' is missing, which the class {} has{}", name, class_name_,
       near.empty() ? "" : fmt::format("; the nearest is '{}'", near));
}

std::vector<std::string> Shards::left() const {
  std::vector<std::string> list;
  for (const auto& [name, view] : tensors_)
    if (!asked_.contains(name) && !is_buffer(name)) list.push_back(name);
  for (const auto& [name, bytes] : bytes_)
    if (!asked_.contains(name) && !is_buffer(name)) list.push_back(name);
  return list;
}

std::vector<std::string> Shards::names() const {
  std::vector<std::string> list;
  for (const auto& [name, view] : tensors_) list.push_back(name);
  return list;
}

}  // namespace toy::hf
