#include "cli/options.h"

#include "cli/console.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>

#include "toy/base/error.h"
#include "toy/base/memory.h"
#include "toy/base/utf8.h"
#include "toy/models/spec.h"

namespace toy::cli {

void DeviceOptions::add(CLI::App& app) {
  app.add_option("--device", device,
                 "cpu (f32, SIMD) or reference (f64 plain loops on one thread, slow: what every op means)")
      ->capture_default_str();
  app.add_option("--threads", threads, "number of threads, 1 to 1024; 0: every core. Results do not depend on it")
      ->capture_default_str();
}

std::unique_ptr<Device> DeviceOptions::make() const {
  check(threads >= 0 && threads <= 1024, "threads: {} is not in 1 to 1024 (0 uses every core)", threads);
  if (device == "cpu") return make_cpu_device(threads);
  if (device == "reference") return make_reference_device();
  const std::string near = nearest(device, {"cpu", "reference"});
  fail("device '{}' is not there; this build has: cpu, reference{}", device,
       near.empty() ? "" : "; did you mean '" + near + "'?");
}

void ComputeOptions::add(CLI::App& app) {
  app.add_option("--compute", compute,
                 "products of a training step: f32, bf16 (operands rounded, sums in f32), or auto: whichever is faster "
                 "here. Runs with different choices differ in their last digits")
      ->capture_default_str();
}

DType ComputeOptions::choose(Device& device) const {
  if (compute == "f32") return DType::f32;
  if (compute == "bf16") return DType::bf16;
  check(compute == "auto", "compute '{}' is not one of f32, bf16, auto", compute);
  constexpr double kWorthIt = 1.2;  // bf16 costs precision: a tie goes to f32
  const double speedup = bf16_speedup(device);
  const DType chosen = speedup >= kWorthIt ? DType::bf16 : DType::f32;
  to_stderr(speedup > 0
                ? fmt::format("compute: {}; products in bf16 are {:.2f} times as fast as in f32 here\n",
                              name_of(chosen), speedup)
                : fmt::format("compute: {}; device '{}' has no products in bf16\n", name_of(chosen), device.name()));
  return chosen;
}

namespace {

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const OptimizerInfo& info : optimizers()) names.emplace_back(info.name);
  return names;
}

}  // namespace

CLI::Option* add_optimizer_option(CLI::App& app, std::string& optimizer) {
  return app.add_option("--optimizer", optimizer, fmt::format("{}", fmt::join(optimizer_names(), ", ")))
      ->capture_default_str();
}

const OptimizerInfo& optimizer_of(const std::string& optimizer) {
  for (const OptimizerInfo& info : optimizers())
    if (optimizer == info.name) return info;
  const std::string near = nearest(optimizer, optimizer_names());
  fail("optimizer '{}' is not one of {}{}", optimizer, fmt::join(optimizer_names(), ", "),
       near.empty() ? "" : "; did you mean '" + near + "'?");
}

CLI::Option* add_update_option(CLI::App& app, std::string& update) {
  return app
      .add_option(
          "--update", update,
          "gathered: all gradients, their norm, clipping, then the updates; streaming: each gradient is used and "
          "forgotten as soon as it is complete, which takes less memory and time but cannot clip (--clip 0)")
      ->capture_default_str();
}

TrainerOptions::Updates updates_of(const std::string& update) {
  check(update == "gathered" || update == "streaming", "update '{}' is not one of gathered, streaming", update);
  return update == "gathered" ? TrainerOptions::gathered : TrainerOptions::streaming;
}

void MemoryOption::add(CLI::App& app) {
  app.add_option("--memory", memory,
                 "SIZE, as 4G, 512M or 6.5GB: the whole process keeps below it. Where it would not, as few activations "
                 "as need be are computed again in backward in place of being kept, which takes longer and gives the "
                 "same bits (default: nothing is computed again)");
}

size_t MemoryOption::bytes() const { return memory.empty() ? 0 : parse_bytes("memory", memory); }

void refuse_overwriting(const std::string& option, const std::string& out,
                        std::initializer_list<std::pair<const char*, std::string>> inputs) {
  for (const auto& [name, path] : inputs) {
    std::error_code error;  // a file that is not there is nobody's input
    check(!std::filesystem::equivalent(out, path, error),
          "{}: '{}' is what {} reads, and would be lost; choose another name", option, out, name);
  }
}

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

CLI::Option* add_seed_option(CLI::App& app, uint64_t& seed, const char* help) {
  return app.add_option("--seed", seed, help)->capture_default_str();
}

void add_check_finite(CLI::App& app, bool& value) {
  app.add_flag("--check-finite", value,
               "look at every result of every op, and end with exit code 1 at the first that is not finite: layer, op, "
               "forward or backward, how many values, which. Slower");
}

void check_context(int64_t context) {
  constexpr int64_t kMost = int64_t(1) << 24;  // as ModelSpec::validate
  check(context >= 0 && context <= kMost, "ctx is {}, expected 1 to {} positions, or 0: the model's own", context,
        kMost);
}

void warn_of_long_context(const std::string& path, const ModelSpec& spec, int64_t positions) {
  if (positions > spec.context)
    to_stderr(fmt::format("toy: {}: the model was made for {} positions; with {} expect worse predictions\n", path,
                          spec.context, positions));
}

void print_warnings(const std::string& path, const std::vector<std::string>& warnings) {
  for (const std::string& w : warnings) to_stderr(fmt::format("toy: {}: {}\n", path, one_line(w)));
}

namespace {

constexpr const char* kTextOptions[] = {"--prompt", "--text", "--stop"};
constexpr char kMark = '\x01';  // put in front of the value by protect_texts, taken away by the option

}  // namespace

std::string unmarked(const std::string& v) { return !v.empty() && v[0] == kMark ? v.substr(1) : v; }

CLI::Option* add_text_option(CLI::App& app, const char* name, std::string& value, const char* help) {
  return app.add_option_function<std::string>(
      name, [&value](const std::string& v) { value = unmarked(v); }, help);
}

CLI::Option* add_text_list_option(CLI::App& app, const char* name, std::vector<std::string>& values, const char* help) {
  return app
      .add_option_function<std::vector<std::string>>(
          name,
          [&values](const std::vector<std::string>& list) {
            for (const std::string& v : list) values.push_back(unmarked(v));
          },
          help)
      ->allow_extra_args(false);
}

std::vector<std::string> protect_texts(int argc, char** argv) {
  std::vector<std::string> words;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    if (i > 1 && words.front() == "bench") {  // its --prompt is a number of tokens
      words.push_back(word);
      continue;
    }
    for (const std::string name : kTextOptions) {
      if (word == name && i + 1 < argc)
        word = name + "=" + kMark + argv[++i];
      else if (word.starts_with(name + "="))
        word.insert(name.size() + 1, 1, kMark);
      else
        continue;
      break;
    }
    words.push_back(word);
  }
  return words;
}

std::string flag_name(const CLI::Option& flag, bool value) {
  return value || flag.get_fnames().empty() ? flag.get_name() : "--" + flag.get_fnames()[0];
}

std::string shell_quoted(const std::string& text) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_-./:,=+@%").find(c) != std::string_view::npos;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), plain)) return text;
  if (one_line(text) != text) {
    std::string escaped = "$'";
    for (const char c : text)
      escaped +=
          c >= ' ' && c <= '~' && c != '\'' && c != '\\' ? std::string(1, c) : fmt::format("\\{:03o}", uint8_t(c));
    return escaped + "'";
  }
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace toy::cli
