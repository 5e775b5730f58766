#include "cli/files/rewrite.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/console.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/tables.h"
#include "toy/base/clock.h"
#include "toy/base/error.h"
#include "toy/base/gguf_name.h"
#include "toy/base/memory.h"
#include "toy/base/shell_word.h"

namespace toy::cli {
namespace {

using nlohmann::ordered_json;

// Ctrl-C between two tensors: the writer removes what it has begun.
struct Interrupted {};

// Quantizing takes much longer than copying.
double cost_of(const gguf::RequantizedTensor& t) { return double(t.shape.count()) * (t.to == t.from ? 0.01 : 1); }

}  // namespace

void Rewrite::check_out() const {
  check(!is_same_file(out, in), "{} is '{}', which is the model; choose another name", option, out);
  const std::filesystem::path folder = std::filesystem::path(out).parent_path();
  check(folder.empty() || std::filesystem::is_directory(folder),
        "{} is '{}': the folder {} does not exist; create it first (mkdir -p {})", option, out, folder.string(),
        shell_quoted(folder.string()));
  refuse_replacing_model(option, out, overwrite);
}

void Rewrite::run(const gguf::File& file, const gguf::RequantizeOptions& o) const {
  const std::vector<gguf::RequantizedTensor> plan = plan_requantize(file, o);
  double todo = 0, done = 0;
  for (const auto& t : plan) todo += cost_of(t);
  std::vector<gguf::RequantizedTensor> results;
  std::optional<Progress> progress(std::in_place);
  progress->waiting("converting");
  Interrupt interrupt;
  const double begin = steady_seconds();
  try {
    gguf::requantize(file, out, o, [&](const gguf::RequantizedTensor& t) {
      if (interrupt.signal()) throw Interrupted();
      results.push_back(t);
      done += cost_of(t);
      const double spent = steady_seconds() - begin;
      progress->show({.label = "tensor",
                      .brief = "",
                      .done = int64_t(results.size()),
                      .total = int64_t(plan.size()),
                      .seconds_left = spent / done * (todo - done)});
    });
  } catch (const Interrupted&) {
    progress.reset();
    return interrupt.end_by_signal();
  }
  progress.reset();
  print(results, file.file_bytes());
}

void Rewrite::print(const std::vector<gguf::RequantizedTensor>& results, size_t bytes_before) const {
  const auto relative = [](const gguf::RequantizedTensor& t) { return t.rms > 0 ? t.rmse / t.rms : 0; };
  const size_t bytes = std::filesystem::file_size(out);
  if (json) {
    ordered_json list = ordered_json::array();
    for (const auto& t : results)
      list.push_back({{"name", t.name},
                      {"shape", std::vector<int64_t>(t.shape.begin(), t.shape.end())},
                      {"from", gguf::type_name(t.from)},
                      {"to", gguf::type_name(t.to)},
                      {"bytes_before", t.bytes_before},
                      {"bytes", t.bytes_after},
                      {"weighted", t.weighted},
                      {"rms", t.rms},
                      {"rmse", t.rmse},
                      {"largest_error", t.largest_error},
                      {"relative_error", relative(t)}});
    return print_json({{"model", in},
                       {"out", out},
                       {"type", type},
                       {"bytes_before", bytes_before},
                       {"bytes", bytes},
                       {"tensors", std::move(list)}});
  }
  const int columns = is_terminal(STDOUT_FILENO) ? terminal_width(STDOUT_FILENO) : 1 << 16;
  std::vector<std::vector<std::string>> rows{{"tensor", "from", "to", "error", "largest", "shape"}};
  for (const auto& t : results) {
    if (t.to == t.from) continue;
    rows.push_back({t.name, std::string(gguf::type_name(t.from)),
                    fmt::format("{}{}", gguf::type_name(t.to), t.weighted ? " *" : ""),
                    fmt::format("{:.3g}", relative(t)), fmt::format("{:.3g}", t.largest_error), t.shape.str()});
  }
  if (rows.size() > 1 && !brief) fmt::print("{}", table(rows, {false, false, false, true, true, false}, columns));
  if (std::any_of(results.begin(), results.end(), [](const auto& t) { return t.weighted; }))
    fmt::print("* weighted by the importance matrix\n");
  fmt::print("{} of {} tensors converted, {} to {}\n{}\n", rows.size() - 1, results.size(), format_bytes(bytes_before),
             format_bytes(bytes), out);
}

}  // namespace toy::cli
