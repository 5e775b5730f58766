// toy convert: a model in another form.
#include <fmt/format.h>

#include "cli/command.h"
#include "cli/model_file.h"
#include "cli/options.h"
#include "cli/rewrite.h"
#include "toy/base/error.h"

namespace toy::cli {
namespace {

struct Convert : Command {
  Rewrite rewrite;
  int threads = 0;

  void add(CLI::App& app) {
    rewrite.brief = true;
    add_option(app, "in", rewrite.in, "Model to read: GGUF file, name in `toy list`, or a run", file_name())
        ->required();
    add_option(app, "out", rewrite.out, "GGUF file to write", file_name())->required();
    add_option(app, "--type", rewrite.type, "Type of the matrices", one_of({"f32", "f16", "bf16"}))->required();
    begin_group(app, "Output");
    app.add_flag("--json", rewrite.json, "Print a JSON object");
    begin_group(app, "Machine");
    add_option(app, "--threads", threads, "Number of threads; 0 uses every core", from_to(0, 1024));
    app.footer(
        "Quantized matrices become floats with the values that they stand for. `toy quantize` goes the other way.\n\n"
        "Example:\n  toy convert model-q4_k_m.gguf model-f32.gguf --type f32");
  }

  void run() {
    rewrite.in = model_file(rewrite.in);
    rewrite.check_out();
    rewrite.run(gguf::File::open(rewrite.in), {.mix = rewrite.type, .types = {}, .threads = threads});
  }
};

}  // namespace

void add_convert(CLI::App& app) { add_subcommand<Convert>(app, "convert", "Write a GGUF with its matrices as floats"); }

}  // namespace toy::cli
