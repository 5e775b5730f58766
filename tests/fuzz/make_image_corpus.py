#!/usr/bin/env python3
"""Writes corpus/image: small pictures and sets of each kind, behind the byte that says which (image_fuzz.cpp).

Needs Pillow for PNG and JPEG: PY=$(scripts/peers.sh); $PY tests/fuzz/make_image_corpus.py
"""
import io
import pathlib
import struct

from PIL import Image

out = pathlib.Path(__file__).with_name("corpus") / "image"
out.mkdir(parents=True, exist_ok=True)


def picture(mode, size=(6, 5)):
    channels = len(Image.new(mode, (1, 1)).getbands())
    return Image.frombytes(mode, size, bytes((i * 37) % 256 for i in range(size[0] * size[1] * channels)))


def saved(image, kind, **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


idx = struct.pack(">IIII", 0x803, 2, 2, 2) + bytes(range(8))
files = {
    "ppm": b"\0P6 # comment\n2 1\n255\nabcdef",
    "pgm": b"\0P5 3 2 255\nabcdef",
    "png-rgb": b"\0" + saved(picture("RGB"), "PNG"),
    "png-grey": b"\0" + saved(picture("L"), "PNG"),
    "png-alpha": b"\0" + saved(picture("RGBA"), "PNG"),
    "png-palette": b"\0" + saved(picture("RGB").convert("P"), "PNG"),
    "png-16": b"\0" + saved(Image.new("I;16", (2, 2)), "PNG"),
    "jpeg": b"\0" + saved(picture("RGB"), "JPEG"),
    "jpeg-progressive": b"\0" + saved(picture("L"), "JPEG", progressive=True),
    "jpeg-cmyk": b"\0" + saved(picture("CMYK"), "JPEG"),
    "jpeg-exif": b"\0" + saved(picture("RGB"), "JPEG", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"),
    "cifar10": b"\1\3" + bytes(3072),
    "cifar100": b"\2\1\3" + bytes(3072),
    "idx": b"\3" + bytes([1 + len(idx)]) + idx + struct.pack(">II", 0x801, 2) + b"\3\4",
}
for name, data in files.items():
    (out / name).write_bytes(data)
