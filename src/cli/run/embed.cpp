// toy embed: texts to vectors.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>

#include "bind/embed_texts.h"
#include "cli/command.h"
#include "cli/console.h"
#include "cli/files/model_file.h"
#include "cli/options.h"
#include "cli/outputs.h"
#include "cli/run/text_lines.h"
#include "toy/base/atomic_file.h"
#include "toy/base/error.h"
#include "toy/decode/encoder.h"

namespace toy::cli {
namespace {

constexpr std::string_view kNpy("\x93NUMPY\x01\x00", 8);

// NumPy's format 1.0: f32 [rows,width].
void write_npy(const std::string& path, const std::vector<std::vector<float>>& rows) {
  static_assert(std::endian::native == std::endian::little, "'<f4' is little-endian");
  std::string header =
      fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows.size(), rows.front().size());
  header.resize((kNpy.size() + 2 + header.size() + 1 + 63) / 64 * 64 - kNpy.size() - 2, ' ');
  header.back() = '\n';
  AtomicFile file(path);
  file.write(kNpy);
  file.write(std::string{char(header.size() % 256), char(header.size() / 256)});
  file.write(header);
  for (const std::vector<float>& row : rows)
    file.write(std::string_view(reinterpret_cast<const char*>(row.data()), row.size() * sizeof(float)));
  file.commit();
}

struct Embed : Command {
  std::string model_path, text, file, out;
  bind::EmbedTextOptions given_options;
  EmbedOptions o;
  DeviceOptions device;
  AdapterOptions adapters;
  bool raw = false, json = false, overwrite = false;

  void add(CLI::App& app) {
    add_model_option(app, model_path)->required();
    adapters.add(app);
    begin_group(app, "Texts");
    CLI::Option* one = app.add_option("text", text, "Text to embed");
    add_option(app, "--file", file, "File with one text per line, as text or JSON; - reads standard input", file_name())
        ->excludes(one);
    add_text_option(app, "--prefix", given_options.prefix, "Put this before each text, such as \"query: \"");
    begin_group(app, "Embeddings");
    add_option(app, "--pooling", given_options.pooling,
               "Vectors of tokens to one of the text (default: as the model's file says)",
               one_of({"mean", "cls", "last", "none"}));
    add_option(app, "--dimensions", given_options.dimensions,
               "Keep the first N numbers, of models trained for it; 0 keeps all", at_least(0));
    app.add_flag("--raw", raw, "Do not scale vectors to length 1");
    begin_group(app, "Output");
    app.add_flag("--json", json, "Print a JSON object per text: tokens, embedding");
    add_option(app, "--out", out, "Write all vectors to a file of NumPy (.npy) instead", file_name());
    app.add_flag("--overwrite", overwrite, "Replace a file of NumPy of this name");
    begin_group(app, "Machine");
    device.add(app);
    show_in_help(app, {"--file", "--prefix", "--pooling", "--dimensions", "--raw", "--json", "--out", "--threads"});
    app.footer(
        "Longer texts than the model takes are cut. A text has the same vector by itself and among others (toy help "
        "embeddings.md).\n\n"
        "Examples:\n"
        "  toy embed all-minilm-l6-v2.gguf \"a badger in its den\" --json\n"
        "  toy embed all-minilm-l6-v2.gguf --file passages.txt --out passages.npy");
  }

  std::vector<std::vector<int32_t>> tokens(const Model& model, std::vector<bool>& cut) const {
    check(given("text") || given("--file"), "there is no text; give one, or --file with a text per line");
    note_text(text, "--file");
    const std::vector<bind::TextToEmbed> sources =
        file.empty() ? std::vector<bind::TextToEmbed>{{"text", text}} : read_text_lines(file);
    std::vector<std::vector<int32_t>> ids = bind::ids_to_embed(model, model_path, sources, given_options.prefix,
                                                               R"(give token ids: {"ids": [1, 2]} in --file)", cut);
    note_cut_texts(cut, most_tokens_to_embed(model));
    return ids;
  }

  void print(size_t tokens, bool is_cut, const std::vector<float>& vector, size_t width) const {
    if (!json) {
      fmt::print("{}\n", fmt::join(vector, " "));
      return;
    }
    std::string list;  // with the shortest digits that are the same f32
    for (size_t at = 0; o.pooling == Pooling::none && at < vector.size(); at += width)
      list += fmt::format("{}[{}]", at > 0 ? "," : "", fmt::join(std::span(vector).subspan(at, width), ","));
    fmt::print("{{\"tokens\":{},{}{}}}\n", tokens, is_cut ? "\"cut\":true," : "",
               o.pooling == Pooling::none ? fmt::format("\"embeddings\":[{}]", list)
                                          : fmt::format("\"embedding\":[{}]", fmt::join(vector, ",")));
  }

  void run() {
    check(out.empty() || !json, "--json prints and --out writes a file; use one of them");
    check(out.empty() || out.ends_with(".npy"),
          "--out is '{}', but the file is one of NumPy; use a name that ends with .npy, or print with --json", out);
    if (!out.empty())
      refuse_losing("--out", out, overwrite, [](std::string_view beginning) { return beginning.starts_with(kNpy); });
    model_path = model_file(model_path, text);
    const auto dev = device.make();
    Model model = load_model(model_path, *dev);
    adapters.apply(model);
    print_warnings(model_path, model.warnings);
    given_options.normalize = !raw;
    o = given_options.of(model, "--");
    check(o.pooling != Pooling::none || json, "--pooling none gives a vector for each token; add --json");
    std::vector<bool> cut;
    const std::vector<std::vector<int32_t>> ids = tokens(model, cut);
    const auto vectors = with_sound_weights({model_path}, [&] { return embed_tokens(*dev, model, ids, o); });
    if (!out.empty()) return write_npy(out, vectors);
    for (size_t i = 0; i < ids.size(); ++i) print(ids[i].size(), cut[i], vectors[i], vectors[i].size() / ids[i].size());
  }
};

}  // namespace

void add_embed(CLI::App& app) { add_subcommand<Embed>(app, "embed", "Turn texts into vectors"); }

}  // namespace toy::cli
