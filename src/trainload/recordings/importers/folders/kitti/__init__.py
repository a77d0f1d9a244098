"""KITTI raw."""
