#include "common/run_report/line_chart.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "common/run_report/html_text.h"

namespace cohort {
namespace {

using Catch::Contains;

size_t CountOf(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

const double kNaN = std::numeric_limits<double>::quiet_NaN();

TEST_CASE("text of a user cannot end an element or an attribute") {
  CHECK(HtmlText("<script>alert(\"a\" & 'b')</script>") ==
        "&lt;script&gt;alert(&quot;a&quot; &amp; &#39;b&#39;)&lt;/script&gt;");
  CHECK(HtmlText("a\x1b[2J\n\xff") == "a\\x1b[2J\n\\xff");
  const std::string evil = "</svg><img src=x onerror='go()'>";
  const LineChart chart{.title = evil, .x_label = evil, .lines = {{evil, {{0, 1}, {1, 2}}}}};
  CHECK_THAT(chart.Html(), !Contains("<img") && !Contains("'go"));
  CHECK_THAT(BarChartHtml(evil, {{evil, 1, evil}}), !Contains("<img"));
  CHECK_THAT(HtmlPage(evil, HtmlPairs({{evil, evil}})), !Contains("<img"));
  CHECK_THAT((ReportTable{{evil}, {{evil}}}.Html()), !Contains("<img"));
}

TEST_CASE("a page names nothing outside itself and forbids scripts") {
  const std::string page = HtmlPage("t", "");
  CHECK_THAT(page, !Contains("http") || Contains("http-equiv"));
  CHECK_THAT(page, !Contains("//") && !Contains("<script") && Contains("default-src 'none'"));
}

TEST_CASE("ticks are round and cover the range") {
  CHECK(Ticks(0, 1, 5) == std::vector<double>{0, 0.2, 0.4, 0.6000000000000001, 0.8, 1});
  CHECK(Ticks(3, 97, 5) == std::vector<double>{0, 20, 40, 60, 80, 100});
  CHECK(Ticks(-1, 1, 4) == std::vector<double>{-1, -0.5, 0, 0.5, 1});
  CHECK(Ticks(5, 5, 4) == std::vector<double>{5});
  CHECK(Ticks(1, 1 + 1e-16, 4) == std::vector<double>{1});
  CHECK(Ticks(1, 1 + 3e-16, 4).size() == 2);
  CHECK(TickText(0.25) == "0.25");
  CHECK(TickText(12'000) == "12k");
  CHECK(TickText(1'500'000) == "1.5M");
  CHECK(TickText(-2e9) == "-2G");
  CHECK(TickText(1e-7) == "1e-07");
  CHECK(TickText(0.6000000000000001) == "0.6");
}

TEST_CASE("a thinned line keeps its ends, its extremes and its gaps") {
  std::vector<ChartPoint> points;
  for (int i = 0; i < 10'000; ++i) points.push_back({static_cast<double>(i), std::sin(i / 100.0)});
  points[5'000].y = 50;
  points[6'000].y = -50;
  points[7'000].y = kNaN;
  const auto thin = Thinned(points, 100);
  CHECK(thin.size() <= 101);
  const auto has = [&thin](double y) {
    return std::ranges::any_of(thin, [y](const ChartPoint& p) { return p.y == y; });
  };
  CHECK(has(50));
  CHECK(has(-50));
  CHECK(std::ranges::any_of(thin, [](const ChartPoint& p) { return std::isnan(p.y); }));
  CHECK(std::ranges::is_sorted(thin, {}, &ChartPoint::x));
  CHECK(Thinned(points, 10'000).size() == 10'000);
}

TEST_CASE("a chart has a legend, a path for each line, and marks if they are few") {
  const LineChart chart{
      .title = "loss",
      .x_label = "steps",
      .lines = {{.name = "training", .points = {{0, 1}, {10, kNaN}, {20, 0.5}}},
                {.name = "validation", .points = {{10, 0.75}}, .color = 1, .dashed = true},
                {.name = "nothing", .points = {{10, kNaN}}}}};
  const std::string html = chart.Html();
  CHECK_THAT(html, Contains("<h3>loss</h3>") && Contains(">training</span>") &&
                       Contains(">validation</span>") && !Contains("nothing"));
  CHECK_THAT(html, Contains("stroke-dasharray=\"5 4\"") && Contains(">steps</text>"));
  CHECK(CountOf(html, "<circle") == 3);
  CHECK_THAT(html, Contains("training: 0.5 at 20"));
  // The gap starts the line again.
  const size_t path = html.find("d=\"M", html.find("class=\"chart\""));
  const std::string d = html.substr(path, html.find("/>", path) - path);
  CHECK(CountOf(d, "M") == 2);
  CHECK(CountOf(d, "L") == 0);
  CHECK_THAT(html, !Contains("nan") && !Contains("inf"));
}

TEST_CASE("a constant, a single point and huge numbers have a drawing") {
  for (const std::vector<ChartPoint>& points :
       {std::vector<ChartPoint>{{0, 0}, {1, 0}}, std::vector<ChartPoint>{{5, 3}},
        std::vector<ChartPoint>{{0, -1e300}, {1, 1e300}},
        std::vector<ChartPoint>{{0, 1}, {1, 1 + 1e-16}}}) {
    const std::string html = LineChart{.lines = {{.name = "a", .points = points}}}.Html();
    CHECK_THAT(html, Contains("<svg") && !Contains("nan") && !Contains("inf"));
  }
  CHECK((LineChart{.lines = {{.name = "a"}}}.Html().empty()));
}

TEST_CASE("bars are as long as their values, with the text beside them") {
  const std::string html = BarChartHtml(
      "steps", {{"worker:0", 50, "50 steps"}, {"worker:1", 100, "100 steps"}, {"c", 0, "0"}});
  CHECK_THAT(html, Contains("width=\"135.0\"") && Contains("width=\"270.0\"") &&
                       Contains("width=\"0.0\"") && Contains("100 steps"));
  CHECK(BarChartHtml("steps", {}).empty());
  CHECK_THAT(BarChartHtml("x", {{"a", kNaN, "?"}}), !Contains("nan"));
}

TEST_CASE("a table of a terminal has aligned columns") {
  const ReportTable table{{"name", "value"}, {{"a", "1"}, {"longer", "2\n3"}}};
  CHECK(table.Text() == "name    value\na       1\nlonger  2\\x0a3\n");
  CHECK(ReportTable{}.Text().empty());
}

}  // namespace
}  // namespace cohort
