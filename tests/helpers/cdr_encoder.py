"""ROS 2 messages in any plain CDR, for the importer's tests: rosbags writes XCDR1 alone, and is the oracle for that."""

from __future__ import annotations

import struct
from typing import Any

from rosbags.interfaces import Nodetype

from sensor_messages import ROS2

_CODES = {
    "bool": "B",
    "uint8": "B",
    "int8": "b",
    "uint16": "H",
    "int16": "h",
    "uint32": "I",
    "int32": "i",
    "float32": "f",
    "float64": "d",
}


def encode(message: Any, name: str, identifier: bytes, *, order: str, widest: int, list_sizes: bool = True) -> bytes:
    """`message` behind the two bytes of the identifier. order: "<" or ">"; widest: 8 (XCDR1) or 4 (XCDR2).

    list_sizes: lists of structures begin with their size, as XCDR2 has it.
    """
    writer = _Writer(order, widest, list_sizes=list_sizes and widest == 4)
    writer.structure(message, name)
    return identifier + b"\0\0" + bytes(writer.out)


class _Writer:
    def __init__(self, order: str, widest: int, *, list_sizes: bool) -> None:
        self.order, self.widest, self.list_sizes = order, widest, list_sizes
        self.out = bytearray()

    def number(self, code: str, value: Any) -> None:
        size = min(struct.calcsize(f"={code}"), self.widest)
        self.out += bytes(-len(self.out) % size) + struct.pack(self.order + code, value)

    def structure(self, message: Any, name: str) -> None:
        for field, (node, about) in ROS2.fielddefs[name][1]:
            self.value(getattr(message, field), node, about)

    def value(self, value: Any, node: Nodetype, about: Any) -> None:
        if node == Nodetype.NAME:
            self.structure(value, about)
        elif node == Nodetype.BASE and about[0] == "string":
            coded = value.encode() + b"\0"
            self.number("I", len(coded))
            self.out += coded
        elif node == Nodetype.BASE:
            self.number(_CODES[about[0]], value)
        else:
            self.items(value, node, about[0])

    def items(self, values: Any, node: Nodetype, item: Any) -> None:
        sized = self.list_sizes and item[0] == Nodetype.NAME
        if sized:
            self.number("I", 0)
        start = len(self.out)
        if node == Nodetype.SEQUENCE:
            self.number("I", len(values))
        for value in values:
            self.value(value, *item)
        if sized:
            self.out[start - 4 : start] = struct.pack(f"{self.order}I", len(self.out) - start)
