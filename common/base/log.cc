#include "common/base/log.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "common/base/exit_code.h"
#include "common/base/line_writer.h"
#include "common/base/mutex.h"
#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/base/unique_fd.h"

namespace cohort {
namespace {

constexpr std::string_view kLevelNames[] = {"info", "warning", "error"};

using Line = fmt::memory_buffer;

bool NeedsQuotes(std::string_view text) {
  if (text.empty()) return true;
  while (!text.empty()) {
    const Character next = FirstCharacter(text);
    const bool plain = next.printable() && next.code != ' ' && next.code != '"' &&
                       next.code != '=' && next.code != '\\';
    if (!plain) return true;
    text.remove_prefix(next.bytes);
  }
  return false;
}

void AppendQuoted(std::string_view text, Line* line) {
  line->push_back('"');
  while (!text.empty()) {
    const Character next = FirstCharacter(text);
    if (next.code == '"' || next.code == '\\') {
      line->push_back('\\');
      line->push_back(static_cast<char>(next.code));
    } else if (next.code == '\n') {
      line->append(std::string_view("\\n"));
    } else if (next.printable()) {
      line->append(text.substr(0, next.bytes));
    } else {
      const uint32_t code = next.valid ? next.code : 0xdc00 + next.code;
      fmt::format_to(std::back_inserter(*line), "\\u{:04x}", code);
    }
    text.remove_prefix(next.bytes);
  }
  line->push_back('"');
}

struct AppendValue {
  Line* line;
  void operator()(std::string_view text) const {
    if (NeedsQuotes(text)) {
      AppendQuoted(text, line);
    } else {
      line->append(text);
    }
  }
  void operator()(bool value) const { line->append(std::string_view(value ? "true" : "false")); }
  void operator()(double value) const {
    fmt::format_to(std::back_inserter(*line), "{:.6g}", value);
  }
  template <typename Integer>
  void operator()(Integer value) const {
    fmt::format_to(std::back_inserter(*line), "{}", value);
  }
};

void AppendTime(Line* line) {
  using std::chrono::microseconds;
  const auto now = std::chrono::system_clock::now();
  const auto micros =
      std::chrono::duration_cast<microseconds>(now.time_since_epoch()).count() % 1'000'000;
  fmt::format_to(std::back_inserter(*line), "{:%Y-%m-%dT%H:%M:%S}.{:06}Z",
                 fmt::gmtime(std::chrono::system_clock::to_time_t(now)), micros);
}

// A typing error in a directory gets a plain message.
absl::Status CheckParent(const std::string& file) {
  const std::filesystem::path parent = std::filesystem::path(file).parent_path();
  std::error_code error;
  if (parent.empty() || std::filesystem::is_directory(parent, error)) return absl::OkStatus();
  const int why = std::filesystem::exists(parent, error) ? ENOTDIR : ENOENT;
  return WithExitCode(FailedPrecondition("the log file {} cannot be opened: {}: {}", file,
                                         parent.string(), std::generic_category().message(why)),
                      ExitCode::kCantCreate);
}

}  // namespace

std::string_view LogLevelName(LogLevel level) { return kLevelNames[static_cast<int>(level)]; }

std::optional<LogLevel> LogLevelFromName(std::string_view name) {
  for (size_t i = 0; i < std::size(kLevelNames); ++i) {
    if (kLevelNames[i] == name) return static_cast<LogLevel>(i);
  }
  return std::nullopt;
}

// Where the lines go. Not through stdio: a thread that waits in a write would hold the lock of a
// stream, for which the end of the process waits.
struct LogFiles {
  bool to_stderr = false;
  UniqueFd file;
};

void WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n > 0) {
      text.remove_prefix(static_cast<size_t>(n));
    } else if (n < 0 && errno == EAGAIN) {
      pollfd out = {fd, POLLOUT, 0};
      poll(&out, 1, /*timeout_ms=*/-1);
    } else if (n < 0 && errno != EINTR) {
      return;  // a full disk, or a reader that has gone
    }
  }
}

class Logger::Impl {
 public:
  Impl(std::string source, std::function<void(std::string_view)> sink,
       std::shared_ptr<const LogFiles> files)
      : source_(std::move(source)), sink_(std::move(sink)) {
    if (!files->to_stderr && !files->file.ok()) return;
    writer_.emplace([files](std::string_view line, uint64_t dropped) {
      std::string text;
      if (dropped > 0) {
        text = fmt::format(
            "{} lines of this log were dropped here: whoever reads it was too slow\n", dropped);
      }
      text.append(line).push_back('\n');
      if (files->to_stderr) WriteAll(STDERR_FILENO, text);
      if (files->file.ok()) WriteAll(files->file.get(), text);
    });
  }

  const std::string& source() const { return source_; }

  void Add(std::string_view line) {
    if (sink_) {
      MutexLock lock(&mu_);
      sink_(line);
    }
    if (writer_.has_value()) writer_->Add(std::string(line));
  }
  void Flush() {
    if (writer_.has_value()) writer_->Flush();
  }

 private:
  const std::string source_;  // "worker:2"
  Mutex mu_;                  // one line at a time
  const std::function<void(std::string_view)> sink_;
  std::optional<LineWriter> writer_;
};

Logger::Logger(LogLevel level, std::unique_ptr<Impl> impl)
    : level_(level), impl_(std::move(impl)) {}
Logger::~Logger() = default;

absl::StatusOr<std::unique_ptr<Logger>> Logger::Create(const LogOptions& options) {
  auto files = std::make_shared<LogFiles>();
  files->to_stderr = options.to_stderr;
  if (!options.file.empty()) {
    COHORT_RETURN_IF_ERROR(CheckParent(options.file));
    // Without O_NONBLOCK, open would wait until another process reads a FIFO.
    files->file =
        UniqueFd(::open(options.file.c_str(),
                        O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK | O_CLOEXEC | O_NOCTTY, 0666));
    if (!files->file.ok()) {
      const std::string why = errno == ENXIO ? "it is a FIFO that has no reader"
                                             : std::generic_category().message(errno);
      return WithExitCode(
          FailedPrecondition("the log file {} cannot be opened: {}", options.file, why),
          ExitCode::kCantCreate);
    }
  }
  std::string source =
      options.role == "-" ? "-" : fmt::format("{}:{}", options.role, options.index);
  return std::unique_ptr<Logger>(new Logger(
      options.level, std::make_unique<Impl>(std::move(source), options.sink, std::move(files))));
}

std::unique_ptr<Logger> Logger::Discard() {
  return std::unique_ptr<Logger>(new Logger(LogLevel::kError, nullptr));
}

void Logger::Log(LogLevel level, std::string_view event, Fields fields) {
  if (!enabled(level) || impl_ == nullptr) return;
  Line line;
  AppendTime(&line);
  fmt::format_to(std::back_inserter(line), " {} {} {}", LogLevelName(level), impl_->source(),
                 event);
  for (const LogField& field : fields) {
    line.push_back(' ');
    line.append(field.key);
    line.push_back('=');
    std::visit(AppendValue{&line}, field.value);
  }
  impl_->Add(std::string_view(line.data(), line.size()));
}

void Logger::Flush() {
  if (impl_ != nullptr) impl_->Flush();
}

void Logger::Failure(LogLevel level, std::string_view event, const absl::Status& status) {
  const std::string code = absl::StatusCodeToString(status.code());
  const absl::string_view message = status.message();
  Log(level, event,
      {{"code", code}, {"message", std::string_view(message.data(), message.size())}});
}

}  // namespace cohort
