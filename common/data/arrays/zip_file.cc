#include "common/data/arrays/zip_file.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "common/base/printable.h"
#include "common/base/status.h"

namespace cohort {
namespace {

constexpr uint32_t kLocalHeader = 0x04034b50;
constexpr uint32_t kDirectoryEntry = 0x02014b50;
constexpr uint32_t kDirectoryEnd = 0x06054b50;
constexpr uint32_t kDirectoryEnd64 = 0x06064b50;
constexpr uint32_t kLocator64 = 0x07064b50;
constexpr size_t kLocalHeaderBytes = 30;
constexpr size_t kEntryBytes = 46;
constexpr size_t kEndBytes = 22;
constexpr size_t kEnd64Bytes = 56;
constexpr size_t kLocatorBytes = 20;
constexpr size_t kMaxComment = 65535;
constexpr uint32_t kSeeExtra = 0xffffffff;  // the number is in the 64-bit field
constexpr uint64_t kMaxDirectoryBytes = 64 << 20;
// An array that inflates to more is refused: it is kept in memory.
constexpr uint64_t kMaxInflatedBytes = uint64_t{16} << 30;

template <typename T>
T Load(std::string_view bytes, size_t at) {
  T value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

absl::Status Damaged(const FileBytes& file, std::string_view what) {
  return DataLoss("{}: the ZIP file is damaged: {}", file.path(), what);
}

absl::StatusOr<std::string> ReadPiece(const FileBytes& file, uint64_t offset, uint64_t bytes) {
  if (offset > file.size() || bytes > file.size() - offset) {
    return Damaged(file, fmt::format("it ends before byte {}", offset + bytes));
  }
  std::string piece(bytes, '\0');
  COHORT_RETURN_IF_ERROR(file.Read(offset, std::as_writable_bytes(std::span<char>(piece))));
  return piece;
}

struct Directory {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

absl::StatusOr<Directory> FindDirectory(const FileBytes& file) {
  const uint64_t tail_bytes =
      std::min<uint64_t>(file.size(), kEndBytes + kMaxComment + kLocatorBytes);
  COHORT_ASSIGN_OR_RETURN(const std::string tail,
                          ReadPiece(file, file.size() - tail_bytes, tail_bytes));
  for (size_t at = tail.size() < kEndBytes ? 0 : tail.size() - kEndBytes + 1; at-- > 0;) {
    if (Load<uint32_t>(tail, at) != kDirectoryEnd) continue;
    const Directory small = {Load<uint32_t>(tail, at + 16), Load<uint32_t>(tail, at + 12)};
    if (small.offset != kSeeExtra && small.bytes != kSeeExtra) return small;
    if (at < kLocatorBytes || Load<uint32_t>(tail, at - kLocatorBytes) != kLocator64) {
      return Damaged(file, "its 64-bit directory is missing");
    }
    const auto end = Load<uint64_t>(tail, at - kLocatorBytes + 8);
    COHORT_ASSIGN_OR_RETURN(const std::string large, ReadPiece(file, end, kEnd64Bytes));
    if (Load<uint32_t>(large, 0) != kDirectoryEnd64) {
      return Damaged(file, "its 64-bit directory is missing");
    }
    return Directory{Load<uint64_t>(large, 48), Load<uint64_t>(large, 40)};
  }
  return DataLoss("{}: is not a ZIP file, or is truncated: it has no directory at its end",
                  file.path());
}

// Replaces the numbers of an entry that did not fit into 32 bits.
bool ReadExtra(std::string_view extra, ZipMember* member) {
  while (extra.size() >= 4) {
    const auto id = Load<uint16_t>(extra, 0);
    const size_t size = Load<uint16_t>(extra, 2);
    if (size > extra.size() - 4) return false;
    std::string_view numbers = extra.substr(4, size);
    extra.remove_prefix(4 + size);
    if (id != 1) continue;
    for (uint64_t* number : {&member->bytes, &member->packed, &member->header}) {
      if (*number != kSeeExtra) continue;
      if (numbers.size() < 8) return false;
      *number = Load<uint64_t>(numbers, 0);
      numbers.remove_prefix(8);
    }
  }
  return true;
}

// Takes an entry from the front of the directory.
absl::StatusOr<ZipMember> TakeEntry(const FileBytes& file, std::string_view* directory) {
  if (directory->size() < kEntryBytes || Load<uint32_t>(*directory, 0) != kDirectoryEntry) {
    return Damaged(file, "an entry of its directory");
  }
  const size_t name = Load<uint16_t>(*directory, 28), extra = Load<uint16_t>(*directory, 30);
  const size_t comment = Load<uint16_t>(*directory, 32);
  if (directory->size() - kEntryBytes < name + extra + comment) {
    return Damaged(file, "an entry of its directory");
  }
  ZipMember member;
  member.name = directory->substr(kEntryBytes, name);
  const auto flags = Load<uint16_t>(*directory, 8);
  const auto method = Load<uint16_t>(*directory, 10);
  member.deflated = method == 8;
  member.crc32 = Load<uint32_t>(*directory, 16);
  member.packed = Load<uint32_t>(*directory, 20);
  member.bytes = Load<uint32_t>(*directory, 24);
  member.header = Load<uint32_t>(*directory, 42);
  if ((flags & 1) != 0 || (method != 0 && method != 8)) {
    return InvalidArgument("{}: {} is encrypted, or packed by another method than deflate",
                           file.path(), PrintableLine(member.name));
  }
  if (!ReadExtra(directory->substr(kEntryBytes + name, extra), &member) ||
      (!member.deflated && member.bytes != member.packed)) {
    return Damaged(file, PrintableLine(member.name));
  }
  directory->remove_prefix(kEntryBytes + name + extra + comment);
  return member;
}

// Inflates all of `packed`; false if the result has another size.
bool Inflate(std::string_view packed, std::string* out) {
  z_stream stream = {};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return false;
  constexpr size_t kStep = 1U << 30;  // zlib counts with 32 bits
  int result = Z_OK;
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.next_out = reinterpret_cast<Bytef*>(out->data());
  const Bytef* const in_end = stream.next_in + packed.size();
  const Bytef* const out_end = stream.next_out + out->size();
  while (result == Z_OK) {
    stream.avail_in =
        static_cast<uInt>(std::min<size_t>(static_cast<size_t>(in_end - stream.next_in), kStep));
    stream.avail_out =
        static_cast<uInt>(std::min<size_t>(static_cast<size_t>(out_end - stream.next_out), kStep));
    result = inflate(&stream, Z_NO_FLUSH);
  }
  const bool complete = result == Z_STREAM_END && stream.next_out == out_end;
  inflateEnd(&stream);
  return complete;
}

}  // namespace

absl::StatusOr<std::vector<ZipMember>> ReadZipDirectory(const FileBytes& file) {
  COHORT_ASSIGN_OR_RETURN(const Directory directory, FindDirectory(file));
  if (directory.bytes > kMaxDirectoryBytes) return Damaged(file, "its directory is too large");
  COHORT_ASSIGN_OR_RETURN(const std::string bytes,
                          ReadPiece(file, directory.offset, directory.bytes));
  std::string_view left = bytes;
  std::vector<ZipMember> members;
  while (!left.empty()) {
    COHORT_ASSIGN_OR_RETURN(members.emplace_back(), TakeEntry(file, &left));
  }
  return members;
}

absl::StatusOr<uint64_t> FindZipMember(const FileBytes& file, const ZipMember& member) {
  COHORT_ASSIGN_OR_RETURN(const std::string header,
                          ReadPiece(file, member.header, kLocalHeaderBytes));
  const uint64_t begin =
      member.header + kLocalHeaderBytes + Load<uint16_t>(header, 26) + Load<uint16_t>(header, 28);
  if (Load<uint32_t>(header, 0) != kLocalHeader || begin > file.size() ||
      member.packed > file.size() - begin) {
    return Damaged(file, PrintableLine(member.name));
  }
  return begin;
}

absl::StatusOr<std::string> ReadZipMember(const FileBytes& file, const ZipMember& member) {
  COHORT_ASSIGN_OR_RETURN(const uint64_t begin, FindZipMember(file, member));
  // Deflate packs by a factor of at most 1032.
  if (member.bytes > kMaxInflatedBytes || member.bytes / 1032 > member.packed) {
    return DataLoss("{}: {} inflates to {} bytes, which is too large", file.path(),
                    PrintableLine(member.name), member.bytes);
  }
  COHORT_ASSIGN_OR_RETURN(std::string bytes, ReadPiece(file, begin, member.packed));
  if (member.deflated) {
    std::string inflated(member.bytes, '\0');
    if (!Inflate(bytes, &inflated)) return Damaged(file, PrintableLine(member.name));
    bytes = std::move(inflated);
  }
  const auto* data = reinterpret_cast<const Bytef*>(bytes.data());
  if (crc32_z(0, data, bytes.size()) != member.crc32) {
    return Damaged(file, fmt::format("the checksum of {}", PrintableLine(member.name)));
  }
  return bytes;
}

}  // namespace cohort
