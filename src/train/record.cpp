#include "toy/train/record.h"

#include <cmath>
#include <utility>

#include "toy/base/clock.h"
#include "toy/base/memory.h"
#include "toy/runs/run.h"

namespace toy {
Recorder::Recorder(RecordOptions record, const RecipeOptions& recipe, const Device& device, Open open,
                   TrainObserver& next)
    : record_(std::move(record)),
      recipe_(recipe),
      backend_(device.name()),
      open_(std::move(open)),
      next_(next),
      begin_(steady_seconds()) {}

void Recorder::resumed(int64_t step, const std::string& checkpoint) {
  step_ = step;
  resumed_from_ = checkpoint;
  next_.resumed(step, checkpoint);
}

void Recorder::checkpointed(const std::string& path, int64_t step) {
  write("train", runs::Checkpoint{path});
  next_.checkpointed(path, step);
}

void Recorder::warned(const std::string& text) {
  if (sinks_.empty())
    early_notes_.push_back(text);
  else
    write("train", runs::Note{text});
  next_.warned(text);
}

void Recorder::noted(const std::string& text) {
  if (sinks_.empty())
    early_notes_.push_back(text);
  else
    write(step_ ? "eval" : "prepare", runs::Note{text});
  next_.noted(text);
}

double Recorder::now() const { return steady_seconds() - begin_; }

void Recorder::write(const std::string& phase, runs::Body body) {
  const runs::Event e{now(), step_, phase, std::move(body)};
  for (const auto& sink : sinks_) sink->write(e);
}

void Recorder::started(const Start& s) {
  Log log = open_(s, resumed_from_.has_value());
  sinks_ = std::move(log.sinks);
  if (!resumed_from_ || !log.goes_on) {
    runs::RunStart e;
    e.run_id = record_.run_id;
    e.time = runs::utc_now();
    e.toy = record_.toy;
    e.recipe = record_.recipe;
    e.backend = backend_;
    e.git = runs::git_commit(".");
    e.host = runs::this_host(record_.threads);
    e.model = to_json(s.spec);
    e.model["name"] = s.spec.name;
    e.config = record_.config;
    e.effective = record_.effective;
    e.parameters = s.parameters;
    e.steps = recipe_.steps;
    e.tokens_per_step = recipe_.trainer.batch * recipe_.trainer.tokens * recipe_.trainer.accumulate;
    e.train_tokens = s.train_tokens;
    e.validation_tokens = s.validation_tokens;
    e.planned_bytes = int64_t(s.planned_bytes);
    const std::optional<int64_t> step = std::exchange(step_, std::nullopt);  // the run begins, wherever we are in it
    write("prepare", std::move(e));
    step_ = step;
  }
  if (resumed_from_)
    write("prepare", runs::Resume{runs::utc_now(), *resumed_from_, recipe_.steps, record_.config, record_.effective});
  for (const std::string& note : early_notes_) write("prepare", runs::Note{note});
  early_notes_.clear();
  if (!s.recomputing.empty()) write("prepare", runs::Note{s.recomputing});
  for (const std::string& note : s.plan.notes) write("prepare", runs::Note{"plan: " + note});
  next_.started(s);
}

void Recorder::entered(const std::string& region) {
  regions_.emplace_back(region, now());
  write(region == "validation" ? "eval" : "end", runs::RegionEnter{region});
  next_.entered(region);
}

void Recorder::left(const std::string& region) {
  const double begin = regions_.back().second;
  regions_.pop_back();
  write(region == "validation" ? "eval" : "end", runs::RegionExit{region, std::llround((now() - begin) * 1e6)});
  next_.left(region);
}

void Recorder::measured(const runs::Event& event) {
  runs::Event e = event;
  e.t = now();
  for (const auto& sink : sinks_) sink->write(e);
  next_.measured(event);
}

void Recorder::stepped(const Step& s) {
  step_ = s.step;
  loss_ = s.loss;
  runs::Step e;
  e.loss = s.loss;
  e.lr = s.lr;
  e.grad_norm = s.grad_norm;
  e.tokens = recipe_.trainer.batch * recipe_.trainer.tokens * recipe_.trainer.accumulate;
  e.wall_us = std::llround(s.seconds * 1e6);
  e.tokens_per_second = s.tokens_per_second;
  if (s.skipped) e.skipped = true;
  write("train", std::move(e));
  next_.stepped(s);
}

void Recorder::evaluated(const Eval& v) {
  write("eval", runs::Eval{v.loss, v.nats_per_byte, v.whole, v.average_loss});
  if (!v.sample.empty()) write("eval", runs::Sample{v.sample});
  next_.evaluated(v);
}

void Recorder::done(const TrainResult& r, const std::function<bool()>& output_lost) {
  runs::RunEnd e;
  constexpr const char* kReasons[] = {"done", "patience", "time", "stopped"};
  e.reason = kReasons[r.reason];
  e.final_loss = r.final_loss;
  e.seconds = r.seconds;
  if (!r.model_path.empty()) e.model = r.model_path;
  if (!r.checkpoint.empty()) e.checkpoint = r.checkpoint;
  if (!r.average_path.empty()) e.average_model = r.average_path;
  e.peak_rss_bytes = int64_t(peak_resident_memory());
  if (r.eval) e.nats_per_byte = r.eval->nats_per_byte;
  runs::Event event{now(), step_, "end", std::move(e)};
  for (auto sink = sinks_.rbegin(); sink != sinks_.rend(); ++sink) {  // the log last: it holds what became of stdout
    std::get<runs::RunEnd>(event.body).exit_code = output_lost && output_lost() ? 1 : 0;
    (*sink)->write(event);
  }
}

void Recorder::failed(int exit_code, const std::string& error) {
  runs::RunEnd e;
  e.reason = "error";
  e.final_loss = loss_;
  e.exit_code = exit_code;
  e.seconds = now();
  e.error = error;
  e.peak_rss_bytes = int64_t(peak_resident_memory());
  try {
    write("end", std::move(e));
  } catch (const Error&) {  // a full disk, say: what the run failed of is what counts
  }
}

}  // namespace toy
