#include "cli/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>

#include "cli/console.h"
#include "toy/base/error.h"
#include "toy/base/gguf_name.h"
#include "toy/base/memory.h"
#include "toy/base/utf8.h"
#include "toy/models/spec.h"

namespace toy::cli {

void DeviceOptions::add(CLI::App& app) {
  begin_group(app, "Machine");
  std::vector<std::string> names;
  std::string titles;
  for (const DeviceKind& kind : devices()) {
    names.emplace_back(kind.name);
    titles += fmt::format("; {}: {}", kind.name, kind.title);
  }
  add_option(app, "--device", device, "Device" + titles, one_of(names));
  add_option(app, "--threads", threads, "Number of threads; 0 uses every core", from_to(0, 1024));
}

std::unique_ptr<Device> DeviceOptions::make() const { return make_device(device, {.threads = threads}); }

namespace {
const std::vector<std::string> kKvTypes{"f32", "f16", "q8_0"}, kRepack{"auto", "off"}, kBool{"true", "false"};
}

CLI::Option* add_kv_option(CLI::App& app, std::string& kv) {
  begin_group(app, "Machine");
  return add_option(app, "--kv", kv, "Type of keys and values (default: f32 for F32 models, else f16)",
                    one_of(kKvTypes));
}

std::optional<DType> kv_type(const std::string& kv) {
  for (const DType type : {DType::f32, DType::f16, DType::q8_0})
    if (kv == name_of(type)) return type;
  return std::nullopt;
}

void DecodingOptions::add(CLI::App& app) {
  add_kv_option(app, kv);
  app.add_flag("--exact", exact, "Multiply quantized weights with activations that are not rounded (slower)");
  add_option(app, "--repack", repack, "Copy quantized weights into a faster order; auto if it pays", one_of(kRepack));
}

DecodingOptions DecodingOptions::with(std::string_view what, std::string_view list) const {
  DecodingOptions o = *this;
  if (list.empty()) return o;
  for (const ListedWord& l : read_list(what, list, {.between = ',', .words = {"kv", "exact", "repack"}})) {
    const std::vector<std::string>& values = l.word == "kv" ? kKvTypes : l.word == "exact" ? kBool : kRepack;
    const std::string value = l.settings.empty() ? "" : l.settings[0].second;
    const bool is_set = l.settings.empty() && l.word == "exact";
    check(is_set || (l.settings.size() == 1 && l.settings[0].first == l.word && std::ranges::count(values, value)),
          "{}: {} takes {} in its brackets", what, l.word, alternatives(values));
    if (l.word == "kv")
      o.kv = value;
    else if (l.word == "exact")
      o.exact = is_set || value == "true";
    else
      o.repack = value;
  }
  return o;
}

std::optional<DType> DecodingOptions::type() const { return kv_type(kv); }

bool DecodingOptions::repacks(const Model& model, int64_t generated, int64_t scored) const {
  constexpr int64_t kLeastGenerated = 256, kLeastScored = 4096;  // below, making the copy takes longer than it saves
  if (repack == "off" || exact || (generated < kLeastGenerated && scored < kLeastScored)) return false;
  size_t bytes = 0;
  for (const TensorSpec& t : tensors_of(model.spec))
    if (const DType stored = model.params->stored(t.name); is_quantized(stored)) bytes += bytes_of(stored, t.shape);
  return bytes <= model.params->device().memory().free / 2;
}

size_t likely_cache(const Model& model, const DecoderOptions& options) {
  const DecodeShape shape = decode_shape(model, options);
  const double pages = double(shared_page_bytes(model.spec, shape)) * double(shape.pages()),
               snapshots = 8.0 * double(shape.sequences) * double(kept_state_bytes(model.spec, shape));
  const double more = snapshots > 0 ? 2 * std::max(pages, snapshots) - pages : 0,
               all = double(state_bytes(model.spec, shape)) + more;
  const size_t half = model.params->device().memory().free / 2;
  return half > 0 && all > double(half) ? half : size_t(all);
}

void ComputeOptions::add(CLI::App& app) {
  begin_group(app, "Machine");
  add_option(app, "--compute", compute, "Type of matrix products; auto measures and takes the faster",
             one_of({"f32", "bf16", "auto"}));
}

DType ComputeOptions::choose(Device& device) const {
  if (compute == "f32") return DType::f32;
  if (compute == "bf16") return DType::bf16;
  constexpr double kWorthIt = 1.2;  // bf16 costs precision: a tie goes to f32
  const double speedup = bf16_speedup(device);
  const DType chosen = speedup >= kWorthIt ? DType::bf16 : DType::f32;
  to_stderr(
      speedup > 0
          ? fmt::format("compute: {}; bf16 products are {:.2f} times as fast as f32 here\n", name_of(chosen), speedup)
          : fmt::format("compute: {}; device '{}' has no bf16 products\n", name_of(chosen), device.name()));
  return chosen;
}

CLI::Option* add_optimizer_option(CLI::App& app, std::string& optimizer) {
  std::vector<std::string> names;
  for (const auto& [name, kind] : NamesOf<OptimizerOptions::Kind>::list) names.emplace_back(name);
  begin_group(app, "Optimizer");
  return add_option(
      app, "--optimizer", optimizer,
      fmt::format("Optimizer, such as 'sgd(momentum=0.8)': {}; docs/training.md has the settings", alternatives(names)),
      suggested(names));
}

CLI::Option* add_update_option(CLI::App& app, std::string& update) {
  begin_group(app, "Optimizer");
  return add_option(app, "--update", update,
                    "Update weights after backward, or during it with less memory and no clipping",
                    one_of({"gathered", "streaming"}));
}

TrainerOptions::Updates updates_of(const std::string& update) {
  return update == "gathered" ? TrainerOptions::gathered : TrainerOptions::streaming;
}

void MemoryOption::add(CLI::App& app) {
  begin_group(app, "Machine");
  add_option(app, "--memory", memory, "Memory limit, such as 4G or 512M; recomputes activations to keep it",
             not_empty())
      ->option_text("SIZE");
}

size_t MemoryOption::bytes() const { return memory.empty() ? 0 : parse_bytes("memory", memory); }

void refuse_replacing(const std::string& option, const std::string& out, const IsOwn& is_own) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(out, error) || std::filesystem::file_size(out, error) == 0) return;
  std::string beginning(size_t(64) << 10, '\0');
  std::ifstream file(out, std::ios::binary);
  file.read(beginning.data(), std::streamsize(beginning.size()));
  beginning.resize(size_t(file.gcount()));
  check(is_own(beginning), "{}: '{}' exists and was not written by this command; use another name, or remove it",
        option, out);
}

void add_parse_special(CLI::App& app, bool& value) {
  app.add_flag("--parse-special,!--no-parse-special", value,
               "Read names of control tokens in the text as tokens (default: on)");
}

void add_check_finite(CLI::App& app, bool& value) {
  begin_group(app, "Debugging");
  app.add_flag("--check-finite", value, "Stop at the first op with a result that is not finite, and name it (slower)");
}

CLI::Option* add_context_option(CLI::App& app, int64_t& context, const char* help) {
  constexpr int64_t kMost = int64_t(1) << 24;  // as ModelSpec::validate
  return add_option(app, "--ctx", context, help, from_to(0, kMost));
}

void warn_of_long_context(const std::string& path, const ModelSpec& spec, int64_t positions) {
  if (positions > spec.context)
    to_stderr(fmt::format("toy: {}: the model was trained for {} positions; expect worse predictions with {}\n", path,
                          spec.context, positions));
}

void print_warnings(const std::string& path, const std::vector<std::string>& warnings) {
  for (const std::string& w : warnings) to_stderr(fmt::format("toy: {}: {}\n", path, one_line(w)));
}

namespace {

constexpr const char* kTextOptions[] = {"--prompt", "--text", "--stop",
                                        "--system"};  // without letters, see protect_texts
constexpr char kMark = '\x01';                        // protect_texts puts it before a value, the option removes it

}  // namespace

bool takes_any_text(const std::string& word) {
  return word == "-p" || std::find(std::begin(kTextOptions), std::end(kTextOptions), word) != std::end(kTextOptions);
}

std::vector<std::string> protect_texts(const std::vector<std::string>& given) {
  std::vector<std::string> words;
  for (size_t i = 0; i < given.size(); ++i) {
    std::string word = given[i] == "-p" ? "--prompt" : given[i];
    // -n=3 is --n=3; the parser would take "=3".
    if (word.size() > 3 && word[0] == '-' && word[1] != '-' && word[2] == '=') word.erase(2, 1);
    const size_t equals = word.find('=');
    const bool is_text = takes_any_text(word.substr(0, equals)) && given[0] != "bench";  // its --prompt is a number
    if (is_text && equals != word.npos)
      word.insert(equals + 1, 1, kMark);
    else if (is_text && i + 1 < given.size())
      word += std::string("=") + kMark + given[++i];
    words.push_back(word);
  }
  return words;
}

CLI::Validator unmarked() {
  const auto remove = [](std::string& text) {
    if (text.starts_with(kMark)) text.erase(0, 1);
    return std::string();
  };
  return {remove, "", ""};
}

}  // namespace toy::cli
