"""The files of a set as they lie on the disk: header, extension, volumes. Readers and checks ask it."""
