#include "common/run_report/html_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/printable.h"

namespace cohort {
namespace {

// The policy forbids scripts, and everything that is not in the page itself.
constexpr char kHead[] = R"(<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root { --ink: #1f2430; --soft: #667085; --line: #dfe3ea; --card: #ffffff; --page: #f5f6f8; --mark: #2f6fdb; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ef; --soft: #98a2b3; --line: #343b48; --card: #1c2129; --page: #12161c; --mark: #6ea1ff; }
}
* { box-sizing: border-box; }
body { margin: 0; padding: 24px; background: var(--page); color: var(--ink);
       font: 14px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 1180px; margin: 0 auto; }
h1 { font-size: 24px; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 17px; margin: 28px 0 10px; }
p.note, td.note, ul.note { color: var(--soft); }
p.note { margin: 0 0 12px; overflow-wrap: anywhere; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; margin: 16px 0; }
.tile, .card { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 12px 14px; }
.tile b { display: block; font-size: 20px; font-weight: 600; overflow-wrap: anywhere; }
.tile span { color: var(--soft); font-size: 12px; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(460px, 100%), 1fr)); gap: 16px; }
.card h3 { margin: 0 0 6px; font-size: 14px; font-weight: 600; overflow-wrap: anywhere; }
.legend { display: flex; flex-wrap: wrap; gap: 2px 14px; font-size: 12px; color: var(--soft); margin-bottom: 2px; }
.legend svg { width: 22px; height: 8px; margin-right: 5px; vertical-align: middle; }
svg.chart { display: block; width: 100%; height: auto; }
svg text { font-size: 11px; fill: var(--soft); }
svg .grid { stroke: var(--line); stroke-width: 1; }
svg .axis { stroke: var(--soft); stroke-width: 1; }
svg .bar { fill: var(--mark); }
table { border-collapse: collapse; background: var(--card); border: 1px solid var(--line); border-radius: 8px; }
th, td { text-align: left; padding: 4px 12px; border-top: 1px solid var(--line); vertical-align: top;
         font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
tr:first-child > * { border-top: 0; }
th { font-weight: 600; color: var(--soft); }
.wide { overflow-x: auto; }
.matrix td { text-align: right; min-width: 70px; }
details { margin: 10px 0; }
summary { cursor: pointer; }
pre { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 12px; overflow-x: auto;
      font: 12px/1.45 ui-monospace, "DejaVu Sans Mono", monospace; }
</style>
)";

}  // namespace

std::string HtmlText(std::string_view text) {
  std::string html;
  for (const char c : Printable(text)) {
    switch (c) {
      case '&':
        html += "&amp;";
        break;
      case '<':
        html += "&lt;";
        break;
      case '>':
        html += "&gt;";
        break;
      case '"':
        html += "&quot;";
        break;
      case '\'':
        html += "&#39;";
        break;
      default:
        html += c;
    }
  }
  return html;
}

std::string HtmlPairs(const std::vector<std::pair<std::string, std::string>>& rows) {
  if (rows.empty()) return "";
  std::string html = "<table>\n";
  for (const auto& [name, value] : rows) {
    html += fmt::format("<tr><th>{}</th><td>{}</td></tr>\n", HtmlText(name), HtmlText(value));
  }
  return html + "</table>\n";
}

std::string ReportTable::Html() const {
  if (rows.empty()) return "";
  std::string html = "<div class=\"wide\"><table>\n<tr>";
  for (const std::string& cell : head) html += fmt::format("<th>{}</th>", HtmlText(cell));
  html += "</tr>\n";
  for (const auto& row : rows) {
    html += "<tr>";
    for (const std::string& cell : row) html += fmt::format("<td>{}</td>", HtmlText(cell));
    html += "</tr>\n";
  }
  return html + "</table></div>\n";
}

std::string ReportTable::Text() const {
  if (rows.empty()) return "";
  std::vector<std::vector<std::string>> lines = rows;
  lines.insert(lines.begin(), head);
  std::vector<size_t> widths;
  for (auto& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) {
      line[i] = PrintableLine(line[i]);
      if (i >= widths.size()) widths.push_back(0);
      widths[i] = std::max(widths[i], line[i].size());
    }
  }
  std::string text;
  for (const auto& line : lines) {
    std::string row;
    for (size_t i = 0; i < line.size(); ++i) {
      row += i + 1 < line.size() ? fmt::format("{:<{}}  ", line[i], widths[i]) : line[i];
    }
    text += row.substr(0, row.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string HtmlSection(std::string_view heading, const std::string& html) {
  if (html.empty()) return "";
  return fmt::format("<section><h2>{}</h2>\n{}</section>\n", HtmlText(heading), html);
}

std::string HtmlPage(std::string_view title, const std::string& body) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head>\n{}<title>{}</title>\n</head>\n<body><main>\n{}"
      "</main></body></html>\n",
      kHead, HtmlText(title), body);
}

}  // namespace cohort
