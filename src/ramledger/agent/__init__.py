"""What runs in the training process: the socket server, the observer, the schedule of snapshots."""
