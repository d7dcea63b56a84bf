"""The command line: parse, call one function, print. The only place for typer and rich."""
