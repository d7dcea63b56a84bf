"""Compiled code: functions from arrays to arrays, and the compiler that translates them."""
