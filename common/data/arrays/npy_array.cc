#include "common/data/arrays/npy_array.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/data/release_if_large.h"

namespace cohort {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "\x93NUMPY";

// Reads the Python dictionary of a header.
class HeaderText {
 public:
  HeaderText(std::string_view text, std::string_view name) : text_(text), name_(name) {}

  absl::Status Read(NpyHeader* header) {
    if (!Take('{')) return Damaged();
    while (!Take('}')) {
      std::string_view key, value;
      if (!TakeString(&key) || !Take(':')) return Damaged();
      if (key == "descr") {
        if (!TakeString(&value)) {
          return NotSupported(
              "has fields, as pandas' to_records writes it: save each column as an array of its "
              "own, "
              "or the frame as CSV or Parquet");
        }
        COHORT_RETURN_IF_ERROR(ReadType(value, header));
      } else if (key == "fortran_order") {
        if (TakeWord("True")) {
          return NotSupported("is in Fortran's order: save numpy.ascontiguousarray of it");
        }
        if (!TakeWord("False")) return Damaged();
      } else if (key == "shape") {
        if (!ReadShape(header)) return Damaged();
        has_shape_ = true;
      } else {
        return Damaged();
      }
      Take(',');
    }
    return has_type_ && has_shape_ ? absl::OkStatus() : Damaged();
  }

 private:
  absl::Status Damaged() const { return DataLoss("{}: the header of the array is damaged", name_); }
  absl::Status NotSupported(std::string_view why) const {
    return InvalidArgument("{}: the array {}", name_, why);
  }

  void SkipBlanks() {
    text_.remove_prefix(std::min(text_.find_first_not_of(" \n\t"), text_.size()));
  }
  bool Take(char c) {
    SkipBlanks();
    if (text_.empty() || text_[0] != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  bool TakeWord(std::string_view word) {
    SkipBlanks();
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }
  bool TakeString(std::string_view* value) {
    SkipBlanks();
    if (text_.empty() || (text_[0] != '\'' && text_[0] != '"')) return false;
    const size_t end = text_.find(text_[0], 1);
    if (end == std::string_view::npos) return false;
    *value = text_.substr(1, end - 1);
    text_.remove_prefix(end + 1);
    return true;
  }

  bool ReadShape(NpyHeader* header) {
    if (!Take('(')) return false;
    while (!Take(')')) {
      SkipBlanks();
      int64_t size = 0;
      const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), size);
      if (error != std::errc() || size < 0) return false;
      text_.remove_prefix(static_cast<size_t>(end - text_.data()));
      TakeWord("L");  // as Python 2 writes it
      header->shape.push_back(size);
      Take(',');
    }
    return true;
  }

  // What to do about a type that is not read.
  static std::string_view HintOf(std::string_view type) {
    switch (type.empty() ? '\0' : type[0]) {
      case 'O':
        return ", Python objects, as pandas keeps text and mixed columns: save numbers "
               "(frame[column].to_numpy(dtype='float32')), or the frame as CSV or Parquet";
      case 'U':
      case 'S':
        return ", text: save the numbers of the words, or the words as CSV or JSON lines";
      case 'M':
      case 'm':
        return ", dates or times: save array.astype('int64')";
      case 'u':
        return ": save array.astype('int64')";
      default:
        return "";
    }
  }

  absl::Status ReadType(std::string_view type, NpyHeader* header) {
    const std::string_view given = type;
    if (!type.empty() && std::string_view("<>|=").find(type[0]) != std::string_view::npos) {
      header->big_endian = type[0] == '>';
      type.remove_prefix(1);
    }
    constexpr std::string_view kKnown[] = {"b1", "u1", "u2", "u4", "i1", "i2",
                                           "i4", "i8", "f2", "f4", "f8"};
    if (std::find(std::begin(kKnown), std::end(kKnown), type) == std::end(kKnown)) {
      return NotSupported(fmt::format(
          "has numpy's dtype '{}'{}; bool, integers up to int64 and floats up to float64 are read",
          PrintableLine(given.substr(0, 60)), HintOf(type)));
    }
    header->kind = type[0];
    header->item_bytes = static_cast<size_t>(type[1] - '0');
    has_type_ = true;
    return absl::OkStatus();
  }

  std::string_view text_;
  const std::string_view name_;
  bool has_type_ = false;
  bool has_shape_ = false;
};

DType DTypeOf(const NpyHeader& header) {
  switch (header.kind) {
    case 'b':
      return DType::kBool;
    case 'f':
      return header.item_bytes == 8 ? DType::kFloat64 : DType::kFloat32;
    case 'u':
      return header.item_bytes == 1   ? DType::kUint8
             : header.item_bytes == 2 ? DType::kInt32
                                      : DType::kInt64;
    default:
      return header.item_bytes == 8 ? DType::kInt64 : DType::kInt32;
  }
}

// IEEE 754 half precision.
float FromHalf(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t exponent = (half >> 10) & 0x1f;
  const uint32_t fraction = half & 0x3ff;
  if (exponent == 0) {  // zero and subnormal numbers
    const float value = static_cast<float>(fraction) * 0x1p-24F;
    return sign == 0 ? value : -value;
  }
  const uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

// One number of a kind that is not stored as its dtype.
void ConvertItem(const NpyHeader& header, const std::byte* in, std::byte* out) {
  uint64_t bits = 0;
  std::memcpy(&bits, in, header.item_bytes);
  if (header.big_endian) bits = __builtin_bswap64(bits) >> (64 - 8 * header.item_bytes);
  if (header.kind == 'f' && header.item_bytes == 2) {
    bits = std::bit_cast<uint32_t>(FromHalf(static_cast<uint16_t>(bits)));
  } else if (header.kind == 'i') {
    const size_t unused = 64 - 8 * header.item_bytes;
    bits = static_cast<uint64_t>(static_cast<int64_t>(bits << unused) >> unused);
  } else if (header.kind == 'b') {
    bits = bits != 0 ? 1 : 0;
  }
  std::memcpy(out, &bits, SizeOf(DTypeOf(header)));
}

bool IsStoredAsDType(const NpyHeader& header) {
  return header.kind != 'b' && header.item_bytes == SizeOf(DTypeOf(header)) &&
         (!header.big_endian || header.item_bytes == 1);
}

}  // namespace

absl::StatusOr<NpyHeader> ParseNpyHeader(std::string_view start, std::string_view name) {
  if (!start.starts_with(kMagic) || start.size() < 12) {
    return DataLoss("{}: is not an array: numpy's .npy starts with \\x93NUMPY", name);
  }
  const auto byte = [&](size_t at) { return static_cast<size_t>(static_cast<uint8_t>(start[at])); };
  const size_t version = byte(6);
  if (version < 1 || version > 3) {
    return DataLoss("{}: has version {} of numpy's format; 1 to 3 are known", name, version);
  }
  const size_t fixed = version == 1 ? 10 : 12;
  size_t size = byte(8) | byte(9) << 8;
  if (version > 1) size |= byte(10) << 16 | byte(11) << 24;
  if (size > start.size() - fixed) {
    return DataLoss("{}: ends within the header of the array, which has {} bytes", name, size);
  }
  NpyHeader header;
  header.bytes = fixed + size;
  COHORT_RETURN_IF_ERROR(HeaderText(start.substr(fixed, size), name).Read(&header));
  return header;
}

absl::StatusOr<NpyArray> NpyArray::Open(Reader read, uint64_t bytes, std::string name) {
  NpyArray array;
  array.name_ = std::move(name);
  array.read_ = std::move(read);
  std::string start(std::min<uint64_t>(bytes, kMaxNpyHeader), '\0');
  COHORT_RETURN_IF_ERROR(array.read_(0, std::as_writable_bytes(std::span<char>(start))));
  COHORT_ASSIGN_OR_RETURN(array.header_, ParseNpyHeader(start, array.name_));
  const Dims& shape = array.header_.shape;
  if (shape.empty()) return InvalidArgument("{}: is one number and has no rows", array.name_);
  array.dtype_ = DTypeOf(array.header_);
  array.dims_.assign(shape.begin() + 1, shape.end());
  COHORT_RETURN_IF_ERROR(Annotate(CheckColumnType(array.dtype_, array.dims_), array.name_));
  array.row_bytes_ = static_cast<size_t>(NumElements(array.dims_)) * array.header_.item_bytes;
  const uint64_t data = bytes - array.header_.bytes;
  if (array.rows() != data / array.row_bytes_ || data % array.row_bytes_ != 0) {
    return DataLoss("{}: the shape {} needs {} bytes for each row, but {} bytes follow",
                    array.name_, DimsToString(shape), array.row_bytes_, data);
  }
  return array;
}

absl::StatusOr<NpyArray> NpyArray::Parse(std::string bytes, std::string name) {
  const auto memory = std::make_shared<const std::string>(std::move(bytes));
  return Open(
      [memory](uint64_t offset, std::span<std::byte> out) {
        std::memcpy(out.data(), memory->data() + offset, out.size());
        return absl::OkStatus();
      },
      memory->size(), std::move(name));
}

absl::Status NpyArray::ReadRow(uint64_t row, std::span<std::byte> out) const {
  thread_local std::vector<std::byte> stored;
  const ReleaseIfLarge release(&stored);
  const bool direct = IsStoredAsDType(header_);
  if (!direct) stored.resize(row_bytes_);
  const std::span<std::byte> bytes = direct ? out : std::span(stored);
  COHORT_RETURN_IF_ERROR(read_(header_.bytes + row * row_bytes_, bytes));
  if (direct) return absl::OkStatus();
  const size_t wide = SizeOf(dtype_);
  for (size_t i = 0; i < out.size() / wide; ++i) {
    ConvertItem(header_, bytes.data() + i * header_.item_bytes, out.data() + i * wide);
  }
  return absl::OkStatus();
}

}  // namespace cohort
