"""All live objects: counted by type, every array found, without what is ours."""
