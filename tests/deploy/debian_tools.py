"""Programs of Debian packages that tests need but that no machine should have to install.

A package such as prometheus starts a service when it is installed. So it is unpacked into a folder of the build tree.
"""
import os
import shutil
import subprocess
import sys

from real_cluster import BINARY


def unpacked(package):
    """The folder with the files of a Debian package; exits with 77 if it cannot be fetched."""
    target = os.path.join(BINARY, "debian", package)
    if os.path.isdir(target):
        return target
    fetched = target + ".%d" % os.getpid()
    os.makedirs(fetched)
    done = subprocess.run(["apt-get", "download", package], cwd=fetched, capture_output=True, text=True, check=False)
    archives = [name for name in os.listdir(fetched) if name.endswith(".deb")]
    if done.returncode != 0 or len(archives) != 1:
        shutil.rmtree(fetched)
        print("skipped: the Debian package %s cannot be fetched: %s" % (package, done.stderr.strip()))
        sys.exit(77)
    archive = os.path.join(fetched, archives[0])
    subprocess.run(["dpkg-deb", "-x", archive, fetched], check=True)
    os.remove(archive)
    try:
        os.rename(fetched, target)
    except OSError:  # another test was faster
        shutil.rmtree(fetched)
    return target


def tool(package, path):
    """The path of a program: the installed one, else the one of the unpacked package."""
    return shutil.which(os.path.basename(path)) or os.path.join(unpacked(package), path)
