// Several arrays in one file: numpy.savez and numpy.savez_compressed.
#include <absl/strings/str_join.h>

#include <algorithm>

#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/data/arrays/array_source.h"
#include "common/data/arrays/zip_file.h"
#include "common/data/source_class.h"

namespace cohort {
namespace {

constexpr std::string_view kEnding = ".npy";

// "x_train.npy" -> "x_train".
std::string NameOf(const ZipMember& member) {
  return member.name.ends_with(kEnding) ? member.name.substr(0, member.name.size() - kEnding.size())
                                        : member.name;
}

absl::StatusOr<std::vector<ZipMember>> ChooseMembers(const std::vector<ZipMember>& members,
                                                     const std::vector<std::string>& wanted,
                                                     const std::string& path) {
  if (wanted.empty()) return members;
  std::vector<ZipMember> chosen;
  for (const std::string& name : wanted) {
    const auto found = std::find_if(members.begin(), members.end(),
                                    [&](const ZipMember& m) { return NameOf(m) == name; });
    if (found == members.end()) {
      const std::string known = absl::StrJoin(
          members, ", ", [](std::string* out, const ZipMember& m) { out->append(NameOf(m)); });
      return InvalidArgument("{}: has no array \"{}\" of `arrays`; it has {}", path,
                             PrintableLine(name), PrintableLine(known));
    }
    chosen.push_back(*found);
  }
  return chosen;
}

// A member that is not packed is read from the file; another is kept in memory.
absl::StatusOr<NpyArray> OpenMember(const std::shared_ptr<ZipFile>& zip, const ZipMember& member,
                                    std::string name) {
  if (member.deflated) {
    COHORT_ASSIGN_OR_RETURN(std::string bytes, zip->Read(member));
    return NpyArray::Parse(std::move(bytes), std::move(name));
  }
  return NpyArray::Open(
      [zip, member](uint64_t at, std::span<std::byte> out) { return zip->ReadAt(member, at, out); },
      member.bytes, std::move(name));
}

absl::StatusOr<std::shared_ptr<const RecordSource>> OpenNpz(const Config& config,
                                                            const SourceContext& context) {
  const std::string& path = config.String("path");
  COHORT_ASSIGN_OR_RETURN(const FileBytes file,
                          FileBytes::Open({path, config.String("url"), ""}, context.options));
  COHORT_ASSIGN_OR_RETURN(const std::shared_ptr<ZipFile> zip, ZipFile::Open(file));
  COHORT_ASSIGN_OR_RETURN(const std::vector<ZipMember> members,
                          ChooseMembers(zip->members(), config.Strings("arrays"), file.path()));
  std::vector<NpyArray> arrays;
  std::vector<std::string> names;
  std::string fingerprint;
  for (const ZipMember& member : members) {
    COHORT_ASSIGN_OR_RETURN(
        NpyArray array,
        OpenMember(zip, member, fmt::format("{}: {}", file.path(), PrintableLine(member.name))));
    arrays.push_back(std::move(array));
    names.push_back(NameOf(member));
    fingerprint += fmt::format("{} {} bytes {:08x} ", member.name, member.bytes, member.crc32);
  }
  COHORT_ASSIGN_OR_RETURN(names, NamesOfColumns(config.Strings("columns"), std::move(names)));
  return MakeArraySource(std::move(arrays), std::move(names), std::move(fingerprint));
}

}  // namespace

SourceClass NpzSource() {
  return {
      .schema = {.name = "npz",
                 .doc = "The arrays of a file of `numpy.savez`, a column each: their rows (axis "
                        "0) are the records. Rows are read when they are used; the arrays of "
                        "`savez_compressed` are kept in memory.",
                 .arguments =
                     {String("path", "A file below `COHORT_DATA_DIR`, or absolute."),
                      Strings("arrays", "The names of the arrays to read; none: all.").Optional(),
                      Strings("columns",
                              "Other names, in the order of the arrays; none: those of "
                              "the arrays.")
                          .Optional(),
                      String("url", "Shown in the error if the file is missing.").Optional()}},
      .no_record_arguments = {"url"},
      .open = OpenNpz};
}

}  // namespace cohort
