// What the parts of `toy describe` share.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/bench/bench.h"
#include "toy/decode/state.h"
#include "toy/models/spec.h"
#include "toy/runtime/plan.h"
#include "toy/train/trainer.h"

namespace toy::cli {

/// What the options of a run say of its training step; nothing where there is no run.
struct RunStep {
  std::optional<int64_t> batch, tokens;
  std::optional<std::string> optimizer;
  std::optional<TrainerOptions::Updates> update;
};

/// A model as far as it can be known without its weights.
struct Described {
  ModelSpec spec;
  std::map<std::string, DType> stored = {};  ///< each tensor as loaded, where there is a file
  std::vector<std::string> warnings = {};    ///< about the file
  RunStep step = {};
  std::string pooling = {};  ///< stated_pooling() of the file

  DType dtype_of(const std::string& name) const {
    const auto it = stored.find(name);
    return it == stored.end() ? DType::f32 : it->second;
  }
};

/// A GGUF file, the folder of a run, a size, or a JSON file of dimensions. Throws Error{bad_input} naming the sizes and
/// the nearest of them for what is none of these.
Described open_description(const std::string& what);

/// What the graphs of a model are made for.
struct GraphOptions {
  TrainerOptions trainer;
  int64_t context = 0, rows = 0;  ///< of the decoder
  std::optional<DType> kv = {};   ///< of its keys and values; none: default_kv()
  std::string recomputing = {};   ///< MemoryFit::text() of the training step, or ""
};

/// The state of one sequence.
DecodeShape decode_shape(const Described& model, const GraphOptions& options);

/// One graph of a model, compiled for a device.
struct Compiled {
  std::string what;  ///< it is
  std::unique_ptr<Graph> graph;
  std::vector<Value> roots;
  Plan plan;
};

/// `which`: train, forward (as far as the loss) or decode.
Compiled graph_of(const std::string& which, const Described& model, const GraphOptions& options, Device& device);

/// Bytes of everything that running a plan needs.
size_t held_bytes(const Plan& plan, const Device& device);

/// What the recurrent layers of a model keep of one sequence.
struct SequenceState {
  int layers = 0;
  size_t recurrent = 0;     ///< bytes
  size_t as_attention = 0;  ///< bytes of keys and values, if they were attention as in other layers, without a window;
                            ///< 0 where nothing says how many heads that would have
};
SequenceState sequence_state(const ModelSpec& spec, const DecodeShape& shape);
std::string to_text(const SequenceState& state);
nlohmann::ordered_json to_json(const SequenceState& state);

/// What each layer keeps of a sequence, and does for the token at some positions.
struct TokenCosts {
  struct At {
    size_t state;  ///< bytes; keys and values are in pages
    double flops, seconds;
    bool like(const At& o) const { return state == o.state && flops == o.flops; }
  };
  struct Layer {
    std::string layer, last;  ///< of several consecutive ones that are alike, the first and the last
    int count;
    MixerKind mixer;
    std::vector<At> at;  ///< of each of them, by position; seconds are their mean
    bool like(const Layer& o) const {
      return mixer == o.mixer && std::equal(at.begin(), at.end(), o.at.begin(), std::mem_fn(&At::like));
    }
  };
  int64_t context = 0;  ///< of the decoder
  std::vector<int64_t> positions = {};
  std::vector<Layer> layers = {};
  SequenceState state = {};
  int64_t cheaper_from = 0;  ///< position from which recurrent layers are less work than attention; 0: none
  bool timed = false;        ///< whether there are ceilings: work is their least time, else FLOPs
};
TokenCosts token_costs(const Described& model, const GraphOptions& options, Device& device,
                       const std::optional<Ceilings>& ceilings);
nlohmann::ordered_json to_json(const TokenCosts& costs);
void print_token_costs(const TokenCosts& costs);

/// The card: what the model is, its parameters by part, what a training step and a token need, and at best take.
void print_card(const Described& model, const GraphOptions& options, Device& device,
                const std::optional<Ceilings>& ceilings, bool json);
/// FLOPs and bytes of each layer by phase, and the least time where there are ceilings. `tokens`: of a decoder.
void print_costs(const Compiled& graph, const std::optional<TokenCosts>& tokens,
                 const std::optional<Ceilings>& ceilings, bool json);

}  // namespace toy::cli
