// Files of models that become others, and logs of runs, for bindings.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bind/shared_device.h"
#include "toy/base/options.h"

namespace toy::bind {

/// Of whatever writes a model.
inline constexpr Option kOverwrite{"overwrite", "Replace a model of this name", {}, "Output"};
/// Throws Error{bad_input} naming `option` where `out` is a file that is not empty, unless it may be replaced; `how`
/// says what allows that.
void require_new(const std::string& option, const std::string& out, bool overwrite, std::string_view how);
/// The same of a binding's `out`; also throws where that is `model`, or a file that is no model.
void require_free(const std::string& out, const std::string& model, bool overwrite);

/// How `quantize` writes a file.
struct QuantizeOptions {
  std::string type, imatrix;
  std::vector<std::string> tensor;
  bool pure = false, overwrite = false;
  int threads = 0;
  /// See toy/base/options.h.
  static void fields(auto& o, auto&& f) {
    f(text_option("type", "Type or mix of llama.cpp; case does not matter", "Quantization", "TYPE"), o.type);
    f(text_option("tensor", "Type of the matrices whose names fit; the first that fits decides", "Quantization",
                  "PATTERN=TYPE"),
      o.tensor);
    f(text_option("imatrix", "Importance matrix, from `toy quantize imatrix` or llama.cpp", "Quantization", "FILE"),
      o.imatrix);
    f({"pure", "Give every matrix the mix's base type", {}, "Quantization"}, o.pure);
    f(kOverwrite, o.overwrite);
    f({"threads", "Number of threads; 0 uses every core", from_to(0, 1024), "Machine"}, o.threads);
  }
};

/// How `merge` writes a file.
struct MergeOptions : DeviceOptions {
  std::vector<std::string> lora;
  std::string type = "F32";
  bool overwrite = false;
  /// See toy/base/options.h.
  static void fields(auto& o, auto&& f) {
    f(text_option("lora", "Adapters: a GGUF, the folder of a run or of PEFT, maybe times :SCALE", "Model",
                  "FILE[:SCALE]"),
      o.lora);
    f(text_option("type", "Type of the matrices: F32, F16, BF16, or one of quantize", "Output", "TYPE"), o.type);
    f(kOverwrite, o.overwrite);
    DeviceOptions::fields(o, f);
  }
};

/// Called between two tensors; what it throws ends the work, and nothing remains.
using Between = std::function<void()>;

/// `toy quantize`: writes the GGUF `out`. Returns what became of the tensors, a JSON list of {"name", "from", "to",
/// "error"}: the root mean square of what changed, divided by that of the values. All three throw Error{bad_input} for
/// an `out` that is the model, or exists and is no GGUF.
std::string quantize(const std::string& model, const std::string& out, std::string_view json, const Between& between);
/// `toy merge`: a model and its adapters as one model.
void merge(const std::string& model, const std::string& out, std::string_view json);

/// What a run has left.
struct BoundRun {
  std::string folder, summary;      ///< summary: a JSON object
  std::vector<std::string> events;  ///< lines of JSON
  std::vector<std::string> warnings;
};
/// The run of a folder, an id or a log. Throws Error{bad_input}.
BoundRun read_run(const std::string& what);
/// A metric of several runs, drawn.
std::string runs_svg(std::span<const std::string> whats, const std::string& metric);

}  // namespace toy::bind
