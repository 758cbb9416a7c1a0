#include "common/base/flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <type_traits>

#include "common/base/clock.h"
#include "common/base/exit_code.h"
#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/base/suggest.h"
#include "common/base/version.h"

namespace cohort {

namespace {

// Rewrites CLI11's "Could not convert: --threads = many".
std::string WrongValue(std::string_view what) {
  constexpr std::string_view kBegin = "Could not convert: ";
  const size_t equals = what.find(" = ");
  if (!what.starts_with(kBegin) || equals == what.npos) return std::string(what);
  return fmt::format("{}: \"{}\" is not a number that this flag accepts",
                     what.substr(kBegin.size(), equals - kBegin.size()), what.substr(equals + 3));
}

// Rewrites CLI11's "--threads: 1 required INT missing".
std::string MissingValue(std::string_view what) {
  const size_t colon = what.find(": ");
  if (colon == what.npos || what.find(" missing") == what.npos) return std::string(what);
  return fmt::format("{}: its value is missing", what.substr(0, colon));
}

// Describes an error in a number that CLI11 would accept: it wraps "-1" around and truncates
// digits.
template <typename T>
std::string WrongNumber(const std::string& text) {
  if (text.empty()) return "its value is missing";
  if constexpr (std::is_integral_v<T>) {
    const size_t sign = text.find('-');
    const bool negative = sign != text.npos && sign == text.find_first_not_of(" \t");
    if (std::is_unsigned_v<T> && negative) return fmt::format("{} is negative", text);
    errno = 0;
    if constexpr (std::is_unsigned_v<T>) {
      std::strtoull(text.c_str(), nullptr, 0);
    } else {
      std::strtoll(text.c_str(), nullptr, 0);
    }
    if (errno == ERANGE) return fmt::format("{} is too {}", text, negative ? "small" : "large");
  }
  return "";
}

// Describes an error in a duration. Returns "" if it is valid, or if it is not a number at all.
std::string WrongSeconds(const std::string& text) {
  double seconds = 0;
  if (!CLI::detail::lexical_cast(text, seconds) || IsValidSeconds(seconds)) return "";
  return fmt::format("{} {}; it takes seconds from 0 to {:.0f}", text,
                     seconds < 0           ? "is negative"
                     : std::isnan(seconds) ? "is not a time"
                                           : "is too long",
                     kMaxSeconds);
}

// Replaces "--log-dir=a-b" by "--log_dir=a-b": both spellings of a flag are common.
std::vector<std::string> WithUnderscores(std::vector<std::string> arguments) {
  for (std::string& argument : arguments) {
    if (argument == "--") break;
    if (!argument.starts_with("--")) continue;
    const auto end = argument.begin() +
                     static_cast<std::ptrdiff_t>(std::min(argument.find('='), argument.size()));
    std::replace(argument.begin() + 2, end, '-', '_');
  }
  return arguments;
}

}  // namespace

class FlagSet::Impl {
 public:
  Impl(std::string name, std::string_view description)
      : app(std::make_shared<CLI::App>(std::string(description), name)) {
    app->allow_extras();
  }

  template <typename T>
  void Add(std::string_view name, T* value, std::string_view help) {
    const std::string dashed = fmt::format("--{}", name);
    if constexpr (std::is_same_v<T, bool>) {
      app->add_flag(dashed, *value, std::string(help));
    } else {
      CLI::Option* const option =
          app->add_option(dashed, *value, std::string(help))->capture_default_str();
      // With an unset variable, `--threads "$THREADS"` would silently mean 0.
      if constexpr (std::is_arithmetic_v<T>) option->check(CLI::Validator(WrongNumber<T>, ""));
    }
    names.emplace_back(dashed);
  }

  // Describes the arguments that no flag took; "" if there are none.
  std::string ExtrasError() const {
    const std::vector<std::string> extras = app->remaining();
    if (extras.empty()) return "";
    const auto flag = std::find_if(extras.begin(), extras.end(),
                                   [](const std::string& e) { return e.starts_with("-"); });
    // If a word stands in the place of a command, the word is the error, not the flags after it.
    const bool word = flag == extras.end() || (!commands.empty() && flag != extras.begin());
    const std::string_view wrong = word ? extras[0] : *flag;
    for (const auto& [name, what] : not_yet) {
      if (!(name.starts_with("-") ? wrong.starts_with(name) : wrong == name)) continue;
      return fmt::format("{}: {} not supported yet", wrong.substr(0, wrong.find('=')), what);
    }
    if (word) {
      const std::vector<std::string> known = CommandNames();
      if (known.empty()) return fmt::format("unexpected argument \"{}\"", extras[0]);
      return fmt::format("there is no command \"{}\"{}", extras[0], DidYouMean(extras[0], known));
    }
    std::string name = flag->substr(0, flag->find('='));
    return fmt::format("unknown flag {}{}", name,
                       DidYouMean(name, std::span<const std::string>(names)));
  }

  std::vector<std::string> CommandNames() const {
    std::vector<std::string> known;
    for (const auto& [name, set] : commands) known.push_back(name);
    return known;
  }

  std::shared_ptr<CLI::App> app;
  std::vector<std::string> names = {"--help", "--version"};  // with dashes
  std::vector<std::pair<std::string, std::unique_ptr<FlagSet>>> commands;
  std::vector<std::pair<std::string, std::string>> not_yet;
};

FlagSet::FlagSet(std::string_view program, std::string_view description)
    : impl_(std::make_unique<Impl>(std::string(program), description)) {
  impl_->app->set_version_flag("--version", fmt::format("{} {}", program, CohortVersion()),
                               "print the version and exit");
  impl_->app->set_help_flag("--help,-h", "print this help and exit");
}

FlagSet::FlagSet(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
FlagSet::~FlagSet() = default;

template <typename T>
void FlagSet::Add(std::string_view name, T* value, std::string_view help) {
  impl_->Add(name, value, help);
}
template void FlagSet::Add(std::string_view, std::string*, std::string_view);
template void FlagSet::Add(std::string_view, int*, std::string_view);
template void FlagSet::Add(std::string_view, int64_t*, std::string_view);
template void FlagSet::Add(std::string_view, uint64_t*, std::string_view);
template void FlagSet::Add(std::string_view, bool*, std::string_view);

void FlagSet::AddSeconds(std::string_view name, double* value, std::string_view help) {
  impl_->Add(name, value, help);
  impl_->app->get_option(fmt::format("--{}", name))->check(CLI::Validator(WrongSeconds, ""));
}
void FlagSet::Add(std::string_view name, std::vector<std::string>* values, std::string_view help) {
  impl_->Add(name, values, help);
  // Takes one value per flag, so that the next argument is not read as a second value.
  impl_->app->get_option(fmt::format("--{}", name))
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void FlagSet::AddPositional(std::string_view name, std::string* value, std::string_view help,
                            bool required) {
  impl_->app->add_option(std::string(name), *value, std::string(help))->required(required);
}

void FlagSet::AddPositionals(std::string_view name, std::vector<std::string>* values,
                             std::string_view help) {
  impl_->app->add_option(std::string(name), *values, std::string(help))->required();
}

FlagSet* FlagSet::AddCommand(std::string_view name, std::string_view description) {
  auto impl = std::make_unique<Impl>(std::string(name), description);
  impl->app->set_help_flag("--help,-h", "print this help and exit");
  impl_->app->add_subcommand(impl->app);
  impl_->app->require_subcommand(0, 1);
  auto& [unused, set] = impl_->commands.emplace_back(
      std::string(name), std::unique_ptr<FlagSet>(new FlagSet(std::move(impl))));
  return set.get();
}

void FlagSet::AddPlanned(std::string_view name, std::string_view what) {
  impl_->not_yet.emplace_back(name, what);
}

std::string FlagSet::command() const {
  for (const auto& [name, set] : impl_->commands) {
    if (set->impl_->app->parsed()) return name;
  }
  return "";
}

bool FlagSet::Given(std::string_view name) const {
  const CLI::Option* option = impl_->app->get_option_no_throw(fmt::format("--{}", name));
  return option != nullptr && option->count() > 0;
}

ParsedFlags FlagSet::Parse(const std::vector<std::string>& given) {
  const std::vector<std::string> arguments = WithUnderscores(given);
  const auto wrong = [&](std::string_view what) {
    const std::string name = impl_->app->get_name();
    return ParsedFlags{false, static_cast<int>(ExitCode::kUsage), "",
                       fmt::format("{}: {}\n{}: --help shows the flags\n", name, what, name)};
  };
  // Names and paths travel to other tasks in messages, whose text is UTF-8.
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (IsUtf8(arguments[i])) continue;
    // "--flag value", rather than "--flag=value", which names the flag.
    const bool follows_flag = i > 0 && arguments[i - 1].starts_with("--") &&
                              arguments[i - 1].find('=') == std::string::npos &&
                              !arguments[i].starts_with("-");
    return wrong(fmt::format("the argument \"{}\"{} is not UTF-8", arguments[i],
                             follows_flag ? " of " + arguments[i - 1] : ""));
  }
  std::string failure;
  try {
    impl_->app->parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    return {false, 0, impl_->app->help(), ""};
  } catch (const CLI::CallForVersion& version) {
    return {false, 0, fmt::format("{}\n", version.what()), ""};
  } catch (const CLI::ConversionError& error) {
    failure = WrongValue(error.what());
  } catch (const CLI::ArgumentMismatch& error) {
    failure = MissingValue(error.what());
  } catch (const CLI::Error& error) {
    failure = error.what();
  } catch (const std::exception& error) {
    failure = error.what();
  }
  // An unknown flag is the likelier cause of every later error.
  std::string extras = impl_->ExtrasError();
  for (const auto& [name, set] : impl_->commands) {
    if (extras.empty() && set->impl_->app->parsed()) extras = set->impl_->ExtrasError();
  }
  if (!extras.empty()) return wrong(extras);
  if (!failure.empty()) return wrong(failure);
  if (!impl_->commands.empty() && command().empty()) {
    return wrong(fmt::format("a command is missing: {}", fmt::join(impl_->CommandNames(), ", ")));
  }
  return {};
}

std::optional<int> FlagSet::ParseOrExit(int argc, const char* const* argv) {
  const ParsedFlags parsed = Parse(std::vector<std::string>(argv + 1, argv + argc));
  if (parsed.run) return std::nullopt;
  std::fputs(Printable(parsed.err).c_str(), stderr);
  const absl::Status printed = WriteToStdout(parsed.out);
  return printed.ok() ? parsed.exit_code : ExitWith(impl_->app->get_name(), printed);
}

absl::Status CheckBetween(std::string_view flag, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return UsageError("{}: {} is not between {} and {}", flag, value, least, most);
}

std::string_view CohortVersion() { return COHORT_VERSION; }

}  // namespace cohort
