"""Event files: a row of records, each a protocol buffer of TensorFlow's message Event between two checksums.

A record is: its length (8 bytes, little-endian), the length's checksum (4 bytes), the message, the message's checksum. A checksum
is CRC-32C, turned by 15 bits and moved by a constant. Only the fields that are written are spelled out here:

    Event   1 wall_time: double   2 step: int64   3 file_version: string   5 summary: Summary
    Summary 1 value: [Value]
    Value   1 tag: string   2 simple_value: float   8 tensor: TensorProto   9 metadata: SummaryMetadata
"""
import struct

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
STRING = 7  # DT_STRING of TensorFlow


def crc_table():
    table = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
        table.append(n)
    return table


TABLE = crc_table()


def checksum(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def record(message):
    length = struct.pack("<Q", len(message))
    return length + struct.pack("<I", checksum(length)) + message + struct.pack("<I", checksum(message))


def varint(number):
    number &= (1 << 64) - 1  # negative numbers as two's complement
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(number, kind, value):
    """One field of a message: value is an int, a float or bytes, as kind says."""
    if kind == VARINT:
        body = varint(value)
    elif kind == BYTES:
        body = varint(len(value)) + value
    else:
        body = struct.pack("<d" if kind == FIXED64 else "<f", value)
    return varint(number << 3 | kind) + body


def event(wall_time, step=0, version=None, values=()):
    message = field(1, FIXED64, wall_time) + field(2, VARINT, step)
    if version is not None:
        message += field(3, BYTES, version)
    if values:
        message += field(5, BYTES, b"".join(field(1, BYTES, v) for v in values))
    return message


def scalar_value(tag, number):
    return field(1, BYTES, tag.encode()) + field(2, FIXED32, number)


def text_value(tag, text):
    plugin = field(1, BYTES, b"text")
    shape = field(2, BYTES, field(1, VARINT, 1))
    tensor = field(1, VARINT, STRING) + field(2, BYTES, shape) + field(8, BYTES, text.encode())
    return field(1, BYTES, (tag + "/text_summary").encode()) + field(9, BYTES, field(1, BYTES, plugin)) + field(8, BYTES, tensor)
