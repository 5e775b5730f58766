#include <cstdlib>
#include <string>
#include <vector>

#include "toy/base/communicator.h"

namespace toy {

void share_gpus(const Communicator& ranks) {
  constexpr const char* kVariable = "CUDA_VISIBLE_DEVICES";
  if (ranks.local_size() == 1) return;
  const char* const said = std::getenv(kVariable);
  if (!said) {
    setenv(kVariable, std::to_string(ranks.local_rank()).c_str(), 1);
    return;
  }
  std::vector<std::string> listed(1);
  for (const char c : std::string(said)) {
    if (c == ',')
      listed.emplace_back();
    else
      listed.back() += c;
  }
  if (listed.size() >= size_t(ranks.local_size())) setenv(kVariable, listed[size_t(ranks.local_rank())].c_str(), 1);
}

}  // namespace toy
