// The pages of docs/, which are a part of the program.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace toy::cli {

struct Page {
  std::string_view name;  ///< "training.md"
  std::string_view text;  ///< Markdown
  /// Its first heading.
  std::string_view title() const { return text.substr(2, text.find('\n') - 2); }
};

/// In the order of their names.
std::span<const Page> pages();

/// "training", "training.md", "docs/training.md"; nullptr if there is none.
const Page* find_page(std::string_view name);

/// "nat", "Epochs": what the pages' tables of words (`| **nat** | ... |`) say of it, with the page; "" if nothing.
std::string explain_word(std::string_view word);
/// What `toy help` has that is like a word it does not know: words and pages that are named so, else pages that have
/// it;
/// "" for none.
std::string near_topics(std::string_view word);

/// Prints a page on stdout: its text, or on a terminal its lines wrapped, through $PAGER (default: less).
void show(const Page& page);

/// Prints the names and titles of all pages.
void list_pages();

}  // namespace toy::cli
