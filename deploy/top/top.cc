#include "deploy/top/top.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <deque>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "common/base/exit_code.h"
#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/os/signals.h"
#include "deploy/top/job_status_source.h"
#include "deploy/top/top_table.h"

namespace cohort {
namespace {

using nlohmann::json;
using std::chrono::seconds;

constexpr Duration kRefresh = seconds(1);
// Tasks report bytes and memory once a second. Rates over a longer time do not jump.
constexpr size_t kSamples = 5;
constexpr Duration kOnceTime = seconds(2);
// A chief that restarts answers again within this time.
constexpr Duration kPatience = seconds(30);

struct Sample {
  TimePoint at;
  json status;
};

ScreenSize TerminalSize() {
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return {80, 24};
  return {size.ws_col, size.ws_row};
}

// The screen of a terminal: cleared and drawn as a whole, by ANSI sequences. The cursor is hidden
// until the destructor.
class Screen {
 public:
  Screen() { Write("\x1b[?25l"); }
  ~Screen() { Write("\x1b[?25h"); }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  void Draw(const std::vector<TopRow>& rows) {
    std::string text = "\x1b[H";
    for (size_t i = 0; i < rows.size(); ++i) {
      constexpr const char* kColors[] = {"", "\x1b[7m", "\x1b[31m"};
      // Clears the rest of each row, so that nothing flickers.
      text += fmt::format("{}{}{}\x1b[0m\x1b[K", i == 0 ? "" : "\n",
                          kColors[static_cast<size_t>(rows[i].kind)], rows[i].text);
    }
    Write(text + "\x1b[J");
  }
  // Continues below what was drawn.
  static void Leave() { Write("\n"); }

 private:
  static void Write(const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }
};

std::vector<TopRow> RowsOf(const std::deque<Sample>& samples, const ScreenSize& size) {
  const Sample& first = samples.front();
  const Sample& last = samples.back();
  return TopRows(first.status, last.status, ToSeconds(last.at - first.at), size);
}

absl::StatusOr<Sample> TakeSample(const JobStatusSource& source) {
  COHORT_ASSIGN_OR_RETURN(json status, source.Read());
  return Sample{std::chrono::steady_clock::now(), std::move(status)};
}

int PrintOnce(const JobStatusSource& source, SignalWaiter* signals) {
  std::deque<Sample> samples;
  while (samples.size() < 2) {
    if (!samples.empty()) {
      if (const auto signal = signals->WaitFor(kOnceTime)) return ExitCodeOfSignal(*signal);
    }
    auto sample = TakeSample(source);
    if (!sample.ok()) return ExitWith("cohort", sample.status());
    samples.push_back(*std::move(sample));
  }
  std::string text;
  const ScreenSize size = isatty(STDOUT_FILENO) ? TerminalSize() : ScreenSize{};
  for (const TopRow& row : RowsOf(samples, {.columns = size.columns})) text += row.text + "\n";
  return ExitWith("cohort", WriteToStdout(text));
}

// Returns the first row of a screen that is no longer true.
TopRow NoAnswerRow(const absl::Status& why, Duration since, const ScreenSize& size) {
  const std::string text =
      fmt::format("no answer for {:.0f} s: {}", ToSeconds(since), std::string(why.message()));
  return {PrintableLine(text).substr(0, size.columns), TopRowKind::kLost};
}

int Refresh(const JobStatusSource& source, SignalWaiter* signals) {
  std::deque<Sample> samples;
  Screen screen;
  while (true) {
    auto sample = TakeSample(source);
    const ScreenSize size = TerminalSize();
    std::vector<TopRow> rows;
    if (sample.ok()) {
      samples.push_back(*std::move(sample));
      if (samples.size() > kSamples) samples.pop_front();
      rows = RowsOf(samples, size);
    } else {
      const Duration silent =
          samples.empty() ? kPatience : std::chrono::steady_clock::now() - samples.back().at;
      if (silent >= kPatience) {
        if (!samples.empty()) Screen::Leave();
        return ExitWith("cohort", sample.status());
      }
      rows = RowsOf(samples, {size.columns, size.rows > 1 ? size.rows - 1 : 1});
      rows.insert(rows.begin(), NoAnswerRow(sample.status(), silent, size));
    }
    screen.Draw(rows);
    if (const auto signal = signals->WaitFor(kRefresh)) {
      Screen::Leave();
      return *signal == SIGINT ? 0 : ExitCodeOfSignal(*signal);
    }
  }
}

}  // namespace

int RunTop(const TopOptions& options) {
  auto signals = SignalWaiter::Start();
  if (!signals.ok()) return ExitWith("cohort", signals.status());
  const JobStatusSource source(options.target);
  if (options.once || !isatty(STDOUT_FILENO)) return PrintOnce(source, signals->get());
  return Refresh(source, signals->get());
}

}  // namespace cohort
