#include "ps_server/ps_options.h"

#include "common/base/flags.h"

namespace cohort {

void AddPsFlags(FlagSet* flags, PsFlags* out) {
  AddServedFlags(flags, out);
  flags->Add("apply_log", &out->apply_log,
             "file to which one line per push section is appended, for the invariant checker");
  flags->Add("copy_bytes_per_second", &out->copy_bytes_per_second,
             "bytes per second of tablets that this server sends to fill new copies; 0: no limit");
}

}  // namespace cohort
