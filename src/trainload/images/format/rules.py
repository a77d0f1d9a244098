"""The rules of DTS files (docs/spec/dts.md), and those of the sources that are packed into them."""

from __future__ import annotations

from trainload.errors import ChecksumError, LimitError, TruncatedError
from trainload.formats.rules import Rule

# The header.
HEADER_WHOLE = Rule("dts.header.whole", "the header must be whole", "DTS 1", TruncatedError)
HEADER_FIELD = Rule("dts.header.field", "a header field must agree with the spec and the file", "DTS 1")
HEADER_OTHERS = Rule("dts.header.others", "a header field must agree with the others", "DTS 1")
HEADER_BLOCKS = Rule("dts.header.blocks", "a header field must agree with the others and the blocks", "DTS 1")
HEADER_BYTES = Rule("dts.header.bytes", "a header must hold what its values are written as", "DTS 1")
HEADER_REST = Rule("dts.header.rest", "the rest of the header region must be zero", "DTS 1")
NUM_SAMPLES = Rule("dts.header.num_samples", "num_samples must count the pictures of all blocks", "DTS 1")

# Blocks and pictures.
FILE_CRC = Rule(
    "dts.file.crc",
    "the file must match its CRC-32 (trainload verify FILE says which part does not)",
    "DTS 1",
    ChecksumError,
)
BLOCKS_CRC = Rule("dts.blocks.crc", "the CRC-32 of the file must match its blocks", "DTS 1", ChecksumError)
BLOCK_CRC = Rule("dts.block.crc", "a block's CRC-32 must match its bytes", "DTS 8", ChecksumError)
BLOCK_WHOLE = Rule("dts.block.whole", "a block header must be whole", "DTS 2", TruncatedError)
BLOCK_MAGIC = Rule("dts.block.magic", "block {block} must open with its magic and its number", "DTS 2")
BLOCK_ROOM = Rule(
    "dts.block.room", "block {block} must not hold more pictures than its header has room for", "DTS 2", LimitError
)
BLOCK_PICTURE = Rule(
    "dts.block.picture",
    "block {block}: picture {picture} must lie inside its block, apart from the others, with a label of a class",
    "DTS 2",
)
BLOCK_PADDING = Rule("dts.block.padding", "what lies between pictures must be zero", "DTS 2")
PICTURE_CRC = Rule("dts.picture.crc", "a picture's CRC-32 must match its bytes", "DTS 8", ChecksumError)
PICTURE_DECODE = Rule("dts.picture.decode", "a picture must decode", "DTS 4")

# Volumes.
VOLUME_ONCE = Rule("dts.volumes.once", "a set must be opened with each of its volumes once", "DTS 2")
VOLUME_BLOCKS = Rule("dts.volumes.blocks", "total_blocks must count the blocks of all volumes", "DTS 2")
VOLUME_FIELDS = Rule("dts.volumes.fields", "the volumes of a set must share their parameters", "DTS 2")
VOLUME_UUID = Rule("dts.volumes.uuid", "the volumes of a set must carry one UUID", "DTS 8")

# The extension.
EXTENSION_TAGS = Rule("dts.extension.tags", "each tag must occur once", "DTS 8")
EXTENSION_END = Rule("dts.extension.end", "the extension must be closed by the CRC-32 of all before it", "DTS 8")
EXTENSION_CRC = Rule(
    "dts.extension.crc",
    "the header and the extension, {size:,} bytes, must match their CRC-32",
    "DTS 8",
    ChecksumError,
)
EXTENSION_SIZE = Rule("dts.extension.size", "a section must have the size that its kind has", "DTS 8")
EXTENSION_COUNTS = Rule(
    "dts.extension.counts", "block {block} must hold as many pictures as the extension says", "DTS 8"
)
EXTENSION_PARAMETERS = Rule("dts.extension.parameters", "the pack parameters must be one JSON object", "DTS 8")
TABLE_SIZE = Rule("dts.table.size", "the table of samples must hold a number of each sample", "DTS 8")
TABLE_COUNT = Rule("dts.table.count", "the table of samples must have as many as the blocks", "DTS 8")
TABLE_ROOM = Rule("dts.table.room", "the samples of block {block} must fit into it", "DTS 8")
TABLE_LABEL = Rule("dts.table.label", "every sample must have the label of a class", "DTS 8")
TABLE_BLOCKS = Rule("dts.table.blocks", "the table of samples must say of block {block} what its header says", "DTS 8")
NAMES_UNPACK = Rule("dts.names.unpack", "a name section must unpack", "DTS 8")
NAMES_COUNT = Rule("dts.names.count", "a name section must hold one name each", "DTS 8")

# Array files.
ARRAY_CRC = Rule("dts.array.crc", "the CRC-32 of the file must match its data", "DTS 3", ChecksumError)
LABEL = Rule("dts.array.label", "a label must be one of the classes", "DTS 3")

# Sources to be packed.
CLASS_LIST = Rule("classes.list", "a list of classes must give each class a folder and a name", "DTS 5")
SOURCE_CHANGED = Rule("source.changed", "a picture must not change while it is packed", "DTS 6")
PACK_PLAN = Rule("pack.plan", "a pack plan must be whole and agree with itself", "")
PACK_RESULT = Rule("pack.result", "the result of a volume must be whole and agree with its plan", "")
ORIGINAL_UNPACK = Rule("originals.unpack", "an original file must unpack whole", "DTS 3", TruncatedError)
ORIGINAL_CLASSES = Rule("originals.classes", "the source must name the classes of the original set", "DTS 3")
ORIGINAL_LABEL = Rule("originals.label", "a label must be one of the classes", "DTS 3")
PUBLISHED = Rule("source.published", "the source must be {name} as it was published", "DTS 5")
IDX_COUNT = Rule("idx.count", "pictures and labels must be equally many", "DTS 3")
IDX_SIZE = Rule("idx.size", "an idx file must hold what its head says", "DTS 3")
CIFAR_RECORDS = Rule("cifar.records", "a binary CIFAR file must hold whole records", "DTS 3", TruncatedError)
TAR_HEADER = Rule("tar.header", "a tar's member header must be whole", "POSIX ustar")
TAR_HEADER_LIMIT = Rule("tar.limit", "a tar's member header must not exceed its limit", "DTS 9", LimitError)
TAR_END = Rule("tar.end", "a tar's member must end inside the archive", "POSIX ustar", TruncatedError)
TAR_NAME = Rule("tar.name", "a member's name must stay below the archive's folder", "DTS 5")
TAR_LINKS = Rule("tar.links", "links to folders must not multiply an archive's files", "DTS 9", LimitError)
