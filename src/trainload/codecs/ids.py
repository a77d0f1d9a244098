"""The numbers that codecs have in files (docs/spec/hyperframe.md, section 3). Loads no codec."""

CODEC_NONE, CODEC_LZ4, CODEC_ZSTD = 0, 1, 2
ASSIGNED_CODECS = (CODEC_NONE, CODEC_LZ4, CODEC_ZSTD)
