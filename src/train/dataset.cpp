#include "train/dataset.h"

#include "train/contrastive.h"
#include "train/image_rows.h"
#include "train/text_dataset.h"

namespace toy {

std::unique_ptr<Dataset> make_dataset(const DataOptions& options, const std::string& out, size_t memory, Teller& tell) {
  if (options.images) return make_image_dataset(options, memory, tell);
  if (options.pairs) return make_pair_dataset(options, out, memory, tell);
  return std::make_unique<TextDataset>(options, out, memory, tell);
}

}  // namespace toy
