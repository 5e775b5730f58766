#include "toy/hf/convert.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>

#include "hf/bert.h"
#include "hf/layout.h"
#include "hf/plan.h"
#include "hf/tokenizer_files.h"
#include "hf/vision.h"
#include "models/families/families.h"
#include "toy/base/atomic_file.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/formats/sampling_keys.h"
#include "toy/models/embedding_rule.h"
#include "toy/models/model.h"
#include "toy/tensor/convert.h"
#include "toy/text/class_names.h"

namespace toy::hf {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

// The type of most elements.
DType main_type(const std::vector<Output>& outputs) {
  std::array<int64_t, std::size(kDTypes)> counts = {};
  for (const Output& out : outputs) counts[size_t(out.stored)] += out.shape.count();
  return DType(std::max_element(counts.begin(), counts.end()) - counts.begin());
}

std::string last_part(const std::string& folder) {
  fs::path path = fs::absolute(folder).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  return path.filename().string();
}

// A folder that is renamed when it is complete, and removed otherwise.
class NewFolder {
 public:
  explicit NewFolder(std::string path) : path_(std::move(path)) {
    while (path_.size() > 1 && path_.ends_with('/')) path_.pop_back();
    temporary_ = fmt::format("{}.part{}", path_, getpid());
    std::error_code error;
    check(!fs::exists(path_) || (fs::is_directory(path_) && fs::is_empty(path_)),
          "'{}' exists and is not an empty folder; use another name, or remove it", path_);
    const fs::path parent = fs::path(path_).parent_path();
    check(parent.empty() || fs::is_directory(parent), "{}: the folder {} does not exist; create it first (mkdir -p {})",
          path_, parent.string(), parent.string());
    const bool is_new = fs::create_directory(temporary_, error);
    check(is_new, "cannot create the folder '{}': {}", temporary_,
          error ? error.message() : "it exists; remove it, if no other command is writing it");
  }
  ~NewFolder() {
    std::error_code error;
    if (!temporary_.empty()) fs::remove_all(temporary_, error);
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  std::string file(const char* name) const { return temporary_ + "/" + name; }
  void commit() {
    sync_folder(temporary_, temporary_);
    std::error_code error;
    fs::rename(temporary_, path_, error);
    check(!error, "cannot rename '{}' to '{}': {}", temporary_, path_, error.message());
    temporary_.clear();
    const std::string parent = fs::path(path_).parent_path().string();
    sync_folder(parent.empty() ? "." : parent, path_);
  }

 private:
  std::string path_, temporary_;
};

void write_json(const std::string& path, const ordered_json& json) {
  AtomicFile file(path);
  file.write(json_text(json, 2) + "\n");
  file.commit();
}

// The type of a folder: all its tensors have one.
DType folder_type(const gguf::File& file, const ModelSpec& spec) {
  std::map<DType, int64_t> counts;
  for (const FileTensor& t : file_tensors(spec)) counts[*file.require(t.name).dtype] += t.shape.count();
  const DType most = std::ranges::max_element(counts, {}, [](const auto& c) { return c.second; })->first;
  if (most == DType::mxfp4) return DType::bf16;  // which holds its values exactly
  return is_quantized(most) ? DType::f16 : most == DType::f64 ? DType::f32 : most;
}

// Ids that end a generation and begin a text.
void write_ids(const gguf::File& file, ordered_json& config, ordered_json& generation) {
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"})
    if (!config.contains(key)) config[key] = nullptr;  // classes have others
  const auto tokenizer = try_load_tokenizer(file).tokenizer;
  if (!tokenizer) return;
  if (tokenizer->bos()) config["bos_token_id"] = generation["bos_token_id"] = *tokenizer->bos();
  if (tokenizer->eos()) config["eos_token_id"] = *tokenizer->eos();
  if (const auto ends = tokenizer->end_of_generation(); !ends.empty()) generation["eos_token_id"] = ends;
}

// How generation_config.json wants tokens drawn; nothing where it takes the likeliest.
// It is advice: values that make no sense are left out.
void write_sampling(const std::string& folder, gguf::Writer& writer, std::vector<std::string>& warnings) {
  const Config generation = Config::open_if_there(folder + "/generation_config.json");
  if (!generation.flag("do_sample", false)) return;
  for (const SamplingKey& k : kSamplingKeys) {
    if (k.hugging_face.empty() || !generation.has(k.hugging_face)) continue;
    const nlohmann::json& value = generation.values().at(std::string(k.hugging_face));
    const bool fits = k.is_integer ? value.is_number_integer() && value >= 0 && value <= INT32_MAX : value.is_number();
    if (!fits)
      warnings.push_back(
          fmt::format("{}: '{}' is {}, which is left out", generation.path(), k.hugging_face, json_text(value)));
    else if (k.is_integer)
      writer.set(std::string(k.gguf), value.get<int32_t>());
    else
      writer.set(std::string(k.gguf), value.get<float>());
  }
}

// The same the other way round.
void read_sampling(const gguf::File& file, ordered_json& generation) {
  for (const SamplingKey& k : kSamplingKeys) {
    const auto it = file.metadata().find(k.gguf);
    if (k.hugging_face.empty() || it == file.metadata().end()) continue;
    if (const auto* number = std::get_if<float>(&it->second))
      generation[std::string(k.hugging_face)] = std::round(double(*number) * 1e6) / 1e6;
    else if (const auto* whole = std::get_if<int32_t>(&it->second))
      generation[std::string(k.hugging_face)] = *whole;
    else
      continue;
    generation["do_sample"] = true;
  }
}

// Weights that GPTQ, AWQ, bitsandbytes, FP8 and the like have packed. gpt-oss's MXFP4 is what a GGUF has, too.
void refuse_packed_weights(const Config& config) {
  const Config how = config.object("quantization_config");
  if (how.values().empty()) return;
  const std::string method = how.text("quant_method", "");
  check(method == "mxfp4",
        "{}: 'quantization_config': weights packed by '{}' are not supported; convert the repository that they were "
        "made from, then use toy quantize",
        config.path(), method.empty() ? "an unnamed method" : method);
}

bool same_values(const View& a, const View& b) {
  if (a.shape != b.shape) return false;
  const int64_t columns = a.shape.back();
  std::vector<float> x(static_cast<size_t>(columns)), y(x.size());
  const auto row_of = [columns](const View& v, int64_t i, std::vector<float>& row) {
    View one(static_cast<std::byte*>(v.data) + bytes_of(v.dtype, i * columns), v.dtype, {columns});
    convert(one, View(row.data(), DType::f32, {columns}));
  };
  for (int64_t i = 0; i < a.shape.count() / columns; ++i) {
    row_of(a, i, x), row_of(b, i, y);
    if (std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) != 0) return false;
  }
  return true;
}

// Files may have an output of their own although config.json says that it is the embedding: transformers loads both.
// And they may lack the one that it asks for.
void settle_output(const std::string& folder, const HfModel& model, Shards& shards, Reading& r) {
  const std::string name = hf_name(model, "output.weight"), embedding = hf_name(model, "token_embd.weight");
  const View* head = shards.find(name);
  if (!head) {
    check(r.ties || r.spec.tied,
          "{}: the tensor '{}' is missing, and config.json says that it is not the embedding (tie_word_embeddings); "
          "download the complete folder, or set it to true if the model was trained so",
          folder, name);
    return;
  }
  if (!r.spec.tied) return;
  const View* rows = shards.find(embedding);
  if (!model.never_ties && (!rows || same_values(*head, *rows))) return;
  r.spec.tied = false;
  if (model.never_ties) return;
  check(holds(r.spec, "tied"),
        "{}: '{}' differs from the embedding, although config.json ties them; files of {} have one tensor for both",
        folder, name, model.architecture);
  r.warnings.push_back(
      fmt::format("'{}' differs from the embedding, although config.json ties them; both are converted", name));
}

}  // namespace

namespace {

// A decoder becomes a reranker: "cls.output" has the output's rows for "yes" and "no".
Output yes_no_head(const HfModel& model, const ModelSpec& spec, const Tokenizer& tokenizer, Shards& shards,
                   std::optional<DType> type, gguf::Writer& writer) {
  std::vector<int64_t> rows;
  for (const char* word : {"yes", "no"}) {
    const std::vector<int32_t> ids = tokenizer.encode(word);
    check(ids.size() == 1, "reranker: '{}' is {} tokens of this model, and a reranker answers with one", word,
          ids.size());
    rows.push_back(ids.front());
  }
  const View& view = shards.require(hf_name(model, spec.tied ? "token_embd.weight" : "output.weight"));
  const DType stored = view.dtype == DType::f64 ? DType::f32 : view.dtype;
  Output out{"cls.output.weight", {2, spec.d_model}, type.value_or(stored)};
  out.parts.emplace(0, Rows{view, std::make_shared<const std::vector<int64_t>>(rows), numbers(0, spec.d_model)});
  writer.set(kRerankTemplateKey, std::string(kQwenRerankTemplate));
  return out;
}

}  // namespace

bool is_model_folder(const std::string& path) { return std::filesystem::is_regular_file(path + "/config.json"); }

Converted convert_folder(const std::string& folder, const std::string& gguf, const ConvertOptions& options) {
  std::vector<std::string> of_pictures;
  Config config = with_vision_files(folder, Config::open(folder + "/config.json"), of_pictures);
  refuse_packed_weights(config);
  const HfModel& model = model_of(config);
  Reading reading = read_config(model, config);
  reading.spec.name = last_part(folder);
  Shards shards = Shards::open(folder, model);
  for (size_t i = 0; const DenseModule& d : dense_modules(folder, reading.spec)) {
    if (i == 0) reading.spec.embedding_inner = d.out;
    const std::string name = hf_name(model, fmt::format("dense_{}.weight", 2 + i++));
    shards.add(d.path + "/model.safetensors", name.substr(0, name.find('/') + 1));
  }
  const bool pictures = reading.spec.vision.there();
  if (!pictures) settle_output(folder, model, shards, reading);
  std::vector<Output> outputs;
  try {
    outputs = plan_gguf(model, reading, shards, options.type);
  } catch (const Error& e) {
    throw Error(e.code(), fmt::format("{}: {}", folder, e.what()));
  }
  Converted done{std::string(model.architecture), std::string(model.class_name), outputs.size(), reading.warnings};
  done.warnings.insert(done.warnings.end(), of_pictures.begin(), of_pictures.end());
  if (const size_t left = shards.of_other_parts(); left > 0)
    done.warnings.push_back(
        fmt::format("only the text part is converted; {} tensors of other parts (vision, audio) are left out", left));
  if (const size_t left = shards.predicting(); left > 0)
    done.warnings.push_back(fmt::format("{} tensors that predict further tokens (mtp) are left out", left));
  gguf::Writer writer(reading.spec.architecture);
  if (options.reranker) {
    check(
        holds(reading.spec, "labels") && reading.spec.causal,
        "reranker: a {} does not answer yes or no; rerankers of this kind are qwen3, and encoders with a head need no "
        "option",
        reading.spec.architecture);
    reading.spec.score.labels = 2;
  }
  write_dimensions(reading.spec, writer, main_type(outputs));
  write_embedding_rule(folder, reading.spec, writer, done.warnings);
  write_sampling(folder, writer, done.warnings);
  std::shared_ptr<const Tokenizer> tokenizer;
  if (pictures)
    make_class_names(class_names_of(config, reading.spec.vocab))->save(writer);
  else if (options.tokenizer)
    tokenizer = write_tokenizer_keys(TokenizerFiles::open(folder, config), reading.spec.vocab, writer, done.warnings);
  else
    writer.set("tokenizer.ggml.model", std::string("none"));
  if (options.reranker) {
    check(tokenizer != nullptr, "reranker: without a tokenizer its answers are not known; leave it in");
    outputs.push_back(yes_no_head(model, reading.spec, *tokenizer, shards, options.type, writer));
  }
  if (options.chat_template) {
    check(tokenizer != nullptr, "chat-template: without a tokenizer it cannot be used; leave it out");
    writer.set("tokenizer.chat_template", options.chat_template(*tokenizer));
  }
  size_t written = 0;
  for (const Output& out : outputs)
    writer.add(out.name, out.shape, out.stored, [&](const gguf::Writer::Sink& sink) {
      out.stream(sink);
      if (options.progress) options.progress(++written, outputs.size());
    });
  writer.finish(gguf);
  return done;
}

Converted convert_gguf(const gguf::File& file, const std::string& folder, const ConvertOptions& options) {
  ModelSpec spec = spec_from_gguf(file);
  const bool answers = spec.causal && spec.score.there() && !spec.score.classifies();
  if (answers) spec.score = {};  // rows of the output, which the folder has
  const HfModel& model = model_of(spec);
  const DType type = options.type.value_or(folder_type(file, spec));
  if (model.never_ties) spec.tied = false;
  ordered_json config = write_config(model, spec), generation = {{"_from_model_config", false}};
  config["dtype"] = config["torch_dtype"] = type == DType::f32   ? "float32"
                                            : type == DType::f16 ? "float16"
                                                                 : "bfloat16";
  const bool pictures = spec.vision.there();
  if (!pictures) write_ids(file, config, generation), read_sampling(file, generation);
  const std::vector<Output> outputs = plan_folder(model, spec, file, type);
  Converted done{spec.architecture, std::string(model.class_name), outputs.size(), {}};
  if (answers)
    done.warnings.push_back(
        "the folder does not say that the model is a reranker; toy convert --reranker takes it back");
  NewFolder out(folder);
  if (pictures) {
    const auto classes = load_class_names(file);
    check(classes != nullptr, "{}: the file does not name its classes ({})", file.path(), kClassesKey);
    write_vision_files(out.file(""), spec, class_names(*classes), config);
  } else {
    write_json(out.file("generation_config.json"), generation);
    write_sentence_files(file, spec, out.file(""));
  }
  write_json(out.file("config.json"), config);
  if (options.tokenizer && !pictures) write_tokenizer_files(file, out.file(""), done.warnings);
  if (options.chat_template) {
    const auto tokenizer = try_load_tokenizer(file).tokenizer;
    check(tokenizer && options.tokenizer, "chat-template: without a tokenizer it cannot be used; leave it out");
    AtomicFile text(out.file("chat_template.jinja"));
    text.write(options.chat_template(*tokenizer));
    text.commit();
  }
  std::map<std::string, safetensors::Writer> writers;  // by folder; a name may begin with one
  size_t written = 0;
  for (const Output& o : outputs) {
    const size_t name = o.name.find('/') + 1;
    writers[o.name.substr(0, name)].add(o.name.substr(name), o.stored, o.shape,
                                        [&](const safetensors::Writer::Sink& sink) {
                                          o.stream(sink);
                                          if (options.progress) options.progress(++written, outputs.size());
                                        });
  }
  for (auto& [in, writer] : writers) writer.finish(out.file((in + "model.safetensors").c_str()));
  out.commit();
  return done;
}

}  // namespace toy::hf
