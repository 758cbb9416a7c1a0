#include "common/data/input_file.h"

#include <absl/strings/ascii.h>
#include <absl/strings/escaping.h>
#include <glob.h>
#include <openssl/evp.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <span>

#include "common/base/status.h"
#include "common/data/file_bytes.h"

namespace cohort {
namespace {

// Datasets are kept in memory; a stream that inflates to more than this is refused.
constexpr uint64_t kMaxInflatedBytes = uint64_t{16} << 30;

class Inflater {
 public:
  explicit Inflater(std::string_view bytes) : bytes_(bytes) {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    // 16: gzip frames only, whose trailers carry checksum and size.
    ready_ = inflateInit2(&stream_, MAX_WBITS + 16) == Z_OK;
  }
  ~Inflater() { inflateEnd(&stream_); }

  absl::Status Run(std::string_view name, std::string* out);
  uint32_t crc32() const { return crc32_; }  // over the output of Run

 private:
  bool OnlyPaddingIsLeft() const {
    return bytes_.find_first_not_of('\0', consumed()) == std::string_view::npos;
  }
  size_t consumed() const {
    return static_cast<size_t>(reinterpret_cast<const char*>(stream_.next_in) - bytes_.data());
  }

  const std::string_view bytes_;
  z_stream stream_ = {};
  bool ready_ = false;
  uint32_t crc32_ = 0;
};

absl::Status Inflater::Run(std::string_view name, std::string* out) {
  if (!ready_) return ResourceExhausted("{}: zlib has no memory", name);
  std::array<char, 1 << 16> block;
  while (true) {
    stream_.avail_in = static_cast<uInt>(std::min<size_t>(bytes_.size() - consumed(), 1U << 30));
    stream_.next_out = reinterpret_cast<Bytef*>(block.data());
    stream_.avail_out = static_cast<uInt>(block.size());
    const int result = inflate(&stream_, Z_NO_FLUSH);
    out->append(block.data(), block.size() - stream_.avail_out);
    if (out->size() > kMaxInflatedBytes) {
      return DataLoss("{}: inflates to more than {} bytes", name, kMaxInflatedBytes);
    }
    if (result == Z_STREAM_END) {
      // zlib has computed the checksum and the size of the member to compare them.
      crc32_ = static_cast<uint32_t>(
          crc32_combine(crc32_, stream_.adler, static_cast<z_off_t>(stream_.total_out)));
      if (OnlyPaddingIsLeft()) return absl::OkStatus();
      inflateReset(&stream_);  // another member follows
    } else if (result == Z_BUF_ERROR || (result == Z_OK && consumed() == bytes_.size() &&
                                         stream_.avail_out == block.size())) {
      return DataLoss("{}: the gzip stream ends too early, at byte {}", name, bytes_.size());
    } else if (result != Z_OK) {
      return DataLoss("{}: the gzip stream is damaged at byte {}: {}", name, consumed(),
                      stream_.msg == nullptr ? "unknown error" : stream_.msg);
    }
  }
}

}  // namespace

absl::Status MissingFile(const InputFile& file, const std::string& path,
                         const DataOptions& options) {
  std::string message = fmt::format("the data file {} does not exist", path);
  if (!file.url.empty()) message += fmt::format("; get it from {}", file.url);
  if (!file.sha256.empty()) message += fmt::format(" (sha256 {})", file.sha256);
  if (file.path[0] != '/') {
    message += fmt::format("; set COHORT_DATA_DIR to the directory that holds {} (it is {})",
                           file.path, options.data_dir.empty() ? "not set" : options.data_dir);
  }
  return absl::Status(absl::StatusCode::kNotFound, message);
}

absl::StatusOr<std::vector<std::string>> FindInputFiles(const InputFile& pattern,
                                                        const DataOptions& options) {
  if (pattern.path.find_first_of("*?[") == std::string::npos) return std::vector{pattern.path};
  const std::string path = options.PathOf(pattern.path);
  const size_t folder = path.size() - pattern.path.size();
  glob_t found = {};
  const int result = ::glob(path.c_str(), 0, nullptr, &found);
  std::vector<std::string> files;
  for (size_t i = 0; result == 0 && i < found.gl_pathc; ++i) {
    files.push_back(std::string(found.gl_pathv[i]).substr(folder));
  }
  ::globfree(&found);
  if (!files.empty()) return files;
  return MissingFile(pattern, path, options);
}

std::string Sha256Hex(std::string_view bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int size = 0;
  EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(), nullptr);
  return absl::BytesToHexString({reinterpret_cast<const char*>(digest.data()), size});
}

absl::StatusOr<std::string> Gunzip(std::string_view bytes, std::string_view name, uint32_t* crc32) {
  std::string out;
  Inflater inflater(bytes);
  COHORT_RETURN_IF_ERROR(inflater.Run(name, &out));
  if (crc32 != nullptr) *crc32 = inflater.crc32();
  return out;
}

absl::StatusOr<std::string> ReadInputFile(const InputFile& file, const DataOptions& options,
                                          uint32_t* crc32) {
  const std::string path = options.PathOf(file.path);
  COHORT_ASSIGN_OR_RETURN(const FileBytes opened, FileBytes::Open(file, options));
  std::string bytes(opened.size(), '\0');
  COHORT_RETURN_IF_ERROR(opened.Read(0, std::as_writable_bytes(std::span<char>(bytes))));
  if (!file.sha256.empty()) {
    if (const std::string actual = Sha256Hex(bytes); actual != absl::AsciiStrToLower(file.sha256)) {
      return DataLoss(
          "{}: has sha256 {}, the job says {}; {}{}", path, actual, file.sha256,
          file.url.empty() ? "use the intended file, or correct `sha256`" : "get it again from ",
          file.url);
    }
  }
  if (bytes.size() >= 2 && bytes[0] == '\x1f' && bytes[1] == '\x8b') {
    return Gunzip(bytes, path, crc32);
  }
  if (crc32 != nullptr) {
    const auto* data = reinterpret_cast<const Bytef*>(bytes.data());
    *crc32 = static_cast<uint32_t>(crc32_z(0, data, bytes.size()));
  }
  return bytes;
}

}  // namespace cohort
