// What the parts of `toy describe` share.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/bench.h"
#include "toy/decode/state.h"
#include "toy/models/spec.h"
#include "toy/runtime/plan.h"
#include "toy/train/trainer.h"

namespace toy::cli {

/// What the options of a run say of its training step; nothing where there is no run.
struct RunStep {
  std::optional<int64_t> batch, tokens;
  std::optional<std::string> optimizer, update;
};

/// A model as far as it can be known without its weights.
struct Described {
  ModelSpec spec;
  std::map<std::string, DType> stored = {};  ///< each tensor as loaded, where there is a file
  std::vector<std::string> warnings = {};    ///< about the file
  RunStep step = {};

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

/// The card: what the model is, its parameters by part, what a training step and a token need, and at best take.
void print_card(const Described& model, const GraphOptions& options, Device& device,
                const std::optional<Ceilings>& ceilings, bool json);
/// FLOPs and bytes of each layer by phase, and the least time where there are ceilings.
void print_costs(const Compiled& graph, const std::optional<Ceilings>& ceilings, bool json);

}  // namespace toy::cli
