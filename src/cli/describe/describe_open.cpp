// What `toy describe` describes: opened, and its graphs built.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>

#include "cli/console.h"
#include "cli/describe/describe.h"
#include "cli/files/model_file.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/nearest.h"
#include "toy/base/run_files.h"
#include "toy/base/shell_word.h"
#include "toy/base/utf8.h"
#include "toy/decode/decoder.h"
#include "toy/decode/encoder.h"
#include "toy/find/find_model.h"
#include "toy/formats/gguf.h"
#include "toy/models/vision.h"
#include "toy/runs/run.h"

namespace toy::cli {
namespace {

namespace fs = std::filesystem;

bool is_size(const std::string& what) {
  const auto names = size_names();
  return std::find(names.begin(), names.end(), what) != names.end();
}

// Of "spm:512" or "bytes"; 0 where there is none. What training would refuse is refused.
int64_t vocabulary_of(const std::string& tokenizer) {
  if (tokenizer.empty()) return 0;
  if (tokenizer == "bytes") return 256;
  if (std::error_code error; !is_tokenizer_spec(tokenizer) && fs::exists(tokenizer, error))
    return load_tokenizer_file(tokenizer)->vocab_size();
  std::smatch parts;
  check(std::regex_match(tokenizer, parts, std::regex("(bpe|spm|unigram):([1-9][0-9]{0,8})")),
        "tokenizer is '{}'; use bytes, bpe:V, spm:V or unigram:V", tokenizer);
  return std::stoll(parts[2]);
}

// What the options of a run (config.json, train.json) would train.
struct Planned {
  std::string model;               // a size, dimensions, or a GGUF file to begin with
  int64_t vocab = 0, context = 0;  // 0: as the model says
  std::string layers = {};         // "": as the model says
  RunStep step;
};

// nullopt: the file holds no such options.
std::optional<Planned> planned(const fs::path& path) {
  if (path.extension() != ".json") return std::nullopt;
  std::ifstream file(path);
  const auto j = parse_json<nlohmann::json>(std::string(std::istreambuf_iterator<char>(file), {}));
  const auto text = [&](const char* key) {
    const auto it = j.find(key);
    return it != j.end() && it->is_string() ? it->get<std::string>() : "";
  };
  const auto number = [&](const char* key, int64_t least) {
    const auto it = j.find(key);
    return it != j.end() && it->is_number() ? std::optional(json_number<int64_t>(*it, key, least)) : std::nullopt;
  };
  const std::string init = text("init"), size = text("size"), optimizer = text("optimizer"), update = text("update");
  if (init.empty() && size.empty()) return std::nullopt;
  Planned p{.model = init.empty() ? size : init, .step = {number("batch", 1), number("tokens", 1), {}, {}}};
  // Paths are meant from where the run is started: the folder of a project, or here.
  std::error_code error;
  if (const fs::path beside = path.parent_path() / p.model; !is_size(p.model) && fs::is_regular_file(beside, error))
    p.model = beside.string();
  if (init.empty())
    p.vocab = vocabulary_of(text("tokenizer")), p.context = number("context", 0).value_or(0), p.layers = text("layers");
  // Of another version, maybe: these need not be known here.
  try {
    parse_optimizer(optimizer), p.step.optimizer = optimizer;
  } catch (const Error&) {
  }
  if (TrainerOptions::Updates updates; read_value(update, {}, updates).empty()) p.step.update = updates;
  return p;
}

// The file that a word stands for.
std::string file_of(const std::string& what) {
  std::error_code error;
  if (const std::string folder = finder().run(what); !folder.empty()) {
    if (const std::string model = runs::newest_model(folder).file; !model.empty()) return model;
    for (const char* options : {"config.json", "train.json"})  // of a run to come
      if (const fs::path file = fs::path(folder) / options; planned(file)) return file.string();
    if (const auto converted = finder().converted(folder)) return *converted;
    if (fs::exists(fs::path(folder) / runs::kAdapterFile, error)) {
      const std::string base = base_of_adapter(folder).value_or("MODEL");
      fail("{0}: the run made an adapter of {1}; toy describe {2} describes that, toy runs show {3} the run", folder,
           base, shell_quoted(base), shell_quoted(folder));
    }
    fail("{}: the folder has no model.gguf, no checkpoint and no options of a run; give a GGUF file", folder);
  }
  if (const std::string listed = finder().listed(what); !listed.empty()) return listed;
  if (!fs::exists(what, error)) refuse_no_name(what);
  const std::string near = nearest(what, size_names());
  check(fs::exists(what, error), "'{}' is not a file, a run, or one of the sizes {}{}", what,
        fmt::join(size_names(), ", "), near.empty() ? "" : "; did you mean '" + near + "'?");
  return what;
}

// A size, a file of dimensions or a GGUF.
Described open_model(const std::string& what, int64_t vocab = 0, int64_t context = 0) {
  const std::string folder = folder_of_part(what);
  check(folder.empty(), "{}: it is a part of a model; write toy describe {}", what, shell_quoted(folder));
  if (is_size(what) || what.ends_with(".json")) return {model_spec(what, vocab, context)};
  const gguf::File file = gguf::File::open(what);
  Described d{spec_from_gguf(file)};
  for (const FileTensor& t : file_tensors(d.spec))
    for (const TensorSpec& part : t.parts)
      if (const auto dtype = file.require(t.name).dtype; dtype && dtype != DType::f64 && part.shape.rank() >= 2)
        d.stored[part.name] = *dtype;
  d.warnings = warnings_of(file, d.spec);
  d.pooling = stated_pooling(file.metadata());
  return d;
}

DType f32(const std::string&) { return DType::f32; }  // of each tensor that is trained

std::vector<Value> joined(std::vector<Value> a, const std::vector<Value>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Compiled train_graph(const Described& m, const GraphOptions& options, Device& dev) {
  const TrainerOptions& o = options.trainer;
  TrainGraph t = build_train_graph(m.spec, f32, o);
  std::vector<Value> outputs{t.loss};
  if (t.norm) outputs.push_back(t.norm);
  Plan p = compile(*t.graph, outputs, t.updates, dev);
  return {fmt::format("training step, B={} T={}{}{}", o.batch, o.tokens, options.recomputing.empty() ? "" : ", ",
                      options.recomputing),
          std::move(t.graph), joined(outputs, t.updates), std::move(p)};
}

Compiled forward_graph(const Described& m, const TrainerOptions& o, Device& dev) {
  if (m.spec.vision.there()) {
    auto graph = std::make_unique<Graph>();
    const VisionGraph v = build_vision(
        *graph, m.spec, [&](const std::string& name) { return m.dtype_of(name); }, 1);
    Plan p = compile(*graph, std::vector{v.logits}, {}, dev);
    return {"classifying a picture", std::move(graph), {v.logits}, std::move(p)};
  }
  if (!m.spec.causal) {
    EncoderGraph e = build_encoder_graph(
        m.spec, [&](const std::string& name) { return m.dtype_of(name); }, o.tokens, true);
    Plan p = compile(*e.graph, std::vector{e.hidden}, {}, dev, {.products = DType::q8_0});
    return {fmt::format("encoding {} tokens", o.tokens), std::move(e.graph), {e.hidden}, std::move(p)};
  }
  LossGraph l = build_loss_graph(m.spec, f32, o.batch, o.tokens);
  const std::vector<Value> outputs{l.loss};
  Plan p = compile(*l.graph, outputs, {}, dev);
  return {fmt::format("forward and loss, B={} T={}", o.batch, o.tokens), std::move(l.graph), outputs, std::move(p)};
}

Compiled decode_graph(const Described& m, const GraphOptions& o, Device& dev) {
  const int64_t rows = std::min(o.rows, o.context);
  DecodeGraph d = build_decode_graph(
      m.spec, [&](const std::string& name) { return m.dtype_of(name); }, decode_shape(m, o), rows);
  Plan p = compile(*d.graph, d.outputs, d.updates, dev, {.products = DType::q8_0, .repack = true});
  return {fmt::format("decoding, {} of one sequence of up to {} positions",
                      rows == 1 ? "one row" : fmt::format("up to {} rows", rows), o.context),
          std::move(d.graph), joined(d.outputs, d.updates), std::move(p)};
}

}  // namespace

Described open_description(const std::string& what) {
  if (is_size(what)) {
    if (const std::string run = finder().run(what); !run.empty())
      to_stderr(fmt::format("toy: {} is the size; to describe the run: toy describe {}\n", what, one_line(run)));
    return open_model(what);
  }
  const std::string file = file_of(what);
  if (const auto p = planned(file)) {
    Described d = open_model(p->model, p->vocab, p->context);
    if (!p->layers.empty()) set_layers(d.spec, p->layers);
    d.step = p->step;
    return d;
  }
  Described d = open_model(file);
  if (file == what) return d;
  // A run's own model, or that of a checkpoint, two folders down.
  const fs::path path(file), run = path.parent_path() / (path.filename() == "weights.gguf" ? "../.." : ".");
  if (const auto p = planned(run / "config.json")) d.step = p->step;
  return d;
}

DecodeShape decode_shape(const Described& m, const GraphOptions& o) {
  const int64_t rows = std::min(o.rows, o.context);
  return {1, o.context, o.kv ? *o.kv : default_kv(m.spec, [&](const std::string& name) { return m.dtype_of(name); }),
          rows};
}

Compiled graph_of(const std::string& which, const Described& model, const GraphOptions& options, Device& device) {
  if (which == "train") return train_graph(model, options, device);
  return which == "forward" ? forward_graph(model, options.trainer, device) : decode_graph(model, options, device);
}

size_t held_bytes(const Plan& p, const Device& device) {
  return p.arena_bytes + p.param_bytes(device) + p.input_bytes(device);
}

}  // namespace toy::cli
