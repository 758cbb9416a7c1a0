#include "common/data/arrays/zip_file.h"

#include <fcntl.h>
#include <zip.h>

#include <utility>

#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/base/unique_fd.h"
#include "common/data/files/compression.h"

namespace cohort {

void ZipFile::Close::operator()(zip* archive) const { zip_discard(archive); }
void ZipFile::Close::operator()(zip_file* member) const { zip_fclose(member); }

absl::Status ZipFile::Damaged(std::string_view what) const {
  return DataLoss("{}: the ZIP file is damaged: {}", path_, PrintableLine(what));
}

absl::StatusOr<std::shared_ptr<ZipFile>> ZipFile::Open(const FileBytes& file) {
  std::shared_ptr<ZipFile> zip(new ZipFile(file.path(), file.size()));
  MutexLock lock(&zip->mu_);
  UniqueFd fd(::fcntl(file.fd(), F_DUPFD_CLOEXEC, 0));
  // libzip takes an empty file for an archive without members.
  int code = file.size() == 0 ? ZIP_ER_NOZIP : ZIP_ER_OPEN;
  if (fd.ok() && file.size() > 0) zip->archive_.reset(zip_fdopen(fd.get(), ZIP_RDONLY, &code));
  if (zip->archive_ == nullptr) {
    if (code == ZIP_ER_NOZIP) {
      return DataLoss("{}: is not a ZIP file, or is truncated: it has no directory at its end",
                      file.path());
    }
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    const std::string why = zip_error_strerror(&error);
    zip_error_fini(&error);
    return zip->Damaged(why);
  }
  fd.Release();
  const auto entries = static_cast<uint64_t>(zip_get_num_entries(zip->archive_.get(), 0));
  for (uint64_t i = 0; i < entries; ++i) {
    COHORT_ASSIGN_OR_RETURN(zip->members_.emplace_back(), zip->ReadEntry(i));
  }
  return zip;
}

absl::StatusOr<ZipMember> ZipFile::ReadEntry(uint64_t index) {
  zip_stat_t stat;
  if (zip_stat_index(archive_.get(), index, ZIP_FL_ENC_RAW, &stat) != 0) {
    return Damaged("an entry of its directory");
  }
  const ZipMember member = {.index = index,
                            .name = stat.name,
                            .deflated = stat.comp_method == ZIP_CM_DEFLATE,
                            .crc32 = stat.crc,
                            .bytes = stat.size,
                            .packed = stat.comp_size};
  if (stat.encryption_method != ZIP_EM_NONE ||
      (!member.deflated && stat.comp_method != ZIP_CM_STORE)) {
    return InvalidArgument("{}: {} is encrypted, or packed by another method than deflate", path_,
                           PrintableLine(member.name));
  }
  if (!member.deflated && member.bytes != member.packed) return Damaged(member.name);
  // What is kept in memory is at most a multiple of the file (Read).
  if (member.packed > file_bytes_) return Damaged(member.name + " is larger than the file");
  return member;
}

absl::StatusOr<std::string> ZipFile::Read(const ZipMember& member) {
  // An array that inflates to more is refused: it is kept in memory. Deflate packs by a factor of
  // at most 1032.
  if (member.bytes > kMaxInflatedBytes || member.bytes / 1032 > member.packed) {
    return DataLoss("{}: {} inflates to {} bytes, which is too large", path_,
                    PrintableLine(member.name), member.bytes);
  }
  MutexLock lock(&mu_);
  const std::unique_ptr<zip_file, Close> open(zip_fopen_index(archive_.get(), member.index, 0));
  if (open == nullptr) return Damaged(member.name);
  std::string bytes(member.bytes, '\0');
  char after = 0;
  const zip_int64_t read = zip_fread(open.get(), bytes.data(), bytes.size());
  // libzip compares the checksum at the end.
  if (read != static_cast<zip_int64_t>(bytes.size()) || zip_fread(open.get(), &after, 1) != 0) {
    return Damaged(
        fmt::format("{}: {}", member.name, zip_error_strerror(zip_file_get_error(open.get()))));
  }
  return bytes;
}

absl::Status ZipFile::ReadAt(const ZipMember& member, uint64_t offset, std::span<std::byte> out) {
  MutexLock lock(&mu_);
  std::unique_ptr<zip_file, Close>& open = open_[member.index];
  if (open == nullptr) open.reset(zip_fopen_index(archive_.get(), member.index, 0));
  if (open == nullptr || zip_fseek(open.get(), static_cast<zip_int64_t>(offset), SEEK_SET) != 0 ||
      zip_fread(open.get(), out.data(), out.size()) != static_cast<zip_int64_t>(out.size())) {
    return Damaged(member.name);
  }
  return absl::OkStatus();
}

}  // namespace cohort
