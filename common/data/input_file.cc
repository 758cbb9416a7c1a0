#include "common/data/input_file.h"

#include <absl/strings/escaping.h>
#include <openssl/evp.h>
#include <unistd.h>
#include <zlib.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <span>

#include "common/base/status.h"
#include "common/data/file_bytes.h"
#include "common/data/files/compression.h"
#include "common/data/files/remote_file.h"
#include "common/os/open_file.h"

namespace cohort {
namespace {

absl::StatusOr<std::string> InflateText(Compression compression, std::string_view bytes,
                                        std::string_view name, uint32_t* crc32) {
  std::string out;
  COHORT_ASSIGN_OR_RETURN(const auto inflater, Inflater::Create(compression, name));
  COHORT_RETURN_IF_ERROR(inflater->Add(bytes, [&](std::string_view piece) {
    out.append(piece);
    return CheckInflatedBytes(name, out.size(), compression);
  }));
  COHORT_RETURN_IF_ERROR(inflater->Finish());
  if (crc32 != nullptr) *crc32 = inflater->crc32();
  return out;
}

}  // namespace

absl::Status NoRecords(std::span<const InputFile> files) {
  return InvalidArgument("the files have no records: {}{}",
                         std::filesystem::path(PublicPath(files[0].path)).filename().string(),
                         files.size() > 1 ? " and others" : "");
}

bool IsPattern(std::string_view path) { return path.find_first_of("*?[") != path.npos; }

absl::Status MissingFile(const InputFile& file, const std::string& path,
                         const DataOptions& options) {
  std::string message = IsPattern(file.path) ? fmt::format("no file matches the pattern {}", path)
                                             : fmt::format("the data file {} does not exist", path);
  if (!file.url.empty()) message += fmt::format("; get it from {}", file.url);
  if (!file.sha256.empty()) message += fmt::format(" (sha256 {})", file.sha256);
  if (file.path[0] != '/') {
    message +=
        fmt::format("; set COHORT_DATA_DIR to the directory that holds {} (it is {})",
                    PublicPath(file.path), options.data_dir.empty() ? "not set" : options.data_dir);
  }
  return absl::Status(absl::StatusCode::kNotFound, message);
}

std::string Sha256Hex(std::string_view bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int size = 0;
  EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(), nullptr);
  return absl::BytesToHexString({reinterpret_cast<const char*>(digest.data()), size});
}

absl::StatusOr<std::string> Sha256OfFile(int fd, const std::string& path) {
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(),
                                                                   EVP_MD_CTX_free);
  EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr);
  std::string piece(256 << 10, '\0');
  for (off_t at = 0;;) {
    const ssize_t n = ::pread(fd, piece.data(), piece.size(), at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus("cannot read", path, errno);
    if (n == 0) break;
    EVP_DigestUpdate(context.get(), piece.data(), static_cast<size_t>(n));
    at += n;
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int size = 0;
  EVP_DigestFinal_ex(context.get(), digest.data(), &size);
  return absl::BytesToHexString({reinterpret_cast<const char*>(digest.data()), size});
}

absl::StatusOr<std::string> Gunzip(std::string_view bytes, std::string_view name, uint32_t* crc32) {
  return InflateText(Compression::kGzip, bytes, name, crc32);
}

absl::StatusOr<std::string> ReadInputFile(const InputFile& file, const DataOptions& options,
                                          uint32_t* crc32) {
  const std::string path = PublicPath(options.PathOf(file.path));
  COHORT_ASSIGN_OR_RETURN(const FileBytes opened, FileBytes::Open(file, options));
  std::string bytes(opened.size(), '\0');
  COHORT_RETURN_IF_ERROR(opened.Read(0, std::as_writable_bytes(std::span<char>(bytes))));
  if (const Compression compression = CompressionOf(bytes); compression != Compression::kNone) {
    return InflateText(compression, bytes, path, crc32);
  }
  if (crc32 != nullptr) {
    const auto* data = reinterpret_cast<const Bytef*>(bytes.data());
    *crc32 = static_cast<uint32_t>(crc32_z(0, data, bytes.size()));
  }
  return bytes;
}

}  // namespace cohort
