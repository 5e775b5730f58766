// JPEG by libjpeg.
#include <cstddef>
#include <cstdio>

#include <jpeglib.h>  // needs the two above

#include <csetjmp>

#include "image/codecs.h"
#include "toy/base/error.h"

namespace toy {
namespace {

// A damaged file ends decoding by a jump past libjpeg's frames, in which exceptions must not unwind.
struct Decoder {
  jpeg_decompress_struct jpeg;
  jpeg_error_mgr errors;
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
};

void stop(j_common_ptr common) {
  auto* d = static_cast<Decoder*>(common->client_data);
  common->err->format_message(common, d->message);
  std::longjmp(d->jump, 1);
}

// Level -1 is a warning: something is missing or damaged. Others are remarks.
void remark(j_common_ptr common, int level) {
  if (level < 0) stop(common);
}

// Each returns false after an error. None has anything to be destroyed, as the jump destroys nothing.
bool begin(Decoder& d, const unsigned char* bytes, size_t size) {
  if (setjmp(d.jump)) return false;
  jpeg_create_decompress(&d.jpeg);
  jpeg_mem_src(&d.jpeg, bytes, static_cast<unsigned long>(size));
  jpeg_read_header(&d.jpeg, TRUE);
  return true;
}

bool start(Decoder& d, bool grey) {
  if (setjmp(d.jump)) return false;
  d.jpeg.out_color_space = grey ? JCS_GRAYSCALE : JCS_RGB;
  d.jpeg.dct_method = JDCT_ISLOW;
  jpeg_start_decompress(&d.jpeg);
  return true;
}

bool read(Decoder& d, uint8_t* to, size_t row) {
  if (setjmp(d.jump)) return false;
  while (d.jpeg.output_scanline < d.jpeg.output_height) {
    JSAMPROW line = to + row * d.jpeg.output_scanline;
    jpeg_read_scanlines(&d.jpeg, &line, 1);
  }
  jpeg_finish_decompress(&d.jpeg);
  return true;
}

struct Owner {
  Decoder d{};
  Owner() {
    d.jpeg.err = jpeg_std_error(&d.errors);
    d.errors.error_exit = stop;
    d.errors.emit_message = remark;
    d.jpeg.client_data = &d;
  }
  ~Owner() { jpeg_destroy_decompress(&d.jpeg); }
};

}  // namespace

Picture parse_jpeg(std::span<const std::byte> bytes, const std::string& name) {
  constexpr uint64_t kPixels = 64 * 4096;  // 64 a block; a few bits can end many blocks of a progressive file
  Owner owner;
  Decoder& d = owner.d;
  const auto require = [&](bool good) {
    check(good, "{}: the JPEG file is damaged: {}", name, static_cast<const char*>(d.message));
  };
  require(begin(d, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()));
  check_dimensions(name, d.jpeg.image_width, d.jpeg.image_height, bytes.size(), kPixels);
  check(d.jpeg.num_components == 1 || d.jpeg.num_components == 3, "{}: it has {} colours{}; convert it to RGB", name,
        d.jpeg.num_components, d.jpeg.num_components == 4 ? " (CMYK)" : "");
  const bool grey = d.jpeg.num_components == 1;
  require(start(d, grey));
  Picture p{int64_t(d.jpeg.output_width), int64_t(d.jpeg.output_height), grey ? 1 : 3};
  p.values.resize(size_t(p.width * p.height * p.channels));
  require(read(d, p.values.data(), size_t(p.width * p.channels)));
  return upright(p, exif_orientation(bytes));
}

}  // namespace toy
