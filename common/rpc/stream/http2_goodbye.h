#ifndef COHORT_COMMON_RPC_STREAM_HTTP2_GOODBYE_H_
#define COHORT_COMMON_RPC_STREAM_HTTP2_GOODBYE_H_

#include <string>
#include <string_view>

namespace cohort {

// What a server of HTTP/2 sends to end a connection before it has parsed a byte of it: an empty
// SETTINGS frame, which the protocol wants first, and GOAWAY with INADEQUATE_SECURITY and `why` as
// debug data, which clients show (RFC 9113, 6.5 and 6.8). `why` has less than 16 KB.
std::string Http2Goodbye(std::string_view why);

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_STREAM_HTTP2_GOODBYE_H_
