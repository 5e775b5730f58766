// What a trainer does together with those of other ranks.
#include <algorithm>

#include "toy/base/clock.h"
#include "toy/train/trainer.h"
#include "train/archive.h"
#include "train/crew.h"
#include "train/early_sums.h"
#include "train/gradient_sums.h"
#include "train/local_steps.h"
#include "train/shard_optimizer.h"

namespace toy {

std::span<const RankMemory> Trainer::rank_memory() const {
  return crew_ ? std::span(crew_->memory()) : std::span<const RankMemory>();
}

void Trainer::share() {
  if (crew_->divides_updates())
    crew_->share({model_.params.get()});
  else
    crew_->share({model_.params.get(), &moments_});
  if (local_) local_->begin();
}

// Rank 0: where that has not been, or weights have changed.
void Trainer::share_once() {
  if (!shared_) share();
  shared_ = true;
}

double Trainer::spread() {
  if (!local_) crew_->spread(*model_.params);
  if (!local_ || apart()) return 0;
  const double before = steady_seconds();
  local_->meet(*crew_);
  return steady_seconds() - before;
}

PartResult Trainer::run_part(PartResult result, const std::function<StepPart()>& part) {
  waited_ = 0;
  if (early_) early_->begin();
  try {
    if (result.error.empty()) result = {run_shards(part()), norm_};
  } catch (...) {  // for want of memory, too: the others wait for this rank's sums
    result = PartResult::of_failure();
  }
  if (!early_) return result;
  const double before = steady_seconds();
  summed_ = early_->finish();
  waited_ = steady_seconds() - before;
  return result;
}

std::vector<double> Trainer::run_all(const StepPart& step) {
  if (!crew_) return run_shards(step);
  share_once();
  crew_->hand_out(step);
  const PartResult mine = run_part({}, [&] { return crew_->part_of(step); });
  const double before = steady_seconds();
  std::vector<double> losses = crew_->collect(mine);
  waited_ += steady_seconds() - before;
  return losses;
}

std::vector<std::pair<std::string, TensorType>> Trainer::all_moments() const {
  std::vector<std::pair<std::string, TensorType>> list;
  for (const OwnedMoment& m : all_moments_) list.emplace_back(m.name, m.type);
  return list;
}

const OwnedMoment& Trainer::moment_of_all(const std::string& name) const {
  const auto at = std::ranges::lower_bound(all_moments_, name, {}, &OwnedMoment::name);
  check(at != all_moments_.end() && at->name == name, "trainer: there is no moment '{}'", name);
  return *at;
}

void Trainer::read_moment(const std::string& name, const std::function<void(std::span<const std::byte>)>& sink) {
  if (local_) share_once();  // before which there is nothing to read
  if (moments_.has(name)) {
    const HostTensor t = moments_.host(name);
    return sink({static_cast<const std::byte*>(t.view().data), t.view().bytes()});
  }
  const OwnedMoment& m = moment_of_all(name);
  crew_->fetch(m.rank, m.local, bytes_of(device_.storage(m.type.dtype), m.type.shape), sink);
}

void Trainer::with_moment(const std::string& name, bool write, const UseMoment& f) {
  if (local_) share_once();  // which would be after what is written
  if (moments_.has(name)) return f(moments_, name);
  const OwnedMoment& m = moment_of_all(name);
  ParamStore copy(device_);
  copy.add(name, m.type);
  if (!write) {
    Place at = copy.place(name);
    read_moment(name, [&](std::span<const std::byte> bytes) {
      device_.upload(at, bytes.data(), bytes.size());
      at = at + bytes.size();
    });
  }
  f(copy, name);
  if (write) crew_->give(m.rank, copy, name, m.local);
}

void Trainer::each_moment(bool write, const UseMoment& f) {
  for (const auto& [name, type] : all_moments()) with_moment(name, write, f);
}

void Trainer::fetch_from_owners(bool averages) {
  if (!crew_) return;
  share_once();  // before which the others have no weights
  constexpr std::string_view kAverage = ".ema";
  for (const OwnedMoment& m : all_moments_) {
    if (m.rank == 0 || !m.name.ends_with(kAverage)) continue;
    const std::string weight = m.name.substr(0, m.name.size() - kAverage.size());
    Place at = model_.params->place(weight);
    const auto write = [&](std::span<const std::byte> bytes) {
      device_.upload(at, bytes.data(), bytes.size());
      at = at + bytes.size();
    };
    crew_->fetch(m.rank, averages ? m.local : weight, bytes_of(device_.storage(m.type.dtype), m.type.shape), write);
  }
}

AveragedModel::AveragedModel(Trainer& trainer) : trainer_(trainer) {
  trainer_.fetch_from_owners(true);  // first, for it may share the weights
  here_.emplace(trainer.model_.spec, *trainer.model_.params, trainer.moments_);
}

AveragedModel::~AveragedModel() {
  try {
    trainer_.fetch_from_owners(false);
  } catch (const std::exception&) {  // a rank is lost, as whatever follows will say
  }
}

void Trainer::serve() {
  PartResult failed;  // what went wrong after an answer goes into all that follow
  for (;;) {
    const std::vector<std::byte> message = crew_->ranks().receive(0);
    Unpacker u(message);
    Order order;
    u(order);
    try {
      if (order == Order::state) {
        share();
      } else if (order == Order::fetch || order == Order::give) {
        crew_->serve(order, message, moments_, *model_.params);
      } else if (order == Order::step) {
        crew_->ranks().send(0, packed(run_part(failed, [&] { return step_part(message); })));
      } else if (order == Order::update) {
        StepResult result;
        update(result);
      } else {
        return;
      }
    } catch (const Error&) {  // another failure ends the process: the others may wait for what it was sending
      if (order == Order::step)
        crew_->ranks().send(0, packed(PartResult::of_failure()));
      else
        failed = PartResult::of_failure();
    }
  }
}

}  // namespace toy
