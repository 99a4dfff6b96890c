# SPDX-License-Identifier: Apache-2.0
"""Damaged ONNX models and engine files, seeded. A source of bytes and a random generator give a file that is wrong somewhere.

Three depths, because a random flip mostly dies at the first check: raw bytes; the message tree of an ONNX file (lengths stay
right, so wrong types, cycles, missing names and absurd dims reach the importer); the text of an engine's sections (hashes
are made anew, so that what the file says reaches the readers behind them).
"""
import ctypes
import ctypes.util
import json
import struct

HUGE = [b"\xff" * 8, b"\0" * 8, b"\x7f" + b"\xff" * 7, (2**63 - 1).to_bytes(8, "little"), (2**31).to_bytes(8, "little")]
NUMBERS = [0, 1, 2, 3, 7, 10, 11, 16, 99, 127, 128, 2**31 - 1, 2**31, 2**32, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1]
STRINGS = [b"", b"/etc/passwd", b"../../../../etc/passwd", b"..", b"weights.bin", b"x" * 3000, b"\xff\xfe", b"a\nb", b"%s%n", b"Loop",
           b"If", b"Constant", b"ai.onnx.ml", b"batch"]


def damaged_bytes(data, rng):
    """Bit flips, truncation, absurd lengths, inserted bytes."""
    data, kind = bytearray(data), rng.random()
    if kind < 0.5:
        for _ in range(rng.choice([1, 1, 2, 8])):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif kind < 0.65:
        del data[rng.randrange(len(data)):]
    elif kind < 0.85:
        at = rng.randrange(len(data) - 8)
        data[at:at + 8] = rng.choice(HUGE)
    else:
        at = rng.randrange(len(data))
        data[at:at] = bytes(rng.randrange(256) for _ in range(rng.choice([1, 4, 100])))
    return bytes(data)


# --- ONNX: the fields that hold messages, by message

MESSAGES = {
    "model": {7: "graph", 8: "opset", 14: "entry", 25: "function"},
    "graph": {1: "node", 5: "tensor", 11: "value", 12: "value", 13: "value"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 14: "type"},
    "tensor": {13: "entry"},
    "value": {2: "type"},
    "type": {1: "tensor_type"},
    "tensor_type": {2: "shape"},
    "shape": {1: "dim"},
    "function": {7: "node", 9: "opset", 11: "attribute"},
}


def read_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def write_varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def read_message(data, kind):
    """[field number, wire type, value]; value is a list of such fields for a message."""
    fields, at = [], 0
    while at < len(data):
        key, at = read_varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = read_varint(data, at)
        elif wire == 2:
            size, at = read_varint(data, at)
            value, at = data[at:at + size], at + size
            inner = MESSAGES.get(kind, {}).get(number)
            if inner:
                value = read_message(value, inner)
        else:
            size = 8 if wire == 1 else 4
            value, at = data[at:at + size], at + size
        fields.append([number, wire, value])
    return fields


def write_message(fields):
    out = b""
    for number, wire, value in fields:
        out += write_varint(number << 3 | wire)
        if isinstance(value, int):
            out += write_varint(value)
        else:
            value = write_message(value) if isinstance(value, list) else value
            out += (write_varint(len(value)) if wire == 2 else b"") + value
    return out


def every_field(fields):
    for field in fields:
        yield fields, field
        if isinstance(field[2], list):
            yield from every_field(field[2])


def damaged_message(data, rng):
    """One to three fields of the tree: other numbers, names of other things, fields doubled, dropped or renumbered."""
    tree = read_message(data, "model")
    places = list(every_field(tree))
    names = [f[2] for _, f in places if isinstance(f[2], bytes) and 0 < len(f[2]) < 40]
    for _ in range(rng.choice([1, 1, 2, 3])):
        parent, field = rng.choice(places)
        kind = rng.random()
        if kind < 0.12 and field in parent:
            parent.remove(field)
        elif kind < 0.2:
            parent.insert(rng.randrange(len(parent) + 1), [field[0], field[1], field[2]])
        elif kind < 0.28:
            field[0] = rng.randrange(1, 30)
        elif isinstance(field[2], int):
            field[2] = rng.choice(NUMBERS) if rng.random() < 0.7 else rng.randrange(24)
        elif isinstance(field[2], list):
            rng.shuffle(field[2])
        elif field[1] == 2:
            field[2] = rng.choice(names) if rng.random() < 0.6 else rng.choice(STRINGS)
        else:
            field[2] = bytes(rng.randrange(256) for _ in field[2])
    return write_message(tree)


# --- engines: docs/engine-format.md

def hash64(data):
    """XXH3, 64 bit: the library that Lathe itself links to."""
    library = ctypes.CDLL(ctypes.util.find_library("xxhash") or "libxxhash.so.0")
    library.XXH3_64bits.restype = ctypes.c_uint64
    library.XXH3_64bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    return library.XXH3_64bits(data, len(data))


def read_engine(data):
    """Section name -> bytes, in order; the blocks stay where they are behind the sections."""
    sections = {}
    for i in range(struct.unpack_from("<I", data, 12)[0]):
        name, offset, length = struct.unpack_from("<32sQQ", data, 64 + 64 * i)
        sections[name.rstrip(b"\0").decode()] = data[offset:offset + length]
    return sections


def write_engine(sections, data):
    """A file with right hashes from sections and the blocks of the original file."""
    blocks, body = [], bytearray()
    start = 64 + 64 * len(sections) + sum((len(s) + 63) // 64 * 64 + 64 for s in sections.values())
    start = (start + 63) // 64 * 64
    for at in range(0, len(sections["blocks"]) - 23, 24):
        offset, length, _ = struct.unpack_from("<QQQ", sections["blocks"], at)
        piece = data[offset:offset + length]
        blocks.append(struct.pack("<QQQ", start + len(body), len(piece), hash64(piece)))
        body += piece + b"\0" * (-len(piece) % 64)
    sections = {**sections, "blocks": b"".join(blocks)}
    table, text, at = b"", bytearray(), (64 + 64 * len(sections) + 63) // 64 * 64
    for name, content in sections.items():
        table += struct.pack("<32sQQQQ", name.encode(), at + len(text), len(content), hash64(content), 0)
        text += content + b"\0" * (-len(content) % 64)
    whole = bytearray(64) + table
    whole += b"\0" * (at - len(whole)) + text
    whole += b"\0" * (start - len(whole)) + body
    struct.pack_into("<8sIIQQ", whole, 0, b"LATHEPLN", 1, len(sections), len(whole), hash64(table))
    struct.pack_into("<Q", whole, 56, hash64(bytes(whole[:56])))
    return bytes(whole)


def leaves(value, path=()):
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield value, key
        yield from leaves(inner, (*path, key))


def other_value(value, rng):
    if rng.random() < 0.15:
        return rng.choice([None, True, [], {}, "", 0, -1, 1.5, [[]], "x"])
    if isinstance(value, bool) or value is None:
        return 3
    if isinstance(value, (int, float)):
        return rng.choice([0, 1, -1, value + 1, value - 1, value * 2, 2**31, 2**62, -(2**63), 1e300])
    if isinstance(value, str):
        return damaged_text(value, rng) if value else "x"
    if isinstance(value, list):
        return value[1:] if rng.random() < 0.5 else value + value
    return {}


def damaged_text(text, rng):
    """A piece of text with a number, word or line changed."""
    at, kind = rng.randrange(len(text)), rng.random()
    if kind < 0.3:
        return text[:at] + text[at + rng.choice([1, 2, 10]):]
    if kind < 0.6:
        return text[:at] + rng.choice(["0", "9", "99999999999999999999", "-", "[", "}", "%", "\"", "\n", "(", ":"]) + text[at:]
    lines = text.split("\n")
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[i], lines[j] = lines[j], lines[i] if kind < 0.8 else lines[j]
    return "\n".join(lines)


def damaged_engine(data, rng):
    """One to three values in the JSON of a section, with all hashes right."""
    sections = read_engine(data)
    name = rng.choice([n for n in sections if n != "blocks"])
    content = json.loads(sections[name])
    for _ in range(rng.choice([1, 1, 2, 3])):
        parent, key = rng.choice(list(leaves(content)) or [({}, None)])
        if rng.random() < 0.1 and isinstance(parent, dict):
            parent.pop(key, None)
        elif not isinstance(parent, dict) or key in parent:
            parent[key] = other_value(parent[key], rng)
    sections[name] = json.dumps(content).encode()
    return write_engine(sections, data)
