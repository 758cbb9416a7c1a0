#include "common/cluster/security.h"

#include <ctime>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "common/base/exit_code.h"
#include "common/base/metrics.h"
#include "common/base/status.h"
#include "common/cluster/method_table.h"
#include "common/cluster/run_secret.h"

namespace cohort {
namespace {

absl::Status ConfigError(absl::Status status) {
  return WithExitCode(std::move(status), ExitCode::kConfig);
}

// A replica that is the chief's, or the chief that is a replica's.
bool IsFirst(const PeerIdentity& identity) { return identity.index.value_or(0) == 0; }

}  // namespace

std::string Security::DirectoryOf(Task task, const std::string& directory, bool replicas) {
  if (directory.empty()) return directory;
  std::vector<std::string> names = {"."};
  const auto add = [&names](Role role, int index) {
    names.push_back(fmt::format("{}-{}", RoleName(role), index));
    names.emplace_back(RoleName(role));
  };
  add(task.role, task.index);
  if (replicas && task.index == 0) {
    add(task.role == Role::kChief ? Role::kWorker : Role::kChief, 0);
  }
  for (const std::string& name : names) {
    std::string path = name == "." ? directory : directory + "/" + name;
    std::error_code ignored;
    if (std::filesystem::exists(path + "/tls.crt", ignored)) return path;
  }
  return directory;
}

std::shared_ptr<const Security> Security::Create(bool allow_insecure) {
  return std::shared_ptr<const Security>(
      new Security(Options{.allow_insecure = allow_insecure}, nullptr, {}, ""));
}

absl::StatusOr<std::shared_ptr<const Security>> Security::Create(const Options& options) {
  std::string token;
  if (!options.secret_file.empty()) {
    COHORT_ASSIGN_OR_RETURN(token, ReadSecretToken(options.secret_file));
  }
  if (options.tls_dir.empty()) {
    return std::shared_ptr<const Security>(new Security(options, nullptr, {}, std::move(token)));
  }
  auto tls = TlsDirectory::Open(options.tls_dir);
  if (!tls.ok()) return ConfigError(tls.status());
  const auto own = FindPeerIdentity((*tls)->Current({})->facts.uris);
  if (!own.ok()) return ConfigError(Annotate(own.status(), (*tls)->paths().certificate));
  return std::shared_ptr<const Security>(
      new Security(options, *std::move(tls), *own, std::move(token)));
}

const std::shared_ptr<const Security>& Security::LoopbackOnly() {
  static const std::shared_ptr<const Security> security = Create(/*allow_insecure=*/false);
  return security;
}

absl::Status Security::CheckServe(std::string_view what, std::string_view address) const {
  return uses_tls(address) ? absl::OkStatus() : CheckPlaintext(what, address);
}

absl::Status Security::CheckDial(std::string_view address) const {
  return uses_tls(address) ? absl::OkStatus() : CheckPlaintext("dialing", address);
}

absl::Status Security::CheckBind(const Address& bind) const {
  if (has_certificates() || allow_insecure_ || IsLoopback(bind.host)) return absl::OkStatus();
  return ConfigError(FailedPrecondition(
      "refusing to serve plaintext on {}, which other hosts can reach: give the task certificates "
      "(--tls_dir DIR), bind to loopback (--bind 127.0.0.1:{}), or pass --allow_insecure if the "
      "network is trusted",
      bind.ToString(), bind.port));
}

absl::Status Security::CheckPlaintext(std::string_view what, std::string_view address) const {
  if (allow_insecure_ || IsLoopbackAddress(address)) return absl::OkStatus();
  const absl::Status refused = FailedPrecondition(
      "{} {}: plaintext is refused beyond loopback; pass {}--allow_insecure if the network is "
      "trusted",
      what, address, has_certificates() ? "" : "--tls_dir DIR, or ");
  const std::string host(address.substr(0, address.rfind(':')));
  if (host.empty() || host.starts_with('[')) return refused;
  const std::string why = HostError(host);
  return why.empty() ? refused : Annotate(refused, why);
}

absl::Status Security::CheckOwnTask(Task task) const {
  if (Covers(own_, PeerRoleOf(task.role), task.index)) return absl::OkStatus();
  return ConfigError(FailedPrecondition(
      "{}: the certificate is for {}, but this task is {}: give it a certificate for "
      "cohort://{}/{}/{}",
      tls_->paths().certificate, own_.ToString(), task.ToString(), own_.cluster,
      RoleName(task.role), task.index));
}

std::shared_ptr<const TlsMaterial> Security::Material() const {
  TlsDirectory::Observer observer;
  observer.check = [this](const TlsMaterial& material) -> absl::Status {
    COHORT_ASSIGN_OR_RETURN(const PeerIdentity identity, FindPeerIdentity(material.facts.uris));
    if (identity == own_) return absl::OkStatus();
    return FailedPrecondition("the new certificate is for {}, the old one for {}",
                              identity.ToString(), own_.ToString());
  };
  observer.on_change = [this](const absl::Status& status, const TlsMaterial& material) {
    Logger* const log = log_.load();
    if (log == nullptr) return;
    if (!status.ok()) return log->Failure(LogLevel::kWarning, "certificates_not_changed", status);
    log->Info("certificates_changed",
              {{"subject", material.facts.subject}, {"not_after", material.facts.not_after}});
  };
  return tls_->Current(observer);
}

absl::StatusOr<PeerIdentity> Security::Identify(const PeerCertificate& certificate,
                                                CertificateUse use, RefusedPeer* peer) const {
  const auto refuse = [&](RefusalReason reason, absl::Status why) {
    return refusals_.Add(reason, *peer, std::move(why));
  };
  if (certificate.leaf.empty()) {
    return refuse(RefusalReason::kNoCertificate,
                  PermissionDenied("the peer sent no certificate: give it one of the cluster {} "
                                   "(--tls_dir)",
                                   own_.cluster));
  }
  const CertificateVerdict verdict =
      VerifyCertificate(certificate, Material()->ca, use, std::time(nullptr));
  const absl::StatusOr<PeerIdentity> identity = FindPeerIdentity(verdict.facts.uris);
  peer->identity = identity.ok() ? identity->ToString() : verdict.facts.subject;
  if (verdict.trust == CertificateTrust::kExpired) {
    return refuse(RefusalReason::kExpired,
                  PermissionDenied("the certificate of {}: {}: renew it, and compare the clocks of "
                                   "the hosts",
                                   peer->identity, verdict.problem));
  }
  if (verdict.trust != CertificateTrust::kTrusted) {
    return refuse(RefusalReason::kUntrusted,
                  PermissionDenied("the certificate of {} is not signed by the CA of this cluster "
                                   "(ca.crt): {}",
                                   peer->identity, verdict.problem));
  }
  if (!identity.ok()) {
    return refuse(RefusalReason::kIdentity,
                  PermissionDenied("{}", std::string(identity.status().message())));
  }
  if (identity->cluster != own_.cluster) {
    return refuse(RefusalReason::kIdentity,
                  PermissionDenied("{} belongs to the cluster {}, and this task to {}",
                                   peer->identity, identity->cluster, own_.cluster));
  }
  return identity;
}

absl::Status Security::CheckSecret(std::string_view token, std::string_view address,
                                   std::string_view method) const {
  if (secret_token_.empty() || SameToken(token, secret_token_)) return absl::OkStatus();
  return refusals_.Add(
      RefusalReason::kSecret, {std::string(address), "", std::string(method)},
      Unauthenticated("{}: give the client the --secret_file of this task",
                      token.empty() ? "the stream does not carry the secret of this run"
                                    : "the stream carries another secret than that of this run"));
}

absl::Status Security::CheckHandshake(const PeerCertificate& certificate,
                                      std::string_view address) const {
  RefusedPeer peer{std::string(address), "", ""};
  return Identify(certificate, CertificateUse::kClient, &peer).status();
}

absl::StatusOr<PeerIdentity> Security::AdmitClient(const PeerCertificate& certificate,
                                                   std::string_view address,
                                                   std::string_view method) const {
  RefusedPeer peer{std::string(address), "", std::string(method)};
  COHORT_ASSIGN_OR_RETURN(const PeerIdentity identity,
                          Identify(certificate, CertificateUse::kClient, &peer));
  if (MayCallHere(identity, method)) return identity;
  return refusals_.Add(
      RefusalReason::kMethod, peer,
      PermissionDenied("{} may not call {}: docs/cluster.md has the table of roles and methods",
                       peer.identity, method));
}

absl::Status Security::CheckServer(const PeerCertificate& certificate, std::string_view address,
                                   std::optional<Task> task) const {
  RefusedPeer peer{std::string(address), "", ""};
  COHORT_ASSIGN_OR_RETURN(const PeerIdentity identity,
                          Identify(certificate, CertificateUse::kServer, &peer));
  if (!task.has_value() || Covers(identity, PeerRoleOf(task->role), task->index)) {
    return absl::OkStatus();
  }
  return refusals_.Add(
      RefusalReason::kIdentity, peer,
      PermissionDenied("{} was dialed for {}, but has the certificate of {}: compare TF_CONFIG of "
                       "the tasks, and their --tls_dir",
                       address, task->ToString(), peer.identity));
}

absl::Status Security::CheckClaim(const std::optional<PeerIdentity>& identity,
                                  std::string_view address, Task claimed) const {
  if (!identity.has_value() || Covers(*identity, PeerRoleOf(claimed.role), claimed.index)) {
    return absl::OkStatus();
  }
  return refusals_.Add(
      RefusalReason::kClaim, {std::string(address), identity->ToString(), ""},
      PermissionDenied("the peer says that it is {}, but has the certificate of {}",
                       claimed.ToString(), identity->ToString()));
}

bool Security::Covers(const PeerIdentity& identity, PeerRole role, int index) const {
  if (identity.Covers(role, index)) return true;
  if (!replicas_) return false;
  const bool is_replica = role == PeerRole::kWorker || role == PeerRole::kPs;
  if (is_replica && identity.Covers(PeerRole::kWorker, index)) return true;
  if (is_replica && index == 0 && identity.role == PeerRole::kChief) return true;
  return role == PeerRole::kChief && identity.role == PeerRole::kWorker && IsFirst(identity);
}

bool Security::MayCallHere(const PeerIdentity& identity, std::string_view method) const {
  if (MayCall(identity.role, method)) return true;
  if (!replicas_) return false;
  if (identity.role == PeerRole::kChief) return MayCall(PeerRole::kWorker, method);
  return identity.role == PeerRole::kWorker && IsFirst(identity) &&
         MayCall(PeerRole::kChief, method);
}

void Security::LogTo(Logger* log) const {
  log_.store(log);
  refusals_.LogTo(log);
}

void Security::AddMetrics(MetricsRegistry* registry) const {
  for (int i = 0; i < kNumRefusalReasons; ++i) {
    const auto reason = static_cast<RefusalReason>(i);
    registry->AddCallback("cohort_refused_peers_total",
                          "Connections and streams of peers that were refused",
                          [this, reason] { return static_cast<double>(refusals_.count(reason)); },
                          {{"reason", std::string(RefusalReasonName(reason))}});
  }
  registry->AddCallback(
      "cohort_certificate_expires_seconds",
      "When the certificate of this task expires, in seconds since 1970; 0: it has none", [this] {
        return has_certificates() ? static_cast<double>(Material()->facts.not_after) : 0.0;
      });
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
