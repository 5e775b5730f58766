#include "toy/train/worker.h"

#include <optional>

#include "toy/backend/devices.h"
#include "train/archive.h"
#include "train/crew.h"

namespace toy {
namespace {

// All that a rank holds for a trainer of rank 0.
struct Worker {
  Worker(Communicator& ranks, TrainerRecipe recipe) : device(make_device(recipe.device, {.threads = recipe.threads})) {
    const std::string here = device->arithmetic(recipe.options.compute);
    check(here == recipe.arithmetic,
          "this processor rounds differently: {}, that of rank 0: {}; use machines of one kind{}", here,
          recipe.arithmetic, recipe.options.compute == DType::f32 ? "" : ", or --compute f32");
    size_t bytes = 0;
    for (const auto& [name, type] : recipe.tensors) bytes += bytes_of(device->storage(type.dtype), type.shape);
    require_memory(*device, bytes, "the weights of the model");
    model = empty_model(recipe, *device);
    recipe.options.ranks = &ranks;
    trainer.emplace(*device, model, recipe.options);
  }
  std::unique_ptr<Device> device;
  Model model;
  std::optional<Trainer> trainer;
};

}  // namespace

int run_worker(Communicator& ranks) {
  for (;;) {
    const std::vector<std::byte> message = ranks.receive(0);
    Unpacker u(message);
    Order order;
    u(order);
    if (order == Order::leave) {
      int code = 0;
      u(code);
      return code;
    }
    if (order != Order::begin) continue;  // of a trainer that could not be made
    std::optional<Worker> worker;
    PartResult result;
    try {
      worker.emplace(ranks, trainer_recipe(message));
      result.memory = worker->trainer->rank_memory().front();
    } catch (const std::exception&) {
      result = PartResult::of_failure();
    }
    ranks.send(0, packed(result));
    if (worker) worker->trainer->serve();
  }
}

void dismiss_workers(Communicator& ranks, int exit_code) {
  Packer p;
  p(Order::leave, exit_code);
  for (int r = 1; r < ranks.size(); ++r) ranks.send(r, p.bytes());
}

}  // namespace toy
