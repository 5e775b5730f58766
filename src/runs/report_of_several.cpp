// Several runs in one page.
#include <fmt/format.h>

#include <algorithm>

#include "runs/page.h"
#include "runs/text.h"
#include "toy/base/utf8.h"
#include "toy/runs/report.h"

namespace toy::runs {
namespace {

std::string table(const std::vector<std::string>& head, const std::string& rows) {
  std::string titles;
  for (const std::string& title : head)
    titles += fmt::format("<th{}>{}</th>", titles.empty() ? "" : " class=\"l\"", markup(title));
  return fmt::format("<div class=\"scroll\"><table><tr>{}</tr>\n{}</table></div>", titles, rows);
}

// A row for each number, a column for each run; the best ones stand out.
std::string results(std::span<const Summary> runs, const std::vector<std::string>& head) {
  const std::vector<Compare> best = compare(runs);
  std::string rows;
  for (const char* name : {"status", "step", "nats_per_byte", "loss", "validation_loss", "best_loss",
                           "best_validation_loss", "reward_margin", "reward_accuracy", "seconds", "tokens_per_second",
                           "tokens", "model", "parameters", "recipe", "started"}) {
    const Column& c = column(name);
    const auto metric = std::find_if(best.begin(), best.end(), [&](const Compare& b) { return b.metric == name; });
    std::string row;
    bool any = false;
    for (const Summary& s : runs) {
      const std::string text = to_text(c, s);
      const bool first = metric != best.end() && runs.size() > 1 && metric->best == s.id;
      row += fmt::format("<td class=\"l{}\">{}</td>", first ? " best" : "", markup(text));
      any = any || text != "-";
    }
    if (any) rows += fmt::format("<tr><td>{}</td>{}</tr>\n", c.title, row);
  }
  const std::string note = have_same_tokens(runs)
                               ? ""
                               : "<p class=\"none\">Tokenizers or validation texts differ, so losses per token do not "
                                 "compare; nats per byte do for one text.</p>";
  return html_card("Results", table(head, rows) + note);
}

std::string options(std::span<const Summary> runs, const std::vector<std::string>& head) {
  std::string rows;
  for (const OptionDifference& d : option_differences(runs)) {
    std::string row;
    for (const std::string& value : d.values) row += fmt::format("<td class=\"l\">{}</td>", markup(value));
    rows += fmt::format("<tr><td>{}</td>{}</tr>\n", markup(d.name), row);
  }
  return html_card("Options that differ", rows.empty() ? "<p class=\"none\">None.</p>" : table(head, rows));
}

}  // namespace

std::string html_report(std::span<const Log> logs, std::span<const Summary> summaries) {
  const std::vector<std::string> names = short_names(summaries);
  std::vector<std::string> ids, head{""};
  for (const Summary& s : summaries) ids.push_back(s.id);
  head.insert(head.end(), names.begin(), names.end());
  std::string title = fmt::format("{}", fmt::join(ids, ", ")), figures;
  const auto draw = [&](const char* metric, Along along, bool hero) {
    const Chart chart = compare_chart(metric, logs, names, along);
    if (!chart.empty()) figures += html_figure(chart, hero);
  };
  draw("loss", Along::step, true);
  for (const Along along : {Along::tokens, Along::time}) draw("loss", along, false);
  for (const Along along : {Along::step, Along::tokens, Along::time}) draw("validation_loss", along, false);
  for (const char* metric : {"reward_margin", "reward_accuracy", "validation_accuracy", "reward", "groups_mixed",
                             "entropy", "length", "clip_share", "lr", "grad_norm", "tokens_per_second"})
    draw(metric, Along::step, false);
  return html_page(title, fmt::format("<header><h1>{}</h1><p>{} runs</p></header>\n", markup(title), summaries.size()) +
                              results(summaries, head) + "<section class=\"charts\">\n" + figures + "</section>\n" +
                              options(summaries, head));
}

}  // namespace toy::runs
