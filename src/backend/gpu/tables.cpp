#include "backend/gpu/tables.h"

#include "backend/gpu/launches.h"

namespace toy::gpu {
namespace {

// From one address to another, in elements of 4 bytes; 0 where both are null.
int64_t distance(const void* from, const void* to) {
  return (reinterpret_cast<intptr_t>(to) - reinterpret_cast<intptr_t>(from)) / int64_t(sizeof(float));
}

void append_places(std::vector<TensorPlace>& places, const std::vector<OneTensor>& tensors) {
  int first = 0;
  for (const OneTensor& t : tensors) {
    TensorPlace p{.at = {}, .n = t.elements, .first = first, .decay = t.decay};
    for (size_t i = 0; i < t.operands.size(); ++i) p.at[i] = distance(tensors[0].operands[i], t.operands[i]);
    places.push_back(p);
    first += t.groups;
  }
}

}  // namespace

Tables::Tables(Driver& driver, std::span<std::vector<Launch>* const> lists) : memory_(nullptr, {&driver}) {
  std::vector<TensorPlace> places;
  for (const std::vector<Launch>* list : lists)
    for (const Launch& l : *list) append_places(places, l.tensors);
  if (places.empty()) return;
  memory_.reset(driver.allocate(places.size() * sizeof(TensorPlace)));
  driver.upload(memory_.get(), places.data(), places.size() * sizeof(TensorPlace));
  size_t before = 0;
  for (std::vector<Launch>* list : lists)
    for (Launch& l : *list) {
      if (l.tensors.empty()) continue;
      l.args.insert(l.args.end(), {static_cast<TensorPlace*>(memory_.get()) + before, int(l.tensors.size())});
      l.args.insert(l.args.end(), l.tensors[0].operands.begin(), l.tensors[0].operands.end());
      before += l.tensors.size();
    }
}

}  // namespace toy::gpu
