// Models on this machine: GGUF files that Hugging Face's tools, Ollama and LM Studio have downloaded, and own ones.
// Also repositories in safetensors, which `toy convert` reads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "toy/formats/gguf.h"

namespace toy::catalog {

/// Folders to look in; "" and folders that do not exist hold nothing.
struct Places {
  std::string hugging_face;            ///< holds models--OWNER--NAME
  std::string ollama;                  ///< holds manifests and blobs
  std::vector<std::string> lm_studio;  ///< hold PUBLISHER/NAME/FILE.gguf
  std::string data;                    ///< any folder of GGUF files
};
/// Where these programs keep their files: $HF_HUB_CACHE, or hub in $HF_HOME; $OLLAMA_MODELS; `data` here. Without the
/// variables, in $XDG_CACHE_HOME and the home folder, as the programs' documentation says.
Places default_places();

/// One model.
struct Entry {
  std::string name;     ///< "OWNER/REPO/FILE.gguf", "llama3.2:1b", "data/a.gguf"; unique in a list
  std::string path;     ///< of the GGUF file, or the folder of a repository without one
  std::string source;   ///< "Hugging Face", "Ollama", "LM Studio", "data"
  uint64_t bytes = 0;   ///< of the weights
  bool folder = false;  ///< config.json and safetensors, to be converted
  int missing = 0;      ///< how many parts of a split model are not there
};
/// All models, by place and name: of a split one the first part that is there, with the bytes of all. Opens no model;
/// adapters, projectors of images and importance matrices are told by their first bytes, or else by their names, and
/// left out, as is what cannot be read.
std::vector<Entry> list(const Places& places);

/// The path of the model of this name, or "". A repository's name is enough if it has one file, a file's name if no
/// other has it, and Ollama's tag may be left out if it is `latest`. Throws Error{bad_input} naming the candidates
/// where several fit.
std::string find(std::string_view name, const std::vector<Entry>& entries);

/// What a model file is made of, for lists: the mix that its metadata name, or the type of most of its values.
std::string quantization_of(const gguf::File& file);

/// The family of a folder from Hugging Face: `model_type` of its config.json, or "" if it names none.
std::string family_of_folder(const std::string& folder);

/// The name of the blob ("sha256-...") that is the model of an Ollama manifest, or "".
std::string ollama_blob(std::string_view manifest);

}  // namespace toy::catalog
