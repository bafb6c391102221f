"""One file a library that must be hooked in the training process to know what it costs."""
