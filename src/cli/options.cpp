#include "cli/options.h"

#include "cli/console.h"

#include <fmt/format.h>

#include "toy/base/error.h"
#include "toy/models/spec.h"

namespace toy::cli {

void DeviceOptions::add(CLI::App& app) {
  app.add_option("--device", device, "cpu (f32, SIMD) or reference (f64 plain loops, slow: what every op means)")
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

void print_warnings(const std::string& path, const std::vector<std::string>& warnings) {
  for (const std::string& w : warnings) to_stderr(fmt::format("toy: {}: {}\n", path, w));
}

namespace {

constexpr const char* kTextOptions[] = {"--prompt", "--text", "--stop"};
constexpr char kMark = '\x01';  // put in front of the value by protect_texts, taken away by the option

std::string unmarked(const std::string& v) { return !v.empty() && v[0] == kMark ? v.substr(1) : v; }

}  // namespace

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

}  // namespace toy::cli
