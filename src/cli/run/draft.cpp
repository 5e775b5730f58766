#include "cli/run/draft.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/console.h"
#include "cli/files/model_file.h"
#include "toy/base/error.h"
#include "toy/base/nearest.h"
#include "toy/base/utf8.h"
#include "toy/runs/run.h"

namespace toy::cli {
namespace {

constexpr const char* kNgrams = "ngram";

// Adapters are small, and a text may use one of many.
TokenWork work_of(const ModelSpec& spec, const Weights::DTypeOf& stored) {
  TokenWork work;
  for (const TensorSpec& t : tensors_of(spec)) {
    if (t.adapter >= 0) continue;
    const double share = share_of_token(spec, t);
    work.bytes += share * double(bytes_of(stored(t.name), t.shape));
    work.weights += share * double(t.shape.count());
  }
  return work;
}

// Of a file that is not loaded.
TokenWork work_of(const gguf::File& file, ModelSpec spec, const Device& device) {
  spec.roles.freeze = {"*"};
  const Weights::DTypeOf held = held_types(file, spec);
  return work_of(spec, [&](const std::string& name) { return device.storage(held(name)); });
}

}  // namespace

void DraftOptions::add(CLI::App& app) {
  begin_group(app, "Speculation");
  CLI::Option* model = add_option(app, "--draft", draft,
                                  "Small model of the same vocabulary that proposes tokens, or 'ngram'", not_empty())
                           ->option_text("MODEL");
  add_option(app, "--draft-max", most, "Tokens to propose at once for a text", from_to(1, 64))->needs(model);
}

Draft DraftOptions::load(Device& device, const Model& model) const {
  Draft d;
  d.options.most = most;
  if (draft.empty()) return d;
  const TokenWork work = work_of(model.spec, [&](const std::string& name) { return model.params->stored(name); });
  const auto estimate = [&](const TokenWork& drafts = {}) {
    d.options.estimate(work, drafts);
    if (!device.host_visible())
      d.options.rows_per_read = SpeculationOptions().rows_per_read;  // the estimate is a CPU's
  };
  if (draft == kNgrams) {
    estimate();
    d.options.ngrams = true;
    return d;
  }
  check(draft.find('/') != std::string::npos || nearest(draft, {std::string(kNgrams)}).empty(),
        "--draft is '{}'; did you mean '{}'?", draft, kNgrams);
  const std::string path = runs::model_path(model_file(draft));
  const gguf::File file = gguf::File::open(path);
  const ModelSpec spec = spec_from_gguf(file);
  require_as_many_tokens(model.spec, spec);
  estimate(work_of(file, spec, device));
  if (!d.options.draft_proposes()) {
    to_stderr(
        fmt::format("toy: --draft: {} takes about {:.2f} of the model's time for a token, and checking what it "
                    "proposes the rest, so it does not pay; it is not used\n",
                    one_line(path), d.options.draft_cost));
    return d;
  }
  d.model = std::make_unique<Model>(load_model(path, device));
  print_warnings(path, d.model->warnings);
  require_same_tokens(model, *d.model);
  return d;
}

void Draft::follow(Device& device, Decoder& texts, const DecodingOptions& decoding, int64_t generated) {
  if (!model) return;
  const ModelSpec& spec = model->spec;
  const bool ends = spec.positions == PositionKind::learned;
  const int64_t longest = ends ? spec.context : std::max(texts.context(), spec.context);
  DecoderOptions o{.sequences = texts.state().sequences(),
                   .context = std::min(texts.context() + options.most, longest),
                   .max_rows = texts.max_rows(),
                   .exact = decoding.decoder.exact,
                   .repack = decoding.repacks(*model, generated, 0),
                   .take_back = options.most + 1};
  // As many positions as the model's cache has.
  const DecodeShape shape = decode_shape(*model, o);
  if (const int64_t pages = texts.state().shape().shared_pages; pages > 0 && kept_state_bytes(spec, shape) == 0)
    o.cache = size_t(std::min(pages, shape.pages())) * shared_page_bytes(spec, shape);
  decoder = std::make_unique<Decoder>(device, *model, o);
  options.draft = decoder.get();
}

}  // namespace toy::cli
