// The run that all recipes share. They differ in where the model comes from.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "toy/train/estimate.h"
#include "toy/train/recipe.h"

namespace toy {

class Dataset;
class Teller;

/// Where a recipe's model comes from. Called in this order, each once; everything that can be refused is, before the
/// weights are made. A run that is resumed takes tokenizer and weights from its checkpoint instead.
class ModelSource {
 public:
  virtual ~ModelSource() = default;
  /// The recipe's name and its own options, by which a resumed run knows that it is the same.
  virtual nlohmann::ordered_json config() const = 0;
  /// Before all others but config(): the data, which outlive it.
  virtual void look_at(const Dataset&) {}
  /// Loaded, or made from the data.
  virtual std::shared_ptr<const Tokenizer> tokenizer(const Dataset& data) = 0;
  virtual ModelSpec spec(const Tokenizer& tokenizer) = 0;
  /// The model file that it begins with, or "".
  virtual std::string file() const { return {}; }
  /// The GGUF whose chat template rows are read with, or "".
  virtual std::string template_file() const { return file(); }
  /// The files that it reads, by the options that name them.
  virtual std::vector<std::pair<const char*, std::string>> reads() const = 0;
  /// May the run's own model take the place of file()? Where resuming needs it, it may not.
  virtual bool may_be_replaced() const { return false; }
  /// Of the model, known before its tokenizer.
  virtual std::string architecture() const = 0;
  /// Does the run make an adapter of that file, instead of a model?
  virtual bool adapts() const { return false; }
  /// In which type model() holds a tensor.
  virtual Weights::DTypeOf held(const ModelSpec&) const {
    return [](const std::string&) { return DType::f32; };
  }
  /// Weights of which those that the roles say can be trained.
  virtual Model model(const ModelSpec& spec, const Device& device) = 0;
  /// What model() chose, for people.
  virtual std::vector<std::string> choices() const { return {}; }
};

/// Throws Error{bad_input} naming the option, for one that is impossible by itself.
void check_options(const RecipeOptions& options);
/// A first bound on the memory, before the weights are made: weights, gradients and moments. Throws Error{bad_input}.
void require_room(const Device& device, const ModelSpec& spec, const OptimizerOptions& optimizer);
/// Throws Error{failure} where a run of `updates` updates has failed, however many steps it made.
void require_success(const TrainResult& result, int64_t updates);

/// Steps of --epochs, and some more until ranks that train apart meet. Throws Error{bad_input} where that would more
/// than double them. `rows`: of an epoch.
int64_t steps_of_epochs(const RecipeOptions& options, int64_t rows, int64_t rows_per_step);
/// The rank that has skipped most steps in a row where ranks train apart, and how many.
std::pair<int, int64_t> most_skips(const StepResult& result);
/// Throws Error{failure}, once a model of rank 0's weights is at `model`: too many steps in a row, up to `step`, have
/// changed nothing, here or in another rank.
[[noreturn]] void fail_of_skips(const RecipeOptions& options, const StepResult& result, int64_t step, int64_t here,
                                const std::string& model);

/// Says which ranks skipped the step before `step`: the log has the skipped steps of rank 0 alone.
void warn_of_skips(const RecipeOptions& options, const StepResult& result, int64_t step, Teller& tell);

TrainResult run_recipe(const RecipeOptions& options, ModelSource& source, Device& device, TrainObserver& observer);
/// All that run_recipe() does before its first step, and some steps to see how long they take. Writes nothing
/// but the data cache.
RunEstimate estimate_recipe(const RecipeOptions& options, ModelSource& source, Device& device, TrainObserver& observer);

}  // namespace toy
