// libFuzzer: the first byte says what the others are: a picture, records of CIFAR, or files of IDX. They are refused
// with an Error, or give pictures whose values all are there.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "image/codecs.h"
#include "testing/aligned.h"
#include "toy/base/error.h"
#include "toy/image/image_set.h"

namespace {

using namespace toy;

void require(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

void parse(uint8_t kind, std::span<const std::byte> bytes) {
  if (kind % 4 == 0) {
    const Picture p = parse_picture(bytes, "fuzz");
    require(p.width > 0 && p.height > 0 && p.values.size() == size_t(p.width * p.height * p.channels), "a picture");
    return;
  }
  ImageSet set{32, 3, std::vector<std::string>(10)};
  if (kind % 4 == 3) {  // pictures and labels, cut where a byte says
    const size_t cut = bytes.empty() ? 0 : std::min<size_t>(bytes.size(), uint8_t(bytes[0]));
    parse_idx(bytes.subspan(std::min<size_t>(1, bytes.size()), cut - std::min<size_t>(1, cut)), "fuzz pictures",
              bytes.subspan(cut), "fuzz labels", set);
  } else {
    parse_cifar(bytes, "fuzz", kind % 4 == 2, set);
  }
  require(set.values.size() == size_t(set.count() * set.values_of_one()), "values of a set");
  for (const int32_t label : set.labels) require(label >= 0 && label < 10, "a label");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const testing::Aligned aligned({reinterpret_cast<const char*>(data) + 1, size - 1});
  (void)exif_orientation(aligned.span());
  try {
    parse(data[0], aligned.span());
  } catch (const Error& e) {
    require(e.code() == ErrorCode::bad_input, e.what());
  }
  return 0;
}
