#include "train/image_rows.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "data/permute.h"
#include "toy/base/checksum.h"
#include "toy/base/counted.h"
#include "toy/models/vision.h"

namespace toy {
namespace {

// Appends a picture to a batch.
void append(const VisionSpec& vision, std::span<const float> values, std::span<const float> shares, int32_t label,
            Windows& out) {
  const auto rows = size_t(vision.rows());
  append_patches(vision, values, out.pixels);
  out.shares.insert(out.shares.end(), shares.begin(), shares.end());
  out.inputs.insert(out.inputs.end(), rows, 0);
  out.targets.push_back(label);
  out.targets.insert(out.targets.end(), rows - 1, -1);
}

class ImageRows final : public Rows {
 public:
  ImageRows(const RunImages& images, const AugmentOptions& augment, uint64_t seed)
      : images_(images), augment_(augment), seed_(seed) {}
  int64_t rows() const override { return images_.training.count(); }
  Windows windows(int64_t first, int64_t count) const override {
    Windows out;
    for (int64_t row = first; row < first + count; ++row) {
      const int64_t epoch = row / rows();
      const auto i = int64_t(permute(uint64_t(row % rows()), uint64_t(rows()), seed_, uint64_t(epoch)));
      const AugmentedPicture p = augmented(images_.training, i, epoch, augment_, seed_);
      append(images_.vision, p.values, p.shares, images_.training.labels[size_t(i)], out);
    }
    return out;
  }

 private:
  const RunImages& images_;
  const AugmentOptions augment_;
  uint64_t seed_;
};

class ImageValidation final : public ValidationRows {
 public:
  explicit ImageValidation(const RunImages& images) : images_(images) {}
  int64_t rows_for(int64_t most) const override {
    const int64_t all = images_.validation.count();
    return most > 0 ? std::min(most, all) : all;
  }
  Windows validation(int64_t first, int64_t count, int64_t most) const override {
    Windows out;
    const ImageSet& set = images_.validation;
    for (int64_t i = first; i < std::min(first + count, rows_for(most)); ++i) {
      const auto picture = set.picture(i);
      const std::vector<float> values(picture.begin(), picture.end());
      std::vector<float> shares(set.classes.size());
      shares[size_t(set.labels[size_t(i)])] = 1;
      append(images_.vision, values, shares, set.labels[size_t(i)], out);
    }
    return out;
  }

 private:
  const RunImages& images_;
};

// Of all pixels; a channel that never changes is left as it is.
void measure(RunImages& images) {
  const ImageSet& set = images.training;
  for (int64_t c = 0; c < set.channels; ++c) {
    double sum = 0, squares = 0;
    for (size_t i = size_t(c); i < set.values.size(); i += size_t(set.channels)) {
      const double v = double(set.values[i]) / 255;
      sum += v, squares += v * v;
    }
    const double n = double(set.values.size()) / double(set.channels), mean = sum / n,
                 variance = squares / n - mean * mean;
    images.mean.push_back(float(mean));
    images.std.push_back(variance > 1e-8 ? float(std::sqrt(variance)) : 1.0f);
  }
}

std::string checksum(const ImageSet& set) {
  std::string labels;
  for (const int32_t label : set.labels) labels += fmt::format("{} ", label);
  const std::string_view pixels(reinterpret_cast<const char*>(set.values.data()), set.values.size());
  return checksum_text(xxh64(fmt::format("{} {}", checksum_text(xxh64(pixels)), checksum_text(xxh64(labels)))));
}

}  // namespace

RunImages read_run_images(const ImageOptions& o, const DataOptions& data, size_t memory, Teller& tell) {
  RunImages images;
  tell.preparing(o.path + ": reading pictures");
  images.training = read_images({o.path, ImageSource::train, o.size, 0, memory});
  ImageSet& training = images.training;
  if (training.left_out > 0)
    tell.note(fmt::format("{}: {} left out, such as {}: the name does not end as a picture's does", o.path,
                          counted(int64_t(training.left_out), "file is", "files are"), training.first_left_out));
  check(training.classes.size() >= 2, "{}: it has {}; at least 2 are needed, each a subfolder with its pictures",
        o.path, training.classes.empty() ? "no class" : fmt::format("1 class, '{}'", training.classes[0]));
  check(data.validation.size() <= 1, "val: {} folders; give one", data.validation.size());
  if (!data.validation.empty()) {
    images.validation = read_images({data.validation[0], ImageSource::test, training.size, training.channels, memory});
    require_known_classes(training, images.validation);
  } else {
    images.validation = hold_out(training, data.validation_fraction);
  }
  // A class that hold_out() took all pictures of, or that had none.
  std::vector<int64_t> counts(training.classes.size());
  for (const int32_t label : training.labels) ++counts[size_t(label)];
  for (const int32_t label : images.validation.labels)
    check(counts[size_t(label)] > 0,
          "{}: all pictures of the class '{}' are held out for validation; add some, or give a smaller --val-fraction",
          o.path, training.classes[size_t(label)]);
  for (size_t k = 0; k < counts.size(); ++k)
    if (counts[k] == 0) tell.warn(fmt::format("{}: the class '{}' has no pictures", o.path, training.classes[k]));
  measure(images);
  return images;
}

nlohmann::ordered_json config_of(const RunImages& images, const ImageOptions& o) {
  const ImageSet& t = images.training;
  nlohmann::ordered_json j{{"path", o.path},
                           {"pictures", t.count()},
                           {"size", t.size},
                           {"channels", t.channels},
                           {"classes", t.classes},
                           {"xxh64", checksum(t)},
                           {"validation", images.validation.count()},
                           {"validation_xxh64", checksum(images.validation)}};
  AugmentOptions::fields(
      o.augment, [&](const Option& option, const auto& value) { j["augment"][std::string(option.name)] = value; });
  return j;
}

namespace {

class ImageDataset final : public Dataset {
 public:
  ImageDataset(const DataOptions& o, size_t memory, Teller& tell)
      : o_(o), images_(std::make_unique<RunImages>(read_run_images(*o.images, o, memory, tell))) {}
  RunImages* images() const override { return images_.get(); }
  // A row is a picture.
  void tokenize(const Tokenizer&, std::optional<int64_t>, uint64_t seed, int64_t) override {
    tokens_ = images_->vision.rows();
    rows_ = std::make_unique<ImageRows>(*images_, o_.images->augment, seed);
    const int64_t n = images_->validation.count();
    if (n == 0) return;
    const std::string& name = o_.validation.empty() ? o_.images->path : o_.validation[0];
    validation_.push_back({nullptr, name, 1, {}, std::make_unique<ImageValidation>(*images_), n, double(n)});
  }
  nlohmann::ordered_json config() const override { return {{"images", config_of(*images_, *o_.images)}}; }
  const Rows& rows() const override { return *rows_; }
  std::string name() const override { return o_.images->path; }
  int64_t training_tokens() const override { return images_->training.count() * tokens_; }
  int64_t validation_tokens() const override { return images_->validation.count() * tokens_; }
  std::string validation_name(int64_t row) const override { return images_->validation.names.at(size_t(row)); }

 private:
  const DataOptions& o_;
  std::unique_ptr<RunImages> images_;
  std::unique_ptr<Rows> rows_;
};

}  // namespace

std::unique_ptr<Dataset> make_image_dataset(const DataOptions& options, size_t memory, Teller& tell) {
  return std::make_unique<ImageDataset>(options, memory, tell);
}

}  // namespace toy
