#include "cli/run/draft.h"

#include <algorithm>

#include "cli/files/model_file.h"
#include "toy/base/error.h"
#include "toy/base/nearest.h"

namespace toy::cli {
namespace {

constexpr const char* kNgrams = "ngram";

// Weights that a token reads, about: a table has few rows that do.
double bytes_of_weights(const Model& model) {
  double bytes = 0;
  for (const TensorSpec& t : tensors_of(model.spec))
    if (model.spec.tied || t.part != ModelPart::embedding)
      bytes += double(bytes_of(model.params->stored(t.name), t.shape));
  return bytes;
}

}  // namespace

void DraftOptions::add(CLI::App& app) {
  begin_group(app, "Speculation");
  CLI::Option* model = add_option(app, "--draft", draft,
                                  "Small model of the same vocabulary that proposes tokens, or 'ngram'", not_empty())
                           ->option_text("MODEL");
  add_option(app, "--draft-max", most, "Tokens to propose at once for a text", from_to(1, 64))->needs(model);
}

Draft DraftOptions::make(Device& device, const Model& model, Decoder& decoder, const DecodingOptions& decoding,
                         int64_t generated) const {
  Draft d;
  d.options.most = most;
  if (draft.empty()) return d;
  if (draft == kNgrams) {
    d.options.ngrams = true;
    return d;
  }
  check(nearest(draft, {std::string(kNgrams)}).empty(), "--draft is '{}'; did you mean '{}'?", draft, kNgrams);
  const std::string path = model_file(draft);
  d.model = std::make_unique<Model>(load_model(path, device));
  print_warnings(path, d.model->warnings);
  require_same_tokens(model, *d.model);
  const ModelSpec& spec = d.model->spec;
  const bool ends = spec.positions == PositionKind::learned;
  const int64_t longest = ends ? spec.context : std::max(decoder.context(), spec.context);
  DecoderOptions o{.sequences = decoder.state().sequences(),
                   .context = std::min(decoder.context() + most, longest),
                   .max_rows = decoder.max_rows(),
                   .exact = decoding.decoder.exact,
                   .repack = decoding.repacks(*d.model, generated, 0),
                   .take_back = most + 1};
  // As many positions as the model's cache has.
  const DecodeShape shape = decode_shape(*d.model, o);
  if (const int64_t pages = decoder.state().shape().shared_pages; pages > 0 && kept_state_bytes(spec, shape) == 0)
    o.cache = size_t(std::min(pages, shape.pages())) * shared_page_bytes(spec, shape);
  d.decoder = std::make_unique<Decoder>(device, *d.model, o);
  d.options.draft = d.decoder.get();
  d.options.draft_cost = bytes_of_weights(*d.model) / bytes_of_weights(model);
  return d;
}

}  // namespace toy::cli
