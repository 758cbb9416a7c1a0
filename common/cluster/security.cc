#include "common/cluster/security.h"

#include <string>

#include "common/base/exit_code.h"
#include "common/base/status.h"

namespace cohort {

std::shared_ptr<const Security> Security::Create(bool allow_insecure) {
  return std::shared_ptr<const Security>(new Security(allow_insecure));
}

const std::shared_ptr<const Security>& Security::LoopbackOnly() {
  static const std::shared_ptr<const Security> security = Create(/*allow_insecure=*/false);
  return security;
}

absl::Status Security::CheckServe(std::string_view what, std::string_view address) const {
  return CheckPlaintext(what, address);
}

absl::Status Security::CheckDial(std::string_view address) const {
  return CheckPlaintext("dialing", address);
}

absl::Status Security::CheckBind(const Address& bind) const {
  if (allow_insecure_ || IsLoopback(bind.host)) return absl::OkStatus();
  return WithExitCode(
      FailedPrecondition("refusing to serve plaintext on {}, which other hosts can reach: bind to "
                         "loopback (--bind 127.0.0.1:{}), or pass --allow_insecure if the network "
                         "is trusted",
                         bind.ToString(), bind.port),
      ExitCode::kConfig);
}

absl::Status Security::CheckPlaintext(std::string_view what, std::string_view address) const {
  if (allow_insecure_ || IsLoopbackAddress(address)) return absl::OkStatus();
  const absl::Status refused = FailedPrecondition(
      "{} {}: plaintext is refused beyond loopback; pass --allow_insecure if the network is "
      "trusted",
      what, address);
  const std::string host(address.substr(0, address.rfind(':')));
  if (host.empty() || host.starts_with('[')) return refused;
  const std::string why = HostError(host);
  return why.empty() ? refused : Annotate(refused, why);
}

bool IsLoopbackAddress(std::string_view address) {
  if (address.starts_with("unix:")) return true;
  if (address.starts_with('[')) {
    const size_t end = address.find(']');
    return end != std::string_view::npos && IsLoopback(address.substr(1, end - 1));
  }
  return IsLoopback(address.substr(0, address.rfind(':')));
}

}  // namespace cohort
