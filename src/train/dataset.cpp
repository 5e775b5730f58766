#include "train/dataset.h"

#include "train/contrastive.h"
#include "train/image_rows.h"
#include "train/masked_dataset.h"
#include "train/text_classes.h"
#include "train/text_dataset.h"

namespace toy {

std::unique_ptr<Dataset> make_dataset(const DataOptions& options, const std::string& out, size_t memory, Teller& tell) {
  if (options.images) return make_image_dataset(options, memory, tell);
  if (options.pairs) return make_pair_dataset(options, out, memory, tell);
  if (options.labels) return make_labelled_dataset(options, out, memory, tell);
  auto texts = std::make_unique<TextDataset>(options, out, memory, tell);
  if (options.masks) return make_masked_dataset(*options.masks, std::move(texts));
  return texts;
}

}  // namespace toy
