// toy merge: a model and its adapters as one model.
#include <fmt/format.h>

#include <filesystem>

#include <algorithm>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/files/model_file.h"
#include "cli/files/rewrite.h"
#include "cli/help.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/run/chat_template_option.h"
#include "toy/base/error.h"
#include "toy/base/gguf_name.h"
#include "toy/models/adapter.h"
#include "toy/models/save_as.h"

namespace toy::cli {
namespace {

struct Merge : Command {
  std::string model_path, out, type = "F32";
  AdapterOptions adapters;
  ChatTemplateOption chat_template;
  int threads = 0;
  bool json = false, overwrite = false;

  void add(CLI::App& app) {
    add_model_option(app, model_path)->required();
    adapters.add(app);
    begin_group(app, "Output");
    add_chat_template(app, chat_template.name, "Chat template to write");
    add_option(app, "--type", type, "Type of the matrices: F32, F16, BF16, or one of `toy quantize`",
               suggested(stored_names()));
    add_option(app, "--out", out, "GGUF file to write", file_name())->required();
    add_overwrite(app, overwrite);
    app.add_flag("--json", json, "With a quantized type, print the errors as a JSON object");
    begin_group(app, "Machine");
    add_option(app, "--threads", threads, "Number of threads; 0 uses every core", from_to(0, 1024));
    show_in_help(app, {"--lora", "--type", "--out", "--overwrite", "--threads"});
    app.footer(
        "Adds each adapter to the weights: w + s b a. With a quantized type, prints the error of each tensor against "
        "the "
        "merged weights in F32. See toy help fine-tuning.md.\n\n"
        "Example:\n"
        "  toy merge base.gguf --lora out/letters --type Q8_0 --out letters.gguf");
  }

  // What was added may be too much for f16.
  static void require_range(const Model& model, std::optional<DType> stored) {
    if (stored != DType::f16) return;
    constexpr float kMost = 65504;
    for (const TensorSpec& t : tensors_of(model.spec))
      for (const float v : model.params->read(t.name))
        check(std::fabs(v) <= kMost, "merge: '{}' holds {}, and f16 goes to {}; use --type BF16 or a smaller scale",
              t.name, v, kMost);
  }

  void run() {
    model_path = model_file(model_path);
    check(!adapters.lora.empty(), "merge: there is nothing to merge; add --lora FILE");
    Rewrite rewrite{
        .in = model_path, .out = out, .type = type, .option = "--out", .json = json, .overwrite = overwrite};
    for (const auto& [path, scale, name] : adapters.given()) {
      refuse_overwriting("out", out, {{"--lora", path}});
      for (const char* file : {"adapter_config.json", "adapter_model.safetensors"})
        refuse_overwriting("out", out, {{"--lora", (std::filesystem::path(path) / file).string()}});
    }
    rewrite.check_out();
    const StoredAs stored = parse_stored_as("--type", type);
    DeviceOptions device;
    device.threads = threads;
    const auto dev = device.make();
    Model model = load_model(model_path, *dev, LoadMode::trainable);
    adapters.apply(model);
    print_warnings(model_path, model.warnings);
    merge_adapters(model);
    if (!chat_template.name.empty())
      model.metadata.insert_or_assign("tokenizer.chat_template",
                                      gguf::Value(chat_template.load(model, model_path)->source()));
    Interrupt interrupt;  // a file is written to its end, or removed
    if (stored.mix.empty()) {
      require_range(model, stored.plain);
      save_model(model, out, stored.plain);
      return fmt::print("{}\n", out), void();
    }
    with_f32_file(model, out, [&](const gguf::File& file) {
      model = {};  // its memory is needed no more
      interrupt.end_by_signal();
      rewrite.run(file, {.mix = stored.mix, .threads = threads});
    });
  }
};

}  // namespace

void add_merge(CLI::App& app) {
  add_subcommand<Merge>(app, "merge", "Fold adapters into a model and write it as GGUF");
}

}  // namespace toy::cli
