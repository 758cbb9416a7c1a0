#ifndef COHORT_DEPLOY_CLUSTER_CHECK_CLUSTER_CHECK_FLAGS_H_
#define COHORT_DEPLOY_CLUSTER_CHECK_CLUSTER_CHECK_FLAGS_H_

#include <string>

namespace cohort {

class FlagSet;

// The flags of `cohort cluster-check`.
struct ClusterCheckFlags {
  double timeout_s = 30;
  std::string bind;  // "": the address in TF_CONFIG
  bool allow_insecure = false;
  std::string tls_dir;          // certificates (Security); "": plaintext
  std::string unix_socket_dir;  // "": the user's own; "none": no unix sockets
};

void AddClusterCheckFlags(FlagSet* flags, ClusterCheckFlags* out);

}  // namespace cohort

#endif  // COHORT_DEPLOY_CLUSTER_CHECK_CLUSTER_CHECK_FLAGS_H_
