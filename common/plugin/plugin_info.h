#ifndef COHORT_COMMON_PLUGIN_PLUGIN_INFO_H_
#define COHORT_COMMON_PLUGIN_PLUGIN_INFO_H_

#include <absl/base/config.h>
#include <fmt/core.h>
#include <google/protobuf/stubs/common.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/version.h"
#include "common/data/source_class.h"
#include "common/data/transform_class.h"
#include "common/metrics/finalizers.h"
#include "common/model/layers/layer.h"
#include "common/model/losses/loss.h"
#include "common/model/metrics/metric.h"

namespace cohort {

// What a plugin was built with: constant data in its file. A program finds it there by its first
// bytes before it loads the file. So it refuses a plugin that does not suit it, and executes
// nothing of that plugin.
struct PluginInfo {
  static constexpr std::string_view kMagic = "COHORT-PLUGIN-1:";

  std::array<char, 16> magic = {};
  std::array<char, 32> version = {};  // Cohort's, "0.1.0"
  // Processor, compiler, libraries and sizes of classes; unused ones are 0.
  std::array<uint64_t, 16> facts = {};

  std::string_view Version() const {
    const std::string_view text(version.data(), version.size());
    return text.substr(0, text.find('\0'));
  }
};

// The compiler's ABI. A plugin for an x86-64 processor has another one than those for others.
#ifdef __x86_64__
inline constexpr uint64_t kPluginAbi = __GXX_ABI_VERSION;
#else
inline constexpr uint64_t kPluginAbi = uint64_t{1} << 32 | __GXX_ABI_VERSION;
#endif

// The info of the code that is being compiled. A plugin and a program can share classes only if
// their infos are equal.
constexpr PluginInfo ThisPluginInfo() {
  PluginInfo info;
  for (size_t i = 0; i < info.magic.size(); ++i) info.magic[i] = PluginInfo::kMagic[i];
  constexpr std::string_view kVersion = COHORT_VERSION;
  static_assert(kVersion.size() < sizeof(info.version));
  for (size_t i = 0; i < kVersion.size(); ++i) info.version[i] = kVersion[i];
  info.facts = {
      kPluginAbi,         _GLIBCXX_USE_CXX11_ABI, ABSL_LTS_RELEASE_VERSION, GOOGLE_PROTOBUF_VERSION,
      FMT_VERSION,        sizeof(std::string),    sizeof(v1::ConfigValue),  sizeof(Argument),
      sizeof(Expr),       sizeof(SourceClass),    sizeof(TransformClass),   sizeof(FinalizerClass),
      sizeof(LayerClass), sizeof(LayerContext),   sizeof(LossClass),        sizeof(MetricClass)};
  return info;
}

}  // namespace cohort

#endif  // COHORT_COMMON_PLUGIN_PLUGIN_INFO_H_
