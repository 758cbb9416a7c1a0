#include "common/model/planned_names.h"

#include <fmt/format.h>

namespace cohort {
namespace {

struct Names {
  std::string_view kind;
  std::string_view names;  // separated by spaces
};

// Further keys of parameter server jobs.
constexpr Names kPlannedNames[] = {
    {"key",
     "all_reduce collective collectives cuda device "
     "devices export gpu gpus hash_table jit_compile replicas "
     "save_best_only tls trace"},
};

}  // namespace

bool IsPlannedName(std::string_view kind, std::string_view name) {
  for (const Names& known : kPlannedNames) {
    if (known.kind != kind || name.empty() || name.find(' ') != name.npos) continue;
    return fmt::format(" {} ", known.names).find(fmt::format(" {} ", name)) != std::string::npos;
  }
  return false;
}

}  // namespace cohort
