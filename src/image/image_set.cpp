#include "toy/image/image_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "toy/base/error.h"
#include "toy/base/memory.h"
#include "toy/base/philox.h"

namespace toy {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kCifarSide = 32;
constexpr int64_t kMostSide = 224;  // of pictures that nobody gave a size for

std::vector<std::byte> read_bytes(const fs::path& path, size_t memory) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  check(!error, "{}: there is no such file: {}", path.string(), error.message());
  require_below(memory, size_t(size), "reading " + path.string(), "a smaller set");
  std::vector<std::byte> bytes(static_cast<size_t>(size));
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(bytes.data()), std::streamsize(size));
  check(bool(file), "{}: it cannot be read", path.string());
  return bytes;
}

std::vector<std::string> read_names(const fs::path& path) {
  std::ifstream file(path);
  std::vector<std::string> names;
  for (std::string line; std::getline(file, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty()) names.push_back(line);
  }
  return names;
}

std::vector<std::string> numbers(int64_t n) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < n; ++i) names.push_back(std::to_string(i));
  return names;
}

uint32_t big_endian(std::span<const std::byte> bytes, size_t at) {
  uint32_t v = 0;
  for (size_t i = 0; i < 4; ++i) v = v << 8 | uint32_t(bytes[at + i]);
  return v;
}

bool is_hidden(const fs::path& p) { return p.filename().string().starts_with('.'); }

bool is_picture_name(const fs::path& p) {
  std::string ending = p.extension().string();
  for (char& c : ending) c = c >= 'A' && c <= 'Z' ? char(c + 32) : c;
  for (const char* known : {".png", ".jpg", ".jpeg", ".ppm", ".pgm", ".pnm"})
    if (ending == known) return true;
  return false;
}

std::vector<fs::path> sorted(const fs::path& folder, bool folders) {
  std::vector<fs::path> list;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (!is_hidden(entry.path()) && entry.is_directory() == folders) list.push_back(entry.path());
  check(!error, "{}: the folder cannot be read: {}", folder.string(), error.message());
  std::ranges::sort(list, {}, [](const fs::path& p) { return p.filename().string(); });
  return list;
}

// "shapes" of "shapes/star/".
fs::path above(const fs::path& folder) {
  const fs::path plain = folder.lexically_normal(), named = plain.has_filename() ? plain : plain.parent_path();
  return named.has_parent_path() ? named.parent_path() : fs::path(".");
}

// Directly in a folder that can be read.
bool has_pictures(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator i(folder, error), end; !error && i != end; i.increment(error))
    if (is_picture_name(i->path())) return true;
  return false;
}

// A folder of pictures, next to others.
bool is_class(const fs::path& folder) {
  return has_pictures(folder) && std::ranges::count_if(sorted(above(folder), true), has_pictures) > 1;
}

// The folder of a part, where the set has parts.
fs::path part_of(const fs::path& folder, ImageSource::Part part) {
  const fs::path train = folder / "train";
  if (!fs::is_directory(train)) return folder;
  if (part == ImageSource::train) return train;
  for (const char* name : {"test", "val"})
    if (fs::is_directory(folder / name)) return folder / name;
  fail("{}: there is a folder 'train', but no 'test' or 'val' next to it", folder.string());
}

ImageSet read_folder(const ImageSource& source) {
  const fs::path folder = part_of(source.path, source.part);
  ImageSet set{source.size, source.channels};
  std::vector<Picture> pictures;
  size_t bytes = 0;
  bool grey = true;
  for (const fs::path& sub : sorted(folder, true)) {
    const auto label = int32_t(set.classes.size());
    set.classes.push_back(sub.filename().string());
    for (const fs::path& file : sorted(sub, false)) {
      if (!is_picture_name(file)) {
        if (++set.left_out == 1) set.first_left_out = file.string();
        continue;
      }
      Picture p = read_picture(file.string());
      if (set.size == 0) set.size = std::min({p.width, p.height, kMostSide});
      if (source.channels > 0) p = with_channels(p, source.channels);
      grey = grey && p.channels == 1;
      pictures.push_back(fitted(p, set.size));
      bytes += pictures.back().values.size();
      require_below(source.memory, 2 * bytes, "keeping the pictures of " + source.path, "smaller pictures");
      set.labels.push_back(label), set.names.push_back(file.string());
    }
  }
  if (set.classes.empty() && is_class(folder))
    fail("{}: it has pictures of one class; give the folder above it: {}", folder.string(), above(folder).string());
  check(!set.classes.empty(), "{}: it has no subfolders; a folder of pictures has one for each class, such as {}",
        folder.string(), (folder / "cat/1.png").string());
  check(!pictures.empty(), "{}: there are no pictures in its subfolders; they end with .png, .jpg, .ppm or .pgm",
        folder.string());
  if (set.channels == 0) set.channels = grey ? 1 : 3;
  for (const Picture& p : pictures) {
    const Picture same = with_channels(p, set.channels);
    set.values.insert(set.values.end(), same.values.begin(), same.values.end());
  }
  return set;
}

// A set that is not a folder of files, in the size and the channels that are asked for.
ImageSet converted(ImageSet set, const ImageSource& source) {
  const int64_t size = source.size > 0 ? source.size : set.size,
                channels = source.channels > 0 ? source.channels : set.channels;
  if (size == set.size && channels == set.channels) return set;
  ImageSet out{size, channels, set.classes};
  for (int64_t i = 0; i < set.count(); ++i) {
    const auto from = set.picture(i);
    const Picture p{set.size, set.size, set.channels, {from.begin(), from.end()}};
    out.add(fitted(with_channels(p, channels), size).values, set.labels[size_t(i)], set.names[size_t(i)]);
  }
  return out;
}

ImageSet read_cifar(const ImageSource& source, bool has_coarse) {
  const fs::path folder = source.path;
  ImageSet set{kCifarSide, 3};
  std::vector<fs::path> files;
  const bool test = source.part == ImageSource::test;
  if (has_coarse) files = {folder / (test ? "test.bin" : "train.bin")};
  if (!has_coarse && test) files = {folder / "test_batch.bin"};
  for (int i = 1; !has_coarse && !test && i <= 5; ++i)
    if (const fs::path f = folder / fmt::format("data_batch_{}.bin", i); fs::exists(f)) files.push_back(f);
  set.classes = read_names(folder / (has_coarse ? "fine_label_names.txt" : "batches.meta.txt"));
  if (set.classes.empty()) set.classes = numbers(has_coarse ? 100 : 10);
  for (const fs::path& f : files) parse_cifar(read_bytes(f, source.memory), f.string(), has_coarse, set);
  return converted(std::move(set), source);
}

// "train-images-idx3-ubyte" or "train-images.idx3-ubyte"; "": not there.
fs::path idx_file(const fs::path& folder, const char* begin, const char* kind) {
  for (const char* between : {"-", "."})
    if (const fs::path f = folder / fmt::format("{}{}{}", begin, between, kind); fs::exists(f)) return f;
  return {};
}

ImageSet read_idx(const ImageSource& source) {
  const bool test = source.part == ImageSource::test;
  const char* part = test ? "t10k" : "train";
  const auto file = [&](const char* what, const char* kind) {
    const fs::path f = idx_file(source.path, fmt::format("{}-{}", part, what).c_str(), kind);
    check(!f.empty(), "{}: there is no file {}-{}-{}; where it ends with .gz, unpack it", source.path, part, what,
          kind);
    return f;
  };
  const fs::path pictures = file("images", "idx3-ubyte"), labels = file("labels", "idx1-ubyte");
  ImageSet set{0, 1, numbers(10)};
  parse_idx(read_bytes(pictures, source.memory), pictures.string(), read_bytes(labels, source.memory), labels.string(),
            set);
  return converted(std::move(set), source);
}

// Labels of `set` by the names of its classes among `classes`; -1: not there.
std::vector<int32_t> places_of(const ImageSet& set, const std::vector<std::string>& classes) {
  std::map<std::string, int32_t> numbers;
  for (size_t i = 0; i < classes.size(); ++i) numbers.emplace(classes[i], int32_t(i));
  std::vector<int32_t> places;
  for (const std::string& name : set.classes) {
    const auto it = numbers.find(name);
    places.push_back(it == numbers.end() ? -1 : it->second);
  }
  return places;
}

}  // namespace

void ImageSet::add(std::span<const uint8_t> picture, int32_t label, std::string name) {
  values.insert(values.end(), picture.begin(), picture.end());
  labels.push_back(label), names.push_back(std::move(name));
}

void parse_cifar(std::span<const std::byte> bytes, const std::string& name, bool has_coarse, ImageSet& set) {
  constexpr size_t kPlane = size_t(kCifarSide * kCifarSide);
  const size_t labels = has_coarse ? 2 : 1, record = labels + 3 * kPlane, count = bytes.size() / record;
  check(count > 0 && bytes.size() % record == 0,
        "{}: it has {} bytes, which are not records of {}, as CIFAR-{} has them; the file is cut", name, bytes.size(),
        record, has_coarse ? 100 : 10);
  check(set.size == kCifarSide && set.channels == 3, "{}: a set of other pictures", name);
  std::vector<uint8_t> picture(3 * kPlane);
  for (size_t i = 0; i < count; ++i) {
    const auto* from = reinterpret_cast<const uint8_t*>(bytes.data()) + i * record;
    const uint8_t label = from[labels - 1];
    check(label < set.classes.size(), "{}, picture {}: its label is {}, and there are {} classes, from 0", name, i + 1,
          label, set.classes.size());
    for (size_t p = 0; p < kPlane; ++p)
      for (size_t c = 0; c < 3; ++c) picture[3 * p + c] = from[labels + c * kPlane + p];
    set.add(picture, label, fmt::format("{}, picture {}", name, i + 1));
  }
}

void parse_idx(std::span<const std::byte> pictures, const std::string& pictures_name, std::span<const std::byte> labels,
               const std::string& labels_name, ImageSet& set) {
  constexpr size_t kPictures = 16, kLabels = 8;  // bytes of the headers
  constexpr uint64_t kMost = 4096;
  check(pictures.size() >= kPictures && big_endian(pictures, 0) == 0x803,
        "{}: not an IDX file of pictures (u8 with 3 dimensions)", pictures_name);
  check(labels.size() >= kLabels && big_endian(labels, 0) == 0x801,
        "{}: not an IDX file of labels (u8 with 1 dimension)", labels_name);
  const uint64_t count = big_endian(pictures, 4), rows = big_endian(pictures, 8), columns = big_endian(pictures, 12);
  check(count > 0 && rows > 0 && columns > 0, "{}: {} pictures of {} x {}, so there are no pixels", pictures_name,
        count, columns, rows);
  check(rows == columns && rows <= kMost, "{}: pictures of {} x {}; squares of at most {} are read", pictures_name,
        columns, rows, kMost);
  check(pictures.size() - kPictures == count * rows * columns,
        "{}: the header says {} pictures of {} x {}, and {} bytes follow; the file is cut or damaged", pictures_name,
        count, columns, rows, pictures.size() - kPictures);
  check(big_endian(labels, 4) == count && labels.size() - kLabels == count,
        "{}: {} labels and {} bytes, for {} pictures of {}", labels_name, big_endian(labels, 4),
        labels.size() - kLabels, count, pictures_name);
  set.size = int64_t(rows), set.channels = 1;
  const auto* values = reinterpret_cast<const uint8_t*>(pictures.data()) + kPictures;
  for (uint64_t i = 0; i < count; ++i) {
    const auto label = uint8_t(labels[kLabels + i]);
    check(label < set.classes.size(), "{}: label {} is {}, and there are {} classes, from 0", labels_name, i + 1, label,
          set.classes.size());
    set.add({values + i * rows * columns, size_t(rows * columns)}, label,
            fmt::format("{}, picture {}", pictures_name, i + 1));
  }
}

ImageSet read_images(const ImageSource& source) {
  const fs::path folder = source.path;
  std::error_code error;
  check(fs::exists(folder, error), "{}: there is no such folder of pictures", source.path);
  check(fs::is_directory(folder, error),
        "{}: not a folder; give one with a subfolder of pictures for each class, or with the files of CIFAR or MNIST",
        source.path);
  if (fs::exists(folder / "data_batch_1.bin") || fs::exists(folder / "test_batch.bin"))
    return read_cifar(source, false);
  if (fs::exists(folder / "train.bin") || fs::exists(folder / "test.bin")) return read_cifar(source, true);
  for (const char* part : {"train", "t10k"})
    if (!idx_file(folder, fmt::format("{}-images", part).c_str(), "idx3-ubyte").empty()) return read_idx(source);
  return read_folder(source);
}

void require_known_classes(const ImageSet& training, ImageSet& other) {
  std::vector<bool> there(training.classes.size());
  for (const int32_t label : training.labels) there[size_t(label)] = true;
  const std::vector<int32_t> places = places_of(other, training.classes);
  for (size_t i = 0; i < other.labels.size(); ++i) {
    const std::string& name = other.classes[size_t(other.labels[i])];
    const int32_t place = places[size_t(other.labels[i])];
    check(place >= 0 && there[size_t(place)],
          "{}: it is of the class '{}', of which there is no picture to train on; add some, or leave it out",
          other.names[i], name);
    other.labels[i] = place;
  }
  other.classes = training.classes;
}

void use_classes(const std::vector<std::string>& classes, const std::string& model, ImageSet& set) {
  const std::vector<int32_t> places = places_of(set, classes);
  for (size_t i = 0; i < set.labels.size(); ++i) {
    const int32_t place = places[size_t(set.labels[i])];
    check(place >= 0, "{}: it is of the class '{}', which the model {} does not know; its {} classes are {}",
          set.names[i], set.classes[size_t(set.labels[i])], model, classes.size(),
          fmt::join(classes.begin(), classes.begin() + int64_t(std::min<size_t>(classes.size(), 12)), ", "));
    set.labels[i] = place;
  }
  set.classes = classes;
}

ImageSet hold_out(ImageSet& set, double fraction) {
  ImageSet held = set.empty(), rest = set.empty();
  rest.left_out = set.left_out, rest.first_left_out = set.first_left_out;
  if (fraction <= 0) return held;
  // The pictures with the smallest of random numbers that depend on their place alone.
  const Philox random(0, "held out");
  const auto n = size_t(set.count()),
             wanted = std::min(n - 1, std::max<size_t>(1, size_t(std::llround(fraction * double(n)))));
  std::vector<std::pair<uint64_t, size_t>> order(n);
  for (size_t i = 0; i < n; ++i) order[i] = {random.below(i, uint64_t(1) << 62), i};
  std::ranges::sort(order);
  std::vector<bool> out(n);
  for (size_t i = 0; i < wanted; ++i) out[order[i].second] = true;
  for (size_t i = 0; i < n; ++i) (out[i] ? held : rest).add(set.picture(int64_t(i)), set.labels[i], set.names[i]);
  set = std::move(rest);
  return held;
}

}  // namespace toy
