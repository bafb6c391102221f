"""A diagnosis where changes are reviewed: Markdown for comments, annotations for GitHub."""
