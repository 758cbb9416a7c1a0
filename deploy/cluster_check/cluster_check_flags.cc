#include "deploy/cluster_check/cluster_check_flags.h"

#include "common/base/flags.h"

namespace cohort {

void AddClusterCheckFlags(FlagSet* flags, ClusterCheckFlags* out) {
  flags->AddSeconds("timeout_s", &out->timeout_s,
                    "seconds for all tasks to start and to reach each other");
  flags->Add("bind", &out->bind,
             "HOST:PORT to listen on, if it differs from the address in TF_CONFIG (containers)");
  flags->Add("allow_insecure", &out->allow_insecure,
             "serve and dial plaintext beyond loopback; only for a trusted network");
  flags->Add(
      "tls_dir", &out->tls_dir,
      "directory with tls.crt, tls.key and ca.crt: TCP is mutual TLS (docs/cluster.md, TLS)");
  flags->Add("unix_socket_dir", &out->unix_socket_dir,
             "directory of the unix sockets of this host; none: TCP only");
}

}  // namespace cohort
