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

// What a command line came to: either the program runs, or it ends at once with this code after
// printing these texts (help, version, or what is wrong).
struct ParsedFlags {
  bool run = true;
  int exit_code = 0;  // 64 where the command line is wrong
  std::string out;    // for stdout
  std::string err;    // for stderr
};

// The flags of one program. Every flag is bound to a variable whose value is the default:
//
//   Options o;
//   FlagSet flags("cohort-ps", "A parameter server of Cohort.");
//   flags.Add("threads", &o.threads, "threads that poll and apply; 0: this task's share of the
//   cores"); if (const auto exit = flags.ParseOrExit(argc, argv)) return *exit;
//
// `--name value` and `--name=value` are the same; a bool is `--name` or `--name=false`. --help and
// --version are always there. An unknown flag is an error that suggests the nearest one. No
// exception leaves this class.
class FlagSet {
 public:
  FlagSet(std::string_view program, std::string_view description);
  ~FlagSet();
  FlagSet(const FlagSet&) = delete;
  FlagSet& operator=(const FlagSet&) = delete;

  // `name` without dashes. The help line should say the unit.
  void Add(std::string_view name, std::string* value, std::string_view help);
  void Add(std::string_view name, int* value, std::string_view help);
  void Add(std::string_view name, int64_t* value, std::string_view help);
  void Add(std::string_view name, uint64_t* value, std::string_view help);
  void Add(std::string_view name, bool* value, std::string_view help);
  // A time. Refused where it is negative, no number or more than kMaxSeconds (clock.h).
  void AddSeconds(std::string_view name, double* value, std::string_view help);
  // May be given several times.
  void Add(std::string_view name, std::vector<std::string>* values, std::string_view help);

  // One argument without dashes, in the order of the calls.
  void AddPositional(std::string_view name, std::string* value, std::string_view help,
                     bool required);

  // `program name ...`: flags of its own. The FlagSet lives as long as this one. A program that has
  // commands needs one of them on its command line.
  FlagSet* AddCommand(std::string_view name, std::string_view description);
  // A flag ("--tls": whatever begins so) or command that people will look for: its error says that
  // `what` is not there yet.
  void AddPlanned(std::string_view name, std::string_view what);
  // The command that was given; "" before Parse and of a program without commands.
  std::string command() const;
  // Whether the command line named this flag (so that a default can be told from a wish).
  bool Given(std::string_view name) const;

  ParsedFlags Parse(const std::vector<std::string>& arguments);  // without the program's name
  // Parse, with the texts printed. The exit code where the program ends here.
  std::optional<int> ParseOrExit(int argc, const char* const* argv);

 private:
  class Impl;
  explicit FlagSet(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Errors: InvalidArgument (exit 64) "--ps: 0 is not between 1 and 1000".
absl::Status CheckBetween(std::string_view flag, int64_t value, int64_t least, int64_t most);

// Of one task. More is a slip of the keyboard, and would end in the middle of starting them.
inline constexpr int kMostThreads = 1024;

// "0.1.0", of this build.
std::string_view CohortVersion();

}  // namespace cohort

#endif  // COHORT_COMMON_BASE_FLAGS_H_
