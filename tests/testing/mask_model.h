// The golden model that fills in masks (tests/golden/make_mlm_golden.py).
#pragma once

#include <string>
#include <utility>

#include "testing/files.h"
#include "toy/formats/safetensors.h"
#include "toy/hf/convert.h"
#include "toy/models/model.h"

namespace toy::testing {

/// With its head, which `toy convert` leaves out, as llama.cpp's converter does. `folder` gets a file.
inline Model mask_model(const Device& device, const Folder& folder) {
  constexpr std::pair<const char*, const char*> kHead[] = {
      {"mlm.dense.weight", "cls.predictions.transform.dense.weight"},
      {"mlm.dense.bias", "cls.predictions.transform.dense.bias"},
      {"mlm.norm.weight", "cls.predictions.transform.LayerNorm.weight"},
      {"mlm.norm.bias", "cls.predictions.transform.LayerNorm.bias"},
      {"mlm.bias", "cls.predictions.bias"}};
  const std::string tiny = std::string(TOY_SOURCE_DIR) + "/tests/golden/bert_mlm_tiny";
  hf::convert_folder(tiny, folder.path("bert.gguf"));
  Model model = load_model(folder.path("bert.gguf"), device, LoadMode::trainable);
  model.spec.mask_head = true;
  const safetensors::File file = safetensors::File::open(tiny + "/model.safetensors");
  for (const auto& [ours, theirs] : kHead) {
    const View& v = file.tensors().at(theirs);
    model.params->add(ours, {DType::f32, v.shape, 0});
    model.params->write(ours, v);
  }
  return model;
}

}  // namespace toy::testing
