#include "toy/runs/tensorboard.h"

#include <fmt/format.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "toy/base/error.h"
#include "toy/runs/run.h"

namespace toy::runs {
namespace {

uint32_t masked(uint32_t crc) { return std::rotr(crc, 15) + 0xa282ead8u; }

template <class T>
std::string little_endian(T v) {
  std::string s;
  for (size_t i = 0; i < sizeof(T); ++i) s += char(v >> (8 * i) & 0xff);
  return s;
}

// ---- protocol buffers: fields of tensorflow/core/util/event.proto and framework/summary.proto
std::string varint(uint64_t v) {
  std::string s;
  for (; v >= 0x80; v >>= 7) s += char(v | 0x80);
  return s + char(v);
}
std::string key(int field, int wire) { return varint(uint64_t(field) << 3 | uint64_t(wire)); }
std::string bytes_field(int field, std::string_view b) { return key(field, 2) + varint(b.size()) + std::string(b); }
std::string double_field(int field, double v) { return key(field, 1) + little_endian(std::bit_cast<uint64_t>(v)); }
std::string float_field(int field, float v) { return key(field, 5) + little_endian(std::bit_cast<uint32_t>(v)); }

using Scalars = std::vector<std::pair<std::string, double>>;

template <class Fields>
void add_optional(const Fields& fields, const std::string& group, Scalars& list) {
  const auto add = [&](const char* name, const std::optional<double>& value, const char*) {
    if (value) list.emplace_back(group + name, *value);
  };
  Fields::fields(fields, add);
}

// Charts are grouped by what stands before the slash.
Scalars scalars_of(const Event& e) {
  if (const Step* s = e.as<Step>()) {
    Scalars list{{"train/loss", s->loss}, {"train/lr", s->lr}, {"train/tokens_per_second", s->tokens_per_second}};
    if (s->grad_norm) list.emplace_back("train/grad_norm", *s->grad_norm);
    add_optional(s->rewards, "train/", list), add_optional(s->policy, "train/", list);
    return list;
  }
  if (const Eval* v = e.as<Eval>()) {
    if (v->reward) return {{"validation/reward", *v->reward}};
    Scalars list{{"validation/loss", v->loss}, {"validation/nats_per_byte", v->nats_per_byte}};
    add_optional(v->rewards, "validation/", list);
    return list;
  }
  if (const Tap* t = e.as<Tap>()) return {{"tap_rms/" + t->name, t->rms}, {"tap_absmax/" + t->name, t->absmax}};
  if (const Grad* g = e.as<Grad>()) return {{"grad_rms/" + g->name, g->rms}, {"grad_absmax/" + g->name, g->absmax}};
  if (const Drift* d = e.as<Drift>())
    return {{"drift_l2/" + d->name, d->l2_to_init}, {"drift_cos/" + d->name, d->cos_to_init}};
  if (const OpTiming* o = e.as<OpTiming>()) return {{fmt::format("op_us/{}_{}", o->pass, o->op), o->us}};
  return {};
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t c = ~0u;
  for (const char b : bytes) {
    c ^= static_cast<unsigned char>(b);
    for (int bit = 0; bit < 8; ++bit) c = c & 1 ? 0x82f63b78u ^ (c >> 1) : c >> 1;  // Castagnoli, bits reversed
  }
  return ~c;
}

std::string tfrecord(std::string_view bytes) {
  const std::string length = little_endian(uint64_t(bytes.size()));
  return length + little_endian(masked(crc32c(length))) + std::string(bytes) + little_endian(masked(crc32c(bytes)));
}

TensorBoardWriter::TensorBoardWriter(const std::string& folder, double wall_time) : wall_time_(wall_time) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  check(!error && std::filesystem::is_directory(folder), "tensorboard: cannot make the folder '{}'", folder);
  const std::string name = fmt::format("events.out.tfevents.{:010.0f}.{}.{}", wall_time, this_host(0).name, ::getpid());
  path_ = (std::filesystem::path(folder) / name).string();
  file_.open(path_, std::ios::binary | std::ios::app);
  check(file_.good(), "tensorboard: cannot make '{}': {}", path_, std::strerror(errno));
  append(double_field(1, wall_time) + bytes_field(3, "brain.Event:2"));
}

void TensorBoardWriter::write(const Event& event) {
  std::string summary;
  for (const auto& [tag, v] : scalars_of(event))
    summary += bytes_field(1, bytes_field(1, tag) + float_field(2, float(v)));
  if (summary.empty()) return;
  append(double_field(1, wall_time_ + event.t) + key(2, 0) + varint(uint64_t(event.step.value_or(0))) +
         bytes_field(5, summary));
}

void TensorBoardWriter::append(std::string_view record) {
  file_ << tfrecord(record) << std::flush;
  check(file_.good(), "{}: cannot write: {}", path_, std::strerror(errno));
}

}  // namespace toy::runs
