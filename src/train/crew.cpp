#include "train/crew.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "toy/base/json_text.h"
#include "train/archive.h"
#include "train/shard_optimizer.h"

namespace toy {
// What each type consists of, for Packer and Unpacker, which look for it in this namespace.
static void archive(auto& a, AdapterSpec::Map& v) { a(v.rank, v.scale, v.magnitude, v.principal); }
static void archive(auto& a, AdapterSpec& v) { a(v.maps, v.dropout, v.head, v.chat_template); }
static void archive(auto& a, Roles& v) { a(v.train, v.freeze); }
static void archive(auto& a, PreferenceOptions& v) { a(v.loss, v.beta); }
static void archive(auto& a, ContrastiveOptions& v) { a(v.temperature, v.pooling); }
static void archive(auto& a, Recompute& v) { a(v.whole, v.light); }
static void archive(auto& a, OptimizerOptions& v) {
  a(v.kind);
  OptimizerOptions::fields(v, [&](const Option&, auto& value) { a(value); });
}
static void archive(auto& a, TrainerOptions& v) {
  TrainerOptions::fields(v, [&](const Option&, auto& value) { a(value); });
  a(v.seed, v.preference, v.contrastive, v.classes, v.recompute);
}
static void archive(Packer& a, TensorType& v) {
  a(v.dtype, std::vector<int64_t>(v.shape.begin(), v.shape.end()), v.rows);
}
static void archive(Unpacker& a, TensorType& v) {
  std::vector<int64_t> shape;
  a(v.dtype, shape, v.rows);
  v.shape = Shape(shape);
}
static void archive(auto& a, Answer& v) { a(v.first, v.places, v.chosen, v.id); }
static void archive(auto& a, Windows& v) {
  a(v.inputs, v.targets, v.sequence, v.position, v.trained, v.answers, v.pixels, v.shares);
}
static void archive(auto& a, StepPart& v) { a(v.rows, v.weights, v.lr, v.scale, v.steps, v.updates); }
static void archive(auto& a, FreeMemory& v) { a(v.machine, v.group, v.group_id); }
static void archive(auto& a, RankMemory& v) { a(v.rank, v.host, v.planned, v.needed, v.free); }
static void archive(auto& a, PartResult& v) { a(v.losses, v.norm, v.error, v.code, v.memory); }
static void archive(auto& a, TrainerRecipe& v) {
  a(v.device, v.arithmetic, v.threads, v.spec, v.name, v.lens, v.roles, v.adapters, v.options, v.tensors);
}

namespace {

constexpr size_t kPiece = size_t(4) << 20;  // bytes of a moment that are on their way

ModelSpec spec_of(const TrainerRecipe& r) {
  ModelSpec spec = spec_from_json(parse_json<nlohmann::json>(r.spec), "model");
  spec.name = r.name, spec.lens = r.lens, spec.roles = r.roles, spec.adapters = r.adapters;
  return spec;
}

TrainerRecipe recipe_of(const Device& device, const Model& model, const TrainerOptions& options) {
  TrainerRecipe r{.version = TOY_VERSION,
                  .device = std::string(device.name()),
                  .arithmetic = device.arithmetic(options.compute),
                  .threads = device.threads() == available_cpus() ? 0 : device.threads(),  // else each rank all of its
                  .spec = json_text(to_json(model.spec)),
                  .name = model.spec.name,
                  .lens = model.spec.lens,
                  .roles = model.spec.roles,
                  .adapters = model.spec.adapters,
                  .options = options,
                  .tensors = {}};
  for (const std::string& name : model.params->names()) r.tensors.emplace_back(name, model.params->type(name));
  check(spec_of(r) == model.spec, "ranks: model {} is of a family that other processes do not know; train it in one",
        model.spec.name);
  return r;
}

}  // namespace

PartResult PartResult::of_failure() {
  PartResult r{.error = "an unknown failure", .thrown = std::current_exception()};
  try {
    throw;
  } catch (const Error& e) {
    r.error = e.what(), r.code = e.code();
  } catch (const std::bad_alloc&) {
    r.error = "there is not enough memory", r.code = ErrorCode::bad_input;
  } catch (const std::exception& e) {
    r.error = e.what();
  } catch (...) {  // said above
  }
  return r;
}

std::vector<std::byte> packed(const TrainerRecipe& recipe) {
  Packer p;
  p(Order::begin, recipe.version, recipe);
  return p.bytes();
}

TrainerRecipe trainer_recipe(std::span<const std::byte> bytes) {
  Unpacker u(bytes);
  Order order;
  TrainerRecipe r;
  u(order, r.version);
  check(r.version == TOY_VERSION, "it is toy {}, rank 0 is toy {}; install one version everywhere", TOY_VERSION,
        r.version);
  u(r);
  return r;
}

StepPart step_part(std::span<const std::byte> bytes) {
  Unpacker u(bytes);
  Order order;
  StepPart part;
  u(order, part);
  return part;
}

PartResult part_result(std::span<const std::byte> bytes) {
  Unpacker u(bytes);
  PartResult result;
  u(result);
  return result;
}

std::vector<std::byte> packed(const PartResult& result) {
  Packer p;
  p(result);
  return p.bytes();
}

Model empty_model(const TrainerRecipe& recipe, const Device& device) {
  Model model{spec_of(recipe), std::make_unique<ParamStore>(device), nullptr};
  model.params->add(recipe.tensors);
  return model;
}

Crew::Crew(Device& device, const Model& model, const TrainerOptions& options, const RankMemory& memory)
    : ranks_(*options.ranks),
      device_(device),
      options_(options),
      owners_(options.local_steps > 0 ? sharing_owners(model.spec, options) : owners_of(model.spec, options)),
      pool_(device.threads()),
      skips_(options.local_steps > 0 ? size_t(ranks_.size()) : 0),
      memory_{memory} {
  ranks_.give_up_after(options.rank_timeout);
  for (const TensorSpec& t : trained_tensors(model.spec)) tensors_.push_back(t.name);
  if (DeviceSums::possible(device))
    on_device_ =
        std::make_unique<DeviceSums>(device, ranks_, options.wire == TrainerOptions::Wire::bf16, options.rank_timeout);
  if (!leads()) return;
  to_others(packed(recipe_of(device, model, options)));
  try {
    collect({});
    require_shared_room(memory_);
  } catch (const Error&) {
    close();
    throw;
  }
}

Crew::~Crew() {
  if (leads()) close();
}

void Crew::close() noexcept {
  try {
    to_others(std::vector{std::byte(Order::close)});
  } catch (const std::exception&) {  // there is nobody left to tell
  }
}

void Crew::to_others(std::span<const std::byte> bytes) {
  for (int r = 1; r < ranks_.size(); ++r) ranks_.send(r, bytes);
}

void Crew::share(std::initializer_list<const ParamStore*> stores) {
  if (leads()) to_others(std::vector{std::byte(Order::state)});
  for (const ParamStore* store : stores)
    for (const std::string& name : store->names()) broadcast(0, *store, name);
}

void Crew::broadcast(int root, const ParamStore& store, const std::string& name) {
  const Place at = store.place(name);
  std::vector<std::byte> bytes;
  const size_t size = bytes_of(store.stored(name), store.type(name).shape);
  if (on_device_) return on_device_->broadcast(root, at, size);
  if (device_.host_visible() && !store.frozen(name)) return ranks_.broadcast(root, {device_.host(at), size});
  bytes.resize(size);
  if (ranks_.rank() == root) device_.download(bytes.data(), at, size);
  ranks_.broadcast(root, bytes);
  if (ranks_.rank() != root) device_.upload(at, bytes.data(), size);
}

void Crew::spread(const ParamStore& weights) {
  for (size_t i = 0; i < owners_.size(); ++i) broadcast(owners_[i], weights, tensors_[i]);
}

void Crew::fetch(int rank, const std::string& there, size_t bytes, const Sink& sink) {
  Packer p;
  p(Order::fetch, there);
  ranks_.send(rank, p.bytes());
  std::exception_ptr failure;
  for (size_t at = 0; at < bytes; at += kPiece) {
    const std::vector<std::byte> piece = ranks_.receive(rank);
    if (failure) continue;
    try {
      sink(piece);
    } catch (...) {  // a full disk, say: the rank still sends all, and then waits for the next order
      failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

void Crew::give(int rank, const ParamStore& copy, const std::string& name, const std::string& there) {
  std::vector<std::byte> bytes(bytes_of(copy.stored(name), copy.type(name).shape));
  device_.download(bytes.data(), copy.place(name), bytes.size());
  Packer p;
  p(Order::give, there, bytes);
  ranks_.send(rank, p.bytes());
}

void Crew::serve(Order order, std::span<const std::byte> message, const ParamStore& moments,
                 const ParamStore& weights) {
  Unpacker u(message);
  std::string name;
  u(order, name);
  const ParamStore& store = moments.has(name) ? moments : weights;
  std::vector<std::byte> bytes;
  if (order == Order::fetch) {
    const size_t all = bytes_of(store.stored(name), store.type(name).shape);
    for (size_t at = 0; at < all; at += kPiece) {
      bytes.resize(std::min(kPiece, all - at));
      device_.download(bytes.data(), store.place(name) + at, bytes.size());
      ranks_.send(0, bytes);
    }
    return;
  }
  u(bytes);
  device_.upload(store.place(name), bytes.data(), bytes.size());
}

StepPart Crew::part_of(const StepPart& step, int rank) const {
  const auto all = int64_t(step.rows.inputs.size()), begin = all * rank / ranks_.size(),
             count = all * (rank + 1) / ranks_.size() - begin;
  const auto weights = step.weights.begin() + begin;
  StepPart part{.rows = step.rows.part(begin, count),
                .weights = {weights, weights + count},
                .lr = step.lr,
                .steps = step.steps,
                .updates = step.updates};
  if (options_.local_steps == 0) return part;
  const auto sum = [](const std::vector<float>& v) { return std::accumulate(v.begin(), v.end(), 0.0); };
  const double mine = sum(part.weights);
  if (mine != 0) part.scale = sum(step.weights) / mine;
  for (float& w : part.weights) w = float(w * part.scale);
  return part;
}

void Crew::hand_out(const StepPart& step) {
  for (int r = 1; r < ranks_.size(); ++r) {
    Packer p;
    p(Order::step, part_of(step, r));
    ranks_.send(r, p.bytes());
  }
}

std::vector<double> Crew::collect(const PartResult& mine) {
  std::vector<PartResult> results{mine};
  for (int r = 1; r < ranks_.size(); ++r) results.push_back(part_result(ranks_.receive(r)));
  std::vector<double> losses;
  for (int r = 0; r < ranks_.size(); ++r) {
    const PartResult& result = results[size_t(r)];
    const std::string who = r == 0 ? "" : fmt::format("rank {} (host {}): ", r, ranks_.host(r));
    if (result.thrown) std::rethrow_exception(result.thrown);
    if (!result.error.empty()) throw Error(result.code, who + result.error);
    const bool same = options_.local_steps == 0;
    if (same && std::bit_cast<uint64_t>(result.norm) != std::bit_cast<uint64_t>(mine.norm))
      fail_internal("{}the norm of the gradient was {} there and {} on rank 0; the machines compute differently", who,
                    result.norm, mine.norm);
    if (!same && r > 0) skips_[size_t(r)] = std::isfinite(result.norm) ? 0 : skips_[size_t(r)] + 1;
    if (result.memory) memory_.push_back(*result.memory);
    losses.insert(losses.end(), result.losses.begin(), result.losses.end());
  }
  return losses;
}

void Crew::reserve(size_t bytes) {
  if (on_device_) return on_device_->reserve(bytes);
  const DType type = device_.storage(DType::f32);
  reserve_sums(buffers_, ranks_.size(), type, bytes / size_of(type), options_.wire == TrainerOptions::Wire::bf16);
  if (!device_.host_visible() && copy_.bytes() < bytes) copy_ = Buffer(bytes);
}

void Crew::sum(ThreadPool& pool, Place begin, size_t bytes) {
  if (on_device_) return on_device_->sum(begin, bytes);
  const DType type = device_.storage(DType::f32);
  const bool in_bf16 = options_.wire == TrainerOptions::Wire::bf16;
  if (device_.host_visible()) return sum_ranks(ranks_, pool, buffers_, type, {device_.host(begin), bytes}, in_bf16);
  if (copy_.bytes() < bytes) copy_ = Buffer(bytes);
  device_.download(copy_.data(), begin, bytes);
  sum_ranks(ranks_, pool, buffers_, type, {copy_.data(), bytes}, in_bf16);
  device_.upload(begin, copy_.data(), bytes);
}

}  // namespace toy
