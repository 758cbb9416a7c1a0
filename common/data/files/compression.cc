#include "common/data/files/compression.h"

#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>
#ifdef COHORT_HAS_ZSTD
#include <zstd.h>
#endif

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <utility>

#include "common/base/log.h"
#include "common/base/status.h"
#include "common/data/files/temporary_file.h"
#include "common/os/open_file.h"

namespace cohort {
namespace {

constexpr size_t kPieceBytes = 256 << 10;

class GzipInflater : public Inflater {
 public:
  explicit GzipInflater(std::string_view name) : name_(name) {
    // 16: gzip frames only, whose trailers carry checksum and size.
    ready_ = inflateInit2(&stream_, MAX_WBITS + 16) == Z_OK;
  }
  ~GzipInflater() override { inflateEnd(&stream_); }
  bool ready() const { return ready_; }

  absl::Status Add(std::string_view piece, Sink sink) override {
    while (!piece.empty()) {
      if (at_end_ && !SkipPadding(&piece)) continue;
      const std::string_view part = piece.substr(0, 1U << 30);
      COHORT_ASSIGN_OR_RETURN(const size_t used, InflatePart(part, sink));
      piece.remove_prefix(used);
      consumed_ += used;
    }
    return absl::OkStatus();
  }

  absl::Status Finish() override {
    if (at_end_) return absl::OkStatus();
    return DataLoss("{}: the gzip stream ends too early, at byte {}", name_, consumed_);
  }

 private:
  // Skips the zeros after a member. Returns true if another member follows in the piece.
  bool SkipPadding(std::string_view* piece) {
    const size_t zeros = std::min(piece->find_first_not_of('\0'), piece->size());
    piece->remove_prefix(zeros);
    consumed_ += zeros;
    if (piece->empty()) return false;
    at_end_ = false;
    inflateReset(&stream_);
    return true;
  }

  // Returns how many bytes of the part it has used: all, or those up to the end of a member.
  absl::StatusOr<size_t> InflatePart(std::string_view part, Sink sink) {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(part.data()));
    stream_.avail_in = static_cast<uInt>(part.size());
    int result = Z_OK;
    do {
      stream_.next_out = reinterpret_cast<Bytef*>(block_.data());
      stream_.avail_out = static_cast<uInt>(block_.size());
      result = inflate(&stream_, Z_NO_FLUSH);
      const size_t inflated = block_.size() - stream_.avail_out;
      if (inflated > 0) COHORT_RETURN_IF_ERROR(sink({block_.data(), inflated}));
      if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
        return DataLoss("{}: the gzip stream is damaged at byte {}: {}", name_,
                        consumed_ + part.size() - stream_.avail_in,
                        stream_.msg == nullptr ? "unknown error" : stream_.msg);
      }
    } while (result == Z_OK && (stream_.avail_in > 0 || stream_.avail_out == 0));
    if (result == Z_STREAM_END) {
      at_end_ = true;
      // zlib has computed the checksum and the size of the member to compare them.
      crc32_ = static_cast<uint32_t>(
          crc32_combine(crc32_, stream_.adler, static_cast<z_off_t>(stream_.total_out)));
    }
    return part.size() - stream_.avail_in;
  }

  const std::string name_;
  z_stream stream_ = {};
  bool ready_ = false;
  bool at_end_ = false;    // a member has ended
  uint64_t consumed_ = 0;  // before the current piece
  std::array<char, 1 << 16> block_;
};

#ifdef COHORT_HAS_ZSTD
class ZstdInflater : public Inflater {
 public:
  explicit ZstdInflater(std::string_view name)
      : name_(name), context_(ZSTD_createDCtx()), block_(ZSTD_DStreamOutSize(), '\0') {}
  ~ZstdInflater() override { ZSTD_freeDCtx(context_); }
  bool ready() const { return context_ != nullptr; }

  absl::Status Add(std::string_view piece, Sink sink) override {
    ZSTD_inBuffer in = {piece.data(), piece.size(), 0};
    ZSTD_outBuffer out = {};
    do {
      out = {block_.data(), block_.size(), 0};
      needs_ = ZSTD_decompressStream(context_, &out, &in);
      if (ZSTD_isError(needs_)) {
        return DataLoss("{}: the zstd stream is damaged at byte {}: {}", name_, consumed_ + in.pos,
                        ZSTD_getErrorName(needs_));
      }
      if (out.pos == 0) continue;
      crc32_ = static_cast<uint32_t>(
          crc32_z(crc32_, reinterpret_cast<const Bytef*>(block_.data()), out.pos));
      COHORT_RETURN_IF_ERROR(sink({block_.data(), out.pos}));
    } while (in.pos < in.size || out.pos == out.size);
    consumed_ += piece.size();
    return absl::OkStatus();
  }

  absl::Status Finish() override {
    if (needs_ == 0) return absl::OkStatus();
    return DataLoss("{}: the zstd stream ends too early, at byte {}", name_, consumed_);
  }

 private:
  const std::string name_;
  ZSTD_DCtx* const context_;
  std::string block_;
  size_t needs_ = 1;  // 0: at the end of a frame
  uint64_t consumed_ = 0;
};
#endif

template <typename Made>
absl::StatusOr<std::unique_ptr<Inflater>> Start(std::string_view name) {
  auto made = std::make_unique<Made>(name);
  if (!made->ready()) return ResourceExhausted("{}: there is no memory to inflate it", name);
  return made;
}

// A file for inflated bytes, which goes when it is closed. Memory, if there can be none.
absl::StatusOr<TemporaryFile> OpenTemporary() {
  TemporaryFile file = OpenTemporaryFile();
  if (file.fd.ok()) return file;
  file.is_in_memory = true;
  file.fd = UniqueFd(::memfd_create("cohort-inflated", MFD_CLOEXEC));
  if (file.fd.ok()) return file;
  return ErrnoStatus("cannot make a temporary file in", file.directory, errno);
}

std::string Advice(Compression compression) {
  return fmt::format("unpack it with {}, or set TMPDIR to a directory with more space",
                     compression == Compression::kZstd ? "unzstd" : "gunzip");
}

}  // namespace

Compression CompressionOf(std::string_view start) {
  if (start.starts_with("\x1f\x8b")) return Compression::kGzip;
  if (start.starts_with("\x28\xb5\x2f\xfd")) return Compression::kZstd;
  return Compression::kNone;
}

absl::StatusOr<std::unique_ptr<Inflater>> Inflater::Create(Compression compression,
                                                           std::string_view name) {
  if (compression == Compression::kGzip) return Start<GzipInflater>(name);
#ifdef COHORT_HAS_ZSTD
  if (compression == Compression::kZstd) return Start<ZstdInflater>(name);
#endif
  return InvalidArgument(
      "{}: is packed with zstd, and this build of Cohort lacks libzstd: unpack it with unzstd",
      name);
}

absl::Status CheckInflatedBytes(std::string_view name, uint64_t bytes, Compression compression) {
  if (bytes <= kMaxInflatedBytes) return absl::OkStatus();
  return InvalidArgument("{}: inflates to more than {} GiB, the most in memory: {}", name,
                         kMaxInflatedBytes >> 30, Advice(compression));
}

absl::StatusOr<FileBytes> InflateFile(const FileBytes& file, Compression compression, Logger* log) {
  COHORT_ASSIGN_OR_RETURN(const auto inflater, Inflater::Create(compression, file.path()));
  COHORT_ASSIGN_OR_RETURN(TemporaryFile to, OpenTemporary());
  if (to.is_in_memory && log != nullptr) {
    log->Warning("data_unpacked_in_memory",
                 {{"file", file.path()},
                  {"directory", to.directory},
                  {"todo", "set TMPDIR to a directory on a disk, or unpack the file"}});
  }
  uint64_t size = 0;
  const auto write = [&](std::string_view bytes) -> absl::Status {
    size += bytes.size();
    if (to.is_in_memory) COHORT_RETURN_IF_ERROR(CheckInflatedBytes(file.path(), size, compression));
    const absl::Status written = WriteAll(to.fd.get(), bytes, "it to " + to.directory);
    if (written.ok()) return written;
    return absl::Status(written.code(),
                        fmt::format("inflating {}: {}: {}", file.path(),
                                    std::string(written.message()), Advice(compression)));
  };
  std::string piece;
  for (uint64_t at = 0; at < file.size(); at += piece.size()) {
    piece.resize(std::min<uint64_t>(kPieceBytes, file.size() - at));
    COHORT_RETURN_IF_ERROR(file.Read(at, std::as_writable_bytes(std::span<char>(piece))));
    COHORT_RETURN_IF_ERROR(inflater->Add(piece, write));
  }
  COHORT_RETURN_IF_ERROR(inflater->Finish());
  return FileBytes::OfContents(file.path(), std::move(to.fd), size);
}

absl::StatusOr<FileBytes> InflateIfPacked(FileBytes file, Logger* log) {
  std::string start(std::min<uint64_t>(4, file.size()), '\0');
  COHORT_RETURN_IF_ERROR(file.Read(0, std::as_writable_bytes(std::span<char>(start))));
  const Compression compression = CompressionOf(start);
  if (compression == Compression::kNone) return file;
  return InflateFile(file, compression, log);
}

}  // namespace cohort
