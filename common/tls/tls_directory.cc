#include "common/tls/tls_directory.h"

#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "common/base/status.h"
#include "common/os/open_file.h"
#include "common/os/private_file.h"

namespace cohort {
namespace {

constexpr std::chrono::seconds kBetweenReads{5};  // while the files cannot be used

absl::StatusOr<std::string> ReadText(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (in) text << in.rdbuf();
  if (!in || text.str().empty()) {
    return FailedPrecondition(
        "{}: {}; --tls_dir needs tls.crt, tls.key and ca.crt (`cohort certs` makes them)", path,
        errno == 0 ? "is empty" : fmt::format("cannot be read ({})", std::strerror(errno)));
  }
  return text.str();
}

absl::Status In(const std::string& path, const absl::Status& status) {
  if (status.ok()) return status;
  return FailedPrecondition("{}: {}", path, std::string(status.message()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TlsDirectory>> TlsDirectory::Open(const std::string& directory) {
  std::unique_ptr<TlsDirectory> opened(new TlsDirectory(directory));
  const Stamp stamp = opened->ReadStamp();
  COHORT_ASSIGN_OR_RETURN(TlsMaterial material, opened->Read());
  material.version = 1;
  MutexLock lock(&opened->mu_);
  opened->stamp_ = stamp;
  opened->material_ = std::make_shared<const TlsMaterial>(std::move(material));
  return opened;
}

TlsDirectory::Stamp TlsDirectory::ReadStamp() const {
  Stamp stamp = {};
  size_t next = 0;
  for (const std::string* path : {&paths_.certificate, &paths_.key, &paths_.ca}) {
    struct stat info = {};
    stat(path->c_str(), &info);  // a missing file is all zero
    stamp[next++] = static_cast<int64_t>(info.st_ino);
    stamp[next++] = info.st_size;
    stamp[next++] = info.st_mtim.tv_sec;
    stamp[next++] = info.st_mtim.tv_nsec;
  }
  return stamp;
}

absl::StatusOr<TlsMaterial> TlsDirectory::Read() const {
  TlsMaterial material;
  errno = 0;
  COHORT_ASSIGN_OR_RETURN(material.certificate, ReadText(paths_.certificate));
  COHORT_ASSIGN_OR_RETURN(material.key, ReadText(paths_.key));
  COHORT_RETURN_IF_ERROR(CheckPrivateFile(paths_.key));
  COHORT_ASSIGN_OR_RETURN(material.ca, ReadText(paths_.ca));
  auto facts = ReadCertificate(material.certificate);
  COHORT_RETURN_IF_ERROR(In(paths_.certificate, facts.status()));
  material.facts = *std::move(facts);
  COHORT_RETURN_IF_ERROR(In(paths_.key, CheckKeyFits(material.certificate, material.key)));
  COHORT_RETURN_IF_ERROR(In(paths_.ca, CountCertificates(material.ca).status()));
  return material;
}

std::shared_ptr<const TlsMaterial> TlsDirectory::Current(const Observer& observer) {
  MutexLock lock(&mu_);
  const Stamp stamp = ReadStamp();
  const auto now = std::chrono::steady_clock::now();
  const bool changed = stamp != stamp_;
  // What could not be read may be readable later, without a change.
  if (!changed && (!failed_ || now < read_at_ + kBetweenReads)) return material_;
  // The stamp was read before the files: a change in between gives another one next time.
  stamp_ = stamp;
  read_at_ = now;
  absl::StatusOr<TlsMaterial> read = Read();
  absl::Status status = read.status();
  if (status.ok() && observer.check) status = In(paths_.certificate, observer.check(*read));
  if (status.ok()) {
    read->version = material_->version + 1;
    material_ = std::make_shared<const TlsMaterial>(*std::move(read));
  }
  failed_ = !status.ok();
  if (observer.on_change && (changed || status.ok())) observer.on_change(status, *material_);
  return material_;
}

}  // namespace cohort
