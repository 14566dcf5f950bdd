"""The command line: `main` parses, calls and prints; one module a group of commands."""
