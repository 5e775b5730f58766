// Training of any net in one call, and files of its parameters. The trainer of language models is toy/train/trainer.h.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "toy/runtime/session.h"
#include "toy/train/optimizer.h"

namespace toy {

/// Adds the parameters of a net to a store: matrices with normal values of deviation 1 / sqrt(columns), drawn from the
/// seed and their names, and vectors and scalars with zeros. Throws Error{bad_input} for one that is no parameter or
/// that the store has.
void add_params(ParamStore& store, std::span<const Value> params, uint64_t seed = 0);

/// How fit() trains.
struct FitOptions {
  int64_t steps = 1000;
  double lr = 1e-3;
  OptimizerOptions optimizer = {};
};

/// Makes `loss` [] smaller in the parameters `params` of its graph, which minimize() extends. `store` has their initial
/// values; what the optimizer keeps is added to it. Before each step `feed` sets the graph's inputs, such as a batch:
/// it gets the step's number. Returns the loss before each step. Initial values of weights between layers have to
/// differ from each other (add_params() draws some), or their gradients are equal forever. Throws Error{bad_input} for
/// a loss that is not finite, and what minimize(), compile() and Session throw.
///
///     Graph g;
///     const Value x = g.input("x", {DType::f32, {64, 2}}), y = g.input("y", {DType::i32, {64}});
///     const Value w = g.param("w", {DType::f32, {3, 2}});
///     ParamStore store(*device);
///     add_params(store, std::vector{w});
///     fit(*device, store, nn::cross_entropy(linear(x, w), y), std::vector{w}, {.steps = 200, .lr = 0.1},
///         [&](Session& s, int64_t) { s.set("x", points), s.set("y", classes); });
std::vector<float> fit(Device& device, ParamStore& store, Value loss, std::span<const Value> params,
                       const FitOptions& options, const std::function<void(Session&, int64_t)>& feed);

/// Writes all tensors of a store to a GGUF file, in their own types, also what fit() added for the optimizer. Throws
/// Error{bad_input} for an unwritable path.
void save_params(const ParamStore& store, const std::string& path);
/// Sets every tensor of the store from a file that save_params() wrote. Throws Error{bad_input}, before it changes any,
/// for a file that lacks one or has it in another type or shape; what else the file holds is ignored.
void load_params(ParamStore& store, const std::string& path);

}  // namespace toy
