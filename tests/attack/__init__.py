"""Attacks on medcoder from outside: by its commands, its service and its files."""
