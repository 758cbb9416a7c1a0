#include "common/run_report/line_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>

#include "common/run_report/html_text.h"

namespace cohort {
namespace {

constexpr std::array<std::string_view, 8> kPalette = {"#2f6fdb", "#e07b1f", "#2c9a5b", "#c43d4b",
                                                      "#8257c9", "#8a6a4f", "#d05fa2", "#2aa3b5"};
constexpr double kWidth = 520, kHeight = 260;
constexpr double kLeft = 56, kRight = 14, kTop = 10, kBottom = 38;
constexpr double kSquare = 340;  // the width of a unit square, whose height is kHeight
constexpr size_t kMostPoints = 800;
constexpr size_t kMostMarks = 60;

std::string_view Color(int number) {
  return kPalette[static_cast<size_t>(number) % kPalette.size()];
}

std::string Stroke(const ChartLine& line) {
  return fmt::format("fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"{}{}", Color(line.color),
                     line.faint ? "1.2" : "1.8", line.dashed ? " stroke-dasharray=\"5 4\"" : "",
                     line.faint ? " stroke-opacity=\"0.4\"" : "");
}

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void Add(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return low > high; }
};

// Maps values to coordinates of the drawing.
struct Frame {
  double x_low = 0, x_high = 1, y_low = 0, y_high = 1;
  double width = kWidth;

  double X(double x) const {
    return kLeft + (x - x_low) / (x_high - x_low) * (width - kLeft - kRight);
  }
  double Y(double y) const {
    return kHeight - kBottom - (y - y_low) / (y_high - y_low) * (kHeight - kTop - kBottom);
  }
};

std::string Text(double x, double y, std::string_view anchor, std::string_view text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     HtmlText(text));
}

std::string Segment(double x1, double y1, double x2, double y2, std::string_view kind) {
  return fmt::format(
      "<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", kind, x1,
      y1, x2, y2);
}

std::string Axes(const Frame& f, const std::vector<double>& x_ticks,
                 const std::vector<double>& y_ticks, const std::string& x_label) {
  const double bottom = kHeight - kBottom, right = f.width - kRight;
  std::string svg;
  for (const double tick : y_ticks) {
    svg += Segment(kLeft, f.Y(tick), right, f.Y(tick), "grid");
    svg += Text(kLeft - 6, f.Y(tick) + 4, "end", TickText(tick));
  }
  for (const double tick : x_ticks) {
    if (tick < f.x_low || tick > f.x_high) continue;
    svg += Segment(f.X(tick), bottom, f.X(tick), bottom + 4, "axis");
    svg += Text(f.X(tick), bottom + 16, "middle", TickText(tick));
  }
  svg += Segment(kLeft, bottom, right, bottom, "axis");
  return svg + Text((kLeft + right) / 2, kHeight - 6, "middle", x_label);
}

std::string Lines(const Frame& f, const ChartLine& line) {
  const std::vector<ChartPoint> points = Thinned(line.points, kMostPoints);
  std::string path, marks;
  bool open = false;
  for (const ChartPoint& p : points) {
    if (!std::isfinite(p.y)) {
      open = false;
      continue;
    }
    path += fmt::format("{}{:.1f} {:.1f}", open ? "L" : "M", f.X(p.x), f.Y(p.y));
    open = true;
    if (line.faint || points.size() > kMostMarks) continue;
    marks += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.6\" fill=\"{}\"><title>{}</title></circle>\n",
        f.X(p.x), f.Y(p.y), Color(line.color),
        HtmlText(fmt::format("{}: {:.6g} at {:.6g}", line.name, p.y, p.x)));
  }
  return fmt::format("<path {} d=\"{}\"/>\n{}", Stroke(line), path, marks);
}

std::string Legend(const std::vector<ChartLine>& lines) {
  std::string html;
  for (const ChartLine& line : lines) {
    html +=
        fmt::format("<span><svg viewBox=\"0 0 22 8\"><path {} d=\"M0 4L22 4\"/></svg>{}</span>\n",
                    Stroke(line), HtmlText(line.name));
  }
  return fmt::format("<div class=\"legend\">{}</div>\n", html);
}

std::string Card(const std::string& title, const std::string& html) {
  return fmt::format("<div class=\"card\"><h3>{}</h3>\n{}</div>\n", HtmlText(title), html);
}

bool HasPoints(const ChartLine& line) {
  return std::ranges::any_of(line.points, [](const ChartPoint& p) { return std::isfinite(p.y); });
}

}  // namespace

std::vector<double> Ticks(double low, double high, int count) {
  if (!(high > low)) return {low};
  const double rough = (high - low) / count;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  const double part = rough / power;
  const double step = (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10) * power;
  // Such a step adds nothing to the ends.
  if (low + step == low || high + step == high) return {low, high};
  std::vector<double> ticks;
  const double first = std::floor(low / step + 1e-9), last = std::ceil(high / step - 1e-9);
  for (double i = first; i <= last; ++i) ticks.push_back(i == 0 ? 0 : i * step);
  return ticks;
}

std::string TickText(double value) {
  const double size = std::abs(value);
  if (size >= 1e15) return fmt::format("{:.3g}", value);
  if (size >= 1e9) return fmt::format("{:.5g}G", value / 1e9);
  if (size >= 1e6) return fmt::format("{:.5g}M", value / 1e6);
  if (size >= 1e4) return fmt::format("{:.5g}k", value / 1e3);
  return fmt::format("{:.5g}", value);
}

std::vector<ChartPoint> Thinned(const std::vector<ChartPoint>& points, size_t most) {
  if (points.size() <= most) return points;
  const size_t parts = std::max<size_t>(1, most / 2);
  std::vector<ChartPoint> thin;
  for (size_t part = 0; part < parts; ++part) {
    const size_t begin = part * points.size() / parts, end = (part + 1) * points.size() / parts;
    size_t least = begin, largest = begin;
    bool gap = false;
    for (size_t i = begin; i < end; ++i) {
      if (!std::isfinite(points[i].y)) {
        gap = true;
        continue;
      }
      if (!(points[i].y >= points[least].y)) least = i;
      if (!(points[i].y <= points[largest].y)) largest = i;
    }
    thin.push_back(points[std::min(least, largest)]);
    if (least != largest) thin.push_back(points[std::max(least, largest)]);
    if (gap) thin.push_back({points[end - 1].x, std::numeric_limits<double>::quiet_NaN()});
  }
  return thin;
}

std::string LineChart::Html() const {
  Range x, y;
  std::vector<ChartLine> drawn;
  for (const ChartLine& line : lines) {
    if (HasPoints(line)) drawn.push_back(line);
  }
  for (const ChartLine& line : drawn) {
    for (const ChartPoint& p : line.points) {
      x.Add(p.x);
      y.Add(p.y);
    }
  }
  if (x.empty()) return "";
  Frame frame;
  std::vector<double> x_ticks, y_ticks;
  std::string before;
  if (unit_square) {
    frame.width = kSquare;
    x_ticks = y_ticks = Ticks(0, 1, 5);
    before = fmt::format(
        "<path class=\"axis\" fill=\"none\" stroke-dasharray=\"3 4\" d=\"M{:.1f} {:.1f}L{:.1f} "
        "{:.1f}\"/>\n",
        frame.X(0), frame.Y(0), frame.X(1), frame.Y(1));
  } else {
    // A constant needs a height, and a single point a width.
    if (y.low == y.high) {
      const double room = y.low == 0 ? 1 : std::abs(y.low) / 10;
      y.Add(y.low - room);
      y.Add(y.high + room);
    }
    if (x.low == x.high) {
      x.Add(x.low - 1);
      x.Add(x.high + 1);
    }
    x_ticks = Ticks(x.low, x.high, 6);
    y_ticks = Ticks(y.low, y.high, 5);
    frame.x_low = x.low;
    frame.x_high = x.high;
    frame.y_low = std::min(y.low, y_ticks.front());
    frame.y_high = std::max(y.high, y_ticks.back());
  }
  std::string svg = Axes(frame, x_ticks, y_ticks, x_label) + before;
  for (const ChartLine& line : drawn) svg += Lines(frame, line);
  const std::string drawing = fmt::format(
      "<svg class=\"chart\" viewBox=\"0 0 {} {}\" style=\"max-width:{}px\" role=\"img\" "
      "aria-label=\"{}\">\n{}</svg>\n",
      frame.width, kHeight, unit_square ? kSquare : 2 * kWidth, HtmlText(title), svg);
  return Card(title, Legend(drawn) + drawing);
}

std::string BarChartHtml(const std::string& title, const std::vector<ChartBar>& bars) {
  if (bars.empty()) return "";
  constexpr double kRow = 22, kNames = 120, kTexts = 130;
  double most = 0;
  for (const ChartBar& bar : bars) {
    if (std::isfinite(bar.value)) most = std::max(most, bar.value);
  }
  std::string svg;
  double top = 0;
  for (const ChartBar& bar : bars) {
    const double part = most > 0 && std::isfinite(bar.value) ? std::max(bar.value, 0.0) / most : 0;
    const double width = part * (kWidth - kNames - kTexts);
    svg += Text(kNames - 8, top + 15, "end", bar.name);
    svg += fmt::format(
        "<rect class=\"bar\" x=\"{}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\" "
        "rx=\"2\"><title>{}</title></rect>\n",
        kNames, top + 4, width, kRow - 8, HtmlText(bar.name + ": " + bar.text));
    svg += Text(kNames + width + 6, top + 15, "start", bar.text);
    top += kRow;
  }
  return Card(title, fmt::format("<svg class=\"chart\" viewBox=\"0 0 {} {}\" role=\"img\" "
                                 "aria-label=\"{}\">\n{}</svg>\n",
                                 kWidth, top, HtmlText(title), svg));
}

}  // namespace cohort
