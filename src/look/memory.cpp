// What a look takes, before anything is computed.
#include <fmt/format.h>

#include <algorithm>

#include "look/parts.h"
#include "toy/base/error.h"
#include "toy/base/memory.h"

namespace toy::looking {

LookMemory memory_of_look(Device& device, const Model& model, int64_t tokens, const LookOptions& o) {
  const Blocks blocks(device, model, tokens, o.exact, false);
  const LookMemory lens = predicts_tokens(model.spec) ? Lens::memory(device, model, o.exact, tokens) : LookMemory();
  const int64_t rows = o.rows > 0 ? std::min(o.rows, tokens) : tokens;
  constexpr size_t kOfPage = 8;  // a byte in base64, in texts that grow
  const size_t of_output = o.output == LookOptions::json   ? kBytesOfJsonNumber
                           : o.output == LookOptions::page ? kOfPage
                                                           : 0;
  const size_t weights = size_t(blocks.heads() * rows * tokens);
  const size_t points = (model.spec.layers.size() + 1) * size_t(tokens) *
                        (sizeof(LensPoint) + size_t(std::min(o.top, model.spec.vocab)) * sizeof(TokenChance));
  const size_t heads = size_t(device.host_threads()) * size_t(tokens * tokens) * sizeof(float);
  const size_t output = of_output * weights + (of_output > 0 ? 16 * points : 0);
  return {std::max(blocks.device_bytes(), lens.device),
          blocks.host_bytes() + weights * sizeof(float) + points + std::max({heads, lens.host, output})};
}

namespace {

bool fits(Device& device, const LookMemory& m) {
  const size_t free = device.memory().free;
  if (device.host_visible()) return free == 0 || m.device + m.host <= free;
  const size_t of_host = available_memory();
  return (free == 0 || m.device <= free) && (of_host == 0 || m.host <= of_host);
}

}  // namespace

void require_look_memory(Device& device, int64_t tokens, const LookOptions& o,
                         const std::function<LookMemory(int64_t tokens, const LookOptions&)>& of) {
  const LookMemory needed = of(tokens, o);
  if (fits(device, needed)) return;
  int64_t most = 0;
  for (int64_t too_many = tokens; too_many - most > 1;) {
    const int64_t middle = most + (too_many - most) / 2;
    (fits(device, of(middle, o)) ? most : too_many) = middle;
  }
  LookOptions fewer = o;
  fewer.rows = std::min<int64_t>(page_rows(tokens), tokens);
  const bool rows_help = (o.rows == 0 || o.rows > fewer.rows) && fits(device, of(tokens, fewer));
  const size_t free = device.host_visible() ? device.memory().free : std::min(device.memory().free, available_memory());
  fail(
      "memory: a look at {} tokens needs {}, and {} are free; {}{}", tokens, format_bytes(needed.device + needed.host),
      format_bytes(free),
      most > 0 ? fmt::format("use at most {} tokens", most) : std::string("use a smaller model or more memory"),
      rows_help ? fmt::format(", or keep the attention of the last {} alone (--rows {})", fewer.rows, fewer.rows) : "");
}

}  // namespace toy::looking
