"""How the core is compiled, where compiled code is cached, and clocks that exclude compiling."""
