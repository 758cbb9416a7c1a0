#ifndef COHORT_DEPLOY_LAUNCHER_MAKE_CERTIFICATES_H_
#define COHORT_DEPLOY_LAUNCHER_MAKE_CERTIFICATES_H_

#include <absl/status/statusor.h>

#include <string>

namespace cohort {

// The flags of `cohort certs`.
struct CertificateOptions {
  std::string cluster_file;
  std::string directory;
  int days = 365;
  bool renew = false;
  bool by_role = false;
};

// Makes a CA in DIRECTORY/ca, or takes the one that is there, and a certificate for each task of
// the cluster in a directory of its own, with the files of --tls_dir: DIRECTORY/worker-1/{tls.crt,
// tls.key, ca.crt}. There is always one for a chief, an evaluator and a client, because they need
// no address.
//
// With `by_role` each role has one certificate, for all its tasks: DIRECTORY/worker. It fits job
// systems that mount one secret into all pods of a role.
//
// A cluster without ps is one of replicas: the index in a worker's certificate is then the number
// of the replica. With `renew` existing certificates are replaced, each task's files at once;
// otherwise nothing is overwritten.
//
// Returns the text for the user. Errors: those of ReadClusterFile; exit 64 for `days`;
// AlreadyExists (exit 73); the system's errors (exit 73).
absl::StatusOr<std::string> MakeCertificates(const CertificateOptions& options);

}  // namespace cohort

#endif  // COHORT_DEPLOY_LAUNCHER_MAKE_CERTIFICATES_H_
