#ifndef COHORT_COMMON_BASE_FLAGS_H_
#define COHORT_COMMON_BASE_FLAGS_H_

#include <absl/status/status.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cohort {

// The result of parsing a command line: either the program runs, or it ends at once with this exit
// code after printing these texts (help, version, or an error).
struct ParsedFlags {
  bool run = true;
  int exit_code = 0;  // 64 if the command line is wrong
  std::string out;    // for stdout
  std::string err;    // for stderr
};

// The flags of one program. Every flag is bound to a variable whose initial value is the default:
//
//   Options o;
//   FlagSet flags("cohort-ps", "A parameter server of Cohort.");
//   flags.Add("threads", &o.threads, "threads that poll and apply; 0: a share of the cores");
//   if (const auto exit = flags.ParseOrExit(argc, argv)) return *exit;
//
// `--name value` and `--name=value` are the same, and so are "-" and "_" in a name. A bool is
// `--name` or `--name=false`. --help and
// --version always exist. An unknown flag is an error that suggests the nearest known flag. No
// exception leaves this class.
class FlagSet {
 public:
  FlagSet(std::string_view program, std::string_view description);
  ~FlagSet();
  FlagSet(const FlagSet&) = delete;
  FlagSet& operator=(const FlagSet&) = delete;

  // `name` has no dashes. The help line should name the unit. T: std::string, int, int64_t,
  // uint64_t or bool.
  template <typename T>
  void Add(std::string_view name, T* value, std::string_view help);
  // A duration. Parse refuses a value that is negative, not a number, or more than kMaxSeconds
  // (clock.h).
  void AddSeconds(std::string_view name, double* value, std::string_view help);
  // May be passed several times.
  void Add(std::string_view name, std::vector<std::string>* values, std::string_view help);

  // Adds one argument without dashes. Arguments are read in the order of these calls.
  void AddPositional(std::string_view name, std::string* value, std::string_view help,
                     bool required);
  // Adds all arguments that are left, at least one.
  void AddPositionals(std::string_view name, std::vector<std::string>* values,
                      std::string_view help);

  // Adds the command `program name ...` with its own flags. The returned FlagSet lives as long as
  // this one. A program with commands requires one of them on its command line.
  FlagSet* AddCommand(std::string_view name, std::string_view description);
  // Declares a flag (a prefix such as "--tls") or command that users may expect but that does not
  // exist yet. Using it is an error that says that `what` is not supported yet.
  void AddPlanned(std::string_view name, std::string_view what);
  // The command on the command line; "" before Parse and for a program without commands.
  std::string command() const;
  // True if the command line named this flag, which tells a default from an explicit value.
  bool Given(std::string_view name) const;

  ParsedFlags Parse(const std::vector<std::string>& arguments);  // without the program's name
  // Parses and prints the texts. Returns the exit code if the program must end here.
  std::optional<int> ParseOrExit(int argc, const char* const* argv);

 private:
  class Impl;
  explicit FlagSet(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Errors: InvalidArgument (exit 64) "--ps: 0 is not between 1 and 1000".
absl::Status CheckBetween(std::string_view flag, int64_t value, int64_t least, int64_t most);

// The limit of --threads for one task. A larger number is a typing error and would fail halfway
// through starting the threads.
inline constexpr int kMostThreads = 1024;

// The version of this build, such as "0.1.0".
std::string_view CohortVersion();

}  // namespace cohort

#endif  // COHORT_COMMON_BASE_FLAGS_H_
