"""What happens to a payload between memory and file: compression, byte shuffle."""
