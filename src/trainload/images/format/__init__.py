"""The bytes of DTS and back, pure (docs/spec/dts.md). Nothing is trusted before it was checked."""
