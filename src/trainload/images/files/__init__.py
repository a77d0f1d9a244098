"""The files of a set as they lie on the disk: header, extension, and how volumes fit together. Readers and checks ask it."""
