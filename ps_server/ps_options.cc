#include "ps_server/ps_options.h"

#include "common/base/flags.h"

namespace cohort {

void AddPsFlags(FlagSet* flags, PsFlags* out) {
  AddServedFlags(flags, out);
  flags->Add("apply_log", &out->apply_log,
             "file to which one line per push section is appended, for the invariant checker");
}

}  // namespace cohort
