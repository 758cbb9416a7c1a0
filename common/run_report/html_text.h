#ifndef COHORT_COMMON_RUN_REPORT_HTML_TEXT_H_
#define COHORT_COMMON_RUN_REPORT_HTML_TEXT_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cohort {

// Parts of an HTML page. Every text that comes from a user passes HtmlText, so that it can neither
// end an element or an attribute nor start a script.

// Returns `text` for the content of an element and for a quoted attribute. Unprintable characters
// except newline and tab are escaped as for a terminal.
std::string HtmlText(std::string_view text);

// Returns a table with one row for each pair, name and value.
std::string HtmlPairs(const std::vector<std::pair<std::string, std::string>>& rows);

// A table with a head. Cells are plain text.
struct ReportTable {
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;

  std::string Html() const;
  // The same for a terminal, with aligned columns.
  std::string Text() const;
};

// A part of a page: the heading and its contents, which is HTML. "" for empty contents.
std::string HtmlSection(std::string_view heading, const std::string& html);

// Returns a whole document. `body` is HTML. The page needs nothing from a network.
std::string HtmlPage(std::string_view title, const std::string& body);

}  // namespace cohort

#endif  // COHORT_COMMON_RUN_REPORT_HTML_TEXT_H_
