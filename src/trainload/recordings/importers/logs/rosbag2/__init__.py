"""ROS 2 bags."""
