#include "train/tell.h"

#include <utility>

#include "toy/base/clock.h"
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

}  // namespace toy
