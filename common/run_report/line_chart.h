#ifndef COHORT_COMMON_RUN_REPORT_LINE_CHART_H_
#define COHORT_COMMON_RUN_REPORT_LINE_CHART_H_

#include <string>
#include <vector>

namespace cohort {

struct ChartPoint {
  double x = 0;
  double y = 0;  // not finite: a gap in the line
};

// One line of a chart.
struct ChartLine {
  std::string name;  // for the legend
  std::vector<ChartPoint> points;
  int color = 0;  // a number of the palette
  bool dashed = false;
  bool faint = false;  // a line behind the others
};

// A chart of lines as HTML: a heading, a legend, and an SVG drawing that needs no script. A point
// shows its value when the mouse is over it, unless the line has many.
struct LineChart {
  std::string title;
  std::string x_label;
  std::vector<ChartLine> lines;
  bool unit_square = false;  // both axes run from 0 to 1, with the diagonal: a ROC curve

  // "" if no line has a finite point.
  std::string Html() const;
};

// Returns round numbers that divide [low, high] into about `count` parts: 0, 0.5, 1. They cover the
// range, so the first may be below `low` and the last above `high`.
std::vector<double> Ticks(double low, double high, int count);

// Returns a number for an axis: 0.25, 12k, 1.5M, 1e-05.
std::string TickText(double value);

// Returns at most about `most` points that keep the extremes of each part of the line.
std::vector<ChartPoint> Thinned(const std::vector<ChartPoint>& points, size_t most);

// One bar of a bar chart.
struct ChartBar {
  std::string name;
  double value = 0;
  std::string text;  // beside the bar
};

// Returns horizontal bars with a heading, as HTML; "" without bars.
std::string BarChartHtml(const std::string& title, const std::vector<ChartBar>& bars);

}  // namespace cohort

#endif  // COHORT_COMMON_RUN_REPORT_LINE_CHART_H_
