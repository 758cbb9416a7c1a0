#ifndef COHORT_COMMON_CLUSTER_SECURITY_H_
#define COHORT_COMMON_CLUSTER_SECURITY_H_

#include <absl/status/status.h>

#include <memory>
#include <string_view>

#include "common/cluster/address.h"

namespace cohort {

// How this process protects its connections. main() creates one object from the flags (RoleContext)
// and passes it to everything that listens or dials; nothing else knows the rule.
//
// The rule today: plaintext, and only on loopback unless --allow_insecure is given. Mutual TLS will
// be added here and in common/rpc/stream/credentials.h, which turns the rule into gRPC credentials.
//
// Immutable, so thread-safe.
class Security {
 public:
  static std::shared_ptr<const Security> Create(bool allow_insecure);
  // The default of everything that listens or dials.
  static const std::shared_ptr<const Security>& LoopbackOnly();

  // The three checks return FailedPrecondition (exit code 78) that names the address and the flag
  // if plaintext is not allowed there. `address` is "host:port" or "unix:/path".
  //
  // `what` starts the message: "listening on", "serving metrics on".
  absl::Status CheckServe(std::string_view what, std::string_view address) const;
  absl::Status CheckDial(std::string_view address) const;
  // Checks the address of --bind or TF_CONFIG before anything is opened.
  absl::Status CheckBind(const Address& bind) const;

 private:
  explicit Security(bool allow_insecure) : allow_insecure_(allow_insecure) {}
  absl::Status CheckPlaintext(std::string_view what, std::string_view address) const;

  const bool allow_insecure_;  // plaintext beyond loopback
};

// True if bytes that are sent to or accepted at this address never leave the host: a unix socket, a
// loopback IP, or the name localhost. Another host name is false, whatever it resolves to today. So
// is a wildcard ("0.0.0.0:1", "[::]:1", ":1").
bool IsLoopbackAddress(std::string_view address);

}  // namespace cohort

#endif  // COHORT_COMMON_CLUSTER_SECURITY_H_
