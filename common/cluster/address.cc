#include "common/cluster/address.h"

#include <netdb.h>

#include <charconv>

#include "common/base/exit_code.h"
#include "common/base/status.h"

namespace cohort {
namespace {

constexpr std::string_view kShape = "expected host:port or [::1]:port";

absl::StatusOr<int> ParsePort(std::string_view text, int lowest) {
  int port = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), port);
  if (text.empty() || result.ec != std::errc() || result.ptr != text.data() + text.size()) {
    return InvalidArgument("the port \"{}\" is not a number between {} and 65535", text, lowest);
  }
  if (port < lowest || port > 65535) {
    return InvalidArgument("the port {} is not between {} and 65535", port, lowest);
  }
  return port;
}

// Splits at the colon before the port. `port` is "" if there is none.
absl::Status Split(std::string_view text, std::string_view* host, std::string_view* port) {
  *port = {};
  if (text.starts_with('[')) {
    const size_t end = text.find(']');
    if (end == std::string_view::npos) return InvalidArgument("\"{}\" has no closing ']'", text);
    *host = text.substr(1, end - 1);
    const std::string_view rest = text.substr(end + 1);
    if (!rest.empty() && rest[0] != ':') {
      return InvalidArgument("\"{}\" is not an address: {}", text, kShape);
    }
    if (!rest.empty()) *port = rest.substr(1);
    return absl::OkStatus();
  }
  const size_t colon = text.find(':');
  if (colon != text.rfind(':')) {
    return InvalidArgument("\"{}\" has more than one colon; write an IPv6 address in brackets",
                           text);
  }
  *host = text.substr(0, colon);
  if (colon != std::string_view::npos) *port = text.substr(colon + 1);
  return absl::OkStatus();
}

absl::Status CheckHost(std::string_view host, std::string_view text) {
  if (host.find("//") != std::string_view::npos || host.find_first_of(" \t\n/@") != host.npos) {
    return InvalidArgument("\"{}\" is not an address: {}", text, kShape);
  }
  return absl::OkStatus();
}

}  // namespace

std::string Address::ToString() const {
  if (host.find(':') != std::string::npos) return fmt::format("[{}]:{}", host, port);
  return fmt::format("{}:{}", host, port);
}

absl::StatusOr<Address> ParseAddress(std::string_view text) {
  if (text.find("://") != std::string_view::npos) {
    return InvalidArgument("\"{}\" has a scheme; {}", text, kShape);
  }
  std::string_view host, port;
  COHORT_RETURN_IF_ERROR(Split(text, &host, &port));
  COHORT_RETURN_IF_ERROR(CheckHost(host, text));
  if (host.empty()) return InvalidArgument("\"{}\" has no host; {}", text, kShape);
  if (port.empty()) return InvalidArgument("\"{}\" has no port; {}", text, kShape);
  COHORT_ASSIGN_OR_RETURN(const int number, ParsePort(port, 1));
  return Address{std::string(host), number};
}

absl::StatusOr<Address> BindAddress(std::string_view flag, const Address& advertised) {
  if (flag.empty()) {
    if (IsLoopback(advertised.host)) return advertised;
    const bool v6 = advertised.host.find(':') != std::string::npos;
    return Address{v6 ? "::" : "0.0.0.0", advertised.port};
  }
  std::string_view host, port;
  absl::Status status = Split(flag, &host, &port);
  if (status.ok()) status = CheckHost(host, flag);
  if (status.ok() && port.empty() && host.find_first_not_of("0123456789") == host.npos) {
    status = InvalidArgument("\"{}\" is only a port; expected 0.0.0.0:{}", flag, flag);
  }
  Address bind{host.empty() ? "0.0.0.0" : std::string(host), advertised.port};
  if (status.ok() && !port.empty()) {
    auto number = ParsePort(port, 0);
    status = number.status();
    if (number.ok()) bind.port = *number;
  }
  if (status.ok()) {
    if (const std::string why = HostError(bind.host); !why.empty()) {
      status = InvalidArgument("{}; use an address of this host, such as 127.0.0.1:4711", why);
    }
  }
  if (!status.ok()) return WithExitCode(Annotate(status, "--bind"), ExitCode::kUsage);
  return bind;
}

std::string HostError(const std::string& host) {
  addrinfo* list = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, nullptr, &list);
  if (error == 0) {
    freeaddrinfo(list);
    return "";
  }
  return fmt::format("the host \"{}\" cannot be resolved ({})", host, gai_strerror(error));
}

bool IsLoopback(std::string_view host) {
  if (host == "localhost" || host == "::1" || host == "localhost.localdomain") return true;
  if (!host.starts_with("127.")) return false;
  // A host name may begin with "127." too. Only digits and three dots are an address.
  int dots = 0;
  for (const char c : host) {
    if (c == '.') {
      ++dots;
    } else if (c < '0' || c > '9') {
      return false;
    }
  }
  return dots == 3;
}

}  // namespace cohort
