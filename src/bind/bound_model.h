// A model as bindings for other languages hold it: named, told in JSON, used by several threads in turns.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bind/embed_texts.h"
#include "bind/shared_device.h"
#include "bind/text_options.h"
#include "toy/decode/decoder.h"
#include "toy/models/model.h"

namespace toy::bind {

/// What a model is loaded with.
struct LoadOptions : DeviceOptions {
  std::vector<std::string> lora;
  /// See toy/base/options.h.
  static void fields(auto& o, auto&& f) {
    DeviceOptions::fields(o, f);
    f(text_option("lora", "Adapters: a GGUF, the folder of a run or of PEFT, maybe times :SCALE", "Model",
                  "FILE[:SCALE]"),
      o.lora);
  }
};

/// Weights, tokenizer and device. Any thread may call its functions; what computes takes turns.
class BoundModel : public std::enable_shared_from_this<BoundModel> {
 public:
  /// `what`: a file, a folder or a name of `toy list`. Options: those of
  /// LoadOptions. Throws Error{bad_input}.
  static std::shared_ptr<BoundModel> load(const std::string& what, std::string_view json);

  const std::string& path() const { return path_; }
  const Model& model() const { return model_; }
  SharedDevice& device() const { return *device_; }
  /// Throws Error{bad_input} where it has none.
  const Tokenizer& tokenizer() const;
  /// The dimensions, as JSON.
  std::string spec_json() const;

  /// A tensor as it is stored. Takes a turn where the device has to copy it. Throws Error{bad_input} for a name that is
  /// none.
  HostTensor tensor(const std::string& name) const;
  /// Its values, dequantized; turns as tensor().
  std::vector<float> values(const std::string& name) const;

  /// Ids of a text that a text continues.
  std::vector<int32_t> prompt_ids(const std::string& text, const TextOptions& options) const;
  /// Throws Error{bad_input} for an empty list and an id outside the vocabulary.
  void check_ids(std::span<const int32_t> ids) const;
  /// Logits [T,V] after each token of a text.
  std::vector<float> logits(std::span<const int32_t> ids, std::string_view json);
  /// Embeddings of texts or token ids, as `toy embed` has them. `width`: numbers of each vector; with pooling "none" a
  /// text has a vector for each token. Throws Error{bad_input}. Options: those of EmbedTextOptions.
  std::vector<std::vector<float>> embed(std::span<const TextToEmbed> texts, std::string_view json, size_t& width);
  /// The tokens of a text, and of its documents where options say so. Throws Error{bad_input}.
  EvalText text_to_score(const std::string& text, const ScoreTextOptions& options) const;
  /// Scores a text, token by token.
  TextScore score(const std::string& text, const ScoreTextOptions& options, std::vector<TokenScore>& tokens,
                  const std::function<bool()>& stop);
  /// A decoder of one sequence with room for so many positions. It is empty. Give it back for the next text.
  std::unique_ptr<Decoder> take_decoder(int64_t positions, const TextOptions& options, bool repack);
  void give_back(std::unique_ptr<Decoder> decoder, const TextOptions& options, bool repack);

 private:
  // A turn where the device has to copy weights for the host.
  std::unique_ptr<Turn> turn_to_read() const;

  BoundModel(std::shared_ptr<SharedDevice> device, std::string path, Model model)
      : device_(std::move(device)), path_(std::move(path)), model_(std::move(model)) {}

  std::shared_ptr<SharedDevice> device_;
  std::string path_;
  Model model_;
  std::mutex mutex_;  // of what follows
  std::unique_ptr<Decoder> idle_;
  std::optional<DType> idle_kv_;
  bool idle_exact_ = false, idle_repacks_ = false;
};

/// Stops a computation between two tokens.
struct Stopped {};

}  // namespace toy::bind
