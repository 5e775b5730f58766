// Texts and tables for terminals of any width.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace toy::cli {

/// Columns as wide as their widest cell, those of `right` aligned to the right. The first column stays; others are left
/// out from the right where they do not fit into `columns`.
std::string table(const std::vector<std::vector<std::string>>& rows, const std::vector<bool>& right, int columns);

/// Words in lines that begin at column `indent`, the first of them with what is there already. A word that is too long
/// for a line is cut.
std::string wrapped(std::string_view text, size_t columns, size_t indent = 0);

/// Titles and values. A value that is too long for its line continues on the next. Where there is hardly any room next
/// to the titles, it begins below its title.
std::string card(const std::vector<std::pair<std::string, std::string>>& rows, int columns);

}  // namespace toy::cli
