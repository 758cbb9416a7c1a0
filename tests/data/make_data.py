#!/usr/bin/env python3
"""Writes data sets of the form of MNIST and UCI Adult, made from a seed, for the tests that train the examples.

Usage: make_data.py DIRECTORY

The directory gets mnist/t10k-images-idx3-ubyte.gz, mnist/t10k-labels-idx1-ubyte.gz and adult/adult.data. They have the
names, shapes, columns and numbers of records of the real files, so the examples read them without their checksums. The
bytes depend on nothing but this script. Both can be learned: digits are shifted and noisy, incomes follow a rule.
"""
import gzip
import math
import os
import random
import struct
import sys

SEED = 20261125
IMAGES, SIDE = 10000, 28
ROWS = 30162
# 5 x 7 dots each, a row of 5 bits per line.
GLYPHS = ["0e11131519110e", "040c040404040e", "0e11010204081f", "1f02040201110e", "02060a121f0202",
          "1f101e0101110e", "0608101e11110e", "1f010204080808", "0e11110e11110e", "0e11110f01020c"]
DOT = 3  # pixels
EDUCATION = ["Preschool", "1st-4th", "5th-6th", "7th-8th", "9th", "10th", "11th", "12th", "HS-grad", "Some-college",
             "Assoc-voc", "Assoc-acdm", "Bachelors", "Masters", "Prof-school", "Doctorate"]
OCCUPATION = ["Tech-support", "Craft-repair", "Other-service", "Sales", "Exec-managerial", "Prof-specialty",
              "Handlers-cleaners", "Machine-op-inspct", "Adm-clerical", "Farming-fishing", "Transport-moving",
              "Priv-house-serv", "Protective-serv", "Armed-Forces"]
COLUMNS = ("age,type_employer,fnlwgt,education,education_num,marital,occupation,relationship,race,sex,capital_gain,"
           "capital_loss,hr_per_week,country,income")


def lines_of(glyph):
    """The 21 lines of a digit, 15 pixels each, as numbers of 15 bytes."""
    lines = []
    for row in bytes.fromhex(glyph):
        pixels = bytes(220 if row >> (4 - column // DOT) & 1 else 0 for column in range(5 * DOT))
        lines += DOT * [pixels]
    return lines


def image(lines, chance):
    noise = chance.randbytes(SIDE * SIDE).translate(bytes(value // 8 for value in range(256)))
    pixels = bytearray(noise)
    left, top = chance.randrange(SIDE - 15), chance.randrange(SIDE - 21)
    for number, line in enumerate(lines):
        at = (top + number) * SIDE + left
        pixels[at:at + 15] = bytes(p + n for p, n in zip(line, pixels[at:at + 15]))
    return pixels


def write_compressed(path, data):
    with open(path, "wb") as f, gzip.GzipFile("", "wb", 1, f, mtime=0) as compressed:
        compressed.write(data)


def write_digits(directory):
    chance = random.Random(SEED)
    labels = bytes(chance.randrange(10) for _ in range(IMAGES))
    glyphs = [lines_of(glyph) for glyph in GLYPHS]
    pixels = b"".join(image(glyphs[label], chance) for label in labels)
    write_compressed(directory + "/t10k-images-idx3-ubyte.gz",
                     struct.pack(">4B3I", 0, 0, 8, 3, IMAGES, SIDE, SIDE) + pixels)
    write_compressed(directory + "/t10k-labels-idx1-ubyte.gz", struct.pack(">4BI", 0, 0, 8, 1, IMAGES) + labels)


def write_census(directory):
    chance = random.Random(SEED)
    with open(directory + "/adult.data", "w", encoding="utf-8") as f:
        f.write(COLUMNS + "\n")
        for _ in range(ROWS):
            school, work = chance.randrange(len(EDUCATION)), chance.randrange(len(OCCUPATION))
            age, hours = chance.randrange(17, 91), chance.randrange(1, 100)
            score = 0.4 * (school - 10) + 0.5 * (work % 5 - 2) + (age - 40) / 20 + (hours - 40) / 15
            rich = chance.random() < 1 / (1 + math.exp(-score))
            f.write("%d,Private,%d,%s,%d,Married-civ-spouse,%s,Husband,White,Male,0,0,%d,United-States,%s\n" % (
                age, chance.randrange(10000, 1000000), EDUCATION[school], school + 1, OCCUPATION[work], hours,
                ">50K" if rich else "<=50K"))


def main(directory):
    for name, write in (("mnist", write_digits), ("adult", write_census)):
        os.makedirs(os.path.join(directory, name), exist_ok=True)
        write(os.path.join(directory, name))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
