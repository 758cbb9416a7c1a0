#include "deploy/predict/prediction_part.h"

#include <absl/strings/escaping.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/base/unique_fd.h"
#include "common/data/fingerprint.h"
#include "common/os/open_file.h"
#include "proto/data.pb.h"

namespace cohort {
namespace {

constexpr size_t kBlockBytes = size_t{1} << 20;
constexpr uint64_t kMostDescriptionBytes = uint64_t{64} << 20;
constexpr int kMostParts = 100'000;

bool ParseInt(std::string_view text, int* number) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), *number);
  return result.ec == std::errc() && result.ptr == text.data() + text.size();
}

nlohmann::json JsonOf(const PartDescription& part) {
  nlohmann::json columns = nlohmann::json::array();
  for (const PredictionColumn& column : part.columns) {
    columns.push_back({{"name", column.name},
                       {"dtype", std::string(DTypeName(column.dtype))},
                       {"dims", column.dims}});
  }
  return {{"part", part.number.index}, {"parts", part.number.count},
          {"begin", part.begin},       {"end", part.end},
          {"records", part.records},   {"checkpoint", part.checkpoint},
          {"state", part.state},       {"data", absl::BytesToHexString(part.data)},
          {"columns", columns},        {"bytes", part.bytes}};
}

absl::StatusOr<PartDescription> ReadDescription(const std::string& path) {
  COHORT_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMostDescriptionBytes));
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    PartDescription part;
    part.number = {json.at("part"), json.at("parts")};
    part.begin = json.at("begin");
    part.end = json.at("end");
    part.records = json.at("records");
    part.checkpoint = json.at("checkpoint");
    part.state = json.at("state");
    part.data = absl::HexStringToBytes(json.at("data").get<std::string>());
    for (const nlohmann::json& column : json.at("columns")) {
      const auto dtype = DTypeFromName(column.at("dtype").get<std::string>());
      part.columns.push_back(
          {column.at("name"), dtype.value_or(DType::kInvalid), column.at("dims")});
    }
    part.bytes = json.at("bytes").get<std::vector<uint64_t>>();
    return part;
  } catch (const nlohmann::json::exception& error) {
    return DataLoss("{} is no description of a part: {}", path, error.what());
  }
}

// Errors: InvalidArgument if `part` is no neighbor of the parts before it.
absl::Status CheckFits(const PartDescription& first, const PartDescription& part, uint64_t begin) {
  const auto refuse = [&](const std::string& why) {
    return InvalidArgument("part {} does not fit part 0: {}; predict the parts again",
                           part.number.index, why);
  };
  if (part.number.count != first.number.count) {
    return refuse(fmt::format("it is one of {} parts, and part 0 one of {}", part.number.count,
                              first.number.count));
  }
  if (part.state != first.state) {
    return refuse(
        fmt::format("its checkpoint, {}, is {}, and that of part 0, {}, is {}: name one "
                    "checkpoint for all parts",
                    part.checkpoint, part.state, first.checkpoint, first.state));
  }
  v1::DataFingerprint mine, theirs;
  if (!mine.ParseFromString(part.data) || !theirs.ParseFromString(first.data)) {
    return refuse("its description is damaged");
  }
  const std::string difference = DifferenceOf({mine, "in this part"}, {theirs, "in part 0"});
  if (!difference.empty()) return refuse(difference);
  if (part.begin != begin || part.end < begin || part.records != first.records ||
      part.bytes.size() != first.bytes.size()) {
    return refuse("the records of the parts are no sequence");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<PartDescription>> ReadParts(const PartFolder& folder) {
  std::vector<PartDescription> parts;
  for (int i = 0; i == 0 || i < parts[0].number.count; ++i) {
    absl::StatusOr<PartDescription> part = ReadDescription(folder.Description(i));
    if (absl::IsNotFound(part.status())) {
      return NotFound("{} has no whole part {}: run `cohort predict --part {}/{}`", folder.path(),
                      i, i, i == 0 ? "COUNT" : fmt::to_string(parts[0].number.count));
    }
    COHORT_RETURN_IF_ERROR(part.status());
    const PartDescription& first = parts.empty() ? *part : parts[0];
    COHORT_RETURN_IF_ERROR(CheckFits(first, *part, parts.empty() ? 0 : parts.back().end));
    parts.push_back(*std::move(part));
  }
  if (parts.back().end != parts[0].records) {
    return DataLoss("{}: the parts have {} of {} records", folder.path(), parts.back().end,
                    parts[0].records);
  }
  return parts;
}

// Appends a whole file to an open one.
absl::Status AppendFile(const std::string& from, uint64_t bytes, int to, const std::string& name) {
  COHORT_ASSIGN_OR_RETURN(const auto file, RandomFile::Open(from));
  std::string block;
  for (uint64_t at = 0; at < bytes; at += block.size()) {
    block.resize(std::min<uint64_t>(kBlockBytes, bytes - at));
    COHORT_RETURN_IF_ERROR(file->Read(at, block.data(), block.size()));
    COHORT_RETURN_IF_ERROR(WriteAll(to, block, name));
  }
  return absl::OkStatus();
}

// Appends a stream of all other parts to that of the first one.
absl::Status JoinStream(const PartFolder& folder, const std::vector<PartDescription>& parts,
                        size_t stream) {
  const std::string name = folder.Stream(0, stream);
  const UniqueFd file(::open(name.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat info = {};
  if (!file.ok() || ::fstat(file.get(), &info) != 0) {
    return ErrnoStatus("cannot open", name, errno);
  }
  const uint64_t own = parts[0].bytes[stream];
  if (static_cast<uint64_t>(info.st_size) < own) {
    return DataLoss("{} has {} bytes, and {} were written: predict part 0 again", name,
                    info.st_size, own);
  }
  // A process that joined the parts before may have ended halfway.
  if (::ftruncate(file.get(), static_cast<off_t>(own)) != 0 ||
      ::lseek(file.get(), 0, SEEK_END) < 0) {
    return ErrnoStatus("cannot cut", name, errno);
  }
  for (const PartDescription& part : std::span(parts).subspan(1)) {
    COHORT_RETURN_IF_ERROR(
        AppendFile(folder.Stream(part.number.index, stream), part.bytes[stream], file.get(), name));
  }
  return absl::OkStatus();
}

// True for the names of PartFolder, and of what is written before it has such a name.
bool IsOfPart(std::string_view name) {
  const size_t dot = std::min(name.find('.'), name.size() - 1);
  int number = 0;
  if (!ParseInt(name.substr(0, dot), &number)) return false;
  const std::string_view rest = name.substr(dot + 1);
  return ParseInt(rest, &number) || rest == "json" || rest == "json.tmp" || rest == "log" ||
         rest == "0.zip" || rest == "0.parquet";
}

}  // namespace

absl::StatusOr<PartNumber> ParsePartNumber(const std::string& text) {
  const size_t slash = text.find('/');
  PartNumber part;
  if (slash == std::string::npos ||
      !ParseInt(std::string_view(text).substr(0, slash), &part.index) ||
      !ParseInt(std::string_view(text).substr(slash + 1), &part.count) || part.index < 0 ||
      part.index >= part.count || part.count > kMostParts) {
    return UsageError(
        "--part {}: should be INDEX/COUNT, as in 0/4 for the first of 4 parts and 3/4 for the last",
        text);
  }
  return part;
}

std::string PartFolder::Stream(int part, size_t stream) const {
  return fmt::format("{}/{}.{}", path_, part, stream);
}

std::string PartFolder::Description(int part) const {
  return fmt::format("{}/{}.json", path_, part);
}

std::string PartFolder::Log(int part) const { return fmt::format("{}/{}.log", path_, part); }

absl::Status PartFolder::Create() const {
  if (::mkdir(path_.c_str(), 0777) == 0 || errno == EEXIST) return absl::OkStatus();
  const int error = errno;
  if (IsDiskFull(error)) return ErrnoStatus("cannot create", path_, error);
  return WithExitCode(
      FailedPrecondition("cannot create {}: {}; --out names a file in a folder that exists", path_,
                         std::strerror(error)),
      ExitCode::kCantCreate);
}

absl::Status PartFolder::Remove() const {
  COHORT_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(path_));
  for (const std::string& name : names) {
    if (!IsOfPart(name)) {
      return AlreadyExists("{}/{} is no part of a prediction: remove it, or choose another --out",
                           path_, name);
    }
  }
  for (const std::string& name : names) {
    COHORT_RETURN_IF_ERROR(RemoveFile(JoinPath(path_, name)));
  }
  if (::rmdir(path_.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
  return ErrnoStatus("cannot remove", path_, errno);
}

absl::StatusOr<std::unique_ptr<PartWriter>> PartWriter::Create(const std::string& out,
                                                               PartDescription part) {
  COHORT_ASSIGN_OR_RETURN(auto format, PredictionFormat::Create(out, part.columns, part.records));
  std::unique_ptr<PartWriter> writer(new PartWriter(out, std::move(part), std::move(format)));
  const int index = writer->part_.number.index;
  COHORT_RETURN_IF_ERROR(writer->folder_.Create());
  for (size_t stream = 0; stream < writer->format_->streams(); ++stream) {
    COHORT_ASSIGN_OR_RETURN(auto file, DurableFile::Create(writer->folder_.Stream(index, stream),
                                                           DurableFile::Mode::kReplace));
    writer->files_.push_back(std::move(file));
    writer->blocks_.push_back(index == 0 ? writer->format_->Header(stream) : "");
  }
  return writer;
}

absl::Status PartWriter::Append(std::span<const Tensor> batch) {
  for (size_t stream = 0; stream < files_.size(); ++stream) {
    format_->Append(stream, batch, &blocks_[stream]);
  }
  return Flush(kBlockBytes);
}

absl::Status PartWriter::Flush(size_t least) {
  for (size_t stream = 0; stream < files_.size(); ++stream) {
    std::string& block = blocks_[stream];
    if (block.size() < least) continue;
    COHORT_RETURN_IF_ERROR(files_[stream]->Append(block.data(), block.size()));
    block.clear();
  }
  return absl::OkStatus();
}

absl::Status PartWriter::Finish() {
  COHORT_RETURN_IF_ERROR(Flush(0));
  for (const auto& file : files_) {
    part_.bytes.push_back(file->bytes());
    COHORT_RETURN_IF_ERROR(file->Close());
  }
  return WriteFileAtomically(folder_.Description(part_.number.index), JsonOf(part_).dump());
}

absl::StatusOr<PartDescription> JoinParts(const std::string& out) {
  const PartFolder folder(out);
  COHORT_ASSIGN_OR_RETURN(const std::vector<PartDescription> parts, ReadParts(folder));
  COHORT_ASSIGN_OR_RETURN(const auto format,
                          PredictionFormat::Create(out, parts[0].columns, parts[0].records));
  if (format->streams() != parts[0].bytes.size()) {
    return InvalidArgument("{}: the parts are of another format than {}", folder.path(), out);
  }
  std::vector<std::string> files;
  for (size_t stream = 0; stream < format->streams(); ++stream) {
    COHORT_RETURN_IF_ERROR(JoinStream(folder, parts, stream));
    files.push_back(folder.Stream(0, stream));
  }
  COHORT_RETURN_IF_ERROR(format->Complete(files, out));
  COHORT_RETURN_IF_ERROR(folder.Remove());
  return parts[0];
}

}  // namespace cohort
