"""What a plan is read from: files and scripts, read and never run."""
