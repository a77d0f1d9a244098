"""What is inside of messages, by the encoding that they are in."""
