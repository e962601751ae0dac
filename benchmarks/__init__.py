"""How fast and how exact attnmod is, next to its peers. README.md says how to run this."""
