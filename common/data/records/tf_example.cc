#include "common/data/records/tf_example.h"

#include <bit>
#include <cstring>

#include "common/data/release_if_large.h"

namespace cohort {
namespace {

static_assert(std::endian::native == std::endian::little);

// How deep messages and groups may lie in an example, as in protobuf.
constexpr int kMostDepth = 100;

constexpr uint32_t kVarint = 0, kFixed64 = 1, kLength = 2, kGroup = 3, kEndGroup = 4, kFixed32 = 5;

constexpr uint32_t TagOf(uint32_t field, uint32_t wire_type) { return field << 3 | wire_type; }

// Reads the fields of a message in protobuf's wire format. Functions return false for bytes that
// are no such field.
class WireReader {
 public:
  WireReader(std::string_view message, int depth)
      : at_(message.data()), end_(message.data() + message.size()), depth_(depth) {}

  bool AtEnd() const { return at_ == end_; }
  std::string_view rest() const { return {at_, static_cast<size_t>(end_ - at_)}; }

  bool ReadTag(uint32_t* tag) {
    uint64_t value = 0;
    if (!ReadVarintOf(5, &value)) return false;
    *tag = static_cast<uint32_t>(value);
    return true;
  }

  bool ReadVarint(uint64_t* value) { return ReadVarintOf(10, value); }

  template <typename T>
  bool ReadFixed(T* value) {
    if (static_cast<size_t>(end_ - at_) < sizeof(T)) return false;
    std::memcpy(value, at_, sizeof(T));
    at_ += sizeof(T);
    return true;
  }

  bool ReadBytes(std::string_view* bytes) {
    uint64_t size = 0;
    if (!ReadVarintOf(5, &size) || size > static_cast<size_t>(end_ - at_)) return false;
    *bytes = {at_, size};
    at_ += size;
    return true;
  }

  // Reads a message in this one. Its fields are read by `read(reader)`.
  template <typename Read>
  bool ReadMessage(const Read& read) {
    std::string_view message;
    return ReadBytes(&message) && depth_ > 0 && read(WireReader(message, depth_ - 1));
  }

  // Skips the rest of a field that is not known.
  bool Skip(uint32_t tag) {
    if (tag >> 3 == 0) return false;
    uint64_t number = 0;
    uint32_t half = 0;
    std::string_view bytes;
    switch (tag & 7) {
      case kVarint:
        return ReadVarint(&number);
      case kFixed64:
        return ReadFixed(&number);
      case kLength:
        return ReadBytes(&bytes);
      case kGroup:
        return SkipGroup(tag >> 3);
      case kFixed32:
        return ReadFixed(&half);
      default:
        return false;
    }
  }

 private:
  bool ReadVarintOf(int most_bytes, uint64_t* value) {
    if (at_ == end_) return false;
    const auto byte = static_cast<uint8_t>(*at_++);
    *value = byte;
    return byte < 0x80 || ReadRestOfVarint(most_bytes, value);
  }

  // `value` has the first byte. More bits than those of the type are dropped, as in protobuf.
  __attribute__((noinline)) bool ReadRestOfVarint(int most_bytes, uint64_t* value) {
    uint64_t read = *value & 0x7f;
    for (int i = 1; i < most_bytes && at_ < end_; ++i) {
      const auto byte = static_cast<uint8_t>(*at_++);
      read |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
      if (byte >= 0x80) continue;
      *value = read;
      return true;
    }
    return false;
  }

  bool SkipGroup(uint32_t field) {
    if (depth_ <= 0) return false;
    --depth_;
    while (!AtEnd()) {
      uint32_t tag = 0;
      if (!ReadTag(&tag)) return false;
      if ((tag & 7) == kEndGroup) {
        ++depth_;
        return tag == TagOf(field, kEndGroup);
      }
      if (!Skip(tag)) return false;
    }
    return false;
  }

  const char* at_;
  const char* end_;
  int depth_;  // messages and groups that may still lie in this one
};

// Calls `field(tag)` for each field. It reads the field, or returns false.
template <typename Field>
bool ReadFields(WireReader* in, const Field& field) {
  while (!in->AtEnd()) {
    uint32_t tag = 0;
    if (!in->ReadTag(&tag) || !field(tag)) return false;
  }
  return true;
}

// The functions below only check their bytes if `values` is null.

bool ReadBytesList(WireReader in, TfFeatureValues* values) {
  return ReadFields(&in, [&](uint32_t tag) {
    if (tag != TagOf(1, kLength)) return in.Skip(tag);
    std::string_view bytes;
    if (!in.ReadBytes(&bytes)) return false;
    if (values != nullptr) values->bytes.push_back(bytes);
    return true;
  });
}

bool ReadFloatList(WireReader in, TfFeatureValues* values) {
  return ReadFields(&in, [&](uint32_t tag) {
    if (tag == TagOf(1, kLength)) {
      std::string_view packed;
      if (!in.ReadBytes(&packed) || packed.size() % sizeof(float) != 0) return false;
      if (values == nullptr || packed.empty()) return true;
      const size_t before = values->floats.size();
      values->floats.resize(before + packed.size() / sizeof(float));
      std::memcpy(values->floats.data() + before, packed.data(), packed.size());
      return true;
    }
    if (tag != TagOf(1, kFixed32)) return in.Skip(tag);
    float number = 0;
    if (!in.ReadFixed(&number)) return false;
    if (values != nullptr) values->floats.push_back(number);
    return true;
  });
}

bool ReadIntegerList(WireReader in, TfFeatureValues* values) {
  const auto add = [&](WireReader* from) {
    uint64_t number = 0;
    if (!from->ReadVarint(&number)) return false;
    if (values != nullptr) values->integers.push_back(static_cast<int64_t>(number));
    return true;
  };
  return ReadFields(&in, [&](uint32_t tag) {
    if (tag == TagOf(1, kVarint)) return add(&in);
    if (tag != TagOf(1, kLength)) return in.Skip(tag);
    std::string_view bytes;
    if (!in.ReadBytes(&bytes)) return false;
    WireReader packed(bytes, 0);
    while (!packed.AtEnd()) {
      if (!add(&packed)) return false;
    }
    return true;
  });
}

bool ReadFeature(WireReader in, TfFeatureValues* values) {
  const auto list = [&](TfListKind kind, bool (*read)(WireReader, TfFeatureValues*)) {
    if (values != nullptr) values->SetKind(kind);
    return in.ReadMessage([&](WireReader message) { return read(message, values); });
  };
  return ReadFields(&in, [&](uint32_t tag) {
    switch (tag) {
      case TagOf(1, kLength):
        return list(TfListKind::kBytes, ReadBytesList);
      case TagOf(2, kLength):
        return list(TfListKind::kFloats, ReadFloatList);
      case TagOf(3, kLength):
        return list(TfListKind::kIntegers, ReadIntegerList);
      default:
        return in.Skip(tag);
    }
  });
}

// An entry with several values has all that is in them.
bool ReadEntry(WireReader in, std::string_view* name, TfFeatureValues* values) {
  return ReadFields(&in, [&](uint32_t tag) {
    if (tag == TagOf(1, kLength)) return in.ReadBytes(name);
    if (tag != TagOf(2, kLength)) return in.Skip(tag);
    return in.ReadMessage([&](WireReader feature) { return ReadFeature(feature, values); });
  });
}

template <typename Visit>
bool ReadFeatures(WireReader in, const Visit& visit) {
  return ReadFields(&in, [&](uint32_t tag) {
    if (tag != TagOf(1, kLength)) return in.Skip(tag);
    std::string_view name, bytes;
    const auto check = [&](WireReader entry) {
      bytes = entry.rest();
      return ReadEntry(entry, &name, nullptr);
    };
    if (!in.ReadMessage(check)) return false;
    visit(name, bytes);
    return true;
  });
}

}  // namespace

void TfFeatureValues::Clear() {
  const ReleaseIfLarge large_bytes(&bytes);
  const ReleaseIfLarge large_floats(&floats);
  const ReleaseIfLarge large_integers(&integers);
  kind = TfListKind::kNone;
  bytes.clear();
  floats.clear();
  integers.clear();
}

void TfFeatureValues::SetKind(TfListKind other) {
  if (kind == other) return;
  Clear();
  kind = other;
}

bool VisitTfExample(std::string_view example,
                    absl::FunctionRef<void(std::string_view name, std::string_view entry)> visit) {
  WireReader in(example, kMostDepth);
  return ReadFields(&in, [&](uint32_t tag) {
    if (tag != TagOf(1, kLength)) return in.Skip(tag);
    return in.ReadMessage([&](WireReader features) { return ReadFeatures(features, visit); });
  });
}

void ReadTfFeature(std::string_view entry, TfFeatureValues* values) {
  values->Clear();
  std::string_view name;
  ReadEntry(WireReader(entry, kMostDepth), &name, values);
}

}  // namespace cohort
