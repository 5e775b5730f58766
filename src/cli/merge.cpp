// toy merge: a model and its adapters as one model.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/help.h"
#include "cli/model_file.h"
#include "cli/options.h"
#include "cli/rewrite.h"
#include "toy/base/error.h"
#include "toy/models/adapter.h"

namespace toy::cli {
namespace {

// Removed when it goes, whatever happens.
struct TemporaryFile {
  std::string path;
  ~TemporaryFile() {
    std::error_code none;
    std::filesystem::remove(path, none);
  }
};

struct Merge : Command {
  std::string model_path, out, type = "F32";
  AdapterOptions adapters;
  int threads = 0;
  bool json = false;

  void add(CLI::App& app) {
    add_model_option(app, model_path)->required();
    adapters.add(app);
    begin_group(app, "Output");
    std::vector<std::string> names{"F32", "BF16"};
    for (const std::string_view name : gguf::mix_names()) names.emplace_back(name);
    add_option(app, "--type", type, "Type of the matrices: F32, F16, BF16, or one of `toy quantize`", suggested(names));
    add_option(app, "--out", out, "GGUF file to write", file_name())->required();
    app.add_flag("--json", json, "With a quantized type, print the errors as a JSON object");
    begin_group(app, "Machine");
    add_option(app, "--threads", threads, "Number of threads; 0 uses every core", from_to(0, 1024));
    show_in_help(app, {"--lora", "--type", "--out", "--threads"});
    app.footer(
        "Adds each adapter to the weights: w + s b a. With a quantized type, prints the error of each tensor against "
        "the "
        "merged weights in F32. See docs/fine-tuning.md.\n\n"
        "Example:\n"
        "  toy merge base.gguf --lora out/letters --type Q8_0 --out letters.gguf");
  }

  void run() {
    check(!adapters.lora.empty(), "merge: there is nothing to merge; add --lora FILE");
    model_path = model_file(model_path);
    Rewrite rewrite{.in = model_path, .out = out, .type = type, .json = json};
    rewrite.check_out();
    std::string upper = type;
    for (char& c : upper) c = char(std::toupper(static_cast<unsigned char>(c)));
    const std::optional<DType> plain = upper == "F32"    ? std::optional(DType::f32)
                                       : upper == "F16"  ? std::optional(DType::f16)
                                       : upper == "BF16" ? std::optional(DType::bf16)
                                                         : std::nullopt;
    gguf::RequantizeOptions o{.mix = upper, .pure = false, .types = {}, .threads = threads};
    if (!plain) plan_requantize(gguf::File::open(model_path), o);  // refuses an unknown type now
    TemporaryFile whole{plain ? "" : out + ".merging"};
    {
      DeviceOptions device;
      device.threads = threads;
      const auto dev = device.make();
      Model model = load_model(model_path, *dev, LoadMode::trainable);
      print_warnings(model_path, model.warnings);
      adapters.apply(model);
      merge_adapters(model);
      save_model(model, plain ? out : whole.path, plain.value_or(DType::f32));
    }
    if (plain) return fmt::print("{}\n", out), void();
    rewrite.in = whole.path;
    rewrite.run(gguf::File::open(whole.path), o);
  }
};

}  // namespace

void add_merge(CLI::App& app) {
  add_subcommand<Merge>(app, "merge", "Fold adapters into a model and write it as GGUF");
}

}  // namespace toy::cli
