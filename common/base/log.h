#ifndef COHORT_COMMON_BASE_LOG_H_
#define COHORT_COMMON_BASE_LOG_H_

#include <absl/status/statusor.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace cohort {

enum class LogLevel { kInfo = 0, kWarning = 1, kError = 2 };
// "info", "warning", "error".
std::string_view LogLevelName(LogLevel level);
std::optional<LogLevel> LogLevelFromName(std::string_view name);

// One key=value of an event. It holds references only and must not outlive the call.
struct LogField {
  using Value = std::variant<int64_t, uint64_t, double, bool, std::string_view>;

  template <std::signed_integral T>
  LogField(std::string_view k, T v) : key(k), value(static_cast<int64_t>(v)) {}
  template <std::unsigned_integral T>
  LogField(std::string_view k, T v) : key(k), value(static_cast<uint64_t>(v)) {}
  LogField(std::string_view k, double v) : key(k), value(v) {}
  LogField(std::string_view k, bool v) : key(k), value(v) {}
  LogField(std::string_view k, std::string_view v) : key(k), value(v) {}
  LogField(std::string_view k, const std::string& v) : key(k), value(std::string_view(v)) {}
  LogField(std::string_view k, const char* v) : key(k), value(std::string_view(v)) {}

  std::string_view key;
  Value value;
};

struct LogOptions {
  LogLevel level = LogLevel::kInfo;
  std::string role = "-";  // "worker"; "-" for a program that is not a task
  int index = 0;
  bool to_stderr = true;
  std::string file;                                 // appended to; "": none
  std::function<void(std::string_view line)> sink;  // for tests: receives every line, one at a time
};

// The log of one task: one line per event,
//
//   2026-01-31T12:00:00.123456Z info worker:2 closure_finished id=17 attempt=1 reason="lost worker"
//
// The event is a fixed word and the keys are words, so that a line can be searched. A value is
// quoted as in JSON if it is empty or contains a space, quote, '=' or an unprintable character. A
// byte that is not UTF-8 becomes one of \udc80 to \udcff, as in Python.
//
// Files and stderr are written by a thread of the logger (LineWriter), so that Log never waits. The
// destructor and Flush wait for it.
//
// Thread-safe. The parts of a task get it by reference, because several tasks may live in one
// process.
class Logger {
 public:
  using Fields = std::initializer_list<LogField>;

  // Errors: FailedPrecondition (exit code 73) that names the file if it cannot be opened.
  static absl::StatusOr<std::unique_ptr<Logger>> Create(const LogOptions& options);
  // A logger that discards everything.
  static std::unique_ptr<Logger> Discard();
  ~Logger();

  bool enabled(LogLevel level) const { return level >= level_; }
  void Log(LogLevel level, std::string_view event, Fields fields = {});

  void Info(std::string_view event, Fields f = {}) { Log(LogLevel::kInfo, event, f); }
  void Warning(std::string_view event, Fields f = {}) { Log(LogLevel::kWarning, event, f); }
  void Error(std::string_view event, Fields f = {}) { Log(LogLevel::kError, event, f); }
  // Waits until the lines are written, 2 s at most. Before an _exit.
  void Flush();
  // Logs code and message of the status as the fields `code` and `message`.
  void Failure(LogLevel level, std::string_view event, const absl::Status& status);

 private:
  class Impl;
  Logger(LogLevel level, std::unique_ptr<Impl> impl);
  LogLevel level_;
  std::unique_ptr<Impl> impl_;  // null: discards
};

}  // namespace cohort

#endif  // COHORT_COMMON_BASE_LOG_H_
