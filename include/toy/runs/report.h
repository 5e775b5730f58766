// What a log shows: its curves, and a page with all of it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "toy/runs/log.h"
#include "toy/runs/plot.h"
#include "toy/runs/run.h"

namespace toy::runs {

/// A chart of one metric.
struct Curve {
  std::string metric;
  Chart chart;
};

/// Metrics that curves() knows: loss, validation_loss, lr, grad_norm, tokens_per_second, drift, drift_cos, tap, grad.
std::vector<std::string> metrics();
/// One chart for each metric that the log has, in the order of metrics(). The chart of the loss has the validation's
/// too; those of drift, tap and grad have a series for each name.
std::vector<Curve> curves(const Log& log);
/// What a chart goes along: optimizer steps, tokens that were trained on, or seconds since the start of the run.
enum class Along { step, tokens, time };
/// One metric of several runs in one chart, a series for each. Throws Error{bad_input} for an unknown metric and for
/// those that have a series for each name.
Chart compare_chart(const std::string& metric, std::span<const Log> logs, std::span<const std::string> names,
                    Along along = Along::step);

/// One HTML file with its styles, drawings and script in it: it reads nothing else, from disk or network.
std::string html_report(const Log& log, const Summary& summary);
/// The same of several runs: what they reached, what differs in their options, and their curves in the same charts.
/// Their ids are told apart: name_apart().
std::string html_report(std::span<const Log> logs, std::span<const Summary> summaries);

}  // namespace toy::runs
