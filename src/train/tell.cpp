#include "train/tell.h"

#include <utility>

#include "toy/base/clock.h"
#include "toy/base/memory.h"
#include "train/run_folder.h"

namespace toy {
namespace {

// Which part of the run an event belongs to.
struct PhaseOf {
  bool before_first_step;
  const char* operator()(const runs::RunStart&) const { return "prepare"; }
  const char* operator()(const runs::Resume&) const { return "prepare"; }
  const char* operator()(const runs::Note&) const { return before_first_step ? "prepare" : "train"; }
  const char* operator()(const runs::Eval&) const { return "eval"; }
  const char* operator()(const runs::Sample&) const { return "eval"; }
  const char* operator()(const runs::RegionEnter& e) const { return of_region(e.name); }
  const char* operator()(const runs::RegionExit& e) const { return of_region(e.name); }
  const char* operator()(const runs::RunEnd&) const { return "end"; }
  template <class Other>
  const char* operator()(const Other&) const {
    return "train";
  }
  static const char* of_region(const std::string& name) { return name == "validation" ? "eval" : "end"; }
};

std::optional<std::string> some(const std::string& path) { return path.empty() ? std::nullopt : std::optional(path); }

}  // namespace

Teller::Teller(TrainObserver& observer, RunFolder& folder)
    : observer_(observer), folder_(folder), begin_(steady_seconds()) {}

double Teller::seconds() const { return steady_seconds() - begin_; }

void Teller::operator()(runs::Body body) {
  const char* phase = std::visit(PhaseOf{!step_}, body);
  const bool begins = std::holds_alternative<runs::RunStart>(body);  // the run does, wherever this process is in it
  operator()(runs::Event{0, begins ? std::nullopt : step_, phase, std::move(body)});
}

void Teller::operator()(runs::Event event) {
  event.t = seconds();
  observer_.event(event);
  folder_.record(std::move(event));
}

void Teller::ended(const TrainResult& r) {
  runs::RunEnd e;
  e.reason = name_of(r.reason);
  e.final_loss = r.final_loss;
  e.seconds = r.seconds;
  e.model = some(r.model_path);
  e.average_model = some(r.average_path);
  e.checkpoint = some(r.checkpoint);
  e.peak_rss_bytes = int64_t(peak_resident_memory());
  if (r.eval && !r.eval->reward) e.nats_per_byte = r.eval->nats_per_byte;
  operator()(std::move(e));
}

void Teller::failed(const Error& error, std::optional<double> loss) try {
  runs::RunEnd e;
  e.reason = "error";
  if (loss) e.final_loss = *loss;
  e.exit_code = error.code() == ErrorCode::bad_input ? 2 : 1;
  e.seconds = seconds();
  e.error = error.what();
  e.peak_rss_bytes = int64_t(peak_resident_memory());
  operator()(std::move(e));
} catch (const std::exception&) {
}

}  // namespace toy
