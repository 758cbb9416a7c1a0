#ifndef COHORT_COMMON_TLS_TLS_DIRECTORY_H_
#define COHORT_COMMON_TLS_TLS_DIRECTORY_H_

#include <absl/status/statusor.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/base/mutex.h"
#include "common/tls/certificate.h"

namespace cohort {

// The files of --tls_dir. The names are those of a Kubernetes TLS secret.
struct TlsPaths {
  explicit TlsPaths(const std::string& directory)
      : certificate(directory + "/tls.crt"),
        key(directory + "/tls.key"),
        ca(directory + "/ca.crt") {}

  std::string certificate;
  std::string key;
  std::string ca;
};

// What the files hold, in PEM: certificate and key belong together.
struct TlsMaterial {
  std::string certificate;
  std::string key;
  std::string ca;
  CertificateFacts facts;  // what the certificate says
  uint64_t version = 0;    // differs after each change
};

// Reads the files when they change, so that certificates rotate without a restart. While they
// cannot be read or do not belong together, because they are being replaced, it keeps the older
// ones. Thread-safe.
class TlsDirectory {
 public:
  // Decides whether the material may be used, or is used from now on.
  struct Observer {
    std::function<absl::Status(const TlsMaterial&)> check;
    std::function<void(const absl::Status&, const TlsMaterial&)> on_change;
  };

  // Errors: FailedPrecondition that names the file (missing, not PEM, another key).
  static absl::StatusOr<std::unique_ptr<TlsDirectory>> Open(const std::string& directory);

  const std::string& directory() const { return directory_; }
  const TlsPaths& paths() const { return paths_; }

  // The files as they are now, or the last good ones. Costs three calls of stat(2) if nothing
  // changed. `observer.check` may refuse changed files. `observer.on_change` gets the outcome of
  // each change.
  std::shared_ptr<const TlsMaterial> Current(const Observer& observer);

 private:
  // Inode, size and time of the last change of each file.
  using Stamp = std::array<int64_t, 12>;

  explicit TlsDirectory(const std::string& directory) : directory_(directory), paths_(directory) {}
  Stamp ReadStamp() const;
  absl::StatusOr<TlsMaterial> Read() const;

  const std::string directory_;
  const TlsPaths paths_;

  Mutex mu_;
  Stamp stamp_ ABSL_GUARDED_BY(mu_) = {};     // what the files were when they were read last
  bool failed_ ABSL_GUARDED_BY(mu_) = false;  // the newest read could not be used
  std::chrono::steady_clock::time_point read_at_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<const TlsMaterial> material_ ABSL_GUARDED_BY(mu_);
};

}  // namespace cohort

#endif  // COHORT_COMMON_TLS_TLS_DIRECTORY_H_
