#include "common/data/records/tf_example.h"

#include <catch2/catch.hpp>
#include <map>
#include <optional>
#include <random>
#include <string>

#include "proto/tf_example.pb.h"

namespace cohort {
namespace {

// Floats as their bits, so that NaNs are equal.
struct Values {
  TfListKind kind = TfListKind::kNone;
  std::vector<std::string> bytes;
  std::vector<uint32_t> floats;
  std::vector<int64_t> integers;

  bool operator==(const Values&) const = default;
};

using Features = std::map<std::string, Values>;

template <typename List>
std::vector<uint32_t> BitsOf(const List& floats) {
  std::vector<uint32_t> bits;
  for (const float number : floats) bits.push_back(std::bit_cast<uint32_t>(number));
  return bits;
}

std::optional<Features> ReadByHand(std::string_view example) {
  Features features;
  TfFeatureValues values;
  const bool read = VisitTfExample(example, [&](std::string_view name, std::string_view entry) {
    ReadTfFeature(entry, &values);
    features[std::string(name)] = {.kind = values.kind,
                                   .bytes = {values.bytes.begin(), values.bytes.end()},
                                   .floats = BitsOf(values.floats),
                                   .integers = values.integers};
  });
  return read ? std::optional(features) : std::nullopt;
}

std::optional<Features> ReadByProtobuf(std::string_view bytes) {
  v1::TfExample example;
  if (!example.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return std::nullopt;
  Features features;
  for (const v1::TfFeatureEntry& entry : example.features().feature()) {
    const v1::TfFeature& value = entry.value();
    const auto& integers = value.int64_list().value();
    features[entry.name()] = {
        .kind = value.has_bytes_list()   ? TfListKind::kBytes
                : value.has_float_list() ? TfListKind::kFloats
                : value.has_int64_list() ? TfListKind::kIntegers
                                         : TfListKind::kNone,
        .bytes = {value.bytes_list().value().begin(), value.bytes_list().value().end()},
        .floats = BitsOf(value.float_list().value()),
        .integers = {integers.begin(), integers.end()}};
  }
  return features;
}

// Makes messages of all forms that protobuf reads, among them ones that no writer would choose.
class ExampleMaker {
 public:
  explicit ExampleMaker(uint64_t seed) : random_(seed) {}

  uint64_t Draw(uint64_t end) { return random_() % end; }

  std::string Example() {
    return Several(2, [&] { return Field(1, Features()); });
  }

  // Changes, drops or adds bytes.
  void Damage(std::string* bytes) {
    for (uint64_t n = 1 + Draw(3); n > 0 && !bytes->empty(); --n) {
      const size_t at = Draw(bytes->size());
      switch (Draw(4)) {
        case 0:
          (*bytes)[at] ^= static_cast<char>(1 << Draw(8));
          break;
        case 1:
          (*bytes)[at] = static_cast<char>(Draw(64));
          break;
        case 2:
          bytes->erase(at, 1 + Draw(3));
          break;
        default:
          bytes->insert(at, std::string(1 + Draw(11), static_cast<char>(Draw(256))));
      }
    }
    if (Draw(4) == 0) bytes->resize(Draw(bytes->size() + 1));
  }

 private:
  // Some have more bytes than they need.
  std::string Varint(uint64_t value, int most_bytes = 10) {
    std::string bytes;
    for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>(value | 0x80));
    bytes.push_back(static_cast<char>(value));
    if (Draw(40) > 0) return bytes;
    const size_t size = bytes.size() + Draw(static_cast<uint64_t>(most_bytes) + 2 - bytes.size());
    while (bytes.size() < size) {
      bytes.back() = static_cast<char>(bytes.back() | '\x80');
      bytes.push_back('\0');
    }
    return bytes;
  }

  std::string Field(uint64_t number, const std::string& bytes) {
    return Varint(number << 3 | 2, 5) + Varint(bytes.size(), 5) + bytes;
  }

  template <typename Make>
  std::string Several(uint64_t most, const Make& make) {
    std::string all;
    for (uint64_t n = Draw(most + 1); n > 0; --n) {
      if (Draw(20) == 0) all += Unknown(4);
      all += make();
    }
    if (Draw(40) == 0) all += Unknown(Draw(2) == 0 ? 4 : 120);
    return all;
  }

  std::string Bytes(uint64_t most) {
    std::string bytes(Draw(most + 1), '\0');
    for (char& c : bytes) c = static_cast<char>(random_());
    return bytes;
  }

  // A field of another type, or one that is not known.
  std::string Unknown(int depth) {
    const uint64_t number = Draw(4) == 0 ? Draw(1 << 29) : 1 + Draw(5), type = Draw(8);
    const std::string tag = Varint(number << 3 | type, 5);
    switch (type) {
      case 0:
        return tag + Varint(random_());
      case 1:
        return tag + std::string(8, 'x');
      case 2:
        return tag + Varint(3, 5) + Bytes(4);
      case 3: {
        std::string group;
        if (depth > 4) {
          for (int i = 0; i < depth - 30; ++i) group += '\x0b';
          for (int i = 0; i < depth - 30; ++i) group += '\x0c';
        } else if (depth > 0) {
          group = Several(2, [&] { return Unknown(depth - 1); });
        }
        return tag + group + Varint((number + (Draw(10) == 0)) << 3 | 4, 5);
      }
      case 5:
        return tag + std::string(4, 'x');
      default:
        return Draw(4) == 0 ? tag : "";  // refused
    }
  }

  uint64_t Number() { return Draw(4) == 0 ? random_() : Draw(300); }

  std::string Float() {
    const auto bits = static_cast<uint32_t>(random_());
    return {reinterpret_cast<const char*>(&bits), sizeof(bits)};
  }

  std::string List(uint64_t kind) {
    return Several(3, [&]() -> std::string {
      std::string packed;
      if (kind == 1) return Field(1, Bytes(9));
      if (Draw(4) == 0) return kind == 2 ? '\x0d' + Float() : '\x08' + Varint(Number());
      for (uint64_t n = Draw(5); n > 0; --n) packed += kind == 2 ? Float() : Varint(Number());
      return Field(1, packed);
    });
  }

  std::string Feature() {
    return Several(2, [&] {
      const uint64_t kind = 1 + Draw(3);
      return Field(kind, List(kind));
    });
  }

  std::string Features() {
    return Several(4, [&] {
      const std::string name = Draw(10) == 0 ? "" : Field(1, std::string(1, 'a' + Draw(3)));
      const std::string values = Several(Draw(5) == 0 ? 2 : 1, [&] { return Field(2, Feature()); });
      return Field(1, Draw(5) == 0 ? values + name : name + values);
    });
  }

  std::mt19937_64 random_;
};

TEST_CASE("the reader of examples accepts, refuses and returns what protobuf does") {
  ExampleMaker maker(20261126);
  int accepted = 0, refused = 0, values = 0;
  for (int round = 0; round < 40'000; ++round) {
    std::string bytes = maker.Example();
    if (maker.Draw(3) == 0) maker.Damage(&bytes);
    const auto expected = ReadByProtobuf(bytes);
    const auto actual = ReadByHand(bytes);
    INFO("round " << round);
    REQUIRE(actual.has_value() == expected.has_value());
    if (!expected) {
      ++refused;
      continue;
    }
    REQUIRE(*actual == *expected);
    ++accepted;
    for (const auto& [name, feature] : *expected) {
      values += !feature.bytes.empty() || !feature.floats.empty() || !feature.integers.empty();
    }
  }
  CHECK(accepted > 10'000);
  CHECK(refused > 5'000);
  CHECK(values > 5'000);
}

TEST_CASE("an example that ends at any byte is read as by protobuf") {
  ExampleMaker maker(3);
  for (int round = 0; round < 200; ++round) {
    const std::string bytes = maker.Example();
    for (size_t size = 0; size <= bytes.size(); ++size) {
      // Memory of its own, so that a sanitizer finds reads behind it.
      const std::vector<char> cut(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size));
      const std::string_view text(cut.data(), cut.size());
      REQUIRE(ReadByHand(text) == ReadByProtobuf(text));
    }
  }
}

TEST_CASE("groups are skipped as deep as protobuf does") {
  int accepted = 0;
  for (size_t depth = 90; depth < 110; ++depth) {
    const std::string groups = std::string(depth, '\x0b') + std::string(depth, '\x0c');
    const std::string nested = "\x0a" +
                               std::string{static_cast<char>(0x80 | (2 * depth & 0x7f)),
                                           static_cast<char>(2 * depth >> 7)} +
                               groups;
    for (const std::string& bytes : {groups, nested}) {
      INFO(depth);
      CHECK(ReadByHand(bytes) == ReadByProtobuf(bytes));
      accepted += ReadByProtobuf(bytes).has_value();
    }
  }
  CHECK(accepted == 11 + 10);
}

}  // namespace
}  // namespace cohort
