#ifndef COHORT_COMMON_CLUSTER_SECURITY_H_
#define COHORT_COMMON_CLUSTER_SECURITY_H_

#include <absl/status/statusor.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/cluster/address.h"
#include "common/cluster/cluster_spec.h"
#include "common/cluster/peer_identity.h"
#include "common/cluster/peer_refusals.h"
#include "common/tls/tls_directory.h"

namespace cohort {

class MetricsRegistry;

// How this process protects its connections. main() creates one object from the flags (RoleContext)
// and passes it to everything that listens or dials; nothing else knows the rule.
//
// With certificates (--tls_dir), TCP is mutual TLS, also on loopback. Each end verifies the other's
// certificate with the CA, and the identity in it (PeerIdentity): both are of one cluster, a server
// is the task that was dialed, and MethodTable says what a client may call. Host names are not
// compared, because tasks move. Without certificates TCP is plaintext, and only on loopback unless
// --allow_insecure is given. Unix sockets are plaintext. Both ends of a unix socket, and of
// plaintext on loopback, belong to one user.
//
// With a secret (--secret_file) each stream also carries its token, on every kind of connection.
//
// Tasks that are replicas own variables and train. There, a worker's
// certificate is also good for the server of the same index, and that of the first replica for the
// chief. A chief's certificate is also good for the first replica.
//
// Every refusal is counted and logged (refusals()). Thread-safe.
class Security {
 public:
  struct Options {
    bool allow_insecure = false;  // plaintext beyond loopback
    std::string tls_dir;          // "": plaintext
    std::string secret_file;      // what streams must carry (run_secret.h); "": nothing
    bool replicas = false;        // the tasks of the cluster are replicas
  };

  // The directory of this task's certificate: `directory` if it has a tls.crt, else the first that
  // exists of the directories that `cohort certs` makes for the task and for its role.
  static std::string DirectoryOf(Task task, const std::string& directory, bool replicas);

  // Plaintext.
  static std::shared_ptr<const Security> Create(bool allow_insecure);
  // Errors: FailedPrecondition (exit code 78) that names the file of `tls_dir` which is missing or
  // wrong.
  static absl::StatusOr<std::shared_ptr<const Security>> Create(const Options& options);
  // The default of everything that listens or dials.
  static const std::shared_ptr<const Security>& LoopbackOnly();

  // The three checks return FailedPrecondition (exit code 78) that names the address and the flag
  // if plaintext is not allowed there. `address` is "host:port" or "unix:/path".
  //
  // `what` starts the message: "listening on".
  absl::Status CheckServe(std::string_view what, std::string_view address) const;
  absl::Status CheckDial(std::string_view address) const;
  // Checks the address of --bind or TF_CONFIG before anything is opened.
  absl::Status CheckBind(const Address& bind) const;

  // True if connections of this address are TLS.
  bool uses_tls(std::string_view address) const {
    return tls_ != nullptr && !address.starts_with("unix:");
  }
  bool has_certificates() const { return tls_ != nullptr; }

  // What this end sends with a stream; "": nothing.
  const std::string& secret_token() const { return secret_token_; }
  // OK if a stream may be opened with this token. Errors: Unauthenticated, which nothing else is;
  // the client gets the message.
  absl::Status CheckSecret(std::string_view token, std::string_view address,
                           std::string_view method) const;

  // The rest is for a process with certificates.

  // OK if the certificate is good for this task. Errors: FailedPrecondition (exit code 78).
  absl::Status CheckOwnTask(Task task) const;
  const TlsPaths& paths() const { return tls_->paths(); }
  // The files as they are now, or the last good ones while they are being replaced.
  std::shared_ptr<const TlsMaterial> Material() const;

  // At a server, in the handshake: OK if the certificate is one of the cluster. `address`: who may
  // have sent it. Errors: PermissionDenied, which the log gets.
  absl::Status CheckHandshake(const PeerCertificate& certificate, std::string_view address) const;
  // At a server: who has opened a stream of `method` with this certificate. Errors:
  // PermissionDenied; the client gets the message.
  absl::StatusOr<PeerIdentity> AdmitClient(const PeerCertificate& certificate,
                                           std::string_view address, std::string_view method) const;
  // At a client: OK if the certificate is that of the task that was dialed. Without `task`, any
  // task of the cluster.
  absl::Status CheckServer(const PeerCertificate& certificate, std::string_view address,
                           std::optional<Task> task) const;
  // OK if a peer may say that it is this task. `identity`: nullopt for a peer without certificate.
  absl::Status CheckClaim(const std::optional<PeerIdentity>& identity, std::string_view address,
                          Task claimed) const;

  PeerRefusals* refusals() const { return &refusals_; }
  // Refusals and changes of the certificates are logged here from now on.
  void LogTo(Logger* log) const;
  // Adds cohort_refused_peers_total and cohort_certificate_expires_seconds. `registry` must not
  // outlive this object.
  void AddMetrics(MetricsRegistry* registry) const;

 private:
  absl::Status CheckPlaintext(std::string_view what, std::string_view address) const;
  Security(const Options& options, std::unique_ptr<TlsDirectory> tls, PeerIdentity own,
           std::string secret_token)
      : allow_insecure_(options.allow_insecure),
        replicas_(options.replicas),
        secret_token_(std::move(secret_token)),
        tls_(std::move(tls)),
        own_(std::move(own)) {}

  // Verifies a certificate with the CA and reads its identity. Counts and logs what it refuses.
  absl::StatusOr<PeerIdentity> Identify(const PeerCertificate& certificate, CertificateUse use,
                                        RefusedPeer* peer) const;
  bool Covers(const PeerIdentity& identity, PeerRole role, int index) const;
  bool MayCallHere(const PeerIdentity& identity, std::string_view method) const;

  const bool allow_insecure_;
  const bool replicas_;
  const std::string secret_token_;
  const std::unique_ptr<TlsDirectory> tls_;  // null: plaintext
  const PeerIdentity own_;
  mutable PeerRefusals refusals_;
  mutable std::atomic<Logger*> log_{nullptr};
};

// True if bytes that are sent to or accepted at this address never leave the host: a unix socket, a
// loopback IP, or the name localhost. Another host name is false, whatever it resolves to today. So
// is a wildcard ("0.0.0.0:1", "[::]:1", ":1").
bool IsLoopbackAddress(std::string_view address);

}  // namespace cohort

#endif  // COHORT_COMMON_CLUSTER_SECURITY_H_
