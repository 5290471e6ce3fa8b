#!/usr/bin/env python3
"""Writes the first inputs of every fuzzer to corpus/NAME; inputs that fuzzing added stay."""
import io
import json
import os
import struct
import zipfile

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus")


def write(fuzzer, name, content):
    os.makedirs(os.path.join(FOLDER, fuzzer), exist_ok=True)
    with open(os.path.join(FOLDER, fuzzer, name), "wb") as file:
        file.write(content)


def safetensors():
    def tensor(dtype, shape, begin, end):
        return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}

    def padded(header):
        text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
        return text + b" " * (-len(text) % 8)

    write("safetensors_header", "empty", b"{}      ")
    write("safetensors_header", "metadata", padded({"__metadata__": {"format": "pt", "a": "\u00e9\n"}}))
    write("safetensors_header", "reference",
          padded({"b": tensor("F32", [2, 3], 0, 24), "a": tensor("BF16", [4], 24, 32),
                  "s": tensor("U8", [], 32, 33), "z": tensor("BOOL", [0, 5], 33, 33)}))
    write("safetensors_header", "below_a_byte", padded({"q": tensor("F4", [3, 2], 0, 3)}))
    write("safetensors_header", "overflow", padded({"q": tensor("U64", [1 << 32, 1 << 32], 0, 0)}))
    write("safetensors_header", "whole_file", struct.pack("<Q", 8) + b"{}      ")
    write("safetensors_header", "pointer", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    write("safetensors_header", "twice", b'{"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]},'
          b'"\\u0061":{"dtype":"U8","shape":[],"data_offsets":[1,2]}}')


def npy(descr, fortran, shape, data, version=1):
    text = "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }\n" % (descr, fortran, shape)
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text.encode() + data


def arrays():
    write("npy", "row_major", npy("<f4", False, (2, 3), bytes(range(24))))
    write("npy", "fortran_big_endian", npy(">u2", True, (2, 3, 2), bytes(range(24)), 2))
    write("npy", "raw", npy("<V2", True, (2, 2), bytes(8), 3))
    write("npy", "objects", npy("|O", False, (1,), b"\x80\x04."))
    write("npy", "scalar", npy("<c8", False, (), bytes(8)))
    write("npy", "structured", npy("<f4", False, (1,), bytes(8)).replace(b"'<f4'", b"[('a', '<f4')]"))

    def archive(*members):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as file:
            for name, content, method in members:
                file.writestr(zipfile.ZipInfo(name), content, method)
        return out.getvalue()

    array = npy("|u1", False, (4,), b"abcd")
    write("npz", "stored", archive(("a.npy", array, zipfile.ZIP_STORED)))
    write("npz", "both", archive(("w/a.npy", array, zipfile.ZIP_DEFLATED), ("b.npy", array, zipfile.ZIP_STORED)))
    write("npz", "empty", archive())
    write("npz", "outside", archive(("../a.npy", array, zipfile.ZIP_STORED)))
    write("npz", "objects", archive(("o.npy", npy("|O", False, (1,), b"\x80\x04."), zipfile.ZIP_DEFLATED)))


def trees():
    def child(fill, length, level):
        return bytes([fill]) * 32 + struct.pack("<QB3xI", length, level, 0)

    def tree(level, kind, children, opaque):
        return bytes([level]) + (b"TKVT" + struct.pack("<HBBIQ", 1, level, kind, len(children), len(opaque))
                                 + b"".join(children) + opaque)

    write("tree", "chunked_blob", tree(1, 1, [child(1, 100, 0), child(2, 7, 0)], struct.pack("<Q", 107)))
    write("tree", "chunked_blob_of_trees", tree(2, 1, [child(1, 100, 1)], struct.pack("<QQ", 107, 107)))
    write("tree", "empty_root", tree(3, 4, [], bytes(40)))
    write("tree", "page", tree(2, 3, [child(3, 64, 0)], struct.pack("<I", 1) + bytes(60)))
    write("tree", "list", tree(1, 2, [child(3, 64, 0)], bytes(32)))
    write("tree", "sources", tree(3, 6, [child(3, 64, 0)], bytes(24)))
    write("tree", "child_of_its_own_level", tree(1, 1, [child(1, 100, 1)], b""))
    write("tree", "cut", tree(1, 1, [child(1, 100, 0)], b"abc")[:-1])


def payloads():
    def block(encoding, entry, length, stored):
        return struct.pack("<BI", encoding, entry) + struct.pack("<I", length - 1)[:3] + stored

    def frame(size, kind, content):  # one block of zstd: 0 as it is, 1 one byte repeated
        header = struct.pack("<I", 1 | kind << 1 | size << 3)[:3]
        return b"\x28\xb5\x2f\xfd\x20" + bytes([size]) + header + content

    for encoding in range(5):
        for name, stored, length in (("as_it_is", frame(5, 0, b"hello"), 5), ("repeated", frame(200, 1, b"x"), 200),
                                     ("lies", frame(200, 1, b"x"), 4), ("two_frames", frame(5, 0, b"hello") * 2, 10)):
            write("payload_file", f"{name}_{encoding}", block(encoding, len(stored), length, stored))
        write("payload_file", f"raw_{encoding}", block(encoding, 0x80000005, 5, b"hello"))
    write("payload_file", "elements", struct.pack("<64f", *[i / 7 for i in range(64)]))
    write("payload_file", "header", b"TKVP" + struct.pack("<HH", 1, 0) + bytes(4088))


def messages():
    def field(number, content):
        return bytes([number << 3 | 2]) + bytes([len(content)]) + content

    data = field(15, b"some bytes")
    write("wire_message", "data_only", b"\x03" + data)
    write("wire_message", "fields_and_data", b"\x05" + field(1, b"\x08\x07") + data)
    write("wire_message", "data_first", b"\x00" + data + field(1, b"\x08\x07"))
    write("wire_message", "data_twice", b"\x10" + data + field(15, b""))
    write("wire_message", "unknown", b"\x01" + b"\xa0\x06\x01" + b"\xab\x06\xac\x06" + data)
    write("wire_message", "packed", b"\x01" + field(2, b"\x01\x80\x01\x05") + b"\x10\x07" + data)
    write("wire_message", "cut", b"\x02" + data[:-1])
    write("wire_message", "tag_of_more_than_32_bits", b"\x8d\xf8\xff\xff\xff\x62\x00")
    write("wire_message", "long_length", b"\x02" + b"\x7a\xff\xff\xff\xff\x0f" + b"x")


safetensors()
arrays()
trees()
payloads()
messages()
