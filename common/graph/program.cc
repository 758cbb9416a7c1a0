#include "common/graph/program.h"

#include <fmt/format.h>

namespace cohort {

int64_t CapacityElements(const ValueType& type) {
  int64_t n = 1;
  for (const Dim& dim : type.dims) n *= dim.size;
  return n;
}

std::string TypeToString(const ValueType& type) {
  std::string text(DTypeName(type.dtype));
  text += '[';
  for (size_t i = 0; i < type.dims.size(); ++i) {
    if (i > 0) text += ", ";
    const Dim& dim = type.dims[i];
    if (dim.symbol == 0) {
      text += fmt::format("{}", dim.size);
    } else if (dim.symbol == 1) {
      text += fmt::format("batch<={}", dim.size);
    } else {
      text += fmt::format("s{}<={}", dim.symbol, dim.size);
    }
  }
  return text + ']';
}

}  // namespace cohort
