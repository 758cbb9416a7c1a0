#include <array>
#include <cstring>

#include "common/base/stable_bytes.h"
#include "common/graph/program_proto.h"
#include "proto/program.pb.h"

namespace cohort {
namespace {

// The finalizer of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators,
// OOPSLA 2014): a bijection in which every input bit changes half of the output bits.
uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Two chains over the bytes as little-endian words, of different seeds and word orders of mixing.
std::array<uint64_t, 2> Hash128(std::string_view bytes) {
  uint64_t a = Mix(bytes.size());
  uint64_t b = Mix(~static_cast<uint64_t>(bytes.size()));
  for (size_t i = 0; i < bytes.size(); i += 8) {
    uint64_t word = 0;
    const size_t n = std::min<size_t>(8, bytes.size() - i);
    for (size_t k = 0; k < n; ++k) {
      word |= static_cast<uint64_t>(static_cast<uint8_t>(bytes[i + k])) << (8 * k);
    }
    a = Mix(a ^ word);
    b = Mix(b + Mix(word ^ 0x5851f42d4c957f2d));
  }
  return {Mix(a), Mix(b ^ a)};
}

}  // namespace

std::string Fingerprint(const Program& program) {
  v1::Program proto;
  ProgramToProto(program, &proto);
  const auto hash = Hash128(StableBytes(proto));
  return fmt::format("{:016x}{:016x}", hash[0], hash[1]);
}

}  // namespace cohort
