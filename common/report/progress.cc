#include "common/report/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmath>

#include "common/base/printable.h"

namespace cohort {
namespace {

constexpr uint64_t kBarWidth = 20;
constexpr std::string_view kEraseLine = "\r\x1b[K";

std::string Bar(uint64_t step, uint64_t steps) {
  const uint64_t filled = step >= steps ? kBarWidth : step * kBarWidth / steps;
  std::string bar(filled, '=');
  if (filled < kBarWidth) bar += '>';
  bar.resize(kBarWidth, ' ');
  return bar;
}

}  // namespace

std::string FormatMetrics(const Scalars& metrics) {
  std::string text;
  const auto add = [&text](const std::string& name, double value) {
    const bool plain = value == 0 || !(std::abs(value) < 1e-3);
    text += fmt::format("{}{} ", text.empty() ? "" : ", ", name);
    text += plain ? fmt::format("{:.4f}", value) : fmt::format("{:.4e}", value);
  };
  for (const auto& [name, value] : metrics) {
    if (name == "loss") add(name, value);
  }
  for (const auto& [name, value] : metrics) {
    if (name != "loss") add(name, value);
  }
  return text;
}

std::string FormatSeconds(double seconds) {
  // A time that no job has, such as that of a rate of almost 0.
  constexpr double kLongest = 1e9;
  if (!(seconds >= 0 && seconds < kLongest)) return "a very long time";
  if (seconds < 10 && seconds != std::floor(seconds)) return fmt::format("{:.2g} s", seconds);
  const auto whole = static_cast<uint64_t>(std::llround(seconds));
  const uint64_t minutes = whole / 60, hours = minutes / 60, days = hours / 24;
  if (whole < 60) return fmt::format("{} s", whole);
  if (hours == 0) return fmt::format("{} min {:02} s", minutes, whole % 60);
  if (days == 0) return fmt::format("{} h {:02} min", hours, minutes % 60);
  return fmt::format("{} d {} h", days, hours % 24);
}

std::string FormatProgress(const Progress& p) {
  std::string line = p.epochs > 0 ? fmt::format("epoch {}/{} ", p.epoch, p.epochs)
                                  : fmt::format("window {} ", p.epoch);
  if (p.steps > 0) {
    line += fmt::format("[{}] {}/{}", Bar(p.step, p.steps), p.step, p.steps);
  } else {
    line += fmt::format("step {}", p.step);
  }
  if (p.steps_per_second > 0) line += fmt::format(", {:.0f} steps/s", p.steps_per_second);
  if (p.seconds_left > 0)
    line += fmt::format(", {} left", FormatSeconds(std::ceil(p.seconds_left)));
  if (!p.metrics.empty()) line += ", " + FormatMetrics(p.metrics);
  if (!p.note.empty()) line += fmt::format(", {}", p.note);
  return line;
}

ProgressLine::~ProgressLine() {
  if (open_) output_("\n");
}

void ProgressLine::Update(const Progress& progress) {
  if (!due()) return;
  std::string line = Printable(FormatProgress(progress));
  if (!options_.terminal) {
    next_ = clock_->Now() + options_.every_elsewhere;
    output_(line + "\n");
    return;
  }
  next_ = clock_->Now() + options_.every_on_terminal;
  if (line.size() >= options_.width) line.resize(options_.width - 1);
  output_(std::string(kEraseLine) + line);
  open_ = true;
}

void ProgressLine::Line(std::string_view text) {
  output_(fmt::format("{}{}\n", open_ ? kEraseLine : "", Printable(text)));
  open_ = false;
}

ProgressLine::Options ProgressLine::OptionsFor(int fd) {
  Options options;
  options.terminal = isatty(fd) == 1;
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 10) options.width = size.ws_col;
  return options;
}

}  // namespace cohort
