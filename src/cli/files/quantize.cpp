// toy quantize: a GGUF again with its matrices in other types, and importance matrices for that.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/files/model_file.h"
#include "cli/files/rewrite.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/run/prompts.h"
#include "toy/base/clock.h"
#include "toy/base/counted.h"
#include "toy/base/error.h"
#include "toy/base/gguf_name.h"
#include "toy/base/glob.h"
#include "toy/base/memory.h"
#include "toy/base/shell_word.h"
#include "toy/eval/importance.h"
#include "toy/formats/requantize.h"

namespace toy::cli {
namespace {

bool is_gguf(std::string_view beginning) { return beginning.starts_with("GGUF"); }

// Ctrl-C between two chunks.
struct Interrupted {};

std::string upper(std::string text) {
  for (char& c : text) c = char(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

constexpr size_t kLittle = 20'000;  // bytes of text: a fifth of what the help asks for

struct Collect : Command {
  std::string model_path, file, out;
  int64_t chunk = 512;
  bool parse_special = true;
  DeviceOptions device;

  void add(CLI::App& app) {
    add_model_option(app, model_path)->required();
    begin_group(app, "Data");
    add_option(app, "--file", file, "Text to read; - reads standard input", file_name())->required();
    add_option(app, "--ctx", chunk, "Tokens read together; the model's context if that is shorter",
               from_to(1, double(int64_t(1) << 24)));
    add_parse_special(app, parse_special);
    begin_group(app, "Output");
    add_option(app, "--out", out, "GGUF file to write, as llama.cpp's tools read it", file_name())->required();
    device.add(app);
    show_in_help(app, {"--file", "--ctx", "--out", "--threads"});
    app.footer(
        "Use a text like those that the model will read, of 100 kB or more.\n\n"
        "Example:\n  toy quantize imatrix model.gguf --file text.txt --out model.imatrix");
  }

  void run() {
    model_path = model_file(model_path);
    check(out != "-", "--out is '-', but the matrix is a file; give its name");
    refuse_overwriting("out", out, {{"--file", file}, {"the model", model_path}});
    refuse_replacing("out", out,
                     [](std::string_view b) { return is_gguf(b) && b.substr(0, 256).find("imatrix") != b.npos; });
    const std::string text = read_text(file);
    const auto dev = device.make();
    const Model model = load_model(model_path, *dev);
    require_tokenizer(model, model_path);
    print_warnings(model_path, model.warnings);
    const std::vector<int32_t> tokens = encode_prompt(*model.tokenizer, text, {.parse_special = parse_special});
    if (text.size() < kLittle)
      to_stderr(fmt::format("toy: {} ({}) are too few to tell which columns matter; use a text of 100 kB or more\n",
                            format_bytes(text.size()), counted(int64_t(tokens.size()), "token")));
    std::optional<Progress> progress(std::in_place);
    Interrupt interrupt;
    const double begin = steady_seconds();
    gguf::Imatrix m;
    try {
      m = measure_importance(*dev, model, tokens, std::min(chunk, model.spec.context),
                             [&](int64_t done, int64_t total) {
                               if (interrupt.signal()) throw Interrupted();
                               const double spent = steady_seconds() - begin;
                               progress->show({.label = "chunk",
                                               .brief = "",
                                               .done = done,
                                               .total = total,
                                               .seconds_left = spent / double(done) * double(total - done)});
                             });
    } catch (const Interrupted&) {
      progress.reset();
      return interrupt.end_by_signal();
    }
    progress.reset();
    m.datasets = {file};
    gguf::write_imatrix(m, out);
    to_stderr(fmt::format("{} matrices, {} chunk{} of {} tokens\n", m.columns.size(), m.chunks,
                          m.chunks == 1 ? "" : "s", m.chunk_size));
    fmt::print("{}\n", out);
  }
};

struct Quantize : Command {
  std::string in, out, type, imatrix;
  std::vector<std::string> tensors;
  int threads = 0;
  bool pure = false, json = false, overwrite = false;

  void add(CLI::App& app) {
    app.require_subcommand(0, 1);
    add_option(app, "in", in, "Model to read: GGUF file, name in `toy list`, or a run", file_name());
    add_option(app, "out", out, "GGUF file to write", file_name());
    begin_group(app, "Quantization");
    std::vector<std::string> names;
    for (const std::string_view name : gguf::mix_names()) names.emplace_back(name);
    add_option(app, "--type", type, "Type or mix of llama.cpp; case does not matter", suggested(names));
    add_option(app, "--tensor", tensors, "Type of the matrices whose names fit; the first that fits decides")
        ->option_text("PATTERN=TYPE");
    add_option(app, "--imatrix", imatrix, "Importance matrix, from `toy quantize imatrix` or llama.cpp", file_name());
    app.add_flag("--pure", pure, "Give every matrix the mix's base type");
    begin_group(app, "Output");
    add_overwrite(app, overwrite);
    app.add_flag("--json", json, "Print a JSON object");
    begin_group(app, "Machine");
    add_option(app, "--threads", threads, "Number of threads; 0 uses every core", from_to(0, 1024));
    show_in_help(app, {"--type", "--tensor", "--imatrix", "--overwrite", "--json", "--threads"});
    app.footer("Types and mixes: " + fmt::format("{}", fmt::join(names, ", ")) +
               ".\n\nThe error of a tensor is the root mean square of what changed, divided by that of its values.\n\n"
               "Examples:\n"
               "  toy quantize model.gguf small.gguf --type Q4_K_M\n"
               "  toy quantize model.gguf small.gguf --type Q4_K_M --tensor 'blk.0.*=Q8_0' --imatrix model.imatrix");
    add_subcommand<Collect>(app, "imatrix", "Measure which columns matter on a text");
  }

  void run() {
    if (!parser->get_subcommands().empty()) return;
    check(!in.empty(), "MODEL and OUT are missing, the file to read and the one to write; see `toy quantize --help`");
    check(!out.empty(), "OUT is missing; write toy quantize {} OUT.gguf --type {}", shell_quoted(in),
          type.empty() ? "Q4_K_M" : type);
    const auto names = gguf::mix_names();
    check(!type.empty() || std::ranges::find(names, upper(out)) == names.end(),
          "'{}' is a type, and OUT is missing; write toy quantize {} OUT.gguf --type {}", out, in, out);
    check(!type.empty(), "--type is missing; use e.g. --type Q4_K_M");
    in = model_file(in);
    const Rewrite rewrite{.in = in, .out = out, .type = type, .json = json, .overwrite = overwrite};
    rewrite.check_out();
    std::error_code error;
    check(!std::filesystem::equivalent(out, imatrix, error),
          "OUT is '{}', which is the importance matrix; choose another name", out);
    gguf::RequantizeOptions o{.mix = type, .pure = pure, .types = {}, .threads = threads};
    if (upper(type) == "MXFP4") o.mix = "MXFP4_MOE", o.pure = true;
    for (const std::string& t : tensors) try {
        o.types.push_back(gguf::parse_type_rule(t));
      } catch (const Error& e) {
        fail("--tensor is {}", e.what());
      }
    std::optional<gguf::Imatrix> importance;
    if (!imatrix.empty()) importance = gguf::read_imatrix(imatrix), o.imatrix = &*importance;
    const gguf::File file = gguf::File::open(in);
    check_plan(plan_requantize(file, o), o);
    rewrite.run(file, o);
  }

  // What must be wrong, and what the user should know.
  void check_plan(const std::vector<gguf::RequantizedTensor>& plan, const gguf::RequantizeOptions& o) const {
    for (size_t i = 0; i < o.types.size(); ++i) {
      std::vector<std::string> names;
      bool changes = false;
      for (const gguf::RequantizedTensor& t : plan)
        if (matches(o.types[i].first, t.name)) {
          names.push_back(t.name);
          changes = changes || t.to != t.from || t.to == o.types[i].second;
        }
      check(!names.empty(), "--tensor is '{}'; no tensor of {} fits the pattern; names are like {}", tensors[i], in,
            plan.empty() ? "" : plan[plan.size() / 2].name);
      check(changes, "--tensor is '{}'; tensors that fit the pattern keep their type: {}", tensors[i],
            fmt::join(names, ", "));
    }
    const auto quantized = [](const gguf::RequantizedTensor& t) { return t.to != t.from && is_quantized(t.to); };
    check(!o.imatrix || std::none_of(plan.begin(), plan.end(), quantized) ||
              std::any_of(plan.begin(), plan.end(), [](const auto& t) { return t.weighted; }),
          "{}: it has none of the matrices of {}; measure one with `toy quantize imatrix`", imatrix, in);
    constexpr int64_t kBlock = 256;  // of K- and IQ-quants
    const std::string name = upper(type);
    const auto odd = std::count_if(plan.begin(), plan.end(), [](const gguf::RequantizedTensor& t) {
      return t.to != t.from && t.shape.rank() > 1 && t.shape[t.shape.rank() - 1] % kBlock != 0;
    });
    if (odd > 0 && (name.find("_K") != name.npos || name.starts_with("IQ")))
      to_stderr(
          fmt::format("toy: {}: {} matrices have rows that are no multiple of {}, so they get another type than "
                      "those of {}\n",
                      in, odd, kBlock, type));
    if (std::any_of(plan.begin(), plan.end(), [&](const auto& t) { return quantized(t) && is_quantized(t.from); }))
      to_stderr(
          fmt::format("toy: {}: the weights are quantized already; quantizing them again adds to their error\n", in));
  }
};

}  // namespace

void add_quantize(CLI::App& app) {
  add_subcommand<Quantize>(app, "quantize", "Write a GGUF with its matrices in another type");
}

}  // namespace toy::cli
