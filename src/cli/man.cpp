#include "cli/man.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <utility>

#include "cli/help.h"
#include "toy/base/atomic_file.h"

namespace toy::cli {
namespace {

// A text as roff reads it: hyphens that can be copied, no request at the beginning of a line.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '-')
      out += "\\-";
    else if (c == '\\')
      out += "\\e";
    else if (c == '\'')
      out += "\\(aq";
    else if (c == '`')
      out += "\\(ga";
    else if (c == '~')
      out += "\\(ti";
    else if (c == '^')
      out += "\\(ha";
    else
      out += c;
  }
  return out.starts_with(".") ? "\\&" + out : out;
}

// Turns the lines of a help text into sections and entries.
class Formatter {
 public:
  void add(const std::string& line) {
    if (line.empty()) return paragraph();
    if (line.starts_with("Usage: ")) return section("SYNOPSIS"), put(line.substr(7)), void(pending_ = "ARGUMENTS");
    if (line.front() != ' ' && line.back() == ':') return heading(line.substr(0, line.size() - 1));
    if (verbatim_ && line.front() == ' ') return put(line.substr(2));
    if (!line.starts_with("  ")) return prose(line);
    const size_t begin = line.find_first_not_of(' ');
    if (begin > 2) return put(line.substr(begin));  // the meaning of a long term
    const size_t gap = line.find("  ", begin);
    if (!pending_.empty()) section(std::exchange(pending_, ""));
    entries_ = true;
    out_ += fmt::format(".TP\n.B {}\n", roff(line.substr(begin, gap - begin)));
    if (gap != line.npos) put(line.substr(line.find_first_not_of(' ', gap)));
  }
  std::string finish() {
    end_verbatim();
    return std::move(out_);
  }

 private:
  void put(const std::string& text) { out_ += roff(text) + "\n"; }
  void section(const std::string& name) {
    end_verbatim();
    out_ += fmt::format(".SH {}\n", roff(name));
    blank_ = true, entries_ = false;
  }
  void heading(std::string name) {
    pending_.clear();
    const bool examples = name == "Example" || name == "Examples";
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return char(std::toupper(c)); });
    section(name);
    if (examples) out_ += ".nf\n", verbatim_ = true;
  }
  void prose(const std::string& line) {
    end_verbatim();
    if (entries_ || !pending_.empty()) section("NOTES"), pending_.clear();
    if (!blank_) out_ += ".PP\n";
    put(line);
    blank_ = false;
  }
  void paragraph() {
    if (!verbatim_) blank_ = false;
  }
  void end_verbatim() {
    if (verbatim_) out_ += ".fi\n";
    verbatim_ = false;
  }
  std::string out_;
  bool verbatim_ = false, blank_ = true, entries_ = false;  // blank_: nothing stands above in this section
  std::string pending_;                                     // a section that begins if there is something in it
};

std::string man_page(const CLI::App& app, const std::string& words) {
  std::string dashed = words, title;
  std::ranges::replace(dashed, ' ', '-');
  for (const char c : dashed) title += char(std::toupper(static_cast<unsigned char>(c)));
  std::string summary = app.get_description();
  if (summary.ends_with(".")) summary.pop_back();
  std::string page = fmt::format(".TH {} 1 \"\" \"toy {}\" \"toy\"\n.SH NAME\n{} \\- {}\n", roff(title), TOY_VERSION,
                                 roff(dashed), roff(summary));
  Formatter formatter;
  std::istringstream lines(help_text(&app, words, CLI::AppFormatMode::All));
  std::string line;
  std::getline(lines, line);  // the summary
  while (std::getline(lines, line)) formatter.add(line);
  page += formatter.finish();
  page +=
      ".SH EXIT STATUS\n0 for done, 2 for bad input, 1 for failure. A run that Ctrl\\-C has stopped ends by that "
      "signal.\n"
      ".SH SEE ALSO\n\\fItoy help pages\\fP lists the pages of the manual.\n";
  return page;
}

void write_below(const CLI::App& app, const std::string& words, const std::filesystem::path& folder) {
  std::string file = words;
  std::ranges::replace(file, ' ', '-');
  AtomicFile out((folder / (file + ".1")).string());
  out.write(man_page(app, words));
  out.commit();
  for (const CLI::App* sub : app.get_subcommands({})) write_below(*sub, words + " " + sub->get_name(), folder);
}

}  // namespace

void write_man_pages(const CLI::App& root, const std::string& folder) {
  setenv("COLUMNS", "1000", 1);  // roff breaks the lines
  std::filesystem::create_directories(folder);
  write_below(root, root.get_name(), folder);
}

}  // namespace toy::cli
