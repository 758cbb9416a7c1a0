#include "deploy/launcher/make_certificates.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>
#include <vector>

#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/base/unique_fd.h"
#include "common/cluster/cluster_file.h"
#include "common/cluster/peer_identity.h"
#include "common/cluster/replica_cluster.h"
#include "common/os/open_file.h"
#include "common/tls/certificate_maker.h"
#include "common/tls/tls_directory.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr int kMostDays = 3650;  // also the life of a CA
constexpr mode_t kForOwner = S_IRUSR | S_IWUSR;
constexpr mode_t kForAll = S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH;

// A certificate to make: the directory's name, and who it is for.
struct Wanted {
  std::string name;
  PeerIdentity identity;
};

absl::Status NotMade(absl::Status status) {
  return WithExitCode(std::move(status), ExitCode::kCantCreate);
}

absl::Status MakeDirectory(const std::string& path) {
  if (mkdir(path.c_str(), S_IRWXU) == 0 || errno == EEXIST) return absl::OkStatus();
  return NotMade(ErrnoStatus("cannot make the directory", path, errno));
}

// Writes a new file.
absl::Status WriteNew(const std::string& path, const std::string& text, mode_t mode) {
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!file.ok()) return NotMade(ErrnoStatus("cannot make", path, errno));
  if (write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      fsync(file.get()) != 0) {
    return NotMade(ErrnoStatus("cannot write", path, errno));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadWhole(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) return NotMade(ErrnoStatus("cannot read", path, errno));
  return text.str();
}

std::vector<Wanted> CertificatesByRole(const ClusterFile& file) {
  std::vector<Wanted> wanted;
  for (const Role role : {Role::kChief, Role::kWorker, Role::kPs, Role::kEvaluator}) {
    // Workers may join a cluster that names none.
    if (role == Role::kPs && file.cluster.count(role) == 0) continue;
    wanted.push_back({std::string(RoleName(role)), {file.name, PeerRoleOf(role), std::nullopt}});
  }
  return wanted;
}

std::vector<Wanted> CertificatesByTask(const ClusterFile& file) {
  std::vector<Task> tasks = file.cluster.AllTasks();
  for (const Task always : {Task{Role::kChief, 0}, Task{Role::kEvaluator, 0}}) {
    if (std::find(tasks.begin(), tasks.end(), always) == tasks.end()) tasks.push_back(always);
  }
  const bool replicas = file.cluster.count(Role::kPs) == 0;
  std::vector<Wanted> wanted;
  for (const Task task : tasks) {
    const std::optional<int> replica =
        replicas && task.role == Role::kWorker ? ReplicaOf(file.cluster, task) : std::nullopt;
    wanted.push_back({fmt::format("{}-{}", RoleName(task.role), task.index),
                      {file.name, PeerRoleOf(task.role), replica.value_or(task.index)}});
  }
  return wanted;
}

std::vector<Wanted> CertificatesFor(const ClusterFile& file, bool by_role) {
  std::vector<Wanted> wanted = by_role ? CertificatesByRole(file) : CertificatesByTask(file);
  wanted.push_back({"client", {file.name, PeerRole::kClient, std::nullopt}});
  return wanted;
}

// The CA of DIRECTORY/ca, which is made if it is missing.
absl::StatusOr<IssuedCertificate> Authority(const std::string& directory, std::time_t now,
                                            std::string* report) {
  const std::string certificate = directory + "/ca/ca.crt";
  const std::string key = directory + "/ca/ca.key";
  IssuedCertificate authority;
  if (fs::exists(certificate) || fs::exists(key)) {
    COHORT_ASSIGN_OR_RETURN(authority.certificate, ReadWhole(certificate));
    COHORT_ASSIGN_OR_RETURN(authority.key, ReadWhole(key));
    *report += fmt::format("the CA of {} signs\n", certificate);
    return authority;
  }
  COHORT_ASSIGN_OR_RETURN(authority,
                          MakeAuthority({.common_name = "Cohort CA", .days = kMostDays}, now));
  COHORT_RETURN_IF_ERROR(MakeDirectory(directory + "/ca"));
  COHORT_RETURN_IF_ERROR(WriteNew(key, authority.key, kForOwner));
  COHORT_RETURN_IF_ERROR(WriteNew(certificate, authority.certificate, kForAll));
  *report += fmt::format("made a CA: {}; keep {} secret\n", certificate, key);
  return authority;
}

// Makes the files beside their place, and moves them there at once: a task that reads them
// meanwhile finds a certificate and its key.
absl::Status Install(const std::string& directory, const IssuedCertificate& issued,
                     const std::string& ca) {
  const std::string made = directory + ".new";
  std::error_code ignored;
  fs::remove_all(made, ignored);  // an interrupted run has left it
  COHORT_RETURN_IF_ERROR(MakeDirectory(made));
  const TlsPaths paths(made);
  COHORT_RETURN_IF_ERROR(WriteNew(paths.key, issued.key, kForOwner));
  COHORT_RETURN_IF_ERROR(WriteNew(paths.certificate, issued.certificate, kForAll));
  COHORT_RETURN_IF_ERROR(WriteNew(paths.ca, ca, kForAll));
  const unsigned how = fs::exists(directory) ? RENAME_EXCHANGE : RENAME_NOREPLACE;
  if (renameat2(AT_FDCWD, made.c_str(), AT_FDCWD, directory.c_str(), how) != 0) {
    return NotMade(ErrnoStatus("cannot replace", directory, errno));
  }
  fs::remove_all(made, ignored);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> MakeCertificates(const CertificateOptions& options) {
  if (options.days < 1 || options.days > kMostDays) {
    return UsageError("--days: {} is not between 1 and {}", options.days, kMostDays);
  }
  COHORT_ASSIGN_OR_RETURN(const ClusterFile file, ReadClusterFile(options.cluster_file));
  std::vector<Wanted> wanted = CertificatesFor(file, options.by_role);
  const auto is_there = [&options](const Wanted& one) {
    return fs::exists(options.directory + "/" + one.name);
  };
  if (!options.renew) std::erase_if(wanted, is_there);
  if (wanted.empty()) {
    return NotMade(AlreadyExists("{} has the certificates of all tasks: --renew replaces them",
                                 options.directory));
  }
  COHORT_RETURN_IF_ERROR(MakeDirectory(options.directory));
  const std::time_t now = std::time(nullptr);
  std::string report;
  COHORT_ASSIGN_OR_RETURN(const IssuedCertificate authority,
                          Authority(options.directory, now, &report));
  for (const Wanted& one : wanted) {
    const std::string uri = one.identity.ToString();
    COHORT_ASSIGN_OR_RETURN(
        const IssuedCertificate issued,
        IssueCertificate(authority, {.common_name = one.name, .uri = uri, .days = options.days},
                         now));
    const std::string directory = options.directory + "/" + one.name;
    COHORT_RETURN_IF_ERROR(Install(directory, issued, authority.certificate));
    report += fmt::format("{}: {}, {} days\n", directory, uri, options.days);
  }
  return report;
}

}  // namespace cohort
