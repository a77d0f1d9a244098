"""The bytes of HFRM and back, pure (docs/spec/hyperframe.md). Nothing is trusted before it was checked."""
