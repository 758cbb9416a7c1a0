#!/usr/bin/env python3
"""Makes files of images in several formats from the digits of MNIST.

    tests/data/make_image_files.py DIRECTORY [--images 1000] [--mnist $COHORT_DATA_DIR/mnist]

DIRECTORY receives
    folder/0 ... folder/9      PNG files, a sub-directory for each class; every second file is a JPEG if the
                               package Pillow is there
    digits.tfrecord            tf.Examples with `image` (an encoded PNG) and `label`
    images.npy, labels.npy     uint8 [images, 28, 28] and int64 [images]
    digits.npz, packed.npz     both arrays: x and y, as they are and deflated
    classes/0.npy ... 9.npy    the rows of each class, uint8 [n, 784], as Quick, Draw! has them
    fashion/                   four IDX files with the names of Fashion-MNIST

It needs no package of Python.
"""
import argparse
import gzip
import io
import os
import struct
import sys
import zipfile
import zlib

SIDE = 28


def read_mnist(directory, count):
    with gzip.open(os.path.join(directory, "t10k-images-idx3-ubyte.gz")) as f:
        pixels = f.read()[16:16 + count * SIDE * SIDE]
    with gzip.open(os.path.join(directory, "t10k-labels-idx1-ubyte.gz")) as f:
        labels = list(f.read()[8:8 + count])
    return [pixels[i * SIDE * SIDE:(i + 1) * SIDE * SIDE] for i in range(len(labels))], labels


def png(pixels):
    """A PNG of gray pixels (W3C PNG, third edition)."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + pixels[y * SIDE:(y + 1) * SIDE] for y in range(SIDE))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", SIDE, SIDE, 8, 0, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def jpeg_writer():
    """A function that encodes a JPEG; None without Pillow."""
    try:
        from PIL import Image
    except ImportError:
        return None

    def jpeg(pixels):
        out = io.BytesIO()
        Image.frombytes("L", (SIDE, SIDE), pixels).save(out, "JPEG", quality=90)
        return out.getvalue()
    return jpeg


def npy(descr, shape, data):
    """numpy/lib/format.py, version 1.0."""
    header = "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }" % (
        descr, "".join("%d, " % size for size in shape))
    header += " " * (-(len(header) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\0" + struct.pack("<H", len(header)) + header.encode() + data


def crc32c_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


TABLE = crc32c_table()


def masked_crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def tf_record(data):
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked_crc32c(length)) + data + struct.pack("<I", masked_crc32c(data))


def field(number, data):
    """A field of protobuf that has a length."""
    size = b""
    rest = len(data)
    while rest >= 128:
        size += bytes([rest & 127 | 128])
        rest >>= 7
    return bytes([number << 3 | 2]) + size + bytes([rest]) + data


def tf_example(image, label):
    features = {"image": field(1, field(1, image)), "label": field(3, field(1, bytes([label])))}
    return field(1, b"".join(field(1, field(1, name.encode()) + field(2, feature))
                             for name, feature in features.items()))


def idx(dims, data):
    return gzip.compress(struct.pack(">BBBB", 0, 0, 8, len(dims)) +
                         b"".join(struct.pack(">I", size) for size in dims) + data)


def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data)


def make(directory, images, labels):
    jpeg = jpeg_writer()
    records = b""
    for i, (pixels, label) in enumerate(zip(images, labels)):
        encoded = png(pixels)
        records += tf_record(tf_example(encoded, label))
        name = os.path.join(directory, "folder", str(label), "%05d" % i)
        if jpeg is not None and i % 2 == 1:
            write(name + ".jpg", jpeg(pixels))
        else:
            write(name + ".png", encoded)
    write(os.path.join(directory, "digits.tfrecord"), records)
    x = npy("|u1", [len(images), SIDE, SIDE], b"".join(images))
    y = npy("<i8", [len(labels)], struct.pack("<%dq" % len(labels), *labels))
    write(os.path.join(directory, "images.npy"), x)
    write(os.path.join(directory, "labels.npy"), y)
    for name, method in (("digits.npz", zipfile.ZIP_STORED), ("packed.npz", zipfile.ZIP_DEFLATED)):
        with zipfile.ZipFile(os.path.join(directory, name), "w", method) as file:
            file.writestr("x.npy", x)
            file.writestr("y.npy", y)
    for digit in range(10):
        rows = [pixels for pixels, label in zip(images, labels) if label == digit]
        write(os.path.join(directory, "classes", "%d.npy" % digit),
              npy("|u1", [len(rows), SIDE * SIDE], b"".join(rows)))
    part = len(images) * 9 // 10
    for name, begin, end in (("train", 0, part), ("t10k", part, len(images))):
        write(os.path.join(directory, "fashion", name + "-images-idx3-ubyte.gz"),
              idx([end - begin, SIDE, SIDE], b"".join(images[begin:end])))
        write(os.path.join(directory, "fashion", name + "-labels-idx1-ubyte.gz"),
              idx([end - begin], bytes(labels[begin:end])))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory")
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--mnist", default=os.path.join(os.environ.get("COHORT_DATA_DIR", "."), "mnist"))
    arguments = parser.parse_args()
    images, labels = read_mnist(arguments.mnist, arguments.images)
    make(arguments.directory, images, labels)
    return 0


if __name__ == "__main__":
    sys.exit(main())
