"""nuScenes."""
