#ifndef COHORT_COMMON_REPORT_WIRE_TEXT_H_
#define COHORT_COMMON_REPORT_WIRE_TEXT_H_

#include <absl/functional/function_ref.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>

#include <string>

namespace cohort {

// Messages of TensorFlow, whose protocol buffers Cohort does not have, are written field by field.

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedOutputStream;

// Returns the bytes that `write` writes.
inline std::string Encode(absl::FunctionRef<void(CodedOutputStream*)> write) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    CodedOutputStream out(&stream);
    write(&out);
  }
  return bytes;
}

}  // namespace cohort

#endif  // COHORT_COMMON_REPORT_WIRE_TEXT_H_
