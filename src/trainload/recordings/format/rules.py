"""The rules of recordings (docs/spec/hyperframe.md), and of the logs that are imported into them."""

from __future__ import annotations

from trainload.errors import ChecksumError, TruncatedError
from trainload.formats.rules import Rule

# The header.
HEADER_WHOLE = Rule("hfrm.header.whole", "the header must be whole", "HFRM 1", TruncatedError)
HEADER_FIELD = Rule("hfrm.header.field", "a header field must agree with the spec and the file", "HFRM 1")
HEADER_CRC = Rule("hfrm.header.crc", "the header's CRC-32 must match", "HFRM 1", ChecksumError)
HEADER_SPAN = Rule("hfrm.header.span", "the header must give the span of all windows", "HFRM 1")
HEADER_STREAMS = Rule("hfrm.header.streams", "the header must count the streams", "HFRM 1")
UNFINISHED = Rule(
    "hfrm.unfinished",
    "the recording was never finished; run: trainload recover {recording} OUT",
    "HFRM 5",
    TruncatedError,
)

# Index and frames.
INDEX_WHOLE = Rule("hfrm.index.whole", "the index must be whole", "HFRM 2", TruncatedError)
INDEX_CRC = Rule("hfrm.index.crc", "the index's CRC-32 must match", "HFRM 2", ChecksumError)
INDEX_ORDER = Rule("hfrm.index.order", "the index must be sorted by (StreamId, TimestampNs)", "HFRM 2")
INDEX_ENTRY = Rule("hfrm.index.entry", "an index entry must describe a frame inside the file", "HFRM 2")
INDEX_RECORDS = Rule("hfrm.index.records", "index and window records must describe the same frames", "HFRM 6")
FRAME_CRC = Rule(
    "hfrm.frame.crc", "the CRC-32 of frame {number} of stream {stream} must match", "HFRM 2", ChecksumError
)
FRAME_UNPACK = Rule("hfrm.frame.unpack", "frame {number} of stream {stream} must unpack", "HFRM 3")
FRAME_ELEMENTS = Rule("hfrm.frame.elements", "a payload must hold whole elements of its stream's type", "HFRM 3")
FRAME_END = Rule("hfrm.frame.end", "a frame must lie inside the file", "HFRM 2", TruncatedError)
FRAME_OVERLAP = Rule("hfrm.frame.overlap", "frames must not overlap", "HFRM 2")
FRAME_REGION = Rule("hfrm.frame.region", "a frame must not reach into index or sections", "HFRM 2")
FRAME_WINDOW = Rule("hfrm.frame.window", "a frame must lie in the window that the window table gives it", "HFRM 8")
PAYLOAD_CRC = Rule("hfrm.payload.crc", "a payload's CRC-32 must match", "HFRM 2", ChecksumError)
SAMPLE_TIME = Rule("hfrm.sample.time", "the time of a sample must fit 63 bits", "HFRM 2")

# Window records.
RECORD_HEAD = Rule("hfrm.record.head", "a window record's head must be whole", "HFRM 6", TruncatedError)
RECORD_SYNC = Rule("hfrm.record.sync", "a window record must start with the sync word", "HFRM 6")
RECORD_HEAD_CRC = Rule("hfrm.record.head_crc", "a record head's CRC-32 must match", "HFRM 6", ChecksumError)
RECORD_EXTENT = Rule("hfrm.record.extent", "a record must fit into its extent and the file", "HFRM 6", TruncatedError)
RECORD_START = Rule("hfrm.record.start", "a window must start at a time that fits", "HFRM 6")
RECORD_WHOLE = Rule("hfrm.record.whole", "a window record must be whole", "HFRM 6", TruncatedError)
RECORD_COMMIT = Rule("hfrm.record.commit", "a window record must end with the commit word", "HFRM 6")
RECORD_CRC = Rule("hfrm.record.crc", "a window record's CRC-32 must match", "HFRM 6", ChecksumError)
RECORDS_FOLLOW = Rule("hfrm.records.follow", "window records must follow one another up to the index", "HFRM 6")
RECORDS_COUNT = Rule("hfrm.records.count", "window records must count from 0", "HFRM 6")

# Sections.
STREAMS = Rule("hfrm.section.streams", "the stream table must be as the spec says", "HFRM 7")
RECEIVE_TIME = Rule("hfrm.section.receive_time", "a receive time must fit 63 bits", "HFRM 7")
SIDE_VALUES = Rule("hfrm.section.values", "a section must hold one value per index entry", "HFRM 7")
META = Rule("hfrm.section.meta", "section META must be an object", "HFRM 7")
DROPS = Rule("hfrm.section.drops", "section DROP must list drops", "HFRM 7")
JSON = Rule("hfrm.section.json", "a section must be JSON", "HFRM 7")
WINDOWS_WHOLE = Rule("hfrm.windows.whole", "the window table must be whole", "HFRM 8", TruncatedError)
WINDOWS_SIZE = Rule("hfrm.windows.size", "the window table must be as long as its counts say", "HFRM 8")
WINDOWS_NUMBERS = Rule("hfrm.windows.numbers", "the window table's numbers must fit", "HFRM 8")
WINDOWS_FILE = Rule("hfrm.windows.file", "the window table must agree with the file", "HFRM 8")
WINDOWS_INDEX = Rule("hfrm.windows.index", "the window table must agree with the index", "HFRM 8")

# Several files, growing files, recovered files.
PARTS_STREAMS = Rule("hfrm.parts.streams", "all parts of a recording must have the same streams", "HFRM 7")
PARTS_NAMES = Rule("hfrm.parts.names", "a stream's name must be its own", "HFRM 7")
FOLLOW_RECORDS = Rule("hfrm.follow.records", "only a file with window records can be followed", "HFRM 6")
FOLLOW_GONE = Rule("hfrm.follow.gone", "the recording was given up", "HFRM 5")
RECOVER_NOTHING = Rule("hfrm.recover.nothing", "without one whole window there is nothing to recover", "HFRM 9")
RECOVER_PROFILE = Rule("hfrm.recover.profile", "a recording of ours must have our profile", "HFRM 1")
RECOVER_FRAMES = Rule("hfrm.recover.frames", "the new file must hold every frame that was {what}", "HFRM 9")
RECOVER_HOLE = Rule("hfrm.recover.hole", "a finished file must have no hole", "HFRM 9")
RECOVER_CRC = Rule("hfrm.recover.crc", "a CRC-32 must match", "HFRM 9", ChecksumError)
RECOVER_FRAME_CRC = Rule("hfrm.recover.frame_crc", "a frame's CRC-32 must match", "HFRM 9", ChecksumError)

# Logs.
ENVELOPE = Rule("import.envelope", "envelope records must fill their frame", "HFRM 7")
KEPT_RECORD = Rule("import.record", "a kept record must be whole", "HFRM 7")
CHANNELS = Rule("import.channels", "the channels of an import must be described", "HFRM 7")
MCAP_MAGIC = Rule("mcap.magic", "an MCAP file begins with its magic", "MCAP")
BAG1_MAGIC = Rule("rosbag1.magic", "a ROS 1 bag begins with its version line", "ROS 1 bag format 2.0")
BAG2_MAGIC = Rule("rosbag2.magic", "a ROS 2 bag is an SQLite file", "rosbag2 storage sqlite3")
